//! A request for one term.

use crate::error::Error;
use crate::guard::LeaderGuard;
use crate::link::{Command, Link};
use crate::sync::channel::{Receiver, Sender};
use crate::sync::{Arc, Mutex};

type Won = Result<LeaderGuard, Error>;

/// A request for one term, made by [`LeaderElector::campaign`](crate::LeaderElector::campaign).
///
/// Its [receiver](Self::receiver) delivers one message, the guard or why there is none, and then stays silent: it
/// never reads as disconnected, which would spin a `select!`. Dropping the campaign withdraws it, without waiting for
/// anything; a term that is won all the same, and by nobody taken, is released at once.
///
/// # Examples
///
/// ```no_run
/// use crossbeam_channel::{never, select};
/// use leasehold::LeaderElector;
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
    pending: Arc<Pending>,
    link: Arc<Link>,
}

/// The one campaign of an elector that waits for an answer, if there is one. Whoever takes it out answers it.
#[derive(Default)]
pub(crate) struct Pending(Mutex<State>);

#[derive(Default)]
struct State {
    last_id: u64,
    stopped: bool,
    waiting: Option<(u64, Delivery)>,
}

/// How a campaign wants to be answered.
pub(crate) enum Delivery {
    /// With a term, however long that takes.
    Term(Sender<Won>),
    /// With what one round of requests came to.
    Round(Sender<Result<Option<LeaderGuard>, Error>>),
}

impl Campaign {
    pub(crate) fn new(
        id: u64,
        (sender, receiver): (Sender<Won>, Receiver<Won>),
        pending: Arc<Pending>,
        link: Arc<Link>,
    ) -> Self {
        Self { id, receiver, _sender: sender, pending, link }
    }

    /// Delivers the guard, or an error that will not mend itself, or [`Error::Stopped`]; once.
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
    pub fn receiver(&self) -> &Receiver<Result<LeaderGuard, Error>> {
        &self.receiver
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        if self.pending.withdraw(self.id, &self.link) {
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

impl Pending {
    /// Enters a campaign, if the elector has neither one nor a guard.
    pub(crate) fn enter(&self, delivery: Delivery, link: &Link) -> Result<u64, Error> {
        let mut state = self.0.lock();
        if state.stopped {
            return Err(Error::Stopped);
        }
        if !link.take_seat() {
            return Err(Error::Busy);
        }
        state.last_id += 1;
        let id = state.last_id;
        let once = matches!(delivery, Delivery::Round(_));
        state.waiting = Some((id, delivery));
        // Told under the lock, so that campaigns and withdrawals reach the thread in the order they happened in.
        link.tell(Command::Campaign { once });
        Ok(id)
    }

    /// Takes campaign `id` out, unanswered. False if it was answered before.
    pub(crate) fn withdraw(&self, id: u64, link: &Link) -> bool {
        let mut state = self.0.lock();
        let waits = matches!(&state.waiting, Some((waiting, _)) if *waiting == id);
        if waits {
            state.waiting = None;
            link.tell(Command::Withdraw);
            link.free_seat();
        }
        waits
    }

    /// Answers the campaign with a guard; gives it back when nobody asks for one any more.
    pub(crate) fn win(&self, guard: LeaderGuard, link: &Link) -> Option<LeaderGuard> {
        // Sent under the lock: a campaign that is dropped meanwhile finds either itself or its guard.
        let mut state = self.0.lock();
        let Some((_, delivery)) = state.waiting.take() else { return Some(guard) };
        let unsent = match delivery {
            Delivery::Term(sender) => sender.try_send(Ok(guard)).err()?.into_inner().ok(),
            Delivery::Round(sender) => sender.try_send(Ok(Some(guard))).err()?.into_inner().ok().flatten(),
        };
        link.free_seat();
        unsent
    }

    /// Answers the campaign with an error.
    pub(crate) fn fail(&self, error: Error, link: &Link) {
        let waiting = self.0.lock().waiting.take();
        if let Some((_, delivery)) = waiting {
            link.free_seat();
            match delivery {
                Delivery::Term(sender) => drop(sender.try_send(Err(error))),
                Delivery::Round(sender) => drop(sender.try_send(Err(error))),
            }
        }
    }

    /// Answers a campaign of one round that did not win.
    pub(crate) fn round_over(&self, error: Option<Error>, link: &Link) {
        let mut state = self.0.lock();
        match state.waiting.take() {
            Some((_, Delivery::Round(sender))) => {
                link.free_seat();
                let _ = sender.try_send(error.map_or(Ok(None), Err));
            }
            other => state.waiting = other,
        }
    }

    /// Answers the campaign with [`Error::Stopped`], and every later one.
    pub(crate) fn stop(&self, link: &Link) {
        self.0.lock().stopped = true;
        self.fail(Error::Stopped, link);
        link.tell(Command::Withdraw);
    }

    /// Whether a campaign waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.lock().waiting.is_some()
    }
}
