//! Candidates in threads of one process that take turns, whatever befalls their store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasehold::{LeaderGuard, Store};
use parking_lot::Mutex;

use super::exclusion::History;
use super::process::{Line, mono};
use super::stores::builder;

const HANDOVERS: usize = 100;

/// A hundred handovers among four, each with a store of its own. At the end of each term `befalls` is told how many there have
/// been. There are never two leaders, and tokens grow.
pub fn a_hundred_handovers<S: Store>(store: impl Fn() -> S + Sync, befalls: impl Fn(usize, &LeaderGuard) + Sync) {
    let lines = Mutex::new(Vec::new());
    let (terms, handovers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let last = Mutex::new("");
    let until = Instant::now() + Duration::from_secs(240);
    std::thread::scope(|scope| {
        for identity in ["a", "b", "c", "d"] {
            let (lines, terms, handovers, last) = (&lines, &terms, &handovers, &last);
            let (store, befalls) = (&store, &befalls);
            scope.spawn(move || {
                let elector = builder(identity)
                    .lease_duration(Duration::from_secs(2))
                    .renew_deadline(Duration::from_secs(1))
                    .start_on(store())
                    .expect("an elector");
                while handovers.load(Ordering::SeqCst) <= HANDOVERS {
                    assert!(Instant::now() < until, "too slow");
                    let patience = Duration::from_millis(500);
                    let guard = match elector.block_until_leader_timeout(patience) {
                        Ok(Some(guard)) => guard,
                        // What befalls the store is no reason to give up.
                        Ok(None) | Err(leasehold::Error::Store(_)) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    let number = terms.fetch_add(1, Ordering::SeqCst);
                    if std::mem::replace(&mut *last.lock(), identity) != identity {
                        handovers.fetch_add(1, Ordering::SeqCst);
                    }
                    for _ in 0..3 {
                        let stamp = mono();
                        if guard.is_leader() {
                            lines.lock().push(Line {
                                event: "leading".to_owned(),
                                identity: identity.to_owned(),
                                mono: stamp,
                                fencing_token: Some(guard.fencing_token()),
                                leader: None,
                                reason: None,
                            });
                        }
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    befalls(number, &guard);
                }
            });
        }
    });
    let history = History::of(&lines.lock());
    assert!(history.handovers() >= HANDOVERS, "{} handovers", history.handovers());
    assert!(history.overlaps.is_empty(), "two lead at a time: {:?}", history.overlaps);
    assert!(history.disorder.is_empty(), "tokens do not grow: {:?}", history.disorder);
}
