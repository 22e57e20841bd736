//! The elector: what a user holds of the dedicated thread.

use std::io;
use std::time::Duration;

use crate::election::candidate::candidacy::Candidacy;
use crate::election::settings::Settings;
use crate::leadership::campaign::Campaign;
use crate::leadership::campaign::slot::{CampaignSlot, Delivery};
use crate::leadership::error::Error;
use crate::leadership::fitness::Fitness;
use crate::leadership::guard::{LeaderGuard, Leadership};
use crate::leadership::handle::{Command, Link};
use crate::observe::health::HealthCheck;
use crate::observe::observations::Observations;
use crate::observe::observer::Observer;
use crate::observe::status::Status;
use crate::observe::transition::{Subscriptions, Transitions};
use crate::runtime::dedicated;
use crate::runtime::observing::Observing;
use crate::runtime::probing::{self, SharedProbe};
use crate::runtime::state::{Asked, SharedParts};
use crate::store::entry::Entry;
use crate::util::config_error::random_seed;
use crate::util::log_fields::LogFields;
use crate::util::sync::channel;
use crate::util::sync::channel::Sender;
use crate::util::sync::{Arc, Instant};

/// A candidate for one lease, on threads of its own: one decides and talks to the store, another reads the watch. (The
/// look-up and opening of a connection come and go on a third.)
///
/// It has at most one campaign or one undropped guard at a time. Between campaigns it only observes who leads: dropping
/// a guard never makes it grab the lease again by itself.
///
/// Dropping the elector ends its campaign with [`Error::Stopped`]. The drop does not wait for the thread. A guard that still exists
/// keeps the thread and the term until the guard is dropped.
///
/// An elector, its campaign and its guard are dropped in any order. The last of these drops waits until the lease is released, at most
/// for the release timeout, because the process may exit after that drop. Dropping an elector also waits for an acquisition that is
/// under way. If that acquisition hangs, the elector cancels the request and reads the record once.
///
/// All methods may be called from any thread at any time. In a child made by `fork` it has no threads: to campaign there is
/// [`Error::Forked`], dropping it does nothing, and what it is asked otherwise (its status, who leads) may wait for ever.
///
/// # Examples
///
/// ```no_run
/// use leasehold::LeaderElector;
///
/// let elector = LeaderElector::builder("my-controller").start()?;
/// println!("{} is a candidate", elector.identity());
/// println!("{} leads", elector.current_leader().as_deref().unwrap_or("nobody"));
/// let guard = elector.block_until_leader()?;
/// while guard.is_leader() {
///     // one unit of work, with guard.fencing_token() on every write
/// }
/// drop(guard);
/// # Ok::<(), leasehold::Error>(())
/// ```
pub struct LeaderElector {
    name: String,
    namespace: Option<String>,
    description: String,
    settings: Arc<Settings>,
    shared: SharedParts,
}

/// Who is told what the elector does, and who says whether the candidate is fit.
#[derive(Clone, Default)]
pub(crate) struct Asking {
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) probe: Option<Arc<SharedProbe>>,
    pub(crate) fitness: Option<Fitness>,
}

impl LeaderElector {
    /// On one record, or on two at once.
    pub(crate) fn spawn(
        settings: Settings,
        primary: Entry,
        secondary: Option<Entry>,
        fields: LogFields,
        Asking { observers, probe, fitness }: &Asking,
    ) -> io::Result<Self> {
        let (settings, (sender, commands)) = (Arc::new(settings), channel::unbounded());
        let second = secondary.as_ref().map(|_| random_seed());
        let candidacy = Candidacy::new(Arc::clone(&settings), random_seed(), second);
        let (name, namespace) = (primary.key().to_owned(), primary.namespace());
        let entries: Vec<_> = std::iter::once(primary).chain(secondary).collect();
        let link = Arc::new(Link::new(sender, settings.release_timeout, fields.clone()));
        let shared = SharedParts {
            link: Arc::clone(&link),
            pending: Arc::new(CampaignSlot::default()),
            subscriptions: Arc::new(Subscriptions::default()),
            observations: Arc::new(Observations::new(&settings, entries.len())),
        };
        let observing = |observer: &Arc<dyn Observer>| Observing::spawn(Arc::clone(observer), fields.clone());
        let observers = observers.iter().map(observing).collect::<Result<_, _>>()?;
        let probing =
            |probe: &Arc<SharedProbe>| probing::spawn(Arc::clone(probe), settings.retry_period, Arc::clone(&link));
        let probing = probe.as_ref().map(probing).transpose()?;
        if let Some(fitness) = fitness {
            fitness.tell(&link);
            // What was said before that.
            link.leave(Command::FitnessSet);
        }
        let asked = Asked { probing, fitness: fitness.clone(), changes: 0 };
        let drivers = dedicated::drivers(candidacy, entries, commands, observers, asked, shared.clone(), &settings)?;
        let elector = Self { name, namespace, description: fields.described, settings, shared };
        dedicated::spawn(drivers)?;
        Ok(elector)
    }

    /// Who this candidate is in the record.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// The key of its record: the name of the Lease.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of its record. `None` where the store is not of a Kubernetes cluster.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// What the election runs by, with what was not set filled in.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A view of the present term, as [`LeaderGuard::leadership`] gives it: for those who do not have the guard. `None` where
    /// this candidate has no valid term.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, MemoryStore};
    ///
    /// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    /// assert!(elector.leadership().is_none());
    /// let guard = elector.block_until_leader()?;
    /// assert!(elector.leadership().is_some_and(|term| term.fencing_token() == guard.fencing_token()));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn leadership(&self) -> Option<Leadership> {
        let link = &self.shared.link;
        self.shared.observations.valid_term().map(|term| Leadership::of(term, Arc::clone(link)))
    }

    /// Asks for one term. The answer comes through [`Campaign::receiver`].
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] when there is a campaign or a guard already, [`Error::Stopped`] after [`stop`](Self::stop),
    /// [`Error::Forked`] in a child of the process that started the elector.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: &leasehold::LeaderElector) -> Result<(), leasehold::Error> {
    /// let campaign = elector.campaign()?;
    /// let guard = campaign.receiver().recv().expect("a campaign never disconnects")?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn campaign(&self) -> Result<Campaign, Error> {
        let (sender, receiver) = channel::bounded(1);
        let id = self.shared.pending.enter(Delivery::Term(sender.clone()), &self.shared.link)?;
        Ok(Campaign::new(id, (sender, receiver), Arc::clone(&self.shared.pending), Arc::clone(&self.shared.link)))
    }

    /// Asks for one term, as [`campaign`](Self::campaign) does, and has the answer sent to `sender` with `key`: many campaigns may
    /// share one channel. [`withdraw`](Self::withdraw) withdraws it.
    ///
    /// The channel is to have room, as an unbounded one always has: a term that finds it full or without a receiver is released
    /// at once, and an error lost. A guard that is in the channel when the last receiver is dropped is dropped with it, and so
    /// released.
    ///
    /// # Errors
    ///
    /// As for [`campaign`](Self::campaign). What `sender` is sent are those of [`block_until_leader`](Self::block_until_leader),
    /// and [`Error::Withdrawn`].
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::crossbeam_channel::unbounded;
    /// use leasehold::{LeaderElector, MemoryStore};
    /// use std::sync::Arc;
    ///
    /// let store = Arc::new(MemoryStore::new());
    /// let (sender, won) = unbounded();
    /// let mut electors = Vec::new();
    /// for shard in 0..8 {
    ///     let elector = LeaderElector::builder(format!("shard-{shard}")).start_on(Arc::clone(&store))?;
    ///     elector.campaign_to(shard, &sender)?;
    ///     electors.push(elector);
    /// }
    /// let mut guards = Vec::new();
    /// for (shard, guard) in won.iter().take(8) {
    ///     let guard = guard?;
    ///     println!("shard {shard} is ours, with token {}", guard.fencing_token());
    ///     guards.push(guard); // for as long as it is to be ours
    /// }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn campaign_to<K: Send + 'static>(
        &self,
        key: K,
        sender: &Sender<(K, Result<LeaderGuard, Error>)>,
    ) -> Result<(), Error> {
        self.shared.pending.enter(Delivery::to(key, sender.clone()), &self.shared.link).map(drop)
    }

    /// Ends the pending campaign with [`Error::Withdrawn`], without waiting for anything. False if there is none, also because it
    /// has been answered. Other than after [`stop`](Self::stop) there may be another.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: &leasehold::LeaderElector) -> Result<(), leasehold::Error> {
    /// let (sender, won) = leasehold::crossbeam_channel::unbounded();
    /// elector.campaign_to("jobs", &sender)?;
    /// if elector.withdraw() {
    ///     assert!(matches!(won.recv(), Ok(("jobs", Err(leasehold::Error::Withdrawn)))));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn withdraw(&self) -> bool {
        self.shared.pending.withdraw_any(&self.shared.link)
    }

    /// Blocks until this candidate leads.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] as for [`campaign`](Self::campaign); [`Error::Stopped`] when the elector is stopped meanwhile;
    /// [`Error::Store`] when the store refuses in a way that no waiting changes, such as a missing permission or
    /// namespace, and has done so for the renew deadline without once having succeeded. Whatever is transient is
    /// retried without end, and logged.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: &leasehold::LeaderElector) -> Result<(), leasehold::Error> {
    /// let guard = elector.block_until_leader()?;
    /// while guard.is_leader() {
    ///     // one unit of work
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn block_until_leader(&self) -> Result<LeaderGuard, Error> {
        let campaign = self.campaign()?;
        campaign.receiver().recv().unwrap_or(Err(Error::Stopped))
    }

    /// Blocks until this candidate leads, at most for `timeout`. `None` when that passed, the store answers, and this candidate is
    /// fit to lead.
    ///
    /// # Errors
    ///
    /// As for [`block_until_leader`](Self::block_until_leader); and [`Error::Store`] with [`Status::last_error`] when the time has
    /// passed, or [`Error::Unfit`] when this candidate is not fit by then. (A server that does not answer at all is known as such only after a request has
    /// taken half of the renew deadline.)
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: &leasehold::LeaderElector) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// match elector.block_until_leader_timeout(Duration::from_secs(60))? {
    ///     Some(guard) => println!("leading, with token {}", guard.fencing_token()),
    ///     None => println!("somebody else leads, after a minute still"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn block_until_leader_timeout(&self, timeout: Duration) -> Result<Option<LeaderGuard>, Error> {
        let campaign = self.campaign()?;
        let answer = match Instant::now().checked_add(timeout) {
            Some(until) => campaign.receiver().recv_deadline(until).ok(),
            None => campaign.receiver().recv().ok(),
        };
        match (answer, self.shared.observations.last_error()) {
            (None, Some(error)) => Err(Error::Store(error)),
            (None, None) if !self.shared.observations.is_fit() => Err(Error::Unfit),
            (answer, _) => answer.transpose(),
        }
    }

    /// Tries once: reads the record, and writes it if it may be taken over. `None` when it may not, or when somebody
    /// was faster.
    ///
    /// A record of another holder may be taken over only after this elector has seen it unchanged for as long as its
    /// holder published; so on an elector that has just started this wins a lease that nobody holds, and no other.
    ///
    /// Blocks for at most three requests, each of which may take half of the renew deadline, and for what the elector was
    /// doing before. (Mostly one or two; a read that is interrupted by news, or whose connection was closed, is repeated once.)
    /// On two stores, if the last read of the secondary failed, the method first waits about one retry period for the next read.
    /// While the store asks to be left alone (`Retry-After`) nothing is sent, and nothing won.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when a request failed, at once; [`Error::Unfit`] when this candidate is not fit to lead, not known to be (as
    /// just after the start), or waits because it has become fit again a while ago; [`Error::Busy`] and [`Error::Stopped`] as for
    /// [`campaign`](Self::campaign).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: &leasehold::LeaderElector) -> Result<(), leasehold::Error> {
    /// if let Some(guard) = elector.try_acquire()? {
    ///     println!("nobody led: we do, with token {}", guard.fencing_token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> Result<Option<LeaderGuard>, Error> {
        let (sender, receiver) = channel::bounded(1);
        self.shared.pending.enter(Delivery::Round(sender), &self.shared.link)?;
        receiver.recv().unwrap_or(Err(Error::Stopped))
    }

    /// Ends the pending campaign, and every later one, with [`Error::Stopped`]. For another thread that shuts the
    /// program down. A guard is not affected. In a forked child it does nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: std::sync::Arc<leasehold::LeaderElector>) {
    /// let stopper = std::sync::Arc::clone(&elector);
    /// std::thread::spawn(move || stopper.stop());
    /// assert!(matches!(elector.block_until_leader(), Err(leasehold::Error::Stopped)));
    /// # }
    /// ```
    pub fn stop(&self) {
        self.shared.pending.stop(&self.shared.link);
    }

    /// Who leads, as last observed, unless the lease has run out on this process's clock; without I/O. It may be this candidate
    /// itself, also for the time between the end of its validity and that of its lease. [`status`](Self::status) tells both.
    pub fn current_leader(&self) -> Option<String> {
        self.shared.observations.current_leader()
    }

    /// Returns a new subscription to every [`Transition`](crate::Transition).
    ///
    /// If a candidate leads, the subscription starts with the present state: a `NewLeader`, and a `StartedLeading` if this candidate has
    /// a term. The channel is unbounded, so keep reading or drop the subscription. The channel disconnects after the last transition of
    /// the elector. [`Transition`](crate::Transition) has an example of a loop.
    #[must_use = "each call is a new subscription: keep it outside the loop"]
    pub fn transitions(&self) -> Transitions {
        self.shared.subscriptions.subscribe()
    }

    /// What it is about and how it fares, at this moment; without I/O.
    pub fn status(&self) -> Status {
        self.shared.observations.status((&self.name, &self.description), &self.settings)
    }

    /// A handle for a liveness probe, as [`HealthCheck`] shows it.
    pub fn health_check(&self) -> HealthCheck {
        HealthCheck::new(Arc::clone(&self.shared.observations), &self.settings)
    }
}

impl Drop for LeaderElector {
    fn drop(&mut self) {
        if self.shared.link.is_forked() {
            return;
        }
        self.stop();
        self.shared.link.close();
    }
}

impl std::fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaderElector")
            .field("record", &self.description)
            .field("identity", &self.settings.identity)
            .finish_non_exhaustive()
    }
}
