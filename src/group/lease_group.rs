//! A group: a division of shards over the processes that take part.

use std::convert::Infallible;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use log::Level;

use crate::election::group::assign;
use crate::elector::builder::LeaderElectorBuilder;
use crate::group::core::{GroupCore, GroupHandle};
use crate::group::member::MemberThread;
use crate::group::number;
use crate::group::shard::Shard;
use crate::group::status::{GroupStatus, GroupTransition};
use crate::leadership::error::Error;
use crate::leadership::stop::Stop;
use crate::observe::transition::Transitions;
use crate::util::clock;
use crate::util::debug_fields::debug_fields;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender, select};
use crate::util::sync::{Arc, thread};
use crate::util::work_failures::{WorkFailures, with_causes};

/// A division of shards over processes, in which each shard has at most one owner.
///
/// A started group only observes. [`run_until`](Self::run_until) and [`shards`](Self::shards) make this process a
/// member. Each member holds a slot, which is an ordinary lease. The numbers of shards of two members differ by at most
/// one. All processes of a group must use the same name, number of shards and lease duration.
///
/// The records are `NAME-member-00`, … and `NAME-shard-000`, …. On Kubernetes, a member needs the verbs `get`, `list`,
/// `watch`, `create` and `update` for Leases. A new shard starts one lease duration after the member has first seen its
/// record. [GUIDE.md] has a recipe, and [GROUPS.md] the rules.
///
/// All methods may be called from any thread. Dropping the group and its [`Shards`] stops its threads.
///
/// [GUIDE.md]: https://docs.rs/crate/leasehold/latest/source/docs/GUIDE.md
/// [GROUPS.md]: https://docs.rs/crate/leasehold/latest/source/docs/internals/GROUPS.md
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use leasehold::group::LeaseGroup;
/// use leasehold::Stop;
///
/// let stop = Stop::new();
/// let group = LeaseGroup::builder("ingest").shards(64).start()?;
/// group.run_until(&stop, |shard| {
///     while shard.wait(Duration::from_millis(100)) {
///         // process one batch of shard.index(), with shard.fencing_token()
///     }
///     Ok(())
/// })?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub struct LeaseGroup {
    handle: Arc<GroupHandle>,
    builder: LeaderElectorBuilder,
}

/// The shards of this process, created by [`LeaseGroup::shards`].
///
/// The value dereferences to a channel that delivers each [`Shard`] that this process starts to own. If the group ends
/// with an error, the channel disconnects, and [`leave`](Self::leave) returns the error. Dropping the value makes the
/// process leave the group, as `leave` does, but does not block.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::group::LeaseGroup;
/// use leasehold::store::MemoryStore;
///
/// let builder = LeaseGroup::builder("ingest").shards(2);
/// let group = builder.slot(|slot| slot.lease_duration(Duration::from_secs(2))).start_on(MemoryStore::new())?;
/// let shards = group.shards()?;
/// let shard = shards.recv().expect("the group has not ended");
/// assert!(shard.is_owned());
/// assert_eq!(shard.key(), format!("ingest-shard-{:03}", shard.index()));
/// drop(shard);
/// shards.leave()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "the process leaves the group when the value is dropped"]
pub struct Shards {
    /// Dropped first, to make the process leave the group.
    leave: Sender<Infallible>,
    owned: Receiver<Shard>,
    left: Receiver<Infallible>,
    handle: Arc<GroupHandle>,
}

impl LeaseGroup {
    pub(super) fn new(core: Arc<GroupCore>, builder: LeaderElectorBuilder) -> Self {
        Self { handle: Arc::new(GroupHandle { core }), builder }
    }

    /// Returns the identity of this process.
    pub fn identity(&self) -> &str {
        &self.core().settings.identity
    }

    /// Runs `work` for each owned shard until a stop.
    ///
    /// This method makes the process a member, and runs one thread for each owned shard. `work` must return soon after
    /// [`Shard::is_recalled`] returns `true` or [`Shard::is_owned`] returns `false`. If `work` returns earlier or
    /// fails, the process keeps the shard, and `work` runs again after a pause. The error is logged at level `error`.
    /// The pause is 1 s, and doubles up to one minute. After a run of a minute, the pause is 1 s again. After a recall,
    /// or after the end of the ownership, the result of `work` has no effect, so `work` may end with `shard.check()?`.
    ///
    /// After [`stop`](Stop::stop), all workers drain together for at most the [drain
    /// timeout](crate::group::LeaseGroupBuilder::drain_timeout). Then one write releases all shards. The method
    /// returns after the last worker has returned.
    ///
    /// # Panics
    ///
    /// Panics if `work` panics. The process leaves the group first, as at a stop. The work does not run again, because
    /// a panic may leave its state damaged.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Busy`] if this group value already takes part.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    /// - Returns [`Error::Store`] if the store has no watches, or refuses requests for a renew deadline without an
    ///   earlier success, for example because a right is missing.
    /// - Returns [`Error::Config`] if another member uses another number of shards.
    /// - Returns [`Error::Stopped`] if a thread of the group has panicked.
    ///
    /// Other errors of the store are logged, and the requests are repeated.
    pub fn run_until(
        &self,
        stop: &Stop,
        work: impl Fn(&Shard) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Sync,
    ) -> Result<(), Error> {
        let shards = self.shards()?;
        let (core, work) = (self.core(), &work);
        let (panicked, panics) = channel::unbounded();
        let left = thread::scope(|scope| {
            loop {
                select! {
                    recv(stop.receiver()) -> _ => break,
                    recv(panics) -> panic => return (shards.leave(), panic.ok()),
                    recv(shards.owned) -> shard => {
                        let Ok(shard) = shard else { break };
                        let (name, panicked) = (format!("shard-{}", shard.index()), panicked.clone());
                        let run = move || {
                            let outcome = catch_unwind(AssertUnwindSafe(|| run_again(core, &shard, work)));
                            outcome.unwrap_or_else(|panic| _ = panicked.send(panic));
                        };
                        if let Err(error) = thread::Builder::new().name(name).spawn_scoped(scope, run) {
                            core.log(Level::Error, format!("cannot start a thread for a shard: {error}"));
                        }
                    }
                }
            }
            (shards.leave(), None)
        });
        match left.1.or_else(|| panics.try_recv().ok()) {
            Some(panic) => resume_unwind(panic),
            None => left.0,
        }
    }

    /// Makes this process a member, and returns its shards.
    ///
    /// Use this method for threads of your own. [`run_until`](Self::run_until) runs one thread for each shard.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Busy`] if this group value already takes part.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    /// - Returns [`Error::Store`] if the group has already ended because the store has no watches, or refuses requests.
    /// - Returns [`Error::Config`] if the group has already ended because another member uses another number of shards.
    /// - Returns [`Error::Stopped`] if a thread of the group has panicked.
    pub fn shards(&self) -> Result<Shards, Error> {
        let ((delivered, owned), (sender, commands)) = (channel::unbounded(), channel::unbounded());
        let ((leave, leaving), (leaves, left)) = (channel::bounded(0), channel::bounded(0));
        self.core().participate(delivered, sender)?;
        let (handle, builder) = (Arc::clone(&self.handle), self.builder.clone());
        let member = MemberThread { handle, builder, commands, leaving, left: leaves };
        let spawned = thread::Builder::new().name("leasehold-member".into()).spawn(move || member.run());
        if let Err(error) = spawned {
            self.core().stop_participating();
            return Err(Error::thread(error));
        }
        Ok(Shards { leave, owned, left, handle: Arc::clone(&self.handle) })
    }

    /// Returns the shard of a key, which is a stable hash modulo the number of shards.
    ///
    /// The hash is FNV-1a with 64 bits, mixed by the finalizer of SplitMix64. All versions return the same result.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::group::LeaseGroup;
    /// use leasehold::store::MemoryStore;
    ///
    /// let group = LeaseGroup::builder("ingest").shards(64).start_on(MemoryStore::new())?;
    /// assert_eq!(group.shard_of("customer-17"), 7);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn shard_of(&self, key: impl AsRef<[u8]>) -> u32 {
        number(assign::shard_of(key.as_ref(), self.core().settings.shards))
    }

    /// Returns the status of the group.
    pub fn status(&self) -> GroupStatus {
        self.core().status()
    }

    /// Returns a new subscription to the changes in the group.
    ///
    /// The subscription starts with the present owners. [`Transitions`] is an iterator and a channel. Read or drop the
    /// subscription, because unread transitions use memory.
    #[must_use = "each call creates a new subscription; call this method once, outside the loop"]
    pub fn transitions(&self) -> Transitions<GroupTransition> {
        self.core().transitions()
    }

    fn core(&self) -> &Arc<GroupCore> {
        &self.handle.core
    }
}

impl Shards {
    /// Makes the process leave the group, and blocks until its slot is released.
    ///
    /// All shards are recalled together. Other threads must drop every [`Shard`]. A shard that is not dropped within
    /// the [drain timeout](crate::group::LeaseGroupBuilder::drain_timeout) delays the release by one lease duration. A
    /// campaign that is under way ends first, after at most three requests of half a renew deadline each.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Store`] if the store has no watches, or refuses requests permanently.
    /// - Returns [`Error::Config`] if another member uses another number of shards.
    /// - Returns [`Error::Stopped`] if a thread of the group has panicked.
    pub fn leave(self) -> Result<(), Error> {
        let Self { leave, owned, left, handle } = self;
        drop(leave);
        loop {
            select! {
                recv(owned) -> shard => if shard.is_err() { break },
                recv(left) -> _ => break,
            }
        }
        let _ = left.recv();
        handle.core.end().map_or(Ok(()), Err)
    }
}

impl Deref for Shards {
    type Target = Receiver<Shard>;

    fn deref(&self) -> &Receiver<Shard> {
        &self.owned
    }
}

/// Runs the work of a shard again and again, until the shard is recalled or no longer owned.
fn run_again(
    core: &GroupCore,
    shard: &Shard,
    work: impl Fn(&Shard) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
) {
    let mut failures = WorkFailures::default();
    loop {
        let began_at = clock::now();
        let outcome = work(shard);
        if shard.is_recalled() || !shard.is_owned() {
            return;
        }
        let pause = failures.pause(clock::now().since(began_at));
        let index = shard.index();
        let (level, text) = match outcome {
            Ok(()) => (Level::Info, format!("worker of shard {index} returned")),
            Err(error) => (Level::Error, format!("worker of shard {index} failed: {}", with_causes(&*error))),
        };
        core.log(level, format!("{text}; running the worker again in {}", humantime::format_duration(pause)));
        if !shard.wait(pause) {
            return;
        }
    }
}

debug_fields!(impl Debug for LeaseGroup { self => name: self.core().name, identity: self.identity(), .. });
debug_fields!(impl Debug for Shards { self => undelivered: self.owned.len(), .. });
