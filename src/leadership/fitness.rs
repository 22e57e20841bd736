//! The fitness flag that a program sets.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::leadership::handle::{Command, Link};
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering, Weak};

/// A flag by which the program reports whether this process is fit to lead.
///
/// [`LeaderElectorBuilder::fitness`](crate::LeaderElectorBuilder::fitness) attaches the flag to an elector. Several
/// electors can share one flag. The flag needs no thread.
///
/// The flag is unfit until the program sets it to `true`. Clones share one state. All methods may be called from any
/// thread.
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
    /// The number of changes. The flag is fit if this number is odd.
    changes: AtomicU64,
    electors: Mutex<Vec<Weak<Link>>>,
}

impl Fitness {
    /// Creates a flag that is unfit until the program sets it to `true`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the process is fit to lead.
    ///
    /// The electors react immediately, on the calling thread or on a thread of the elector.
    pub fn set(&self, is_fit: bool) {
        let next = |changes: u64| (is_odd(changes) != is_fit).then(|| changes.wrapping_add(1));
        if self.0.changes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_err() {
            return;
        }
        let mut electors = self.0.electors.lock();
        electors.retain(|elector| elector.strong_count() > 0);
        let told: Vec<_> = electors.iter().filter_map(Weak::upgrade).collect();
        // Unlocked first, so that other callers do not wait for the electors.
        drop(electors);
        for elector in told {
            elector.tell(Command::FitnessSet);
        }
    }

    /// Returns `true` if the flag was last set to `true`.
    pub fn is_fit(&self) -> bool {
        is_odd(self.0.changes.load(Ordering::SeqCst))
    }

    /// Returns the reports since the last call, and updates `before`, the number of changes at that call.
    ///
    /// Yields `false` if the flag was unfit at any time since the last call. Then yields `true` if the flag is fit now.
    pub(crate) fn ask(&self, before: &mut u64) -> impl Iterator<Item = bool> + use<> {
        let changes = self.0.changes.load(Ordering::SeqCst);
        let since = changes.wrapping_sub(std::mem::replace(before, changes));
        let said_no = since > 1 || !is_odd(changes);
        [said_no.then_some(false), is_odd(changes).then_some(true)].into_iter().flatten()
    }

    /// Notifies the elector of `link` of every later change.
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

// A panic cannot leave the state half-changed, because the state is one atomic counter and a list of electors.
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
