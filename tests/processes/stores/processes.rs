//! Faults of the candidates' processes.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::candidates::{COUNT, Candidates, Fault, LEASE};
use crate::support::late_write::Suspension;
use crate::support::process::mono;

pub fn faults<S>() -> Vec<Fault<S>> {
    vec![
        ("killed", Candidates::kill),
        ("stopped past the lease", stop_past_the_lease),
        ("everybody stopped", stop_everybody),
    ]
}

fn stop_past_the_lease<S>(candidates: &mut Candidates<S>, leader: usize) {
    let suspension = suspend(candidates, leader);
    // A candidate that is stopped during a write may prevent all others from leading.
    let until = Instant::now() + LEASE * 2;
    let another_leads = || {
        let beat = candidates.stage.last_heartbeat();
        beat.is_some_and(|beat| beat.identity != suspension.identity && beat.mono > suspension.stopped_at)
    };
    while !another_leads() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(candidates.drawn(Duration::ZERO..LEASE / 4));
    resume(candidates, leader, suspension);
}

/// Stops and continues all candidates, as if their machine was suspended.
///
/// The leader and the standbys continue at the same time.
fn stop_everybody<S>(candidates: &mut Candidates<S>, _: usize) {
    let suspensions: Vec<_> = (0..COUNT).map(|place| suspend(candidates, place)).collect();
    let time = candidates.drawn(LEASE / 2..LEASE * 3 / 2);
    thread::sleep(time);
    let mut in_order: Vec<_> = suspensions.into_iter().enumerate().collect();
    candidates.rng.shuffle(&mut in_order);
    for (place, suspension) in in_order {
        resume(candidates, place, suspension);
    }
}

fn suspend<S>(candidates: &Candidates<S>, place: usize) -> Suspension {
    let candidate = candidates.candidate(place);
    let stopped_at = candidate.suspend();
    candidates.note(format!("stopped {}", candidate.id));
    Suspension { identity: candidate.id.clone(), stopped_at, continued_at: stopped_at, heard: 0 }
}

fn resume<S>(candidates: &mut Candidates<S>, place: usize, suspension: Suspension) {
    let heard = candidates.stage.heard();
    candidates.suspensions.push(Suspension { continued_at: mono(), heard, ..suspension });
    candidates.candidate(place).signal(Signal::CONT);
    candidates.note(format!("continued {}", candidates.candidate(place).id));
}
