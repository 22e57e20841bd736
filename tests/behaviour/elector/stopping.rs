//! A stopped elector and a failed campaign leave nothing behind.

use std::sync::Arc;
use std::thread;

use crossbeam_channel::unbounded;
use leasehold::{Campaign, Error, LeaderElectionRecord, LeaderElector, StoreError, StoreErrorKind};
use parking_lot::Mutex;

use crate::elector::elector;
use crate::support::memory::Memory;
use crate::support::{A_WHILE, SOON, wait_until};

/// Returns a list to which each holder is added that is written into the record.
fn note_holders(store: &Memory) -> Arc<Mutex<Vec<String>>> {
    let holders = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&holders);
    store.on_update(move |record: &LeaderElectionRecord| {
        noted.lock().push(record.holder().unwrap_or_default().to_owned());
        Ok(())
    });
    holders
}

/// Returns a campaign that the elector's thread already pursues.
fn campaigning(store: &Memory, elector: &LeaderElector) -> Campaign {
    let campaign = elector.campaign().unwrap();
    let (looked, looks) = unbounded();
    store.on_get(move || {
        let _ = looked.send(());
        Ok(())
    });
    // The first read may have been under way before the campaign.
    for _ in 0..2 {
        looks.recv_timeout(SOON).expect("a look");
    }
    campaign
}

/// A lease becomes free, and an elector without a campaign never acquires the lease.
#[test]
fn a_stopped_elector_or_a_withdrawn_campaign_never_acquires() {
    for is_stopped in [true, false] {
        let store = Memory::default();
        let (a, b) = (elector(&store, "a"), elector(&store, "b"));
        let guard = a.block_until_leader().unwrap();
        let campaign = campaigning(&store, &b);
        let holders = note_holders(&store);
        if is_stopped {
            b.stop();
            assert!(matches!(campaign.receiver().recv_timeout(SOON), Ok(Err(Error::Stopped))));
            assert!(matches!(b.campaign(), Err(Error::Stopped)));
        } else {
            drop(campaign);
        }
        drop(guard);
        wait_until("it sees nobody", || b.current_leader().is_none());
        thread::sleep(A_WHILE);
        assert_eq!(store.holder(), None);
        assert!(!holders.lock().iter().any(|holder| holder == "b"), "{:?}", holders.lock());
        assert_eq!(b.block_until_leader().is_ok_and(|guard| guard.is_leader()), !is_stopped, "once it is asked to");
    }
}

#[test]
fn an_error_from_before_is_not_the_answer_of_a_later_try() {
    let store = Memory::default();
    let a = elector(&store, "a");
    let _guard = a.block_until_leader().unwrap();
    let mut reads = 0;
    store.on_get(move || {
        reads += 1;
        match reads {
            1 => Err(StoreError::new(StoreErrorKind::Unavailable, "made up")),
            _ => Ok(()),
        }
    });
    let b = elector(&store, "b");
    wait_until("b sees a, after a read that failed", || b.current_leader().as_deref() == Some("a"));
    assert!(matches!(b.try_acquire(), Ok(None)), "the lease is held, and nothing failed");
}

/// The first write was lost with its connection, or was applied.
///
/// The second write conflicts with the current record.
#[test]
fn try_acquire_beaten_after_a_closed_connection_is_no_error() {
    let store = Memory::default();
    drop(elector(&store, "a").block_until_leader().unwrap());
    let mut writes = 0;
    store.on_update(move |_| {
        writes += 1;
        match writes {
            1 => Err(StoreError::new(StoreErrorKind::ConnectionClosed, "made up")),
            _ => Err(StoreError::new(StoreErrorKind::Conflict, "somebody was faster")),
        }
    });
    let answer = elector(&store, "b").try_acquire();
    assert!(matches!(answer, Ok(None)), "{answer:?}");
}
