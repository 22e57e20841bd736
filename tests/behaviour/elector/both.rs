//! The threads of an elector on two stores at once.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::{LeaderElector, LeaderElectorBuilder, MemoryStore, StopReason, Transition};

use crate::elector::{builder, release_at_once};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

/// Two stores, and the electors that campaign on both.
#[derive(Default)]
struct Two {
    primary: Memory,
    secondary: Memory,
}

impl Two {
    fn start(&self, builder: LeaderElectorBuilder) -> LeaderElector {
        let [primary, secondary] = [("old", &self.primary), ("new", &self.secondary)];
        let connection = |(name, memory)| Connection::named(memory, name);
        builder.start_on_both(connection(primary), connection(secondary)).expect("an elector")
    }

    fn elector(&self, identity: &str) -> LeaderElector {
        self.start(builder(identity))
    }

    fn holders(&self) -> [Option<String>; 2] {
        [self.primary.holder(), self.secondary.holder()]
    }
}

/// A request on one of the two records hangs when the guard is dropped.
#[test]
fn a_hanging_request_is_given_up_soon_for_the_release_of_both() {
    for is_primary in [true, false] {
        let two = Two::default();
        let elector = two.start(builder("a").release_timeout(Duration::from_secs(60)));
        let guard = elector.block_until_leader().unwrap();
        if is_primary { &two.primary } else { &two.secondary }.hang_next_update();
        release_at_once(guard);
        assert_eq!(two.holders(), [None, None]);
    }
}

#[test]
fn an_elector_that_is_dropped_releases_both_when_its_guard_goes() {
    let two = Two::default();
    let elector = two.elector("a");
    let (transitions, guard) = (elector.transitions(), elector.block_until_leader().unwrap());
    drop(elector);
    assert!(guard.is_leader());
    // The secondary's thread has no work while the primary's release is slow.
    two.primary.on_release(|| thread::sleep(A_WHILE));
    guard.release().expect("a release");
    assert_eq!(two.holders(), [None, None]);
    let told: Vec<_> = transitions.iter().collect();
    let last =
        [Transition::StoppedLeading { reason: StopReason::Released }, Transition::NoLeader { previous: "a".into() }];
    assert!(told.ends_with(&last), "and it disconnects: {told:?}");
}

#[test]
fn a_watch_stands_when_both_do() {
    let (old, new) = (MemoryStore::new(), MemoryStore::new());
    let elector = builder("a").start_on_both(old, new).unwrap();
    wait_until("both are watched", || elector.status().is_watching);
    let counters = elector.status().counters;
    assert_eq!((counters.watches_opened, counters.watches_lost), (2, 0));

    let elector = builder("a").start_on_both(MemoryStore::new(), Connection::new(&Memory::default())).unwrap();
    wait_until("one is", || elector.status().counters.watches_opened == 1);
    assert!(!elector.status().is_watching);
}

/// Neither thread reads its record by itself before a retry period has passed.
#[test]
fn a_term_begins_and_is_released_at_once() {
    let two = Two::default();
    let elector = two.start(builder("a").retry_period(Duration::from_secs(60)));
    // After these waits, both threads are idle.
    wait_until("it has heard of both", || elector.status().last_contact.is_some());
    thread::sleep(A_WHILE);
    // The create takes so long that the other thread has found no work.
    two.primary.on_create(|| thread::sleep(A_WHILE));
    let guard = elector.block_until_leader_timeout(AT_ONCE).unwrap().expect("a term");
    release_at_once(guard);
}

/// The elector is dropped while its campaign waits for the secondary.
#[test]
fn dropped_elector_releases_both_before_the_process_ends() {
    let two = Two::default();
    two.secondary.give_to("other", 3_600);
    let elector = two.elector("a");
    let campaign = elector.campaign().unwrap();
    wait_until("the primary is held", || two.primary.holder().as_deref() == Some("a"));
    two.primary.on_release(|| thread::sleep(A_WHILE));
    drop(campaign);
    drop(elector);
    assert_eq!(two.primary.holder(), None);

    // The elector holds no lease, so its drop does not wait.
    let began = Instant::now();
    drop(two.start(builder("b").release_timeout(Duration::from_secs(60))));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[test]
fn dropped_elector_releases_a_late_win_on_either_store() {
    for slow in ["primary", "secondary"] {
        let two = Two::default();
        two.primary.give_to("", 1);
        two.secondary.give_to("", 1);
        let (acquiring, acquires) = bounded(1);
        let memory = if slow == "primary" { &two.primary } else { &two.secondary };
        memory.on_update(move |record| {
            if record.holder().is_some() {
                let _ = acquiring.try_send(());
                thread::sleep(A_WHILE);
            }
            Ok(())
        });
        let elector = two.elector("a");
        let campaign = elector.campaign().unwrap();
        acquires.recv_timeout(SOON).expect("an acquisition is under way");
        let before = memory.version();
        drop(campaign);
        drop(elector);
        assert_eq!(two.holders(), [None, None], "{slow}");
        assert!(memory.version() > before + 1, "{slow}: it goes on when the elector is gone");
    }
}

#[test]
fn unreachable_secondary_leaves_the_primary_free() {
    let two = Two::default();
    let cut_off = Connection::named(&two.secondary, "new").cut_off();
    let primary = Connection::named(&two.primary, "old");
    let elector = builder("a").start_on_both(primary, cut_off).unwrap();
    assert_eq!(elector.status().record, "old and new");
    let campaign = elector.campaign().unwrap();
    assert!(campaign.receiver().recv_timeout(A_WHILE).is_err());
    assert_eq!(two.primary.version(), 0);
    assert!(matches!(two.elector("b").try_acquire(), Ok(Some(_))));
    assert_eq!(elector.status().last_contact, None, "the secondary has not answered");
    let contact = elector.health_check().check_contact(A_WHILE / 2);
    assert!(contact.is_err(), "the secondary has not answered");
}
