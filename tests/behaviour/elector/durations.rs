//! Extreme values of each duration: the builder refuses the value by name, or it works.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::{Error, LeaderElector, LeaderElectorBuilder};

use crate::support::memory::{Connection, Memory};
use crate::support::{AT_ONCE, SOON, wait_until};

const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

const EXTREMES: [Duration; 10] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_nanos(999_999),
    Duration::from_millis(1),
    Duration::from_nanos(1_000_001),
    Duration::new(LONGEST.as_secs() - 1, 999_999_999),
    LONGEST,
    Duration::new(LONGEST.as_secs(), 1),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

type Set = fn(LeaderElectorBuilder, Duration) -> LeaderElectorBuilder;

const FIELDS: [(&str, Set); 5] = [
    ("lease_duration", LeaderElectorBuilder::lease_duration),
    ("renew_deadline", LeaderElectorBuilder::renew_deadline),
    ("retry_period", LeaderElectorBuilder::retry_period),
    ("renew_interval", LeaderElectorBuilder::renew_interval),
    ("release_timeout", LeaderElectorBuilder::release_timeout),
];

/// Returns each extreme of a setting alone, and each pair of extremes.
fn cases() -> Vec<(String, LeaderElectorBuilder)> {
    let mut cases = Vec::new();
    for no_client_go_peers in [false, true] {
        for (number, (field, set)) in FIELDS.iter().enumerate() {
            for extreme in EXTREMES {
                let alone = set(LeaderElector::builder("test").no_client_go_peers(no_client_go_peers), extreme);
                let name = format!("no_client_go_peers {no_client_go_peers}, {field} {extreme:?}");
                for (other, set) in &FIELDS[number + 1..] {
                    for extreme in EXTREMES {
                        cases.push((format!("{name}, {other} {extreme:?}"), set(alone.clone(), extreme)));
                    }
                }
                cases.push((name, alone));
            }
        }
    }
    cases
}

/// Acquires and releases twice, with any durations.
///
/// A term may be too short for the test to observe.
fn leads_and_releases(builder: LeaderElectorBuilder) {
    let store = Memory::default();
    let elector = builder.start_on(Connection::new(&store)).expect("an elector");
    for _ in 0..2 {
        let guard = elector.block_until_leader_timeout(Duration::MAX).expect("no error").expect("a term");
        let view = guard.leadership();
        let began = Instant::now();
        match guard.release() {
            Ok(()) | Err(Error::ReleaseTimeout { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        assert!(!view.is_leader());
        wait_until("it is released", || store.holder().is_none());
    }
    assert!(elector.block_until_leader_timeout(Duration::ZERO).is_ok());
    drop(elector.block_until_leader().expect("a term"));
    wait_until("it is released by a drop", || store.holder().is_none());
}

#[test]
fn every_extreme_of_every_duration_is_refused_by_name_or_works() {
    let cases = cases();
    let mut accepted = Vec::new();
    for (name, builder) in &cases {
        match catch_unwind(|| builder.clone().start_on(Connection::new(&Memory::default())).err()) {
            Ok(None) => accepted.push((name, builder)),
            Ok(Some(Error::Config(error))) => {
                assert!(FIELDS.iter().any(|(field, _)| *field == error.field()), "{name}: {error}");
                let is_named =
                    name.contains(error.field()) || error.to_string().contains("derived from the other settings");
                assert!(is_named, "{name}: {error}");
            }
            Ok(Some(error)) => panic!("{name}: {error}"),
            Err(_) => panic!("{name}: a panic"),
        }
    }
    assert!(accepted.len() >= 20 && accepted.len() < cases.len() / 2, "{} of {}", accepted.len(), cases.len());
    // A case that hangs must be named, so the threads report each finished case.
    let (done, dones) = bounded(accepted.len());
    for share in 0..8 {
        let mine: Vec<_> = accepted.iter().skip(share).step_by(8).map(|&(n, b)| (n.clone(), b.clone())).collect();
        let done = done.clone();
        thread::spawn(move || {
            for (name, builder) in mine {
                let passed = catch_unwind(AssertUnwindSafe(|| leads_and_releases(builder))).is_ok();
                let _ = done.send((name, passed));
            }
        });
    }
    let mut missing: Vec<&String> = accepted.iter().map(|(name, _)| *name).collect();
    while !missing.is_empty() {
        let Ok((name, passed)) = dones.recv_timeout(SOON) else { panic!("no end of any of {missing:?}") };
        assert!(passed, "{name}");
        missing.retain(|it| **it != name);
    }
}
