//! A request for one term.

use std::mem;

use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::Link;
use crate::util::log_fields::log_with;
use crate::util::panics::caught;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender};
use crate::util::sync::{Arc, thread};

pub(crate) mod slot;

use slot::{CampaignSlot, Won};

/// A request for one term, made by [`LeaderElector::campaign`](crate::LeaderElector::campaign).
///
/// Its [receiver](Self::receiver) delivers one message, the guard or why there is none, and then stays silent: it
/// never reads as disconnected, which would spin a `select!`.
///
/// Dropping the campaign withdraws the campaign. If the receiver holds a guard that was not received, the drop releases the lease. The
/// drop waits for that release only if the elector was dropped earlier, as [`LeaderElector`](crate::LeaderElector) describes.
///
/// After the drop, a clone of the receiver delivers [`Error::Withdrawn`]. The clone then stays silent while the elector lives, until
/// sixteen more campaigns have begun.
///
/// For many campaigns at a time there is [`LeaderElector::campaign_to`](crate::LeaderElector::campaign_to).
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
    /// Keeps the channel connected after its one message.
    sender: Sender<Won>,
    slot: Arc<CampaignSlot>,
    link: Arc<Link>,
}

impl Campaign {
    pub(crate) fn new(
        id: u64,
        (sender, receiver): (Sender<Won>, Receiver<Won>),
        slot: Arc<CampaignSlot>,
        link: Arc<Link>,
    ) -> Self {
        Self { id, receiver, sender, slot, link }
    }

    /// Delivers the guard, or an error that is permanent, or [`Error::Stopped`]; once.
    pub fn receiver(&self) -> &Receiver<Result<LeaderGuard, Error>> {
        &self.receiver
    }

    /// Calls `wake` when the campaign is decided: when its [receiver](Self::receiver) has its message, or it is withdrawn. Once,
    /// at once if that has happened; and also if another waits on the receiver.
    ///
    /// For a host with an event loop of its own, such as one of `epoll`, `asyncio` or a window system: `wake` writes to an
    /// `eventfd`, say, and the loop then takes the message by `try_recv`.
    ///
    /// It runs on a thread of its own, so that it may block; if it panics, that is logged.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the system gives no thread; [`Error::Forked`] in a forked child.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, MemoryStore};
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
    pub fn on_decided(&self, wake: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        if self.link.is_forked() {
            return Err(Error::Forked);
        }
        let decided = self.slot.decided(self.id);
        let fields = self.link.log_fields(None);
        let run = move || {
            let Err(_) = decided.recv();
            if caught(wake).is_none() {
                log_with!(log::Level::Error, fields; "what was to be called when a campaign is decided has panicked");
            }
        };
        thread::Builder::new().name("leasehold-wake".to_owned()).spawn(run).map(drop).map_err(Error::Thread)
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        if self.link.is_forked() {
            return;
        }
        // Whoever waits for the decision is woken when all is done.
        let withdrawn = self.slot.withdraw(self.id, &self.link);
        let last = match withdrawn {
            Some(_) => Some(Err(Error::Withdrawn)),
            // The answer was quicker than the withdrawal. Nobody will take it any more.
            None => match self.receiver.try_recv() {
                Ok(Ok(guard)) => {
                    guard.abandon();
                    Some(Err(Error::Withdrawn))
                }
                Ok(Err(error)) => Some(Err(error)),
                Err(_) => None,
            },
        };
        // From now on whoever hears of it has a clone.
        drop(mem::replace(&mut self.receiver, channel::never()));
        if last.is_none_or(|last| self.sender.try_send(last).is_ok()) {
            self.slot.keep(self.sender.clone());
        }
    }
}

impl std::fmt::Debug for Campaign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Campaign").finish_non_exhaustive()
    }
}
