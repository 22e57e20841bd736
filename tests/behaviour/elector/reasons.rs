//! All readers receive the same reason for the end of a term: the first one.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use leasehold::{StopReason, StoreError, StoreErrorKind, Transition};
use log::Level;

use crate::elector::builder;
use crate::elector::listener::{lines_of, listen};
use crate::support::memory::{Connection, Memory};
use crate::support::{SOON, wait_until};

fn told_reason(transitions: &Receiver<Transition>) -> StopReason {
    let until = Instant::now() + SOON;
    loop {
        if let Transition::StoppedLeading { reason } = transitions.recv_deadline(until).expect("the end of the term") {
            return reason;
        }
    }
}

/// The guard's owner checks so often that it notices the expiry before the elector's thread.
///
/// The owner then drops the guard immediately.
#[test]
fn expired_term_is_reported_as_expired_by_every_reader() {
    listen();
    thread::scope(|scope| {
        for number in 0..10 {
            scope.spawn(move || {
                let name = format!("record {number} of a term that ran out");
                let store = Memory::default();
                let elector = builder("a")
                    .no_client_go_peers(true)
                    .lease_duration(Duration::from_secs(1))
                    .renew_deadline(Duration::from_millis(700))
                    .start_on(Connection::named(&store, &name))
                    .unwrap();
                let transitions = elector.transitions();
                let guard = elector.block_until_leader().unwrap();
                store.on_update(|_| Err(StoreError::new(StoreErrorKind::Unavailable, "made up")));
                let view = guard.leadership();
                // The threads sleep for different times, because a machine may have only two processors.
                while guard.is_leader() {
                    thread::sleep(Duration::from_micros(50 * number));
                }
                store.on_update(|_| Ok(()));
                drop(guard);
                assert_eq!(view.check().unwrap_err().reason, StopReason::Expired);
                assert_eq!(told_reason(&transitions), StopReason::Expired);
                let lines = lines_of(&name);
                let stops: Vec<_> = lines.iter().filter(|(_, line)| line.starts_with("stopped leading")).collect();
                let expired = (Level::Warn, format!("stopped leading: {}", StopReason::Expired));
                assert_eq!(stops, [&expired]);
                wait_until("it is released all the same", || store.holder().is_none());
            });
        }
    });
}
