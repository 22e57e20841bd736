//! Faults of a candidate's process.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use crate::candidates::{Candidates, Fault, LEASE, drawn};
use crate::support::late_write::Suspension;
use crate::support::process::mono;

pub const FAULTS: &[Fault] = &[
    ("killed", kill),
    ("told to end", tell_to_end),
    ("stopped past the lease", |candidates, rng| suspend(candidates, rng, LEASE..LEASE * 2)),
    ("stopped for a moment", |candidates, rng| suspend(candidates, rng, LEASE / 40..LEASE)),
];

fn kill(candidates: &Candidates, rng: &mut Rng) {
    candidates.replace(rng, true, |candidate| {
        candidates.journal.note(format!("kills {}", candidate.id));
        candidate.kill();
    });
}

/// Ends a candidate by SIGTERM, and starts another candidate with the same identity.
///
/// The new candidate must not mistake a late write of its predecessor for its own write.
fn tell_to_end(candidates: &Candidates, rng: &mut Rng) {
    candidates.replace(rng, false, |candidate| {
        candidates.journal.note(format!("tells {} to end", candidate.id));
        // A candidate that has just started may not handle SIGTERM yet, so that the signal kills the process.
        let listens = !candidate.lines().is_empty();
        candidate.signal(Signal::TERM);
        let end = candidate.end();
        assert!(end.code == Some(0) || !listens && end.code.is_none(), "{:?}: {}", end.code, end.errors);
    });
}

fn suspend(candidates: &Candidates, rng: &mut Rng, between: Range<Duration>) {
    let time = drawn(rng, between);
    let (_, occupant) = candidates.occupied(rng);
    let candidate = occupant.candidate();
    let stopped_at = candidate.suspend();
    candidates.journal.note(format!("stopped {} for {time:?}", candidate.id));
    thread::sleep(time);
    let suspension = Suspension {
        identity: candidate.id.clone(),
        stopped_at,
        heard: candidates.stage.heard(),
        continued_at: mono(),
    };
    candidate.signal(Signal::CONT);
    candidates.journal.note(format!("continued {}", candidate.id));
    candidates.suspensions.lock().push(suspension);
}
