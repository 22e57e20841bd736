//! A shard that this process owns.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use crate::election::deadline::Deadline;
use crate::leadership::error::Error;
use crate::leadership::term::{call_at_end, wait_while};
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::debug_fields::{debug_as_display, debug_fields};
use crate::util::latch::Latch;
use crate::util::sync::channel::Receiver;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// The ownership of one shard, which is released when the value is dropped.
///
/// This process owns the shard while [`is_owned`](Self::is_owned) returns `true`. No other process owns the shard at
/// the same time. Another member may take the shard after this value was dropped, or after the ownership has ended.
/// All methods may be called from any thread.
///
/// # Examples
///
/// ```
/// use leasehold::group::Shard;
///
/// fn work(shard: &Shard) {
///     while shard.is_owned() && !shard.is_recalled() {
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

/// The error of [`Shard::check`]: the ownership has ended.
///
/// # Examples
///
/// ```
/// use leasehold::group::{OwnershipEnded, Shard};
///
/// fn step(shard: &Shard) -> Result<(), OwnershipEnded> {
///     shard.check()?;
///     // write something, with shard.fencing_token()
///     Ok(())
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnershipEnded {
    /// The number of the shard.
    pub shard: u32,
}

debug_as_display!(OwnershipEnded);

impl fmt::Display for OwnershipEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ownership of shard {} ended", self.shard)
    }
}

impl std::error::Error for OwnershipEnded {}

/// The state of one ownership that the shard and the group share.
pub(super) struct Ownership {
    index: u32,
    key: String,
    fencing_token: u64,
    deadline: Arc<Deadline>,
    valid_until: Arc<AtomicU64>,
    has_ended: AtomicBool,
    /// Set once the shard is recalled or no longer owned.
    recalled: Latch,
    /// Set once the shard is no longer owned.
    ended: Latch,
}

impl Ownership {
    pub(super) fn new(
        index: u32,
        key: String,
        fencing_token: u64,
        deadline: Arc<Deadline>,
        valid_until: Arc<AtomicU64>,
    ) -> Self {
        Self {
            index,
            key,
            fencing_token,
            deadline,
            valid_until,
            has_ended: AtomicBool::new(false),
            recalled: Latch::new(),
            ended: Latch::new(),
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

    fn remaining(&self) -> Duration {
        if !self.is_valid() {
            return Duration::ZERO;
        }
        let view = Moment::from_nanos(self.valid_until.load(Ordering::SeqCst)).since(clock::now());
        view.min(self.deadline.remaining(clock::now()))
    }

    pub(super) fn recall(&self) {
        self.recalled.set();
    }

    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.recall();
        self.ended.set();
    }
}

impl Shard {
    pub(super) fn new(ownership: Arc<Ownership>, on_return: impl Fn() + Send + Sync + 'static) -> Self {
        Self { ownership, on_return: Box::new(on_return) }
    }

    /// Returns the number of the shard, from 0.
    pub fn index(&self) -> u32 {
        self.ownership.index
    }

    /// Returns the key of the shard's record in the store, such as `ingest-shard-007`.
    ///
    /// A fence needs this key, for example `PostgresStore::fence_sql(shard.key(), shard.fencing_token())`.
    pub fn key(&self) -> &str {
        &self.ownership.key
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
    /// May lag behind the end of the ownership, so a loop also checks [`is_owned`](Self::is_owned).
    ///
    /// The shard must move to another member, the process leaves the group, or the ownership has ended. In the first
    /// two cases, the process owns the shard for at most the [drain
    /// timeout](crate::group::LeaseGroupBuilder::drain_timeout).
    pub fn is_recalled(&self) -> bool {
        self.ownership.recalled.is_set()
    }

    /// Returns how long the ownership stays valid without another renewal.
    ///
    /// Returns zero once the ownership has ended.
    pub fn remaining(&self) -> Duration {
        self.ownership.remaining()
    }

    /// Returns a number that is greater than the token of every earlier ownership of this shard.
    ///
    /// The token is the version of the shard's record. Tokens of different shards cannot be compared.
    /// [`Leadership::fencing_token`](crate::Leadership::fencing_token) describes the use of tokens.
    pub fn fencing_token(&self) -> u64 {
        self.ownership.fencing_token
    }

    /// Sleeps for `duration`, at most until the worker must return.
    ///
    /// Returns `true` if the worker may continue. So `while shard.wait(interval)` runs a body once per interval, until
    /// the shard is recalled or no longer owned.
    pub fn wait(&self, duration: Duration) -> bool {
        wait_while(self.recalled(), duration, || if self.is_recalled() { Duration::ZERO } else { self.remaining() })
    }

    /// Calls `call` once the ownership has ended, or immediately if the ownership has ended.
    ///
    /// A thread that starts now waits for the end. A panic of `call` is caught and logged.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Thread`] if the operating system cannot start the thread. The callback is then never called.
    pub fn on_ended(&self, call: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let ownership = Arc::clone(&self.ownership);
        call_at_end(self.ended().clone(), move || ownership.remaining(), call)
    }

    /// Returns an error once the ownership has ended, for use with `?`.
    ///
    /// # Errors
    ///
    /// - Returns [`OwnershipEnded`] if the ownership has ended.
    pub fn check(&self) -> Result<(), OwnershipEnded> {
        if self.is_owned() { Ok(()) } else { Err(OwnershipEnded { shard: self.index() }) }
    }

    /// Returns a channel that disconnects once the worker must return.
    ///
    /// The channel never delivers a message. The channel also disconnects at the end of the ownership. Use the channel
    /// in a `select!`.
    pub fn recalled(&self) -> &Receiver<Infallible> {
        self.ownership.recalled.receiver()
    }

    /// Returns a channel that disconnects at the end of the ownership.
    ///
    /// The channel never delivers a message. The disconnect depends on a thread and may be late. Only
    /// [`is_owned`](Self::is_owned) is the safety check.
    pub fn ended(&self) -> &Receiver<Infallible> {
        self.ownership.ended.receiver()
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
