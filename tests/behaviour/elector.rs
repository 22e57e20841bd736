//! Tests of an elector's threads around the election.
//!
//! Stores fail, hang and panic, watches end, durations are extreme, and connections are closed.
//!
//! Some tests have a long retry period. A faster reaction then proves that the elector did not wait for a retry.

#![cfg(unix)]

mod callbacks;
mod campaigns;
mod connections;
mod durations;
mod fitness;
mod health;
pub mod listener;
mod observers;
mod panics;
mod releases;
mod shared_identity;
mod stopping;
mod wakeups;
mod watched;
mod watches;
mod workers;

use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;

use crate::support::AT_ONCE;
use crate::support::memory::{Connection, Memory};
use leasehold::{LeaderElector, LeaderElectorBuilder, LeaderGuard};

/// Returns a builder whose terms do not end during a test, with a short retry period.
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

/// Returns a store, an elector of `builder` on the store, and its guard.
pub fn leading_with(builder: LeaderElectorBuilder) -> (Memory, LeaderElector, LeaderGuard) {
    let store = Memory::default();
    let elector = builder.start_on(Connection::new(&store)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    (store, elector, guard)
}

/// Returns a store, the leader `a`, the standby `b`, and the leader's guard.
pub fn leader_and_standby() -> (Memory, LeaderElector, LeaderElector, LeaderGuard) {
    let (store, leader, guard) = leading();
    let standby = elector(&store, "b");
    (store, leader, standby, guard)
}

/// Releases on another thread, so that a release that hangs fails the test.
fn release_at_once(guard: LeaderGuard) {
    let (done, dones) = bounded(1);
    thread::spawn(move || done.send(guard.release()));
    let released = dones.recv_timeout(AT_ONCE);
    assert!(matches!(released, Ok(Ok(()))), "{released:?}");
}

/// Returns the processor time that this thread has used.
fn time_on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
