//! What befalls the connections between candidates and the API server.

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

/// Often longer than a term lasts without a renewal.
fn one(candidates: &Candidates, rng: &mut Rng, faults: Faults) {
    let proxy = &candidates.place(rng).proxy;
    proxy.set(faults);
    pass(candidates, rng, LEASE / 40..LEASE * 2);
    proxy.set(Faults::Fair);
}

/// An answer comes late, but soon enough to be waited for, and nothing after it: who counts its term from the answer, and
/// not from the request, leads on while others count from the request.
fn answers_late_then_no_more(candidates: &Candidates, rng: &mut Rng) {
    let _undisturbed = candidates.undisturbed.lock();
    candidates.wait_for_leader();
    let Some(Place { proxy, .. }) = candidates.leaders_place() else { return };
    proxy.set(Faults::AnswersHeldBack);
    pass(candidates, rng, LEASE / 6..LEASE / 3);
    proxy.set(Faults::RequestsHeldBack);
    pass(candidates, rng, LEASE / 40..LEASE / 20);
    // Not even the watch tells it that another leads.
    proxy.set(Faults::BlackHole);
    pass(candidates, rng, LEASE..LEASE * 2);
    proxy.set(Faults::Fair);
}

/// Seldom so long: while nobody reaches the server, nobody can lead beside the leader.
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
