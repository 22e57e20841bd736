//! What an elector's threads do around the election: on stores that fail, hang and panic, with watches that end, through
//! extremes of durations, and under connections that are closed.
//!
//! Where a retry period is long, what comes sooner was not waited for.

#![cfg(unix)]

mod both;
mod callbacks;
mod campaigns;
mod connections;
mod durations;
mod fitness;
mod health;
pub mod listener;
mod observers;
mod panics;
mod reasons;
mod releases;
mod shared_identity;
mod stopping;
mod watched;
mod watches;
mod workers;

use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;

use crate::support::AT_ONCE;
use crate::support::memory::{Connection, Memory};
use leasehold::{LeaderElector, LeaderElectorBuilder, LeaderGuard};

/// Terms that do not end by themselves, and a pace that a test has the time for.
pub fn builder(identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder("test")
        .identity(identity)
        .lease_duration(Duration::from_secs(300))
        .renew_deadline(Duration::from_secs(200))
        .retry_period(Duration::from_millis(100))
        .release_timeout(Duration::from_secs(20))
}

pub fn elector(store: &Memory, identity: &str) -> LeaderElector {
    builder(identity).start_on(Connection::new(store)).expect("an elector")
}

pub fn alone() -> (Memory, LeaderElector) {
    let store = Memory::default();
    let elector = elector(&store, "a");
    (store, elector)
}

pub fn leading() -> (Memory, LeaderElector, LeaderGuard) {
    leading_with(builder("a"))
}

/// A store, the elector of `builder` on the store, and its guard.
pub fn leading_with(builder: LeaderElectorBuilder) -> (Memory, LeaderElector, LeaderGuard) {
    let store = Memory::default();
    let elector = builder.start_on(Connection::new(&store)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    (store, elector, guard)
}

/// Releases on another thread, so that a release that hangs fails the test.
fn release_at_once(guard: LeaderGuard) {
    let (done, dones) = bounded(1);
    thread::spawn(move || done.send(guard.release()));
    let released = dones.recv_timeout(AT_ONCE);
    assert!(matches!(released, Ok(Ok(()))), "{released:?}");
}

/// The time that this thread has had a processor.
fn time_on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
