//! What a program says of whether it is fit to lead.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::leadership::handle::{Command, Link};
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering, Weak};

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
/// let _ = guard.ended().recv(); // the term is over at once
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Fitness(Arc<FitnessState>);

#[derive(Default)]
struct FitnessState {
    /// How often it has changed: it is fit where that is odd.
    changes: AtomicU64,
    electors: Mutex<Vec<Weak<Link>>>,
}

impl Fitness {
    /// Of a process that is not fit until it says so.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether the process is fit. It is acted on at once, here or by a thread that is at work for the elector.
    pub fn set(&self, is_fit: bool) {
        let next = |changes: u64| (is_odd(changes) != is_fit).then(|| changes.wrapping_add(1));
        if self.0.changes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_err() {
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
        is_odd(self.0.changes.load(Ordering::SeqCst))
    }

    /// Returns what the program reported since `before`, the number of changes at the last call: `false` if it was unfit at any time,
    /// then `true` if it is fit now.
    pub(crate) fn ask(&self, before: &mut u64) -> impl Iterator<Item = bool> + use<> {
        let changes = self.0.changes.load(Ordering::SeqCst);
        let since = changes.wrapping_sub(std::mem::replace(before, changes));
        let said_no = since > 1 || !is_odd(changes);
        [said_no.then_some(false), is_odd(changes).then_some(true)].into_iter().flatten()
    }

    /// From now on this elector is told when it is set.
    pub(crate) fn tell(&self, link: &Arc<Link>) {
        let mut electors = self.0.electors.lock();
        electors.retain(|elector| elector.strong_count() > 0);
        electors.push(Arc::downgrade(link));
    }
}

fn is_odd(changes: u64) -> bool {
    changes % 2 == 1
}

impl fmt::Debug for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fitness").field(&self.is_fit()).finish()
    }
}

// All there is to it is one flag, and who is told.
impl UnwindSafe for Fitness {}
impl RefUnwindSafe for Fitness {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_that_is_taken_back_at_once_is_a_no() {
        let (fitness, mut before) = (Fitness::new(), 0);
        let mut ask = |fitness: &Fitness| {
            let said: Vec<_> = fitness.ask(&mut before).collect();
            (said.contains(&true), said.contains(&false))
        };
        assert_eq!(ask(&fitness), (false, true), "not known");
        fitness.set(true);
        assert_eq!(ask(&fitness), (true, false));
        fitness.set(true);
        assert_eq!(ask(&fitness), (true, false), "nothing new");
        fitness.set(false);
        fitness.set(true);
        assert_eq!(ask(&fitness), (true, true));
        assert_eq!(ask(&fitness), (true, false));
        fitness.set(false);
        assert_eq!(ask(&fitness), (false, true));
    }
}
