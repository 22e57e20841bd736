//! The elector: a candidate for one lease.

use std::io;
use std::time::Duration;

use crate::election::candidate::Candidate;
use crate::election::candidate::job::JobPlan;
use crate::election::settings::Settings;
use crate::leadership::campaign::Campaign;
use crate::leadership::campaign::slot::{CampaignSlot, Delivery};
use crate::leadership::error::Error;
use crate::leadership::fitness::Fitness;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::Link;
use crate::observe::health::HealthCheck;
use crate::observe::observations::Observations;
use crate::observe::observer::Observer;
use crate::observe::status::Status;
use crate::observe::transition::Transitions;
use crate::runtime::elector_thread::ElectorThread;
use crate::runtime::observing::Observing;
use crate::runtime::probing::{self, SharedProbe};
use crate::runtime::state::SharedParts;
use crate::store::entry::Entry;
use crate::util::config_error::random_seed;
use crate::util::debug_fields::debug_fields;
use crate::util::log_fields::LogFields;
use crate::util::sync::channel;
use crate::util::sync::{Arc, Instant};

/// A candidate for one lease, which runs on its own threads.
///
/// One thread decides, one sends requests, and one reads the watch. The probe and each observer have their own thread.
/// Threads for name lookups, new connections, cancellations, callbacks and log lines start on demand and end. All
/// methods may be called from any thread at any time.
///
/// **One at a time.** An elector has at most one campaign or one undropped guard. Between campaigns, the elector only
/// observes who leads. Dropping a guard never starts a new campaign.
///
/// **Drop.** Dropping the elector ends its campaign with [`Error::Stopped`]. The drop does not wait for the elector's
/// threads. A guard that still exists keeps the threads and the term until the guard is dropped.
///
/// An elector, its campaign and its guard may be dropped in any order. The last of these drops waits until the lease is
/// released, at most for the release timeout, because the process may exit after that drop. Dropping an elector also
/// waits for an acquisition in flight. If that acquisition hangs, the elector cancels the request and reads the record
/// once.
///
/// **Fork.** In a child made by `fork`, the elector has no threads. A campaign in the child returns [`Error::Forked`],
/// and the drop does nothing. All other methods, such as [`status`](Self::status), may block forever in the child.
///
/// # Examples
///
/// ```no_run
/// use leasehold::LeaderElector;
///
/// let elector = LeaderElector::builder("my-controller").start()?;
/// println!("candidate: {}", elector.identity());
/// println!("leader: {}", elector.current_leader().as_deref().unwrap_or("none"));
/// let guard = elector.block_until_leader()?;
/// while guard.is_leader() {
///     // one unit of work, with guard.fencing_token() on every write
/// }
/// drop(guard);
/// # Ok::<(), leasehold::Error>(())
/// ```
pub struct LeaderElector {
    name: String,
    description: String,
    settings: Arc<Settings>,
    keeps_notes: bool,
    shared: SharedParts,
}

/// Observers of the elector, and sources of its fitness.
#[derive(Clone, Default)]
pub(crate) struct Asking {
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    /// Observers whose threads run already.
    pub(crate) observing: Vec<Observing>,
    pub(crate) probe: Option<Arc<SharedProbe>>,
    pub(crate) fitness: Option<Fitness>,
}

impl LeaderElector {
    /// Starts an elector on one record.
    pub(crate) fn spawn(
        settings: Settings,
        entry: Entry,
        fields: LogFields,
        Asking { observers, observing, probe, fitness }: &Asking,
    ) -> io::Result<Self> {
        let (settings, (sender, commands)) = (Arc::new(settings), channel::unbounded());
        let candidate = Candidate::new(Arc::clone(&settings), random_seed());
        let (name, keeps_notes) = (entry.key().to_owned(), entry.keeps_notes());
        let link = Arc::new(Link::new(sender, settings.release_timeout, fields.clone()));
        let shared = SharedParts {
            link: Arc::clone(&link),
            pending: Arc::new(CampaignSlot::default()),
            observations: Arc::new(Observations::new(Arc::clone(&settings))),
        };
        let spawned = observers.iter().map(|observer| Observing::spawn(Arc::clone(observer), fields.clone()));
        let observers = spawned.chain(observing.iter().cloned().map(Ok)).collect::<Result<_, _>>()?;
        let probing =
            |probe: &Arc<SharedProbe>| probing::spawn(Arc::clone(probe), settings.retry_period, Arc::clone(&link));
        let probing = probe.as_ref().map(probing).transpose()?;
        fitness.iter().for_each(|fitness| fitness.tell(&link));
        let thread = ElectorThread::new(candidate, entry, commands, observers, probing, shared.clone(), &settings)?;
        let elector = Self { name, description: fields.described, settings, keeps_notes, shared };
        thread.spawn()?;
        Ok(elector)
    }

    /// Returns the identity of this candidate.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// Returns the effective settings, with all defaults filled in.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Starts a campaign for one term.
    ///
    /// [`Campaign::receiver`] delivers the answer.
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
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Busy`] if the elector already has a campaign or a guard.
    /// - Returns [`Error::Stopped`] if the elector's thread has panicked.
    /// - Returns [`Error::Forked`] in a child of the process that started the elector.
    pub fn campaign(&self) -> Result<Campaign, Error> {
        self.start_campaign(None)
    }

    pub(super) fn start_campaign(&self, job: Option<JobPlan>) -> Result<Campaign, Error> {
        Campaign::start(&self.shared.pending, job, &self.shared.link)
    }

    pub(super) fn keeps_notes(&self) -> bool {
        self.keeps_notes
    }

    /// Blocks until this candidate leads, and returns the guard of the term.
    ///
    /// Transient failures are retried without a limit, and logged.
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
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Store`] if waiting cannot help, for example because a permission or the namespace is missing.
    ///   The store must have refused for the whole renew deadline without one success.
    /// - Returns [`Error::Busy`] if the elector already has a campaign or a guard.
    /// - Returns [`Error::Stopped`] if the elector's thread panics before or during the call.
    /// - Returns [`Error::Forked`] in a child of the process that started the elector.
    pub fn block_until_leader(&self) -> Result<LeaderGuard, Error> {
        let campaign = self.campaign()?;
        campaign.receiver().recv().unwrap_or(Err(Error::Stopped))
    }

    /// Blocks until this candidate leads or `timeout` elapses.
    ///
    /// Returns `None` on timeout if the store answers and the candidate is fit. Otherwise an error names the obstacle.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: &leasehold::LeaderElector) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// match elector.block_until_leader_timeout(Duration::from_secs(60))? {
    ///     Some(guard) => println!("leading with token {}", guard.fencing_token()),
    ///     None => println!("another candidate still leads after a minute"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Store`] with [`Status::last_error`] on timeout if the last request failed. A server that does
    ///   not answer counts as failed only after a request has taken half of the renew deadline.
    /// - Returns [`Error::Unfit`] on timeout if the candidate is unfit.
    /// - Returns the errors of [`block_until_leader`](Self::block_until_leader).
    pub fn block_until_leader_timeout(&self, timeout: Duration) -> Result<Option<LeaderGuard>, Error> {
        let campaign = self.campaign()?;
        let answer = match Instant::now().checked_add(timeout) {
            Some(until) => campaign.receiver().recv_deadline(until).ok(),
            None => campaign.receiver().recv().ok(),
        };
        if answer.is_none() {
            // The program may have reported just now that it is fit.
            self.shared.link.wait_until_handled();
        }
        match (answer, self.shared.observations.last_error()) {
            (None, Some(error)) => Err(Error::Store(error)),
            (None, None) if !self.shared.observations.is_fit() => Err(Error::Unfit),
            (answer, _) => answer.transpose(),
        }
    }

    /// Tries to acquire the lease once, and returns `None` if another candidate holds the lease.
    ///
    /// The elector reads the record, and writes the record if a takeover is allowed. The result is also `None` if
    /// another candidate was faster. The record of another holder may be taken over only after this elector has seen
    /// the record unchanged for its whole published duration. A new elector can therefore acquire only a lease without
    /// a holder.
    ///
    /// Blocks for at most three requests, and for a request in flight. Each request may take half of the renew
    /// deadline. Most calls need one or two requests. A read is repeated once if a watch event interrupts the read, or
    /// if its connection was closed. With two stores, if the last read of the secondary failed, the method first waits
    /// about one retry period for the next read.
    ///
    /// While the store asks for a pause (`Retry-After`), the elector sends nothing and acquires nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(elector: &leasehold::LeaderElector) -> Result<(), leasehold::Error> {
    /// if let Some(guard) = elector.try_acquire()? {
    ///     println!("leading with token {}", guard.fencing_token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Store`] at once if a request failed.
    /// - Returns [`Error::Unfit`] if the candidate is unfit, if its fitness is still unknown, or if it recovered too
    ///   recently.
    /// - Returns [`Error::Busy`] if the elector already has a campaign or a guard.
    /// - Returns [`Error::Stopped`] if the elector's thread panics before or during the call.
    /// - Returns [`Error::Forked`] in a child of the process that started the elector.
    pub fn try_acquire(&self) -> Result<Option<LeaderGuard>, Error> {
        let (sender, receiver) = channel::bounded(1);
        self.shared.pending.enter(Delivery::Round(sender), None, &self.shared.link)?;
        receiver.recv().unwrap_or(Err(Error::Stopped))
    }

    /// Returns the identity of the leader as last observed, or `None` without a leader.
    ///
    /// Does no I/O. A lease that has expired by this process's clock counts as no leader. The leader may be this
    /// candidate, even between the end of its term and the expiry of its lease. [`status`](Self::status) distinguishes
    /// these two cases.
    pub fn current_leader(&self) -> Option<String> {
        self.shared.observations.current_leader()
    }

    /// Subscribes to the transitions of leadership.
    ///
    /// If there is a leader, the subscription starts with the current state: a `NewLeader`, and a `StartedLeading` if
    /// this candidate has a term. The channel is unbounded, so keep reading or drop the subscription. The channel
    /// disconnects after the last transition of the elector. [`Transition`](crate::Transition) has an example of a
    /// loop.
    #[must_use = "each call creates a new subscription; call this method once, outside the loop"]
    pub fn transitions(&self) -> Transitions {
        self.shared.observations.subscribe()
    }

    /// Returns a snapshot of the elector's state and counters.
    ///
    /// Does no I/O.
    pub fn status(&self) -> Status {
        self.shared.observations.status(&self.name, &self.description)
    }

    /// Returns a health check for a liveness probe.
    ///
    /// [`HealthCheck`] has an example.
    pub fn health_check(&self) -> HealthCheck {
        HealthCheck::new(Arc::clone(&self.shared.observations))
    }
}

impl Drop for LeaderElector {
    fn drop(&mut self) {
        if self.shared.link.is_forked() {
            return;
        }
        self.shared.pending.stop(&self.shared.link);
        self.shared.link.close();
    }
}

debug_fields!(impl Debug for LeaderElector { self => record: self.description, identity: self.settings.identity, .. });
