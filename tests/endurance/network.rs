//! What befalls the connections between candidates and the API server.

use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::field::{Fault, Field, LEASE};
use crate::proxy::Weather;

pub const FAULTS: &[Fault] = &[
    ("cut off", |field, rng| one(field, rng, Weather::Cut)),
    ("half open", |field, rng| one(field, rng, Weather::BlackHole)),
    ("requests held back", |field, rng| one(field, rng, Weather::RequestsHeldBack)),
    ("answers held back", |field, rng| one(field, rng, Weather::AnswersHeldBack)),
    ("all cut off", |field, rng| all(field, rng, Weather::Cut)),
    ("all half open", |field, rng| all(field, rng, Weather::BlackHole)),
    ("all requests held back", |field, rng| all(field, rng, Weather::RequestsHeldBack)),
    ("all answers held back", |field, rng| all(field, rng, Weather::AnswersHeldBack)),
];

/// Often longer than a term lasts without a renewal.
fn one(field: &Field, rng: &mut Rng, weather: Weather) {
    let proxy = &field.place(rng).proxy;
    proxy.set(weather);
    pass(field, rng, LEASE * 2);
    proxy.set(Weather::Fair);
}

/// Seldom so long: while nobody reaches the server, nobody can lead beside the leader.
fn all(field: &Field, rng: &mut Rng, weather: Weather) {
    field.places.iter().for_each(|place| place.proxy.set(weather));
    pass(field, rng, LEASE);
    field.places.iter().for_each(|place| place.proxy.set(Weather::Fair));
}

fn pass(field: &Field, rng: &mut Rng, longest: Duration) {
    let time = Duration::from_millis(rng.u64(50..longest.as_millis() as u64));
    field.journal.note(format!("bad weather for {time:?}"));
    thread::sleep(time);
    field.journal.note("fair weather".to_owned());
}
