//! What befalls the connections between candidates and the API server.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::field::{Fault, Field, LEASE, Place, drawn};
use crate::proxy::Weather;

pub const FAULTS: &[Fault] = &[
    ("cut off", |field, rng| one(field, rng, Weather::Cut)),
    ("half open", |field, rng| one(field, rng, Weather::BlackHole)),
    ("requests held back", |field, rng| one(field, rng, Weather::RequestsHeldBack)),
    ("answers held back", |field, rng| one(field, rng, Weather::AnswersHeldBack)),
    ("answers late, then no more", answers_late_then_no_more),
    ("all cut off", |field, rng| all(field, rng, Weather::Cut)),
    ("all half open", |field, rng| all(field, rng, Weather::BlackHole)),
    ("all requests held back", |field, rng| all(field, rng, Weather::RequestsHeldBack)),
    ("all answers held back", |field, rng| all(field, rng, Weather::AnswersHeldBack)),
];

/// Often longer than a term lasts without a renewal.
fn one(field: &Field, rng: &mut Rng, weather: Weather) {
    let proxy = &field.place(rng).proxy;
    proxy.set(weather);
    pass(field, rng, LEASE / 40..LEASE * 2);
    proxy.set(Weather::Fair);
}

/// An answer comes late, but soon enough to be waited for, and nothing after it: who counts its term from the answer, and
/// not from the request, leads on while others count from the request.
fn answers_late_then_no_more(field: &Field, rng: &mut Rng) {
    let _undisturbed = field.undisturbed.lock();
    field.wait_for_leader();
    let Some(Place { proxy, .. }) = field.leaders_place() else { return };
    proxy.set(Weather::AnswersHeldBack);
    pass(field, rng, LEASE / 6..LEASE / 3);
    proxy.set(Weather::RequestsHeldBack);
    pass(field, rng, LEASE / 40..LEASE / 20);
    // Not even the watch tells it that another leads.
    proxy.set(Weather::BlackHole);
    pass(field, rng, LEASE..LEASE * 2);
    proxy.set(Weather::Fair);
}

/// Seldom so long: while nobody reaches the server, nobody can lead beside the leader.
fn all(field: &Field, rng: &mut Rng, weather: Weather) {
    field.places.iter().for_each(|place| place.proxy.set(weather));
    pass(field, rng, LEASE / 40..LEASE);
    field.places.iter().for_each(|place| place.proxy.set(Weather::Fair));
}

fn pass(field: &Field, rng: &mut Rng, between: Range<Duration>) {
    let time = drawn(rng, between);
    field.journal.note(format!("bad weather for {time:?}"));
    thread::sleep(time);
    field.journal.note("it changes".to_owned());
}
