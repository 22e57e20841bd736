//! What a program says of whether it is fit to lead.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::handle::{Command, Link};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};

/// Whether this process is fit to lead, as the program says: one for as many electors as are given it, by
/// [`LeaderElectorBuilder::fitness`](crate::LeaderElectorBuilder::fitness). It needs no thread.
///
/// It is not fit until the program says that it is. Clones are the same one. It may be set and asked on any thread.
///
/// # Examples
///
/// ```
/// use leasehold::{Error, Fitness, LeaderElector, MemoryStore};
///
/// let fitness = Fitness::new();
/// let elector = LeaderElector::builder("jobs").fitness(&fitness).start_on(MemoryStore::new())?;
/// assert!(matches!(elector.try_acquire(), Err(Error::Unfit)));
/// fitness.set(true); // the caches are warm
/// let guard = elector.block_until_leader()?;
/// fitness.set(false); // the disk is full
/// let _ = guard.lost().recv(); // the term is over at once
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Fitness(Arc<State>);

#[derive(Default)]
struct State {
    is_fit: AtomicBool,
    electors: Mutex<Vec<Weak<Link>>>,
}

impl Fitness {
    /// Of a process that is not fit until it says so.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether the process is fit. It is acted on at once, here or by a thread that is at work for the elector.
    pub fn set(&self, is_fit: bool) {
        if self.0.is_fit.swap(is_fit, Ordering::SeqCst) == is_fit {
            return;
        }
        let mut electors = self.0.electors.lock();
        electors.retain(|elector| elector.strong_count() > 0);
        let told: Vec<_> = electors.iter().filter_map(Weak::upgrade).collect();
        // Nobody is to wait for what the electors do.
        drop(electors);
        for elector in told {
            elector.tell(Command::FitnessSet);
        }
    }

    /// What was said last; false before anything was.
    pub fn is_fit(&self) -> bool {
        self.0.is_fit.load(Ordering::SeqCst)
    }

    /// From now on this elector is told when it is set.
    pub(crate) fn tell(&self, link: &Arc<Link>) {
        let mut electors = self.0.electors.lock();
        electors.retain(|elector| elector.strong_count() > 0);
        electors.push(Arc::downgrade(link));
    }
}

impl fmt::Debug for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fitness").field(&self.is_fit()).finish()
    }
}

// All there is to it is one flag, and who is told.
impl UnwindSafe for Fitness {}
impl RefUnwindSafe for Fitness {}
