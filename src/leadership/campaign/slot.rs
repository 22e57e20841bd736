//! How the elector's thread answers a campaign.

use std::any::Any;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::thread::Builder;

use crate::election::candidate::session::Input;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::{Command, Link};
use crate::util::panics::caught;
use crate::util::sync::Mutex;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender};

pub(crate) type Won = Result<LeaderGuard, Error>;

/// A receiver outlives its campaign where it was cloned, which nobody can see. So the channels of so many campaigns are kept.
const MAX_KEPT: usize = 16;

/// The one campaign of an elector that waits for an answer, if there is one. Whoever takes it out answers it.
#[derive(Default)]
pub(crate) struct CampaignSlot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    last_id: u64,
    stopped: bool,
    waiting: Option<Waiting>,
    /// Of campaigns that are gone, for the clones of their receivers: a channel without senders is always ready.
    kept: VecDeque<Sender<Won>>,
}

/// A campaign that waits for its answer.
pub(crate) struct Waiting {
    id: u64,
    delivery: Delivery,
    /// Dropped after the answer was sent: whoever waits for that is woken.
    decided: Vec<Sender<Infallible>>,
}

/// How a campaign wants to be answered.
pub(crate) enum Delivery {
    /// With a term, however long that takes.
    Term(Sender<Won>),
    /// With what one round of requests came to.
    Round(Sender<Result<Option<LeaderGuard>, Error>>),
    /// With a term, into a channel of the caller's.
    To(Box<dyn FnOnce(Won) -> Result<(), Unsent> + Send>),
}

impl Delivery {
    /// Answers by `sender`, with `key`.
    pub(crate) fn to<K: Send + 'static>(key: K, sender: Sender<(K, Won)>) -> Self {
        Self::To(Box::new(move |won| {
            sender.try_send((key, won)).map_err(|unsent| {
                let (key, won) = unsent.into_inner();
                Unsent { guard: won.ok(), key: Some(CampaignKey(Some(Box::new(key)))) }
            })
        }))
    }
}

/// What nobody takes. It is dropped where no lock is held: of a guard and of a caller's key the drop may do anything.
pub(crate) struct Unsent {
    pub(crate) guard: Option<LeaderGuard>,
    pub(crate) key: Option<CampaignKey>,
}

/// What a caller named its campaign by.
pub(crate) struct CampaignKey(Option<Box<dyn Any + Send>>);

impl Drop for CampaignKey {
    /// On a thread of its own: it may wait for the elector's, and fail.
    fn drop(&mut self) {
        let key = self.0.take();
        let drop_it = move || {
            let _ = caught(|| drop(key));
        };
        // Where there is no thread it goes as what the thread was to have.
        let _ = Builder::new().name("leasehold-wake".to_owned()).spawn(drop_it);
    }
}

impl CampaignSlot {
    /// Enters a campaign, if the elector has neither one nor a guard.
    pub(crate) fn enter(&self, delivery: Delivery, link: &Link) -> Result<u64, Error> {
        if link.is_forked() {
            return Err(Error::Forked);
        }
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
        state.waiting = Some(Waiting { id, delivery, decided: Vec::new() });
        // In the order in which they come here: what ends a campaign is not to be heard before it.
        link.leave(Command::Input(Input::Campaign { id, once }));
        drop(state);
        link.work_off();
        Ok(id)
    }

    /// Takes campaign `id` out, unanswered. `None` if it was answered before.
    pub(crate) fn withdraw(&self, id: u64, link: &Link) -> Option<Waiting> {
        let waiting = self.0.lock().end(id, link).inspect(|_| link.leave(Command::Input(Input::Withdraw(id))));
        if waiting.is_some() {
            link.work_off();
        }
        waiting
    }

    /// Answers the campaign with [`Error::Withdrawn`], if there is one.
    pub(crate) fn withdraw_any(&self, link: &Link) -> bool {
        self.end(link, Error::Withdrawn, |_| {})
    }

    /// Keeps the channel of a campaign that is gone connected.
    pub(crate) fn keep(&self, sender: Sender<Won>) {
        let kept = &mut self.0.lock().kept;
        kept.truncate(MAX_KEPT - 1);
        kept.push_front(sender);
    }

    /// Disconnects when campaign `id` has been answered or withdrawn.
    pub(crate) fn decided(&self, id: u64) -> Receiver<Infallible> {
        let (sender, receiver) = channel::bounded(0);
        if let Some(waiting) = self.0.lock().waiting.as_mut().filter(|waiting| waiting.id == id) {
            waiting.decided.push(sender);
        }
        receiver
    }

    /// Answers campaign `id` with a guard; gives it back when nobody takes it.
    pub(crate) fn win(&self, id: u64, guard: LeaderGuard, link: &Link) -> Result<(), Unsent> {
        // Sent under the lock: a campaign that is dropped meanwhile finds either itself or its guard.
        let mut state = self.0.lock();
        let Some(waiting) = state.take(id) else { return Err(Unsent { guard: Some(guard), key: None }) };
        // Where it is taken the seat stays taken, by the guard.
        waiting.answer(Ok(guard)).inspect_err(|_| link.free_seat())
    }

    /// Answers campaign `id` with an error. What nobody takes is for the caller to drop.
    pub(crate) fn fail(&self, id: u64, error: Error, link: &Link) -> Option<Unsent> {
        // Answered under the lock, as in `win`: who asks whether it is decided hears of that after its answer is there.
        self.0.lock().end(id, link).and_then(|waiting| waiting.answer(Err(error)).err())
    }

    /// Answers campaign `id`, which was for one round and did not win.
    pub(crate) fn round_over(&self, id: u64, error: Option<Error>, link: &Link) {
        let waiting = self.0.lock().end(id, link);
        // Which nobody but its campaigner knows of.
        if let Some(Waiting { delivery: Delivery::Round(sender), .. }) = waiting {
            let _ = sender.try_send(error.map_or(Ok(None), Err));
        }
    }

    /// Answers the campaign with [`Error::Stopped`], and every later one.
    pub(crate) fn stop(&self, link: &Link) {
        self.end(link, Error::Stopped, |state| state.stopped = true);
    }

    /// Answers the campaign with `error`, if there is one.
    fn end(&self, link: &Link, error: Error, before: impl FnOnce(&mut SlotState)) -> bool {
        if link.is_forked() {
            return false;
        }
        let answered = {
            let mut state = self.0.lock();
            before(&mut state);
            let id = state.last_id;
            let waiting = state.end(id, link).inspect(|_| link.leave(Command::Input(Input::Withdraw(id))));
            waiting.map(|waiting| waiting.answer(Err(error)))
        };
        if answered.is_some() {
            link.work_off();
        }
        answered.is_some()
    }

    /// Whether campaign `id` waits for an answer.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.0.lock().waiting.as_ref().is_some_and(|waiting| waiting.id == id)
    }
}

impl SlotState {
    fn take(&mut self, id: u64) -> Option<Waiting> {
        self.waiting.take_if(|waiting| waiting.id == id)
    }

    /// Takes campaign `id` out, for another to be entered.
    fn end(&mut self, id: u64, link: &Link) -> Option<Waiting> {
        self.take(id).inspect(|_| link.free_seat())
    }
}

impl Waiting {
    fn answer(self, won: Won) -> Result<(), Unsent> {
        let Self { delivery, decided: _decided, .. } = self;
        let unsent = |guard| Unsent { guard, key: None };
        match delivery {
            Delivery::Term(sender) => sender.try_send(won).map_err(|error| unsent(error.into_inner().ok())),
            Delivery::Round(sender) => {
                sender.try_send(won.map(Some)).map_err(|error| unsent(error.into_inner().ok().flatten()))
            }
            Delivery::To(send) => send(won),
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
        let first = slot.enter(Delivery::Round(sender.clone()), &link).unwrap();
        assert!(slot.withdraw(first, &link).is_some());
        let second = slot.enter(Delivery::Round(sender), &link).unwrap();
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
