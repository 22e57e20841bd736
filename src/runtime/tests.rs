//! What tests of both threads need.

use crate::lock::{Call, Lock, LockError};
use crate::record::{LeaderElectionRecord, Observed};

/// One that nobody asks.
pub(crate) struct NoLock;

impl Lock for NoLock {
    fn get(&self, _: &Call) -> Result<Option<Observed>, LockError> {
        unreachable!("nobody asks")
    }
    fn create(&self, _: &LeaderElectionRecord, _: &Call) -> Result<Observed, LockError> {
        unreachable!("nobody asks")
    }
    fn update(&self, _: &Observed, _: &LeaderElectionRecord, _: &Call) -> Result<Observed, LockError> {
        unreachable!("nobody asks")
    }
    fn describe(&self) -> String {
        "no lock".into()
    }
}
