//! How the elector's thread answers a campaign.

use crate::error::Error;
use crate::guard::LeaderGuard;
use crate::handle::{Command, Link};
use crate::sync::Mutex;
use crate::sync::channel::Sender;

pub(crate) type Won = Result<LeaderGuard, Error>;

/// The one campaign of an elector that waits for an answer, if there is one. Whoever takes it out answers it.
#[derive(Default)]
pub(crate) struct CampaignSlot(Mutex<State>);

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

impl CampaignSlot {
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
