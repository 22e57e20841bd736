//! Mutation tests: for each deliberately broken copy of the library, a check must fail.
//!
//! The test copies the tree into the target directory, with all mutants in this one copy. Each function that a mutant
//! changes has an additional body for each of its mutants, and runs the body of the active mutant. So all mutants are
//! built at once, and the library itself contains no trace of them.
//!
//! First, the checks that the mutants name must pass without an active mutant. Then each mutant must make its check
//! fail or exceed its time limit. The limit is ten seconds, or ten times the duration without a mutant if that is
//! longer. A mutant that does not apply or does not compile is a mistake in its entry, and fails the test too.
//!
//! `MUTANT=part-of-a-name cargo test --test mutants` tries only the mutants whose names contain the given part. The
//! simulation runs fewer seeds here than in its own test. The seeds are always the same, so each result is repeatable.
//!
//! A new mutant is a paragraph of a text file in `list`. A mutant may change only the bodies of functions. To change a
//! constant, the mutant changes the places where the constant is used. A mutant cannot change a function that returns
//! `impl Trait`, because two bodies have two types. A mutant whose text a redesign has removed stands in `parked.txt`,
//! until the mutant is written again.

mod check;
mod compile;
mod list;
#[path = "../../support/marked.rs"]
mod marked;
mod process;
mod switch;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use check::{Checks, Outcome};
use list::{Check, Mutant};
use parking_lot::Mutex;
use tree::{Mutants, Tree};

/// The shortest time limit for a check with a mutant.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for a check without a mutant.
///
/// Some checks first build an example.
const FIRST_TIMEOUT: Duration = Duration::from_secs(180);

/// Finds mistakes in the entries at once, while the other test takes minutes.
#[test]
fn every_mutant_applies_and_names_a_test() {
    let (tree, mutants) = (Tree::new(), all());
    let mut mistakes = tree.mistakes(&mutants);
    for (&number, Mutant { caught_by: check, .. }) in &mutants {
        if !tree.has(check) {
            mistakes.insert(number, format!("there is no {check}"));
        }
    }
    let lines: Vec<_> = mistakes.iter().map(|(number, what)| format!("{}: {what}", mutants[number].name)).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn every_mutant_is_caught() {
    let wanted = std::env::var("MUTANT").unwrap_or_default();
    let mut mutants = all();
    mutants.retain(|_, mutant| mutant.name.contains(&wanted));
    assert!(!mutants.is_empty(), "no mutant is named like {wanted:?}");
    let began = Instant::now();
    let (checks, mistakes) = Tree::new().build(&mutants);
    let built = began.elapsed();
    let failures = Mutex::new(BTreeMap::new());
    let say = |number: usize, verdict: Result<String, String>| {
        let (Ok(line) | Err(line)) = &verdict;
        let first_line = line.lines().next().unwrap_or_default();
        let line = format!("{:<58} {first_line}", mutants[&number].name);
        // Hundreds of lines about caught mutants would hide the one about a mutant that survives.
        if verdict.is_err() || !wanted.is_empty() {
            report(&line);
        }
        if verdict.is_err() {
            failures.lock().insert(number, line);
        }
    };
    for (number, what) in &mistakes {
        say(*number, Err(format!("IS NONE: {what}")));
    }
    let sound: Vec<_> = mutants.iter().filter(|(number, _)| !mistakes.contains_key(number)).collect();
    let without = without_mutants(&checks, sound.iter().map(|(_, mutant)| mutant.caught_by).collect());
    let passed = began.elapsed();
    // Most of these checks only wait for an event that the mutant prevents, so four of them may run at a time.
    in_lanes(
        &sound,
        4,
        |(_, mutant)| mutant.caught_by,
        |(number, mutant)| say(**number, verdict(&checks, **number, mutant, &without)),
    );
    let failures = failures.into_inner();
    report(&format!("{} mutants are parked until they are written again", list::parked()));
    report(&format!(
        "{} of {} caught, in {:.0?}, after {:.0?} for the checks without them and {built:.0?} for the build",
        mutants.len() - failures.len(),
        mutants.len(),
        began.elapsed() - passed,
        passed - built
    ));
    assert!(failures.is_empty(), "{}", failures.into_values().collect::<Vec<_>>().join("\n"));
}

fn all() -> Mutants {
    (1..).zip(list::mutants()).collect()
}

/// The duration of each check without a mutant, or the reason why it does not pass.
///
/// A check that does not pass without a mutant would seem to catch every mutant.
type Without = BTreeMap<Check, Result<Duration, String>>;

fn without_mutants(checks: &Checks, wanted: BTreeSet<Check>) -> Without {
    let wanted: Vec<_> = wanted.into_iter().collect();
    let without = Mutex::new(Without::new());
    let work = |check: &Check| {
        let began = Instant::now();
        let outcome = match checks.run(check, None, FIRST_TIMEOUT) {
            Outcome::Passed => Ok(began.elapsed()),
            Outcome::Failed(how) => Err(format!("it fails: {how}")),
            Outcome::Mistake(what) => Err(what),
        };
        without.lock().insert(*check, outcome);
    };
    in_lanes(&wanted, 2, |check| *check, work);
    without.into_inner()
}

/// Returns how the check caught the mutant, or an error if it did not.
fn verdict(checks: &Checks, number: usize, mutant: &'static Mutant, without: &Without) -> Result<String, String> {
    let Mutant { why, caught_by: check, .. } = mutant;
    let began = Instant::now();
    let outcome = match &without[check] {
        Ok(took) => checks.run(check, Some(number), TIMEOUT.max(10 * *took)),
        Err(what) => Outcome::Mistake(format!("without it, {what}")),
    };
    match outcome {
        Outcome::Failed(how) => Ok(format!("caught by {check} in {:.0?}: {how}", began.elapsed())),
        Outcome::Passed => Err(format!("SURVIVES {check}, although: {why}")),
        Outcome::Mistake(what) => Err(format!("IS NONE for {check}: {what}")),
    }
}

/// Calls `work` for all items, and limits how many delicate checks run at a time.
///
/// At most `delicate_at_a_time` of the delicate checks run at a time, beside one other check.
fn in_lanes<T: Sync>(all: &[T], delicate_at_a_time: usize, check: impl Fn(&T) -> Check, work: impl Fn(&T) + Sync) {
    let (delicate, others): (Vec<&T>, Vec<&T>) = all.iter().partition(|one| check(one).is_delicate());
    let [delicate, others] = [delicate, others].map(|those| Mutex::new(those.into_iter()));
    let do_all = |of: &Mutex<std::vec::IntoIter<&T>>| std::iter::from_fn(|| of.lock().next()).for_each(&work);
    thread::scope(|scope| {
        scope.spawn(|| do_all(&others));
        for _ in 0..delicate_at_a_time {
            scope.spawn(|| {
                do_all(&delicate);
                do_all(&others);
            });
        }
    });
}

/// Writes to stderr directly, because the test harness hides the output of passing tests.
fn report(what: &str) {
    let _ = writeln!(std::io::stderr().lock(), "mutants: {what}");
}
