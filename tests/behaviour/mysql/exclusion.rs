//! A hundred handovers, and never two leaders.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Place, builder};
use crate::support::exclusion::History;
use crate::support::process::{Line, mono};

const HANDOVERS: usize = 100;

/// Each with connections of its own, which are cut now and then, and rows that are deleted under their leaders.
#[test]
fn a_hundred_handovers_and_never_two_leaders() {
    let Some(place) = Place::shared("exclusion") else { return };
    let lines = Mutex::new(Vec::new());
    let (terms, handovers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let last = Mutex::new("");
    let until = Instant::now() + Duration::from_secs(240);
    std::thread::scope(|scope| {
        for identity in ["a", "b", "c", "d"] {
            let (lines, terms, handovers, last, place) = (&lines, &terms, &handovers, &last, &place);
            scope.spawn(move || {
                let elector = builder(identity)
                    .lease_duration(Duration::from_secs(2))
                    .renew_deadline(Duration::from_secs(1))
                    .start_on(place.store())
                    .expect("an elector");
                while handovers.load(Ordering::SeqCst) <= HANDOVERS {
                    assert!(Instant::now() < until, "too slow");
                    let patience = Duration::from_millis(500);
                    let Some(guard) = elector.block_until_leader_timeout(patience).expect("no error") else { continue };
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
                    match number % 10 {
                        3 => drop(place.mariadb.kill_connections(&place.database)),
                        9 => {
                            place.execute("DELETE FROM leasehold WHERE name = 'jobs'");
                            let _ = guard.lost().recv();
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    let history = History::of(&lines.lock());
    assert!(history.handovers() >= HANDOVERS, "{} handovers", history.handovers());
    assert!(history.overlaps.is_empty(), "two lead at a time: {:?}", history.overlaps);
    assert!(history.disorder.is_empty(), "tokens do not grow: {:?}", history.disorder);
}
