//! What tests of every store begin with: a call, a record, an elector.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{
    Call, Cancel, LeaderElectionRecord, LeaderElector, LeaderElectorBuilder, MicroTime, Store, StoreError,
};

use super::SOON;

pub fn call() -> Call {
    Call::new(SOON, Cancel::new())
}

pub fn held_by(identity: &str) -> LeaderElectionRecord {
    LeaderElectionRecord {
        uid: None,
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime::from_unix_micros(1_700_000_000_000_001)),
        renew_time: Some(MicroTime::from_unix_micros(1_700_000_000_999_999)),
        lease_transitions: Some(3),
    }
}

/// One that nothing runs out of.
pub fn builder(identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder("jobs")
        .identity(identity)
        .lease_duration(Duration::from_secs(60))
        .retry_period(Duration::from_millis(100))
        .renew_interval(Duration::from_millis(50))
        .release_timeout(Duration::from_secs(20))
}

pub fn elector(store: &Arc<impl Store>, identity: &str) -> LeaderElector {
    builder(identity).start_on(Arc::clone(store)).expect("an elector")
}

/// What is said once it is said, for servers that start or elect a leader of their own meanwhile.
pub fn at_last<T>(what: &str, ask: impl Fn() -> Result<T, StoreError>) -> T {
    let until = Instant::now() + SOON;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < until, "{what}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
