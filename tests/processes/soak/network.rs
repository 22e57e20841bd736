//! Faults of the connections between candidates and the API server.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::candidates::{Candidates, Fault, LEASE, Place, drawn};
use crate::support::proxy::Faults;

pub const FAULTS: &[Fault] = &[
    ("cut off", |candidates, rng| one(candidates, rng, Faults::Cut)),
    ("half open", |candidates, rng| one(candidates, rng, Faults::BlackHole)),
    ("requests held back", |candidates, rng| one(candidates, rng, Faults::RequestsHeldBack)),
    ("answers held back", |candidates, rng| one(candidates, rng, Faults::AnswersHeldBack)),
    ("answers late, then no more", answers_late_then_no_more),
    ("all cut off", |candidates, rng| all(candidates, rng, Faults::Cut)),
    ("all half open", |candidates, rng| all(candidates, rng, Faults::BlackHole)),
    ("all requests held back", |candidates, rng| all(candidates, rng, Faults::RequestsHeldBack)),
    ("all answers held back", |candidates, rng| all(candidates, rng, Faults::AnswersHeldBack)),
];

/// Disturbs one candidate, often for longer than a term lasts without a renewal.
fn one(candidates: &Candidates, rng: &mut Rng, faults: Faults) {
    let proxy = &candidates.place(rng).proxy;
    proxy.set(faults);
    pass(candidates, rng, LEASE / 40..LEASE * 2);
    proxy.set(Faults::Fair);
}

/// Delays a response to the leader, and then stops all its traffic.
///
/// A leader must count its term from the request. If the leader counted from the late response, its term would overlap
/// the next term.
fn answers_late_then_no_more(candidates: &Candidates, rng: &mut Rng) {
    let _undisturbed = candidates.undisturbed.lock();
    candidates.wait_for_leader();
    let Some(Place { proxy, .. }) = candidates.leaders_place() else { return };
    proxy.set(Faults::AnswersHeldBack);
    pass(candidates, rng, LEASE / 6..LEASE / 3);
    proxy.set(Faults::RequestsHeldBack);
    pass(candidates, rng, LEASE / 40..LEASE / 20);
    // The leader cannot learn from its watch that another candidate leads.
    proxy.set(Faults::BlackHole);
    pass(candidates, rng, LEASE..LEASE * 2);
    proxy.set(Faults::Fair);
}

/// Disturbs all candidates for at most one lease duration.
///
/// While no candidate reaches the server, no second leader can appear.
fn all(candidates: &Candidates, rng: &mut Rng, faults: Faults) {
    candidates.places.iter().for_each(|place| place.proxy.set(faults));
    pass(candidates, rng, LEASE / 40..LEASE);
    candidates.places.iter().for_each(|place| place.proxy.set(Faults::Fair));
}

fn pass(candidates: &Candidates, rng: &mut Rng, between: Range<Duration>) {
    let time = drawn(rng, between);
    candidates.journal.note(format!("bad faults for {time:?}"));
    thread::sleep(time);
    candidates.journal.note("it changes".to_owned());
}
