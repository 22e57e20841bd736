//! The fitness flag that a program sets.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::{fmt, mem};

use crate::election::candidate::fitness::FitnessSource;
use crate::election::candidate::messages::Input;
use crate::leadership::handle::{Command, Link};
use crate::util::sync::{Arc, Mutex, Weak};

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
/// use leasehold::store::MemoryStore;
/// use leasehold::{Error, Fitness, LeaderElector};
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
pub struct Fitness(Arc<Mutex<FitnessState>>);

#[derive(Default)]
struct FitnessState {
    is_fit: bool,
    electors: Vec<Weak<Link>>,
}

impl Fitness {
    /// Creates a flag that is unfit until the program sets it to `true`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the process is fit to lead.
    ///
    /// The electors react immediately, on their own threads. Right after this call, a status may show the earlier
    /// fitness.
    pub fn set(&self, is_fit: bool) {
        let mut state = self.0.lock();
        if mem::replace(&mut state.is_fit, is_fit) == is_fit {
            return;
        }
        state.electors.iter().filter_map(Weak::upgrade).for_each(|link| link.wait_for_room());
        state.electors.retain(|elector| elector.strong_count() > 0);
        // Sent under the lock, so that each elector receives all changes in their order.
        state.electors.iter().filter_map(Weak::upgrade).for_each(|link| link.send(reported(is_fit)));
    }

    /// Returns `true` if the flag was last set to `true`.
    pub(crate) fn is_fit(&self) -> bool {
        self.0.lock().is_fit
    }

    /// Notifies the elector of `link` of the present state and of every later change.
    pub(crate) fn tell(&self, link: &Arc<Link>) {
        let mut state = self.0.lock();
        link.send(reported(state.is_fit));
        state.electors.retain(|elector| elector.strong_count() > 0);
        state.electors.push(Arc::downgrade(link));
    }
}

fn reported(is_fit: bool) -> Command {
    Command::Input(Input::Fitness(FitnessSource::Program, is_fit))
}

impl fmt::Debug for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fitness").field(&self.is_fit()).finish()
    }
}

// A panic cannot leave the state half-changed, because the lock is held for no code that panics.
impl UnwindSafe for Fitness {}
impl RefUnwindSafe for Fitness {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::handle::tests::link;

    #[test]
    fn a_no_that_is_taken_back_at_once_is_a_no() {
        let (fitness, (link, commands)) = (Fitness::new(), link());
        fitness.tell(&link);
        let is_fit = |command| match command {
            Command::Input(Input::Fitness(FitnessSource::Program, is_fit)) => is_fit,
            _ => panic!("another command"),
        };
        let received = || commands.try_iter().map(is_fit).collect::<Vec<bool>>();
        assert_eq!(received(), [false], "the initial state");
        fitness.set(true);
        assert_eq!(received(), [true]);
        fitness.set(true);
        assert!(received().is_empty(), "the flag has not changed");
        fitness.set(false);
        fitness.set(true);
        assert_eq!(received(), [false, true]);
        fitness.set(false);
        assert_eq!((received(), fitness.is_fit()), (vec![false], false));
    }
}
