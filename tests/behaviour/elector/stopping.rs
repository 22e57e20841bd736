//! A stopped elector and a failed campaign leave nothing behind.

use std::thread;

use crossbeam_channel::unbounded;
use leasehold::Error;
use leasehold::store::{StoreError, StoreErrorKind};

use crate::elector::{elector, leader_and_standby};
use crate::support::memory::Memory;
use crate::support::{A_WHILE, SOON, wait_until};

/// A lease becomes free, and an elector without a campaign never acquires the lease.
#[test]
fn dropped_elector_or_withdrawn_campaign_never_acquires() {
    for is_dropped in [true, false] {
        let (store, a, b, guard) = leader_and_standby();
        let campaign = b.campaign().unwrap();
        let (looked, looks) = unbounded();
        store.on_get(move || {
            let _ = looked.send(());
            Ok(())
        });
        // The thread of the elector pursues the campaign at the second read at the latest.
        for _ in 0..2 {
            looks.recv_timeout(SOON).expect("a look");
        }
        let (written, holders) = unbounded();
        store.on_update(move |record| {
            let _ = written.send(record.holder().map(str::to_owned));
            Ok(())
        });
        let standby = if is_dropped {
            drop(b);
            assert!(matches!(campaign.receiver().recv_timeout(SOON), Ok(Err(Error::Stopped))));
            None
        } else {
            drop(campaign);
            Some(b)
        };
        drop(guard);
        wait_until("the lease has no holder", || a.current_leader().is_none());
        thread::sleep(A_WHILE);
        assert_eq!(store.holder(), None);
        assert!(!holders.try_iter().any(|holder| holder.as_deref() == Some("b")));
        if let Some(standby) = standby {
            assert!(standby.block_until_leader().unwrap().is_leader(), "a later campaign acquires");
        }
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
