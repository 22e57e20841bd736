//! Candidates on two objects at once, beside those on either of them alone and beside some that act as client-go's MultiLock does.
//!
//! A world of its own, smaller than that of one object: what each election bears is shown there. Here it is when two of them
//! make one term.

mod count;
mod multi_lock;
mod node;
mod plan;
mod streams;
mod users;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::suite::{number, report};
use count::Count;
use plan::Fleet;
use world::World;

/// Runs `seeds` seeds, or what the environment asks for.
pub fn run(fleet: Fleet, test: &str, seeds: u64) {
    if let Some(seed) = number("SIM_SEED") {
        let outcome = World::new(fleet, seed, true).run();
        assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err().what);
        return;
    }
    let from = number("SIM_FROM").unwrap_or(0);
    let seeds = from + number("SIM_SEEDS").unwrap_or(seeds);
    let (next, total) = (AtomicU64::new(from), Mutex::new((Count::default(), Vec::new())));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || total.lock().unwrap().1.len() > 4 {
                        return;
                    }
                    let mut world = World::new(fleet, seed, false);
                    let outcome = world.run();
                    let mut total = total.lock().unwrap();
                    total.0.add(&world.count);
                    total.1.extend(outcome.err().map(|violation| (seed, violation.what)));
                }
            });
        }
    });
    let (count, mut failed) = total.into_inner().unwrap();
    failed.sort();
    report(&format!("{test}: {seeds} seeds, {} violations, {count:?}", failed.len()));
    if let Some((seed, _)) = failed.first() {
        let list: Vec<_> = failed.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
        let replay = format!("SIM_SEED={seed} cargo test --test simulation -- --exact {test} --nocapture");
        panic!("{}\nreplay: {replay}", list.join("\n"));
    }
    if seeds - from >= 1_000 {
        assert_eq!(count.missing(fleet), [""; 0], "never seen in {seeds} seeds");
    }
}

/// Runs up to `seeds` seeds until one of them has two leaders at a time.
pub fn expect_overlap(fleet: Fleet, test: &str, seeds: u64) {
    let is_overlap = |seed: &u64| World::new(fleet, *seed, false).run().is_err_and(|violation| violation.overlap);
    let found = (0..seeds).find(is_overlap);
    report(&format!("{test}: two leaders at a time in seed {found:?}, as there must be"));
    assert!(found.is_some(), "{seeds} seeds, and never two leaders: the checks see nothing");
}

pub use plan::Fleet as Of;
