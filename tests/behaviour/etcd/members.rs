//! A cluster of three members, of which some are paused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::etcd::{EtcdConfig, EtcdStore};
use leasehold::store::{CallContext, CancelToken, Store, StoreErrorKind, WatchEvent, WatchScope};
use leasehold::{LeaderElector, LeaderElectorBuilder, StopReason};

use crate::support::etcd::Etcd;
use crate::support::stores::{at_last, call, held_by};
use crate::support::{SOON, wait_until};

fn short(identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder("jobs")
        .identity(identity)
        .lease_duration(Duration::from_secs(12))
        .renew_deadline(Duration::from_secs(9))
        .retry_period(Duration::from_millis(500))
}

#[test]
fn term_outlasts_a_frozen_member_even_the_raft_leader() {
    let Some(mut etcd) = Etcd::start(3, &[]) else { return };
    let raft_leader = etcd.leader();
    etcd.members.swap(0, raft_leader);
    let store = Arc::new(etcd.store("stopped/"));
    // A member that has just been resumed may take seconds to catch up.
    let elector = short("a").release_timeout(SOON).start_on(Arc::clone(&store)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    etcd.members[0].pause();
    let others = EtcdConfig::new(&etcd.urls()[1..]).expect("URLs").with_prefix("stopped/");
    let other = EtcdStore::new(others).expect("a store");
    let version = || at_last("a read", || other.get("jobs", &call())).expect("a record").version;
    let before = version();
    wait_until("it is renewed by another member", || version() > before);
    // This time is longer than a term lasts without a renewal.
    let until = Instant::now() + Duration::from_secs(11);
    while Instant::now() < until {
        assert!(guard.is_leader(), "{:?}", guard.check());
        std::thread::sleep(Duration::from_millis(20));
    }
    etcd.members[0].resume();
    guard.release().expect("a confirmed release");
    assert!(at_last("a read", || other.get("jobs", &call())).is_some_and(|it| it.record.holder().is_none()));
}

#[test]
fn without_quorum_terms_expire_and_return_with_it() {
    let Some(etcd) = Etcd::start(3, &[]) else { return };
    let store = Arc::new(etcd.store("quorum/"));
    let elector = short("a").start_on(Arc::clone(&store)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let base = store.get("jobs", &call()).expect("an answer").expect("a record");
    // The watch requires a raft leader, so etcd ends the watch without a quorum.
    let (opened, opens) = leasehold::crossbeam_channel::bounded(1);
    let alone = EtcdConfig::new(&etcd.urls()[..1]).expect("a URL").with_prefix("quorum/");
    let alone = EtcdStore::new(alone).expect("a store");
    let watch = std::thread::spawn(move || {
        alone.watch(WatchScope::Key("jobs"), None, &CancelToken::new(), &mut |event| {
            if let WatchEvent::Opened = event {
                let _ = opened.send(());
            }
        })
    });
    opens.recv_timeout(SOON).expect("a watch");
    let began = Instant::now();
    etcd.members[1].pause();
    etcd.members[2].pause();
    let other = etcd.store("quorum/");
    let brief = || CallContext::new(Duration::from_millis(1500), CancelToken::new());
    // This pause outlasts a read that was confirmed before the members stopped.
    std::thread::sleep(Duration::from_millis(200));
    while guard.is_leader() {
        assert!(other.get("jobs", &brief()).is_err(), "a read without a quorum");
        assert!(other.update("jobs", &base, held_by("b").as_write(), &brief()).is_err(), "a write without a quorum");
        assert!(began.elapsed() < Duration::from_secs(25));
    }
    assert_eq!(guard.check().expect_err("it is over").reason, StopReason::Expired);
    wait_until("the watch ends", || watch.is_finished());
    assert_eq!(watch.join().expect("no panic").expect_err("no leader").kind(), StoreErrorKind::Unavailable);
    drop(guard);
    etcd.members[1].resume();
    etcd.members[2].resume();
    // One of the writes above may have been applied by now, so `b` may hold the lease at first.
    let again = elector.block_until_leader_timeout(Duration::from_secs(60)).expect("an answer").expect("another term");
    assert!(again.is_leader());
}
