//! A dozen candidates against a real kube-apiserver, while all kinds of faults occur at once.
//!
//! The faults affect the candidates, their network, the API server and etcd.
//!
//! `LEASEHOLD_SOAK` sets the duration, such as `30m` (default: 45 s). `LEASEHOLD_SOAK_SEED` repeats the faults of a
//! seed, but the timing still differs between runs. `LEASEHOLD_SOAK_LOCK` selects another lock type of client-go, such
//! as `configmaps` (default: `leases`).

mod candidates;
mod exclusion;
mod faults;
mod network;
mod processes;
mod servers;
#[path = "../../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use candidates::Candidates;
use support::exclusion::History;
use support::process::{Line, mono};
use support::real::Real;
use support::{chosen, late_write, say_aloud, seed};

const SHORT_FORM: Duration = Duration::from_secs(45);

#[test]
fn twelve_candidates_survive_all_faults() {
    let Some(real) = Real::own() else { return };
    let seed = seed("LEASEHOLD_SOAK_SEED");
    let time = chosen("LEASEHOLD_SOAK", |text| humantime::parse_duration(text).ok()).unwrap_or(SHORT_FORM);
    let lock_type = chosen("LEASEHOLD_SOAK_LOCK", |text| Some(text.to_owned())).unwrap_or_else(|| "leases".to_owned());
    let candidates = Candidates::new(&real, &lock_type, seed);
    let began = Instant::now();
    candidates.inject_faults(time, &mut fastrand::Rng::with_seed(seed));

    // `wait_for` allows half a minute. A recovery needs a lease duration, and the retries of candidates that were cut
    // off. The bound is ten times as long, because the machine may be busy.
    let over = mono();
    let found = candidates.stage.wait_for("a leader when the faults are over", |line| leads_after(line, over));
    let recovered = found.mono - over;
    candidates.everyone_leads_in_turn();

    let lines = candidates.stage.lines();
    let history = candidates.stage.assert_one_leader_at_a_time();
    assert!(history.handovers() > candidates::COUNT, "the faults cost nobody the lease: {:?}", history.terms);
    assert_every_term_was_announced_once(&lines, &history);
    let suspensions = candidates.suspensions.lock();
    let late_writes: Vec<_> =
        suspensions.iter().map(|suspension| late_write::lines(&lines, &history, suspension)).collect();
    assert!(
        late_writes.iter().all(|&late_writes| late_writes <= 1),
        "who wakes past its term learns so at once: {late_writes:?}"
    );

    let faults = candidates.journal.faults();
    say_aloud(&format!(
        "soak on {lock_type} (seed {seed}): {} candidates for {:.1} minutes, {} handovers, {} faults, {} heartbeat lines: \
         {} overlaps, {} late lines\n  a leader {recovered:.1} s after the last fault; faults: {}",
        candidates::COUNT,
        began.elapsed().as_secs_f64() / 60.0,
        history.handovers(),
        faults.values().sum::<usize>(),
        history.heartbeats,
        history.overlaps.len(),
        late_writes.iter().sum::<usize>(),
        faults.iter().map(|(kind, times)| format!("{times} {kind}")).collect::<Vec<_>>().join(", "),
    ));
}

fn leads_after(line: &Line, moment: f64) -> bool {
    line.event == "leading" && line.mono > moment
}

/// Asserts that each token belongs to one term, which its candidate announced.
fn assert_every_term_was_announced_once(lines: &[Line], history: &History) {
    let mut winners = BTreeMap::new();
    for line in lines.iter().filter(|line| line.event == "started_leading") {
        let other = winners.insert(line.token(), &line.identity);
        assert_eq!(other, None, "a token was given twice: {line:?}");
    }
    for term in &history.terms {
        let winner = term.token.and_then(|token| winners.get(&token));
        assert_eq!(winner, Some(&&term.identity), "nobody announced {term:?}");
    }
}
