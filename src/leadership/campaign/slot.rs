//! The pending campaign of an elector, and the delivery of its answer.

use std::collections::VecDeque;
use std::convert::Infallible;

use crate::election::candidate::job::JobPlan;
use crate::election::candidate::messages::Input;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::{Command, Link};
use crate::util::sync::Mutex;
use crate::util::sync::channel::{self, Receiver, Sender};

pub(crate) type Won = Result<LeaderGuard, Error>;

/// The number of ended campaigns whose channels stay connected.
///
/// The channels stay connected, because clones of their receivers may exist.
const MAX_KEPT: usize = 16;

/// The pending campaign of an elector, if there is one.
///
/// The code that removes the campaign must answer the campaign.
#[derive(Default)]
pub(crate) struct CampaignSlot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    last_id: u64,
    stopped: bool,
    waiting: Option<Waiting>,
    /// Senders of ended campaigns.
    ///
    /// A channel without senders is always ready, so a clone of its receiver would spin.
    kept: VecDeque<Sender<Won>>,
}

/// A campaign without an answer.
pub(crate) struct Waiting {
    id: u64,
    delivery: Delivery,
    /// Dropped after the answer was sent, which wakes the waiters of the decision.
    decided: Vec<Sender<Infallible>>,
}

/// The form of a campaign's answer.
pub(crate) enum Delivery {
    /// A term, however long the campaign lasts.
    Term(Sender<Won>),
    /// The result of one round of requests.
    Round(Sender<Result<Option<LeaderGuard>, Error>>),
}

impl CampaignSlot {
    /// Starts a campaign, unless the elector already has a campaign or a guard.
    ///
    /// With a job, the campaign acquires the lease only for an attempt that is due.
    pub(crate) fn enter(&self, delivery: Delivery, job: Option<JobPlan>, link: &Link) -> Result<u64, Error> {
        if link.is_forked() {
            return Err(Error::Forked);
        }
        // Waits without the lock, which the elector takes.
        link.wait_for_room();
        let mut state = self.0.lock();
        if state.stopped {
            return Err(Error::Stopped);
        }
        if !link.try_reserve() {
            return Err(Error::Busy);
        }
        state.last_id += 1;
        let id = state.last_id;
        let once = matches!(delivery, Delivery::Round(_));
        state.waiting = Some(Waiting { id, delivery, decided: Vec::new() });
        let input = job.map_or(Input::Campaign { id, once }, |plan| Input::JobCampaign { id, plan });
        link.send(Command::Input(input));
        Ok(id)
    }

    /// Removes campaign `id` without an answer.
    ///
    /// Returns `None` if the campaign was answered before.
    pub(crate) fn withdraw(&self, id: u64, link: &Link) -> Option<Waiting> {
        self.0.lock().end(id, link).inspect(|_| link.send(Command::Input(Input::Withdraw(id))))
    }

    /// Keeps the channel of an ended campaign connected.
    pub(crate) fn keep(&self, sender: Sender<Won>) {
        let kept = &mut self.0.lock().kept;
        kept.truncate(MAX_KEPT - 1);
        kept.push_front(sender);
    }

    /// Returns a channel that disconnects when campaign `id` has been answered or withdrawn.
    pub(crate) fn decided(&self, id: u64) -> Receiver<Infallible> {
        let (sender, receiver) = channel::bounded(0);
        if let Some(waiting) = self.0.lock().waiting.as_mut().filter(|waiting| waiting.id == id) {
            waiting.decided.push(sender);
        }
        receiver
    }

    /// Answers campaign `id` with a guard. Returns the guard if no receiver takes it.
    pub(crate) fn win(&self, id: u64, guard: LeaderGuard, link: &Link) -> Option<LeaderGuard> {
        // Sent under the lock, so that the drop of the campaign finds either the pending campaign or its guard.
        let mut state = self.0.lock();
        let Some(waiting) = state.take(id) else { return Some(guard) };
        // A delivered guard keeps the elector busy. An undelivered guard frees the elector for another campaign.
        waiting.answer(Ok(guard)).inspect(|_| link.clear_busy())
    }

    /// Answers campaign `id` with an error.
    pub(crate) fn fail(&self, id: u64, error: Error, link: &Link) {
        // Answered under the lock, so that a campaign is decided only after its answer is in the channel.
        let mut state = self.0.lock();
        state.end(id, link).map(|waiting| waiting.answer(Err(error)));
    }

    /// Answers campaign `id`, whose only round did not acquire the lease.
    pub(crate) fn round_over(&self, id: u64, error: Option<Error>, link: &Link) {
        let waiting = self.0.lock().end(id, link);
        // Sent without the lock, because only the campaign's caller has this receiver.
        if let Some(Waiting { delivery: Delivery::Round(sender), .. }) = waiting {
            let _ = sender.try_send(error.map_or(Ok(None), Err));
        }
    }

    /// Answers the pending campaign and every later campaign with [`Error::Stopped`].
    pub(crate) fn stop(&self, link: &Link) {
        if link.is_forked() {
            return;
        }
        let mut state = self.0.lock();
        state.stopped = true;
        let id = state.last_id;
        state.end(id, link).map(|waiting| waiting.answer(Err(Error::Stopped)));
    }

    /// Returns `true` if campaign `id` has no answer yet.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.0.lock().waiting.as_ref().is_some_and(|waiting| waiting.id == id)
    }
}

impl SlotState {
    fn take(&mut self, id: u64) -> Option<Waiting> {
        self.waiting.take_if(|waiting| waiting.id == id)
    }

    /// Removes campaign `id` and frees the elector for another campaign.
    fn end(&mut self, id: u64, link: &Link) -> Option<Waiting> {
        self.take(id).inspect(|_| link.clear_busy())
    }
}

impl Waiting {
    /// Sends the answer. Returns the guard if no receiver takes it.
    fn answer(self, won: Won) -> Option<LeaderGuard> {
        let Self { delivery, decided: _decided, .. } = self;
        match delivery {
            Delivery::Term(sender) => sender.try_send(won).err().and_then(|unsent| unsent.into_inner().ok()),
            Delivery::Round(sender) => {
                sender.try_send(won.map(Some)).err().and_then(|unsent| unsent.into_inner().ok().flatten())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::handle::tests::link;
    use crate::util::sync::channel;

    #[test]
    fn an_answer_to_one_campaign_is_none_to_the_next() {
        let (link, _commands) = link();
        let slot = CampaignSlot::default();
        let (sender, receiver) = channel::bounded(1);
        let first = slot.enter(Delivery::Round(sender.clone()), None, &link).unwrap();
        assert!(slot.withdraw(first, &link).is_some());
        let second = slot.enter(Delivery::Round(sender), None, &link).unwrap();
        slot.round_over(first, None, &link);
        slot.fail(first, Error::Busy, &link);
        assert!(slot.withdraw(first, &link).is_none());
        assert!(receiver.try_recv().is_err() && slot.is_waiting(second) && !slot.is_waiting(first));
        slot.round_over(second, None, &link);
        assert!(matches!(receiver.try_recv(), Ok(Ok(None))));
    }

    #[test]
    fn kept_senders_are_the_newest_ones_and_bounded() {
        let slot = CampaignSlot::default();
        let (oldest, newest) = (channel::bounded(1), channel::bounded(1));
        slot.keep(oldest.0.clone());
        for _ in 0..MAX_KEPT {
            slot.keep(newest.0.clone());
        }
        let kept = &slot.0.lock().kept;
        assert!(kept.len() == MAX_KEPT && kept.iter().all(|sender| sender.same_channel(&newest.0)));
    }
}
