//! Runs the fuzz targets on their corpora, and on reproducible mutations of the corpora.
//!
//! `LEASEHOLD_MUTATIONS` sets the number of mutations of each target (default: 1500). `fuzz/` describes how to search
//! further.

#[path = "../support/allocation.rs"]
mod allocation;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use allocation::{Allocated, Counting, hold, measure};
use fastrand::Rng;
use leasehold::fuzzing::{TARGETS, Target};

#[global_allocator]
static COUNTING: Counting = Counting;

/// The greatest length of a mutation, in bytes.
const LONGEST: usize = 8 * 1024;

/// The time after which an input counts as a hang.
///
/// Other inputs of this length take less than a second.
const HANGS: Duration = Duration::from_secs(60);

struct Seed {
    file: PathBuf,
    bytes: Vec<u8>,
}

fn corpus(target: &Target) -> Vec<Seed> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target.name);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // The mutations depend on the order of the files, and a directory has another order on each machine.
    files.sort();
    files.into_iter().map(|file| Seed { bytes: std::fs::read(&file).expect("a seed"), file }).collect()
}

fn run(target: &Target) {
    let seeds = corpus(target);
    assert!(seeds.len() >= 10, "a corpus for {}", target.name);
    let mut most = Allocated::default();
    for seed in &seeds {
        let allocated = held(target, &seed.bytes, || seed.file.display().to_string());
        most.peak = most.peak.max(allocated.peak);
        most.total = most.total.max(allocated.total);
    }
    let mutations = std::env::var("LEASEHOLD_MUTATIONS").map_or(1_500, |n| n.parse().expect("a number"));
    for number in 0..mutations {
        // Each mutation has its own seed, so that one mutation can be run again alone.
        let input = mutation(&mut Rng::with_seed(number), &seeds);
        held(target, &input, || format!("mutation {number}: {}", String::from_utf8_lossy(&input)));
    }
    println!("{}: {} seeds, {mutations} mutations; of the seeds at most {most:?}", target.name, seeds.len());
}

/// Checks the properties of a target for one input.
///
/// Prints the name of the input if a property does not hold.
fn held(target: &Target, input: &[u8], name: impl Fn() -> String) -> Allocated {
    let began = Instant::now();
    let allocated = catch_unwind(AssertUnwindSafe(|| hold(target, input))).unwrap_or_else(|panic| {
        eprintln!("{} of {}", target.name, name());
        resume_unwind(panic)
    });
    assert!(began.elapsed() < HANGS, "{} of {}: took {:?}", target.name, name(), began.elapsed());
    allocated
}

fn mutation(rng: &mut Rng, seeds: &[Seed]) -> Vec<u8> {
    let any = |rng: &mut Rng| &seeds[rng.usize(..seeds.len())].bytes[..];
    let mut input = any(rng).to_vec();
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=input.len());
        let end = rng.usize(at..=input.len().min(at + 64));
        match rng.usize(..7) {
            0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
            1 if at < input.len() => input[at] = *rng.choice(b"\0\n\r\"'\\{}[]:,-+09eZ\xff&*!|>#%@/").expect("a byte"),
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            4 => {
                let piece = input[at..end].repeat(rng.usize(1..20));
                input.splice(at..at, piece);
            }
            // Appends the tail of another seed to the head of the input.
            5 => {
                let other = any(rng);
                input.truncate(at);
                input.extend_from_slice(&other[rng.usize(..=other.len())..]);
            }
            // Replaces a part of the input with a piece of another seed.
            _ => {
                let other = any(rng);
                let from = rng.usize(..=other.len());
                let to = rng.usize(from..=other.len().min(from + 200));
                input.splice(at..end, other[from..to].iter().copied());
            }
        }
        input.truncate(LONGEST);
    }
    input
}

#[test]
fn each_target_holds_on_its_corpus_and_on_mutations() {
    thread::scope(|scope| {
        for target in &TARGETS {
            scope.spawn(move || run(target));
        }
    });
}

#[test]
fn every_corpus_has_its_target() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut found: Vec<_> =
        std::fs::read_dir(directory).expect("corpora").map(|entry| entry.expect("an entry").file_name()).collect();
    found.sort();
    let mut known: Vec<_> = TARGETS.iter().map(|target| OsString::from(target.name)).collect();
    known.sort();
    assert_eq!(found, known);
}

#[test]
fn allocations_are_counted() {
    let mut kept = Vec::<u8>::new();
    let Allocated { peak, total, left } = measure(|| {
        drop(Vec::<u8>::with_capacity(5000));
        kept.reserve_exact(3000);
    });
    assert_eq!((peak, total, left), (5000, 8000, 3000));
}
