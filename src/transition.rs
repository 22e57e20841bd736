//! Transitions, and who has subscribed to them.

use crate::stop_reason::StopReason;
use crate::sync::Mutex;
use crate::sync::channel::{self, Receiver, Sender};

/// What changed, as one elector saw it.
///
/// The transitions of one elector are totally ordered, and each `StartedLeading` has exactly one `StoppedLeading`.
///
/// # Examples
///
/// ```no_run
/// use leasehold::{LeaderElector, Transition};
///
/// let elector = LeaderElector::builder("jobs").start()?;
/// for transition in elector.transitions() {
///     match transition {
///         Transition::NewLeader { identity } => println!("{identity} leads"),
///         Transition::StartedLeading { fencing_token } => println!("we lead, with token {fencing_token}"),
///         Transition::StoppedLeading { reason } => println!("we do not lead any more: {reason}"),
///         _ => {}
///     }
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transition {
    /// The record shows another leader than before; it may be ourselves.
    NewLeader {
        /// Who leads.
        identity: String,
    },
    /// A term of ours began.
    StartedLeading {
        /// Grows with every term, whoever wins it.
        fencing_token: u64,
    },
    /// The term of ours ended.
    StoppedLeading {
        /// Why.
        reason: StopReason,
    },
}

/// The present state, and everyone who wants to hear of changes.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<State>);

#[derive(Default)]
struct State {
    leader: Option<String>,
    leading: Option<u64>,
    subscribers: Vec<Sender<Transition>>,
    closed: bool,
}

impl Subscriptions {
    /// A channel that opens with the present state.
    pub(crate) fn subscribe(&self) -> Receiver<Transition> {
        let (sender, receiver) = channel::unbounded();
        let mut state = self.0.lock();
        let leader = state.leader.clone().map(|identity| Transition::NewLeader { identity });
        let leading = state.leading.map(|fencing_token| Transition::StartedLeading { fencing_token });
        for transition in leader.into_iter().chain(leading) {
            let _ = sender.send(transition);
        }
        if !state.closed {
            state.subscribers.push(sender);
        }
        receiver
    }

    pub(crate) fn leader(&self) -> Option<String> {
        self.0.lock().leader.clone()
    }

    pub(crate) fn new_leader(&self, leader: Option<String>) {
        let mut state = self.0.lock();
        state.leader.clone_from(&leader);
        if let Some(identity) = leader {
            state.publish(Transition::NewLeader { identity });
        }
    }

    pub(crate) fn started(&self, fencing_token: u64) {
        let mut state = self.0.lock();
        state.leading = Some(fencing_token);
        state.publish(Transition::StartedLeading { fencing_token });
    }

    /// Each start has one stop: without a term nothing stops. False if it had been told.
    pub(crate) fn stopped(&self, reason: StopReason) -> bool {
        let mut state = self.0.lock();
        let is_news = state.leading.take().is_some();
        if is_news {
            state.publish(Transition::StoppedLeading { reason });
        }
        is_news
    }

    /// After the last word every subscription disconnects.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.subscribers.clear();
    }
}

impl State {
    fn publish(&mut self, transition: Transition) {
        self.subscribers.retain(|subscriber| subscriber.send(transition.clone()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_opens_with_the_present_state() {
        let subscriptions = Subscriptions::default();
        subscriptions.new_leader(Some("me".into()));
        subscriptions.started(7);
        let late = subscriptions.subscribe();
        subscriptions.stopped(StopReason::Expired);
        subscriptions.close();
        assert_eq!(
            late.iter().collect::<Vec<_>>(),
            [
                Transition::NewLeader { identity: "me".into() },
                Transition::StartedLeading { fencing_token: 7 },
                Transition::StoppedLeading { reason: StopReason::Expired },
            ]
        );
    }

    #[test]
    fn a_subscription_after_the_last_word_is_disconnected() {
        let subscriptions = Subscriptions::default();
        subscriptions.close();
        assert_eq!(subscriptions.subscribe().iter().count(), 0);
    }

    #[test]
    fn subscriptions_that_nobody_holds_are_forgotten() {
        let subscriptions = Subscriptions::default();
        drop(subscriptions.subscribe());
        subscriptions.started(1);
        assert!(subscriptions.0.lock().subscribers.is_empty());
    }
}
