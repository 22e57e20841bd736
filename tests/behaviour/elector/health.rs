//! Tests of health checks: overdue renewals, as client-go judges them, and contact.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::{MemoryStore, StoreError, StoreErrorKind, StoreOperation};
use leasehold::{LeaderElectorBuilder, Unhealthy};

use crate::elector::leading_with;
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, wait_until};

const LEASE: Duration = Duration::from_secs(2);

/// Returns a builder whose term ends one second before its lease expires.
fn builder(identity: &str) -> LeaderElectorBuilder {
    crate::elector::builder(identity)
        .lease_duration(LEASE)
        .renew_deadline(Duration::from_secs(1))
        .retry_period(Duration::from_millis(100))
}

#[test]
fn tolerance_leader_without_renewal_is_unhealthy_after_it() {
    let (store, elector, guard) = leading_with(builder("a"));
    let [none, much] = [0, 3600].map(|it| elector.health_check().with_tolerance(Duration::from_secs(it)));
    std::thread::sleep(LEASE + A_WHILE);
    assert_eq!((none.check(), guard.is_leader()), (Ok(()), true), "it renews");
    store.on_update(|_| Err(StoreError::new(StoreErrorKind::Unavailable, "made up")));
    wait_until("it is lost", || !guard.is_leader());
    wait_until("it is unhealthy", || none.check().is_err());
    let Err(Unhealthy::NotRenewed { since }) = none.check() else { panic!("{:?}", none.check()) };
    assert!(since > LEASE, "{since:?}");
    assert_eq!(much.check(), Ok(()));
    store.give_to("b", 300);
    wait_until("another leads, so it does not", || none.check().is_ok());
    drop(guard);
    assert_eq!(none.check(), Ok(()), "nobody leads here");
}

/// After a step-down, the leader still renews its lease, but the term stays ended.
#[test]
fn tolerance_stepped_down_leader_is_healthy() {
    let (store, elector, guard) = leading_with(builder("a"));
    guard.step_down();
    std::thread::sleep(LEASE + A_WHILE);
    assert_eq!(elector.health_check().with_tolerance(Duration::ZERO).check(), Ok(()));
    assert_eq!(store.holder().as_deref(), Some("a"));
}

/// The work drains within its timeout, but the next leader may work beside it.
#[test]
fn drain_beside_another_leader_is_unhealthy_after_a_lease() {
    let (store, elector, guard) = leading_with(builder("a").drain_timeout(Duration::from_secs(3_600)));
    guard.step_down();
    std::thread::sleep(A_WHILE);
    assert_eq!(elector.health_check().check(), Ok(()), "the lease is renewed");
    store.give_to("b", 300);
    wait_until("another leads", || elector.current_leader().as_deref() == Some("b"));
    std::thread::sleep(LEASE + A_WHILE);
    assert!(matches!(elector.health_check().check(), Err(Unhealthy::GuardNotDropped { .. })));
}

#[test]
fn error_of_the_store_is_no_contact() {
    let store = Memory::default();
    store.on_get(|| Err(StoreError::new(StoreErrorKind::Unavailable, "made up")));
    let elector = builder("a").start_on(Connection::new(&store)).unwrap();
    let health = elector.health_check();
    let _campaign = elector.campaign().unwrap();
    wait_until("a read fails", || elector.status().last_error.is_some());
    assert_eq!((health.check(), elector.status().last_contact), (Ok(()), None));
    store.on_get(|| Ok(()));
    wait_until("contact", || elector.status().last_contact.is_some());
}

/// A standby sends no requests while its watch delivers events.
#[test]
fn watch_event_is_contact() {
    let store = Arc::new(MemoryStore::new());
    let leader = builder("a").renew_interval(Duration::from_millis(50)).start_on(Arc::clone(&store)).unwrap();
    let _guard = leader.block_until_leader().unwrap();
    let standby = builder("b").start_on(store).unwrap();
    wait_until("it watches", || standby.status().is_watching);
    let reads = || standby.status().counters.requests(StoreOperation::Get);
    let before = reads();
    std::thread::sleep(LEASE);
    assert!(standby.status().last_contact.is_some_and(|since| since < LEASE / 2));
    assert!(reads() <= before + 2, "it is told, and does not ask");
}
