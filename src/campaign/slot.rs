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
        // In the order in which they come here: what ends a campaign is not to be heard before it.
        link.leave(Command::Campaign { id, once });
        drop(state);
        link.work_off();
        Ok(id)
    }

    /// Takes campaign `id` out, unanswered. False if it was answered before.
    pub(crate) fn withdraw(&self, id: u64, link: &Link) -> bool {
        let waits = self.0.lock().end(id, link).inspect(|_| link.leave(Command::Withdraw(id))).is_some();
        if waits {
            link.work_off();
        }
        waits
    }

    /// Answers campaign `id` with a guard; gives it back when nobody asks for one any more.
    pub(crate) fn win(&self, id: u64, guard: LeaderGuard, link: &Link) -> Option<LeaderGuard> {
        // Sent under the lock: a campaign that is dropped meanwhile finds either itself or its guard.
        let mut state = self.0.lock();
        let Some(delivery) = state.take(id) else { return Some(guard) };
        // Where it is taken the seat stays taken, by the guard.
        let unsent = match delivery {
            Delivery::Term(sender) => sender.try_send(Ok(guard)).err()?.into_inner().ok(),
            Delivery::Round(sender) => sender.try_send(Ok(Some(guard))).err()?.into_inner().ok().flatten(),
        };
        link.free_seat();
        unsent
    }

    /// Answers campaign `id` with an error.
    pub(crate) fn fail(&self, id: u64, error: Error, link: &Link) {
        let delivery = self.0.lock().end(id, link);
        if let Some(delivery) = delivery {
            delivery.fail(error);
        }
    }

    /// Answers campaign `id`, which was for one round and did not win.
    pub(crate) fn round_over(&self, id: u64, error: Option<Error>, link: &Link) {
        let delivery = self.0.lock().end(id, link);
        if let Some(Delivery::Round(sender)) = delivery {
            let _ = sender.try_send(error.map_or(Ok(None), Err));
        }
    }

    /// Answers the campaign with [`Error::Stopped`], and every later one.
    pub(crate) fn stop(&self, link: &Link) {
        let waiting = {
            let mut state = self.0.lock();
            state.stopped = true;
            let id = state.last_id;
            state.end(id, link).inspect(|_| link.leave(Command::Withdraw(id)))
        };
        if let Some(delivery) = waiting {
            delivery.fail(Error::Stopped);
            link.work_off();
        }
    }

    /// Whether campaign `id` waits for an answer.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        matches!(self.0.lock().waiting, Some((waiting, _)) if waiting == id)
    }
}

impl State {
    fn take(&mut self, id: u64) -> Option<Delivery> {
        self.waiting.take_if(|(waiting, _)| *waiting == id).map(|(_, delivery)| delivery)
    }

    /// Takes campaign `id` out, for another to be entered.
    fn end(&mut self, id: u64, link: &Link) -> Option<Delivery> {
        self.take(id).inspect(|_| link.free_seat())
    }
}

impl Delivery {
    fn fail(self, error: Error) {
        match self {
            Self::Term(sender) => drop(sender.try_send(Err(error))),
            Self::Round(sender) => drop(sender.try_send(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::link;
    use crate::sync::channel;

    #[test]
    fn an_answer_to_one_campaign_is_none_to_the_next() {
        let (link, _commands) = link();
        let slot = CampaignSlot::default();
        let (sender, receiver) = channel::bounded(1);
        let first = slot.enter(Delivery::Round(sender.clone()), &link).unwrap();
        assert!(slot.withdraw(first, &link));
        let second = slot.enter(Delivery::Round(sender), &link).unwrap();
        slot.round_over(first, None, &link);
        slot.fail(first, Error::Busy, &link);
        assert!(!slot.withdraw(first, &link));
        assert!(receiver.try_recv().is_err() && slot.is_waiting(second) && !slot.is_waiting(first));
        slot.round_over(second, None, &link);
        assert!(matches!(receiver.try_recv(), Ok(Ok(None))));
    }
}
