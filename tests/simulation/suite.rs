//! Runs a suite's seeds, reports, and says how to replay what fails.

use std::env;
use std::time::Instant;

use crate::clock::SECOND;
use crate::plan::{Suite, Violation};
use crate::world::{Count, World};

/// Runs `seeds` seeds, or what the environment asks for.
pub fn run(suite: Suite, test: &str, seeds: u64) {
    if let Some(seed) = number("SIM_SEED") {
        let outcome = World::new(suite, seed, true).run();
        assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err().what);
        return;
    }
    let began = Instant::now();
    let seeds = number("SIM_SEEDS").unwrap_or(seeds);
    let mut total = Count::default();
    let mut failed = Vec::new();
    for seed in 0..seeds {
        if let Err(violation) = simulate(suite, seed, &mut total) {
            failed.push((seed, violation.what));
        }
        // More of the same say no more.
        if failed.len() == 5 {
            break;
        }
    }
    println!("{test}: {seeds} seeds, {}, {:.1?}, {} violations", report(&total), began.elapsed(), failed.len());
    if let Some((seed, _)) = failed.first() {
        let list: Vec<_> = failed.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
        panic!(
            "{}\nreplay: SIM_SEED={seed} cargo test --test simulation -- --exact {test} --nocapture",
            list.join("\n")
        );
    }
}

/// Runs up to `seeds` seeds until one of them has two leaders at a time.
pub fn expect_overlap(suite: Suite, seeds: u64) {
    let mut total = Count::default();
    let found =
        (0..seeds).find(|seed| matches!(simulate(suite, *seed, &mut total), Err(violation) if violation.overlap));
    println!("clocks beyond the promise: two leaders at a time in seed {found:?}, {}", report(&total));
    assert!(found.is_some(), "{seeds} seeds with runaway clocks, and never two leaders: the checks see nothing");
}

fn simulate(suite: Suite, seed: u64, total: &mut Count) -> Result<(), Violation> {
    let mut world = World::new(suite, seed, false);
    let outcome = world.run();
    total.steps += world.count.steps;
    total.terms += world.count.terms;
    total.requests += world.count.requests;
    total.faults += world.count.faults;
    total.truth += world.count.truth;
    outcome
}

fn report(total: &Count) -> String {
    let years = total.truth as f64 / SECOND as f64 / (86_400.0 * 365.25);
    let Count { steps, terms, requests, faults, .. } = total;
    format!("{steps} steps, {years:.3} virtual years, {requests} requests, {terms} terms, {faults} faults")
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}
