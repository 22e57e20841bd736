//! Campaigns that are answered by a cloned receiver or a callback.

use std::thread;

use crossbeam_channel::{RecvTimeoutError, TryRecvError, bounded, unbounded};
use leasehold::Error;

use super::{alone, leader_and_standby};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

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
