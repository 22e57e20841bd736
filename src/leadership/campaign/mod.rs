//! A request for one term, and its answer.

use std::mem;

use crate::election::candidate::job::JobPlan;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::Link;
use crate::util::debug_fields::debug_fields;
use crate::util::log_fields::log_with;
use crate::util::panics::caught;
use crate::util::sync::channel::{self, Receiver, Sender};
use crate::util::sync::{Arc, thread};

pub(crate) mod slot;

use slot::{CampaignSlot, Delivery, Won};

/// A request for one term, created by [`LeaderElector::campaign`].
///
/// The [receiver](Self::receiver) delivers one message: the guard or an error. After that message the receiver stays
/// empty. The receiver never disconnects, so that a `select!` does not spin.
///
/// Dropping the campaign withdraws the campaign. If the receiver holds a guard that was not received, the drop releases
/// the lease. The drop waits for that release only if the elector was dropped earlier, as
/// [`LeaderElector`](crate::LeaderElector) describes.
///
/// After the drop, a clone of the receiver delivers [`Error::Withdrawn`]. The clone then stays empty while the elector
/// exists. After sixteen more dropped campaigns, the clone disconnects.
///
/// [`LeaderElector::campaign`]: crate::LeaderElector::campaign
///
/// # Examples
///
/// ```no_run
/// use leasehold::LeaderElector;
/// use leasehold::crossbeam_channel::{never, select};
///
/// # let shutdown = never::<()>();
/// let elector = LeaderElector::builder("jobs").start()?;
/// let campaign = elector.campaign()?;
/// select! {
///     recv(campaign.receiver()) -> won => {
///         let guard = won.expect("a campaign never disconnects")?;
///         // lead
///         # drop(guard);
///     }
///     recv(shutdown) -> _ => drop(campaign),
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "a campaign that is dropped is withdrawn"]
pub struct Campaign {
    id: u64,
    receiver: Receiver<Won>,
    /// Keeps the channel connected after the message.
    sender: Sender<Won>,
    slot: Arc<CampaignSlot>,
    link: Arc<Link>,
}

impl Campaign {
    /// Starts a campaign, unless the elector already has a campaign or a guard.
    pub(crate) fn start(slot: &Arc<CampaignSlot>, job: Option<JobPlan>, link: &Arc<Link>) -> Result<Self, Error> {
        let (sender, receiver) = channel::bounded(1);
        let id = slot.enter(Delivery::Term(sender.clone()), job, link)?;
        Ok(Self { id, receiver, sender, slot: Arc::clone(slot), link: Arc::clone(link) })
    }

    /// Returns the channel that delivers the answer, which is the guard or an error.
    ///
    /// The channel delivers one answer. The error is permanent, as
    /// [`LeaderElector::block_until_leader`](crate::LeaderElector::block_until_leader) describes, or
    /// [`Error::Stopped`].
    pub fn receiver(&self) -> &Receiver<Result<LeaderGuard, Error>> {
        &self.receiver
    }

    /// Calls `wake` once, as soon as the campaign is decided.
    ///
    /// A campaign is decided when its [receiver](Self::receiver) has the answer, or when the campaign is withdrawn. If
    /// the campaign is decided already, the call happens at once. The call happens even if another thread waits on the
    /// receiver.
    ///
    /// Use this method in a program with an event loop, such as `epoll`, `asyncio` or a window system. `wake` can write
    /// to an `eventfd`, for example, and the loop then receives the answer by `try_recv`.
    ///
    /// `wake` runs on its own thread and may block. A panic of `wake` is logged at level `error`.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::MemoryStore;
    /// use leasehold::LeaderElector;
    ///
    /// let (events, event_loop) = std::sync::mpsc::channel();
    /// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    /// let campaign = elector.campaign()?;
    /// campaign.on_decided(move || {
    ///     let _ = events.send("the campaign is decided");
    /// })?;
    /// assert_eq!(event_loop.recv(), Ok("the campaign is decided"));
    /// let guard = campaign.receiver().try_recv().expect("its one message")?;
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    /// - Returns [`Error::Forked`] in a forked child.
    pub fn on_decided(&self, wake: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        if self.link.is_forked() {
            return Err(Error::Forked);
        }
        let decided = self.slot.decided(self.id);
        let fields = self.link.log_fields(None);
        let run = move || {
            let Err(_) = decided.recv();
            if caught(wake).is_none() {
                log_with!(log::Level::Error, fields; "on_decided callback panicked");
            }
        };
        thread::Builder::new().name("leasehold-wake".to_owned()).spawn(run).map(drop).map_err(Error::thread)
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        if self.link.is_forked() {
            return;
        }
        // `withdrawn` lives until the end of this function, so that waiters wake after the release.
        let withdrawn = self.slot.withdraw(self.id, &self.link);
        let last = match self.receiver.try_recv() {
            // The answer arrived before the withdrawal, and the owner of the campaign did not receive the answer.
            Ok(Ok(guard)) => {
                guard.abandon();
                Some(Err(Error::Withdrawn))
            }
            Ok(Err(error)) => Some(Err(error)),
            Err(_) => withdrawn.as_ref().map(|_| Err(Error::Withdrawn)),
        };
        // The send below succeeds only if a clone of the receiver exists.
        drop(mem::replace(&mut self.receiver, channel::never()));
        if last.is_none_or(|last| self.sender.try_send(last).is_ok()) {
            self.slot.keep(self.sender.clone());
        }
    }
}

debug_fields!(impl Debug for Campaign { self => .. });
