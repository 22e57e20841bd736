//! Transitions of leadership, and subscriptions to them.

use std::fmt;
use std::ops::Deref;

use crate::election::stop_reason::StopReason;
use crate::observe::observer::Event;
use crate::util::one_line::OneLine;
use crate::util::sync::channel::{self, Receiver, Sender};
use crate::util::sync::{Arc, Weak};

/// A change of leadership, as one elector observed it.
///
/// The transitions of one elector are totally ordered. Exactly one `StoppedLeading` follows each `StartedLeading`.
///
/// [`Display`](std::fmt::Display) shows one line for people. With the feature `serde`, a transition is a map such as
/// `{"transition": "new_leader", "identity": "a", "address": null}`, and a reason is its text.
///
/// # Examples
///
/// ```no_run
/// use leasehold::{LeaderElector, Transition};
///
/// let elector = LeaderElector::builder("jobs").start()?;
/// for transition in elector.transitions() {
///     match transition {
///         Transition::NewLeader { identity, .. } => println!("{identity} leads"),
///         Transition::NoLeader { previous } => println!("no leader after {previous}"),
///         Transition::StartedLeading { fencing_token } => println!("started leading with token {fencing_token}"),
///         Transition::StoppedLeading { reason } => println!("stopped leading: {reason}"),
///         _ => {}
///     }
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transition {
    /// A new leader in the record, which may be this candidate, or a new address of the leader.
    NewLeader {
        /// The identity of the leader.
        identity: String,
        /// The address that the leader [advertises](crate::LeaderElectorBuilder::advertise).
        address: Option<String>,
    },
    /// The end of a lease without a new leader.
    ///
    /// The record was released or deleted, or its lease has expired by this process's clock. If the previous leader
    /// renews the lease after all, a [`NewLeader`](Self::NewLeader) follows. The elector's thread sends this transition
    /// and may be late on a busy machine. [`current_leader`](crate::LeaderElector::current_leader) is exact.
    NoLeader {
        /// The identity of the previous leader, which may be this candidate.
        previous: String,
    },
    /// The start of a term of this candidate.
    StartedLeading {
        /// The fencing token, which grows with every term of any candidate.
        fencing_token: u64,
    },
    /// The end of this candidate's term.
    StoppedLeading {
        /// The reason for the end.
        reason: StopReason,
    },
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewLeader { identity, .. } => write!(f, "{} leads", OneLine(identity)),
            Self::NoLeader { previous } => write!(f, "no leader after {}", OneLine(previous)),
            Self::StartedLeading { fencing_token } => write!(f, "started leading with fencing token {fencing_token}"),
            Self::StoppedLeading { reason } => write!(f, "stopped leading: {reason}"),
        }
    }
}

/// A subscription to one elector's transitions, created by [`LeaderElector::transitions`].
///
/// The subscription dereferences to the channel's `Receiver`, and `select!` accepts a subscription as a receiver. As an
/// iterator, the subscription blocks until the next transition. Dropping this value ends the subscription. A clone of
/// the receiver then disconnects at the next transition or the next subscription.
///
/// [`LeaderElector::transitions`]: crate::LeaderElector::transitions
///
/// # Examples
///
/// ```
/// use leasehold::crossbeam_channel::{never, select};
/// use leasehold::store::MemoryStore;
/// use leasehold::LeaderElector;
///
/// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
/// # let shutdown = never::<()>();
/// let (transitions, guard) = (elector.transitions(), elector.block_until_leader()?);
/// select! {
///     recv(transitions) -> transition => println!("{transition:?}"),
///     recv(shutdown) -> _ => {}
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct Transitions<T = Transition> {
    receiver: Receiver<T>,
    _subscribed: Arc<()>,
}

impl<T> Deref for Transitions<T> {
    type Target = Receiver<T>;

    fn deref(&self) -> &Receiver<T> {
        &self.receiver
    }
}

impl<T: 'static> Iterator for Transitions<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

/// The subscribers to transitions.
///
/// Each sender has a `Weak` that no longer upgrades once its subscription is dropped.
pub(crate) struct Subscribers<T>(Vec<(Weak<()>, Sender<T>)>);

impl<T> Default for Subscribers<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Transition {
    /// Returns the transition of an event, if the event is a transition.
    pub(super) fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::NewLeader { identity, address } => {
                Self::NewLeader { identity: identity.clone(), address: address.clone() }
            }
            Event::NoLeader { previous } => Self::NoLeader { previous: previous.clone() },
            Event::StartedLeading { fencing_token } => Self::StartedLeading { fencing_token: *fencing_token },
            Event::StoppedLeading { reason } => Self::StoppedLeading { reason: reason.clone() },
            _ => return None,
        })
    }
}

impl<T: Clone + 'static> Subscribers<T> {
    /// Returns a subscription that starts with the transitions `present`, and is disconnected unless `is_open`.
    pub(crate) fn subscribe(&mut self, present: impl IntoIterator<Item = T>, is_open: bool) -> Transitions<T> {
        let (sender, receiver) = channel::unbounded();
        for transition in present {
            let _ = sender.send(transition);
        }
        let subscribed = Arc::new(());
        // While there are no transitions, only this call removes dropped subscriptions.
        self.forget_dropped();
        if is_open {
            self.0.push((Arc::downgrade(&subscribed), sender));
        }
        Transitions { receiver, _subscribed: subscribed }
    }

    pub(crate) fn publish(&mut self, transition: &T) {
        self.forget_dropped();
        for (_, subscriber) in &self.0 {
            let _ = subscriber.send(transition.clone());
        }
    }

    fn forget_dropped(&mut self) {
        self.0.retain(|(subscribed, _)| subscribed.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_is_displayed_in_one_line() {
        let led = Transition::NewLeader { identity: "a\nb".to_owned(), address: None };
        assert_eq!(led.to_string(), "a\\nb leads");
        let ended = Transition::StoppedLeading { reason: StopReason::Released };
        assert_eq!(ended.to_string(), format!("stopped leading: {}", StopReason::Released));
    }

    #[test]
    fn dropped_subscriptions_are_forgotten() {
        let mut subscribers = Subscribers::default();
        (0..10).for_each(|_| drop(subscribers.subscribe([], true)));
        assert_eq!(subscribers.0.len(), 1, "until the next subscription");
        subscribers.publish(&Transition::StartedLeading { fencing_token: 1 });
        assert!(subscribers.0.is_empty());
    }
}
