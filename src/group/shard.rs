//! A shard that this process owns.

use std::convert::Infallible;
use std::time::Duration;

use crate::election::deadline::Deadline;
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::debug_fields::debug_fields;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender};
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};

/// The ownership of one shard, which is released when the value is dropped.
///
/// This process owns the shard while [`is_owned`](Self::is_owned) returns `true`. No other process owns the shard at
/// the same time. Another member may take the shard after this value was dropped, or after the ownership has ended.
/// All methods may be called from any thread.
///
/// # Examples
///
/// ```
/// use leasehold::Shard;
///
/// fn work(shard: &Shard) {
///     while shard.is_owned() && !shard.is_wanted() {
///         // process one batch of the shard, with shard.fencing_token()
///         # break;
///     }
/// }
/// ```
#[must_use = "the shard moves to another member when the value is dropped"]
pub struct Shard {
    ownership: Arc<Ownership>,
    /// Reports the drop of the value to the group.
    on_return: Box<dyn Fn() + Send + Sync>,
}

/// The state of one ownership that the shard and the group share.
pub(super) struct Ownership {
    index: usize,
    fencing_token: u64,
    deadline: Arc<Deadline>,
    valid_until: Arc<AtomicU64>,
    has_ended: AtomicBool,
    is_wanted: AtomicBool,
    /// Disconnects once the shard is wanted or no longer owned.
    wanted: SignalPair,
    /// Disconnects once the shard is no longer owned.
    ended: SignalPair,
}

/// A channel that disconnects at an event.
struct SignalPair {
    sender: Mutex<Option<Sender<Infallible>>>,
    receiver: Receiver<Infallible>,
}

impl SignalPair {
    fn new() -> Self {
        let (sender, receiver) = channel::bounded(0);
        Self { sender: Mutex::new(Some(sender)), receiver }
    }

    fn disconnect(&self) {
        *self.sender.lock() = None;
    }
}

impl Ownership {
    pub(super) fn new(index: usize, fencing_token: u64, deadline: Arc<Deadline>, valid_until: Arc<AtomicU64>) -> Self {
        Self {
            index,
            fencing_token,
            deadline,
            valid_until,
            has_ended: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            wanted: SignalPair::new(),
            ended: SignalPair::new(),
        }
    }

    fn is_valid(&self) -> bool {
        // The group ends a late ownership before it extends the time, so the time is loaded first.
        let valid_until = self.valid_until.load(Ordering::SeqCst);
        if self.has_ended.load(Ordering::SeqCst) {
            return false;
        }
        let now = clock::now();
        let is_valid = now.as_nanos() < valid_until && self.deadline.is_valid(now);
        if !is_valid {
            // A later event of the watch could extend the time, but the result must stay `false`.
            self.has_ended.store(true, Ordering::SeqCst);
        }
        is_valid
    }

    pub(super) fn want(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
        self.wanted.disconnect();
    }

    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.want();
        self.ended.disconnect();
    }
}

impl Shard {
    pub(super) fn new(ownership: Arc<Ownership>, on_return: impl Fn() + Send + Sync + 'static) -> Self {
        Self { ownership, on_return: Box::new(on_return) }
    }

    /// Returns the number of the shard, from 0.
    pub fn index(&self) -> usize {
        self.ownership.index
    }

    /// Returns `true` while this process owns the shard.
    ///
    /// Once this method has returned `false`, it never returns `true` again. This method is the safety check. It costs
    /// a clock read and a few atomic loads, without a lock. No check can stop work that has already passed the check.
    /// The [fencing token](Self::fencing_token) protects against such work.
    pub fn is_owned(&self) -> bool {
        self.ownership.is_valid()
    }

    /// Returns `true` once the worker must return.
    ///
    /// The shard must move to another member, the process leaves the group, or the ownership has ended. In the first two
    /// cases, the process owns the shard for at most the [drain
    /// timeout](crate::LeaseGroupBuilder::drain_timeout).
    pub fn is_wanted(&self) -> bool {
        self.ownership.is_wanted.load(Ordering::SeqCst)
    }

    /// Returns how long the ownership stays valid without another renewal.
    ///
    /// Returns zero once the ownership has ended.
    pub fn remaining(&self) -> Duration {
        if !self.is_owned() {
            return Duration::ZERO;
        }
        let view = Moment::from_nanos(self.ownership.valid_until.load(Ordering::SeqCst)).since(clock::now());
        view.min(self.ownership.deadline.remaining(clock::now()))
    }

    /// Returns a number that is greater than the token of every earlier ownership of this shard.
    ///
    /// The token is the version of the shard's record. Tokens of different shards cannot be compared.
    /// [`LeaderGuard::fencing_token`](crate::LeaderGuard::fencing_token) describes the use of tokens.
    pub fn fencing_token(&self) -> u64 {
        self.ownership.fencing_token
    }

    /// Returns a channel that disconnects once the worker must return.
    ///
    /// The channel never delivers a message. The channel also disconnects at the end of the ownership. Use the channel
    /// in a `select!`.
    pub fn wanted(&self) -> &Receiver<Infallible> {
        &self.ownership.wanted.receiver
    }

    /// Returns a channel that disconnects at the end of the ownership.
    ///
    /// The channel never delivers a message. The disconnect depends on a thread and may be late. Only
    /// [`is_owned`](Self::is_owned) is the safety check.
    pub fn ended(&self) -> &Receiver<Infallible> {
        &self.ownership.ended.receiver
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.ownership.end();
        (self.on_return)();
    }
}

debug_fields!(impl Debug for Shard {
    self => index: self.index(), fencing_token: self.fencing_token(), remaining: self.remaining()
});
