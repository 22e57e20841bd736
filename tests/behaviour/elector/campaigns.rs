//! Campaigns that are answered by a caller's channel, a cloned receiver or a callback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded, unbounded};
use leasehold::{Error, LeaderElector, Transition};

use super::{alone, elector, leader_and_standby};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

#[test]
fn many_campaigns_share_a_channel_and_each_answer_has_its_key() {
    let stores: Vec<_> = (0..5).map(|_| Memory::default()).collect();
    let (sender, won) = unbounded();
    let electors: Vec<_> = stores.iter().map(|store| elector(store, "a")).collect();
    for (key, elector) in electors.iter().enumerate() {
        elector.campaign_to(format!("shard {key}"), &sender).unwrap();
        assert!(matches!(elector.campaign_to("again".to_owned(), &sender), Err(Error::Busy)));
    }
    let mut guards: Vec<_> =
        (0..5).map(|_| won.recv_timeout(SOON).unwrap()).map(|(key, won)| (key, won.unwrap())).collect();
    guards.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (number, (key, guard)) in guards.iter().enumerate() {
        assert_eq!((key.as_str(), guard.fencing_token()), (&*format!("shard {number}"), stores[number].version()));
    }
    drop(guards);
    assert!(stores.iter().all(|store| store.holder().is_none()));
    assert!(won.try_recv().is_err_and(|error| error == TryRecvError::Empty), "one answer each");
}

#[test]
fn term_refused_by_a_full_channel_is_released() {
    let (store, elector) = alone();
    let transitions = elector.transitions();
    let (sender, full) = bounded(1);
    sender.send((0, Err(Error::Busy))).unwrap();
    elector.campaign_to(1, &sender).unwrap();
    let is_stop = |it: &Transition| matches!(it, Transition::StoppedLeading { .. });
    while !is_stop(&transitions.recv_timeout(SOON).expect("a term, and its end")) {}
    wait_until("it is released", || store.holder().is_none());
    assert!(matches!(full.try_recv(), Ok((0, Err(Error::Busy)))) && full.is_empty());

    let (sender, receiver) = bounded(1);
    drop(receiver);
    elector.campaign_to(2, &sender).unwrap();
    while !is_stop(&transitions.recv_timeout(SOON).expect("a term, and its end")) {}
    wait_until("it is released", || store.holder().is_none());
    assert!(elector.block_until_leader_timeout(SOON).unwrap().is_some());
}

#[test]
fn a_guard_that_is_left_in_a_channel_is_released_with_it() {
    let (store, elector) = alone();
    let (sender, won) = unbounded();
    elector.campaign_to((), &sender).unwrap();
    wait_until("it leads", || !won.is_empty());
    assert!(elector.leadership().is_some());
    drop(won);
    assert_eq!(store.holder(), None);
    assert!(elector.block_until_leader_timeout(SOON).unwrap().is_some());
}

#[test]
fn withdrawn_campaign_is_answered_and_another_may_follow() {
    let (_store, other, elector, guard) = leader_and_standby();
    assert!(!elector.withdraw(), "there is none");
    let (sender, won) = unbounded();
    elector.campaign_to(1, &sender).unwrap();
    assert!(elector.withdraw() && !elector.withdraw());
    assert!(matches!(won.recv_timeout(AT_ONCE), Ok((1, Err(Error::Withdrawn)))));
    elector.campaign_to(2, &sender).unwrap();
    drop(guard);
    let (key, second) = won.recv_timeout(SOON).unwrap();
    assert!(key == 2 && second.is_ok() && !elector.withdraw());
    drop(second);
    let guard = other.block_until_leader().unwrap();
    elector.campaign_to(3, &sender).unwrap();
    elector.stop();
    assert!(matches!(won.recv_timeout(AT_ONCE), Ok((3, Err(Error::Stopped)))));
    assert!(matches!(elector.campaign_to(4, &sender), Err(Error::Stopped)));
    drop(guard);
    assert!(won.is_empty());
}

/// The drop of a key calls the elector and panics.
///
/// The elector must hold no lock while it drops the key.
#[test]
fn panic_in_the_drop_of_a_key_does_not_hurt_the_elector() {
    struct Key(Arc<LeaderElector>, Arc<AtomicUsize>);
    impl Drop for Key {
        fn drop(&mut self) {
            let _ = self.0.campaign().map(drop);
            let _ = (self.0.status(), self.0.current_leader());
            self.1.fetch_add(1, Ordering::SeqCst);
            panic!("as planned");
        }
    }
    let store = Memory::default();
    let elector = Arc::new(LeaderElector::builder("test").start_on(Connection::new(&store)).unwrap());
    let dropped = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = bounded::<(Key, _)>(1);
    drop(receiver);
    elector.campaign_to(Key(Arc::clone(&elector), Arc::clone(&dropped)), &sender).unwrap();
    wait_until("its key is dropped", || dropped.load(Ordering::SeqCst) == 1);
    wait_until("the term is released", || store.holder().is_none());
    assert!(elector.status().is_running);
    assert!(elector.block_until_leader_timeout(SOON).unwrap().is_some());
}

#[test]
fn hanging_drop_of_a_key_blocks_no_one() {
    struct Key(Receiver<()>);
    impl Drop for Key {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }
    let store = Memory::default();
    let (other, elector) = (elector(&store, "other"), elector(&store, "a"));
    let (end, ended) = bounded(0);
    let (sender, receiver) = bounded::<(Key, _)>(1);
    drop(receiver);
    let transitions = elector.transitions();
    elector.campaign_to(Key(ended), &sender).unwrap();
    while !matches!(transitions.recv_timeout(SOON).unwrap(), Transition::StoppedLeading { .. }) {}
    assert!(other.block_until_leader_timeout(SOON).unwrap().is_some());
    assert!(elector.block_until_leader_timeout(SOON).unwrap().is_some());
    drop(end);
}

#[test]
fn cloned_receiver_gets_the_withdrawal_once() {
    let (store, _other, elector, guard) = leader_and_standby();
    for _ in 0..3 {
        let campaign = elector.campaign().unwrap();
        let clone = campaign.receiver().clone();
        drop(campaign);
        assert!(matches!(clone.recv_timeout(AT_ONCE), Ok(Err(Error::Withdrawn))));
        assert!(matches!(clone.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout)));
    }
    drop(guard);
    // The campaign is dropped after its answer, but the answer was not received.
    let campaign = elector.campaign().unwrap();
    let clone = campaign.receiver().clone();
    wait_until("it leads", || !clone.is_empty());
    drop(campaign);
    assert!(matches!(clone.try_recv(), Ok(Err(Error::Withdrawn))));
    assert!(clone.try_recv().is_err_and(|error| error == TryRecvError::Empty));
    wait_until("the term is released", || store.holder().is_none());
    // The campaign is dropped after its answer was received.
    let campaign = elector.campaign().unwrap();
    let clone = campaign.receiver().clone();
    let guard = campaign.receiver().recv().unwrap().unwrap();
    drop(campaign);
    assert!(clone.try_recv().is_err_and(|error| error == TryRecvError::Empty));
    drop(guard);
    elector.stop();
}

#[test]
fn on_decided_is_called_once_on_its_own_thread() {
    let (_store, other, elector, guard) = leader_and_standby();
    let (calls, called) = unbounded();
    let wake = |what: &'static str| {
        let calls = calls.clone();
        move || calls.send((what, thread::current().name().map(str::to_owned))).unwrap()
    };
    let campaign = elector.campaign().unwrap();
    campaign.on_decided(wake("won")).unwrap();
    assert!(called.recv_timeout(A_WHILE).is_err(), "nothing is decided");
    drop(guard);
    let (what, thread) = called.recv_timeout(SOON).unwrap();
    assert_eq!((what, thread.as_deref()), ("won", Some("leasehold-wake")));
    // When the callback runs, the message is already in the channel.
    let won = campaign.receiver().try_recv().unwrap().unwrap();
    campaign.on_decided(wake("decided before")).unwrap();
    assert_eq!(called.recv_timeout(SOON).unwrap().0, "decided before");
    drop((won, campaign));

    let guard = other.block_until_leader().unwrap();
    let campaign = elector.campaign().unwrap();
    campaign.on_decided(|| panic!("as planned")).unwrap();
    campaign.on_decided(wake("withdrawn")).unwrap();
    drop(campaign);
    assert_eq!(called.recv_timeout(SOON).unwrap().0, "withdrawn");
    let campaign = elector.campaign().unwrap();
    campaign.on_decided(wake("stopped")).unwrap();
    drop(elector);
    assert_eq!(called.recv_timeout(SOON).unwrap().0, "stopped");
    drop((guard, campaign));
    assert!(called.try_recv().is_err(), "once each");
}

#[test]
fn hanging_callback_blocks_no_one() {
    let (store, elector) = alone();
    let (release, released) = bounded::<()>(0);
    let campaign = elector.campaign().unwrap();
    campaign.on_decided(move || _ = released.recv()).unwrap();
    let guard = campaign.receiver().recv_timeout(SOON).unwrap().unwrap();
    let version = store.version();
    wait_until("it renews", || store.version() > version + 1);
    assert!(guard.release().is_ok());
    drop(release);
}
