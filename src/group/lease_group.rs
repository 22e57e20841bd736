//! A group: a division of shards over the processes that take part.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use log::Level;

use crate::election::group::assign;
use crate::elector::builder::LeaderElectorBuilder;
use crate::group::core::{GroupCore, GroupHandle};
use crate::group::member::MemberThread;
use crate::group::shard::Shard;
use crate::group::status::{GroupStatus, GroupTransition};
use crate::leadership::error::Error;
use crate::observe::transition::Transitions;
use crate::util::backoff::Backoff;
use crate::util::clock;
use crate::util::debug_fields::debug_fields;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender, select};
use crate::util::sync::{Arc, thread};

/// The first pause after a worker has returned, failed or panicked.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause. A worker that has run for this time starts again with the first pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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
/// use leasehold::{LeaseGroup, Shard, crossbeam_channel};
///
/// let (_stop, stopped) = crossbeam_channel::bounded::<()>(0);
/// let group = LeaseGroup::builder("ingest").shards(64).start()?;
/// group.run_until(&stopped, |shard: &Shard| {
///     while shard.is_owned() && !shard.is_wanted() {
///         // process one batch of shard.index(), with shard.fencing_token()
///     }
///     Ok::<(), std::io::Error>(())
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
/// use leasehold::{LeaseGroup, MemoryStore};
///
/// let builder = LeaseGroup::builder("ingest").shards(2);
/// let group = builder.slot(|slot| slot.lease_duration(Duration::from_secs(2))).start_on(MemoryStore::new())?;
/// let shards = group.shards()?;
/// let shard = shards.recv().expect("the group has not ended");
/// assert!(shard.is_owned());
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

    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        &self.core().name
    }

    /// Returns the identity of this process.
    pub fn identity(&self) -> &str {
        &self.core().settings.identity
    }

    /// Runs `work` for each owned shard until `stop` receives a message or disconnects.
    ///
    /// This method makes the process a member, and runs one thread for each owned shard. `work` must return soon after
    /// [`Shard::is_wanted`] returns `true` or [`Shard::is_owned`] returns `false`. If `work` returns earlier, fails or
    /// panics, the process keeps the shard, and `work` runs again after a pause. The pause is 1 s, and doubles up to one
    /// minute. After a run of a minute, the pause is 1 s again.
    ///
    /// After `stop`, all workers drain together for at most the [drain
    /// timeout](crate::LeaseGroupBuilder::drain_timeout). Then one write releases all shards. The method
    /// returns after the last worker has returned.
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
    pub fn run_until<T, E: fmt::Display>(
        &self,
        stop: &Receiver<T>,
        work: impl Fn(&Shard) -> Result<(), E> + Sync,
    ) -> Result<(), Error> {
        let shards = self.shards()?;
        let (core, work) = (self.core(), &work);
        thread::scope(|scope| {
            loop {
                select! {
                    recv(stop) -> _ => break,
                    recv(shards.owned) -> shard => {
                        let Ok(shard) = shard else { break };
                        let name = format!("shard-{}", shard.index());
                        let run = move || run_again(core, &shard, work);
                        if let Err(error) = thread::Builder::new().name(name).spawn_scoped(scope, run) {
                            core.log(Level::Error, format!("cannot start a thread for a shard: {error}"));
                        }
                    }
                }
            }
            shards.leave()
        })
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
            return Err(Error::Thread(error));
        }
        Ok(Shards { leave, owned, left, handle: Arc::clone(&self.handle) })
    }

    /// Returns the identity of the member that owns the shard, as last observed, without I/O.
    ///
    /// The result may be out of date. Returns `None` if the shard has no owner, or if no shard has this number.
    pub fn owner(&self, shard: usize) -> Option<String> {
        self.core().owner(shard)
    }

    /// Returns the shard of a key, which is a stable hash modulo the number of shards.
    ///
    /// The hash is FNV-1a with 64 bits, mixed by the finalizer of SplitMix64. All versions return the same result.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaseGroup, MemoryStore};
    ///
    /// let group = LeaseGroup::builder("ingest").shards(64).start_on(MemoryStore::new())?;
    /// assert_eq!(group.shard_of("customer-17"), 7);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn shard_of(&self, key: impl AsRef<[u8]>) -> usize {
        assign::shard_of(key.as_ref(), self.core().settings.shards)
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
    /// All shards become wanted together. Other threads must drop every [`Shard`]. A shard that is not dropped within
    /// the [drain timeout](crate::LeaseGroupBuilder::drain_timeout) delays the release by one lease duration. A campaign
    /// that is under way ends first, after at most three requests of half a renew deadline each.
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

/// Runs the work of a shard again and again, until the shard is wanted or no longer owned.
fn run_again<E: fmt::Display>(core: &GroupCore, shard: &Shard, work: impl Fn(&Shard) -> Result<(), E>) {
    let mut backoff = Backoff::default();
    loop {
        let began_at = clock::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| work(shard).map_err(|error| error.to_string())));
        if shard.is_wanted() || !shard.is_owned() {
            return;
        }
        if clock::now().since(began_at) >= LONGEST_PAUSE {
            backoff.reset();
        }
        let pause = backoff.pause(FIRST_PAUSE, LONGEST_PAUSE);
        let index = shard.index();
        let (level, text) = match outcome {
            Ok(Ok(())) => (Level::Info, format!("worker of shard {index} returned")),
            Ok(Err(error)) => (Level::Error, format!("worker of shard {index} failed: {error}")),
            Err(_) => (Level::Error, format!("worker of shard {index} panicked")),
        };
        core.log(level, format!("{text}; running the worker again in {}", humantime::format_duration(pause)));
        let _ = shard.wanted().recv_timeout(pause);
        if shard.is_wanted() || !shard.is_owned() {
            return;
        }
    }
}

debug_fields!(impl Debug for LeaseGroup { self => name: self.name(), identity: self.identity(), .. });
debug_fields!(impl Debug for Shards { self => undelivered: self.owned.len(), .. });
