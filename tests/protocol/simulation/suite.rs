//! Runs the seeds of a suite, reports the results, and prints how to replay a failing seed.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Instant;
use std::{env, thread};

use crate::count::Count;
use crate::groups;
use crate::plan::{Suite, Violation};
use crate::world::World;

/// The counts and violations of all suites that have run.
static ALL: LazyLock<Mutex<Total>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Total {
    seeds: u64,
    count: Count,
    violations: usize,
}

/// The number of seeds in which every kind of event must happen.
const MANY: u64 = 1_000;

/// The number of violations after which a suite stops, because more of them help little.
const ENOUGH: usize = 5;

/// Runs `seeds` seeds, or the seeds that the environment variables select.
pub fn run(suite: Suite, test: &str, seeds: u64) {
    if let Some(seed) = number("SIM_SEED") {
        let outcome = simulate(suite, seed, true, &mut Count::default());
        assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err().what);
        return;
    }
    let began = Instant::now();
    let from = number("SIM_FROM").unwrap_or(0);
    let seeds = number("SIM_SEEDS").unwrap_or(seeds);
    let total = Mutex::new((Count::default(), Vec::new()));
    let next = AtomicU64::new(from);
    let work = || {
        let mut count = Count::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + seeds {
                break;
            }
            if let Err(violation) = simulate(suite, seed, false, &mut count) {
                let failed = &mut total.lock().unwrap().1;
                failed.push((seed, violation.what));
                if failed.len() >= ENOUGH {
                    next.store(from + seeds, Ordering::Relaxed);
                }
            }
        }
        total.lock().unwrap().0.add(&count);
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (count, mut failed) = total.into_inner().unwrap();
    failed.sort();
    let all = {
        let mut all = ALL.lock().unwrap();
        all.seeds += seeds;
        all.count.add(&count);
        all.violations += failed.len();
        format!("{} seeds, {} steps, {:.2} virtual years", all.seeds, all.count.steps, all.count.years())
            + &format!(", {} candidates, {} violations", all.count.candidates, all.violations)
    };
    report(&format!("{test}: {seeds} seeds, {} violations, {:.1?}\n{count}", failed.len(), began.elapsed()));
    report(&format!("all suites so far: {all}"));
    if failed.is_empty() && seeds >= MANY {
        assert_eq!(count.missing(suite), [""; 0], "never seen in {seeds} seeds");
    }
    if let Some((seed, _)) = failed.first() {
        let list: Vec<_> = failed.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
        panic!(
            "{}\nreplay: SIM_SEED={seed} cargo test --test simulation -- --exact {test} --nocapture",
            list.join("\n")
        );
    }
}

/// Runs up to `seeds` seeds, and panics unless one of them has two leaders at the same time.
pub fn expect_overlap(suite: Suite, test: &str, seeds: u64) {
    let mut count = Count::default();
    let found = (0..seeds)
        .find(|seed| matches!(simulate(suite, *seed, false, &mut count), Err(violation) if violation.overlap));
    report(&format!("{test}: two leaders at a time in seed {found:?}, as there must be, after {} steps", count.steps));
    assert!(found.is_some(), "{seeds} seeds, and never two leaders: the checks see nothing");
}

fn simulate(suite: Suite, seed: u64, traced: bool, total: &mut Count) -> Result<(), Violation> {
    if suite == Suite::Groups {
        return groups::simulate(seed, traced, total);
    }
    let mut world = World::new(suite, seed, traced);
    let outcome = world.run();
    total.add(&world.count);
    outcome
}

/// Writes to stderr directly, because the test harness hides the output of passing tests.
fn report(what: &str) {
    let _ = writeln!(std::io::stderr().lock(), "simulation: {what}");
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}
