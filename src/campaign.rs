//! A request for one term.

use crate::error::Error;
use crate::guard::LeaderGuard;
use crate::handle::Link;
use crate::sync::Arc;
use crate::sync::channel::{Receiver, Sender};

pub(crate) mod slot;

use slot::{CampaignSlot, Won};

/// A request for one term, made by [`LeaderElector::campaign`](crate::LeaderElector::campaign).
///
/// Its [receiver](Self::receiver) delivers one message, the guard or why there is none, and then stays silent: it
/// never reads as disconnected, which would spin a `select!`. Dropping the campaign withdraws it, without waiting for
/// anything; a term that is won all the same, and by nobody taken, is released at once.
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
    _sender: Sender<Won>,
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
        Self { id, receiver, _sender: sender, slot, link }
    }

    /// Delivers the guard, or an error that is permanent, or [`Error::Stopped`]; once.
    pub fn receiver(&self) -> &Receiver<Result<LeaderGuard, Error>> {
        &self.receiver
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        if self.slot.withdraw(self.id, &self.link) {
            return;
        }
        // The answer was quicker than the withdrawal. Nobody will take it any more.
        if let Ok(Ok(guard)) = self.receiver.try_recv() {
            guard.abandon();
        }
    }
}

impl std::fmt::Debug for Campaign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Campaign").finish_non_exhaustive()
    }
}
