//! Faults of the connections between candidates and a server.

use std::thread;

use super::candidates::{Candidates, Fault, LEASE};
use super::servers::HasServer;
use crate::support::proxy::Faults;

pub fn faults<S: HasServer>() -> Vec<Fault<S>> {
    vec![
        ("leader cut off", |it, leader| of_leader(it, leader, Faults::Cut)),
        ("leader half open", |it, leader| of_leader(it, leader, Faults::BlackHole)),
        ("leader stalled", |it, leader| of_leader(it, leader, Faults::HeldBack)),
        ("leader's requests held back", |it, leader| of_leader(it, leader, Faults::RequestsHeldBack)),
        ("leader's answers held back", |it, leader| of_leader(it, leader, Faults::AnswersHeldBack)),
        ("leader's answers late, then no more", answers_late_then_no_more),
        ("all cut off", |it, leader| of_all(it, leader, Faults::Cut)),
        ("all stalled", |it, leader| of_all(it, leader, Faults::HeldBack)),
    ]
}

/// Disturbs the leader, often for longer than a term lasts without a renewal.
fn of_leader<S: HasServer>(candidates: &mut Candidates<S>, leader: usize, faults: Faults) {
    set(candidates, leader, faults);
    candidates.pass(leader, LEASE / 40..LEASE * 7 / 4);
    set(candidates, leader, Faults::Fair);
}

/// Disturbs all candidates for at most one lease duration.
///
/// While no candidate reaches the server, no second leader can appear.
fn of_all<S: HasServer>(candidates: &mut Candidates<S>, leader: usize, faults: Faults) {
    (0..candidates.places.len()).for_each(|place| set(candidates, place, faults));
    candidates.pass(leader, LEASE / 40..LEASE);
    (0..candidates.places.len()).for_each(|place| set(candidates, place, Faults::Fair));
}

/// Delays a response to the leader, and then stops all its traffic.
///
/// A leader must count its term from the request. If the leader counted from the late response, its term would overlap
/// the next term.
fn answers_late_then_no_more<S: HasServer>(candidates: &mut Candidates<S>, leader: usize) {
    set(candidates, leader, Faults::AnswersHeldBack);
    thread::sleep(candidates.drawn(LEASE / 6..LEASE / 3));
    set(candidates, leader, Faults::RequestsHeldBack);
    thread::sleep(candidates.drawn(LEASE / 40..LEASE / 20));
    // The leader cannot learn from its watch that another candidate leads.
    set(candidates, leader, Faults::BlackHole);
    thread::sleep(candidates.drawn(LEASE..LEASE * 3 / 2));
    set(candidates, leader, Faults::Fair);
}

fn set<S: HasServer>(candidates: &Candidates<S>, place: usize, faults: Faults) {
    candidates.places[place].proxy.as_ref().expect("there is a server").set(faults);
}
