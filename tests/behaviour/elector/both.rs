//! The threads of an elector on two stores at once.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::{
    Error, LeaderElector, LeaderElectorBuilder, MemoryStore, StopReason, StoreError, StoreErrorKind, Transition,
};

use crate::elector::builder;
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

/// Two records, and whoever campaigns for them.
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

#[test]
fn a_term_on_both_is_handed_over() {
    let two = Two::default();
    let (a, b) = (two.elector("a"), two.elector("b"));
    let transitions = b.transitions();
    let guard = a.block_until_leader().unwrap();
    assert_eq!(two.holders(), [Some("a".to_owned()), Some("a".to_owned())]);
    assert_eq!(guard.fencing_token(), two.secondary.version());
    wait_until("both are seen to name it", || b.current_leader().as_deref() == Some("a"));
    assert!(b.try_acquire().unwrap().is_none());
    guard.release().expect("a release");
    assert_eq!(two.holders(), [None, None]);
    let released = [&two.primary, &two.secondary].map(|it| it.observed().unwrap().record.lease_duration_seconds);
    assert_eq!(released, [Some(300), Some(1)]);
    let guard = b.block_until_leader().unwrap();
    assert!(a.try_acquire().unwrap().is_none());
    assert_eq!(two.holders(), [Some("b".to_owned()), Some("b".to_owned())]);
    drop(guard);
    let told: Vec<_> = transitions.try_iter().collect();
    let leads = |it: &Transition, who: &str| matches!(it, Transition::NewLeader { identity } if identity == who);
    assert!(told.iter().any(|it| leads(it, "a")) && told.iter().any(|it| leads(it, "b")), "{told:?}");
    assert_eq!(a.status().record, "old and new");
}

#[test]
fn who_waits_for_the_secondary_keeps_the_primary_and_gives_it_back() {
    let two = Two::default();
    two.secondary.give_to("other", 3_600);
    let elector = two.elector("a");
    let campaign = elector.campaign().unwrap();
    wait_until("the primary is held", || two.primary.holder().as_deref() == Some("a"));
    assert!(campaign.receiver().recv_timeout(A_WHILE).is_err());
    drop(campaign);
    wait_until("it is given back", || two.primary.holder().is_none());
    assert_eq!(two.secondary.holder().as_deref(), Some("other"));
    let campaign = elector.campaign().unwrap();
    two.secondary.give_to("", 1);
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert!(guard.is_leader());
}

#[test]
fn the_loss_of_either_ends_the_term_and_wakes_who_waits_for_that() {
    for is_primary in [true, false] {
        let two = Two::default();
        let elector = two.elector("a");
        let guard = elector.block_until_leader().unwrap();
        let lost = if is_primary { &two.primary } else { &two.secondary };
        lost.give_to("other", 3_600);
        guard.lost().recv_timeout(SOON).expect_err("it disconnects");
        assert!(!guard.is_leader());
        assert_eq!(guard.check().unwrap_err().reason, StopReason::Superseded { by: Some("other".to_owned()) });
        let versions = [two.primary.version(), two.secondary.version()];
        thread::sleep(A_WHILE);
        assert_eq!([two.primary.version(), two.secondary.version()], versions, "neither is renewed any more");
        drop(guard);
        assert_eq!(two.holders().map(|it| it.is_some()), [is_primary, !is_primary]);
    }
}

/// Of either record, when the guard is dropped.
#[test]
fn a_hanging_request_is_given_up_soon_for_the_release_of_both() {
    for is_primary in [true, false] {
        let two = Two::default();
        let elector = two.start(builder("a").release_timeout(Duration::from_secs(60)));
        let guard = elector.block_until_leader().unwrap();
        let (hanging, hangs) = bounded(1);
        if is_primary { &two.primary } else { &two.secondary }.hang_next_update(hanging);
        hangs.recv_timeout(SOON).expect("a renewal hangs");
        let (done, dones) = bounded(1);
        thread::spawn(move || done.send(guard.release()));
        let released = dones.recv_timeout(AT_ONCE);
        assert!(matches!(released, Ok(Ok(()))), "{released:?}");
        assert_eq!(two.holders(), [None, None]);
    }
}

#[test]
fn a_secondary_that_refuses_is_told_and_leaves_the_primary_to_others() {
    let two = Two::default();
    two.secondary.on_get(|| Err(StoreError::new(StoreErrorKind::Forbidden, "made up")));
    let brief = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(1));
    let elector = two.start(brief);
    let refused = elector.block_until_leader();
    assert!(matches!(&refused, Err(Error::Store(error)) if error.kind() == StoreErrorKind::Forbidden), "{refused:?}");
    assert_eq!(two.primary.version(), 0);
}

#[test]
fn a_panic_in_either_store_ends_the_elector() {
    for is_primary in [true, false] {
        let two = Two::default();
        let elector = two.elector("a");
        let guard = elector.block_until_leader().unwrap();
        if is_primary { &two.primary } else { &two.secondary }.on_update(|_| std::panic::resume_unwind(Box::new(())));
        guard.lost().recv_timeout(SOON).expect_err("it disconnects");
        assert_eq!(guard.check().unwrap_err().reason, StopReason::ElectorPanicked);
        assert!(matches!(guard.release(), Err(Error::Stopped)));
        assert!(matches!(elector.block_until_leader(), Err(Error::Stopped)));
        assert!(elector.health_check().check().is_err());
    }
}

#[test]
fn an_elector_that_is_dropped_releases_both_when_its_guard_goes() {
    let two = Two::default();
    let elector = two.elector("a");
    let (transitions, guard) = (elector.transitions(), elector.block_until_leader().unwrap());
    drop(elector);
    assert!(guard.is_leader());
    // The secondary's thread has nothing left to do meanwhile.
    two.primary.on_update(|record| {
        if record.holder().is_none() {
            thread::sleep(A_WHILE);
        }
        Ok(())
    });
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

/// Neither thread looks again by itself before a retry period has passed.
#[test]
fn a_term_begins_and_is_released_at_once() {
    let two = Two::default();
    let elector = two.start(builder("a").retry_period(Duration::from_secs(60)));
    // Both have nothing to do by then.
    wait_until("it has heard of both", || elector.status().last_contact.is_some());
    thread::sleep(A_WHILE);
    // So long that the thread of the other has looked, and found nothing to do yet.
    two.primary.on_create(|| thread::sleep(A_WHILE));
    let guard = elector.block_until_leader_timeout(AT_ONCE).unwrap().expect("a term");
    let (done, dones) = bounded(1);
    thread::spawn(move || done.send(guard.release()));
    let released = dones.recv_timeout(AT_ONCE);
    assert!(matches!(released, Ok(Ok(()))), "{released:?}");
}

/// Its end may come at any time, also while it waits for the secondary.
#[test]
fn an_elector_that_is_dropped_gives_back_what_it_holds_before_the_process_ends() {
    let two = Two::default();
    two.secondary.give_to("other", 3_600);
    let elector = two.elector("a");
    let campaign = elector.campaign().unwrap();
    wait_until("the primary is held", || two.primary.holder().as_deref() == Some("a"));
    two.primary.on_update(|record| {
        if record.holder().is_none() {
            thread::sleep(A_WHILE);
        }
        Ok(())
    });
    drop(campaign);
    drop(elector);
    assert_eq!(two.primary.holder(), None);

    // Nothing is held: nothing is waited for.
    let began = Instant::now();
    drop(two.start(builder("b").release_timeout(Duration::from_secs(60))));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[test]
fn an_elector_that_is_dropped_gives_back_what_it_is_about_to_win_on_either() {
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
fn who_cannot_reach_the_secondary_leaves_the_primary_to_others() {
    let two = Two::default();
    let cut_off = Connection::named(&two.secondary, "new");
    cut_off.cord().cut();
    let primary = Connection::named(&two.primary, "old");
    let elector = builder("a").start_on_both(primary, cut_off).unwrap();
    let campaign = elector.campaign().unwrap();
    assert!(campaign.receiver().recv_timeout(A_WHILE).is_err());
    assert_eq!(two.primary.version(), 0);
    assert!(matches!(two.elector("b").try_acquire(), Ok(Some(_))));
    let contact = elector.health_check().check_contact(A_WHILE / 2);
    assert!(contact.is_err(), "it has not heard of one of them");
}

/// Also when the store of one does not keep to the time that it is given.
#[test]
fn a_term_is_told_to_be_over_while_a_request_of_either_hangs() {
    for is_primary in [true, false] {
        let two = Two::default();
        let brief = builder("a")
            .lease_duration(Duration::from_secs(3))
            .renew_deadline(Duration::from_secs(1))
            .retry_period(Duration::from_millis(100));
        let elector = two.start(brief);
        let guard = elector.block_until_leader().unwrap();
        let (over, is_over) = bounded::<()>(0);
        let (hung, other) = if is_primary { (&two.primary, &two.secondary) } else { (&two.secondary, &two.primary) };
        hung.on_update(move |_| {
            let _ = is_over.recv_timeout(SOON);
            Ok(())
        });
        assert!(guard.lost().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()));
        assert_eq!(guard.check().unwrap_err().reason, StopReason::Expired);
        let version = other.version();
        thread::sleep(A_WHILE);
        assert_eq!(other.version(), version, "the other is not renewed any more");
        drop(over);
    }
}

/// A campaign that is dropped with a term in it, for instance.
#[test]
fn a_term_on_both_that_nobody_took_is_released_although_a_renewal_of_the_primary_hangs() {
    let two = Two::default();
    let elector = two.elector("a");
    let campaign = elector.campaign().unwrap();
    wait_until("it is won", || two.secondary.holder().is_some() && !campaign.receiver().is_empty());
    let (hanging, hangs) = bounded(1);
    two.primary.hang_next_update(hanging);
    hangs.recv_timeout(SOON).expect("a renewal hangs");
    drop(campaign);
    let until = Instant::now() + AT_ONCE;
    while two.holders() != [None, None] {
        assert!(Instant::now() < until, "{:?}", two.holders());
        thread::sleep(Duration::from_millis(5));
    }
}
