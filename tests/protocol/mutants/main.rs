//! Deliberately broken copies of the rules: each must be caught, or the checks are worth less than they seem.
//!
//! The tree is copied into the target directory, with all mutants in the one copy: a function that mutants change has a body
//! for each of them there, and asks which mutant is active. So all are built at once, and the library itself knows nothing
//! of it. First the checks that the mutants name must pass with none of them active. Then each mutant must make its one
//! check fail, or not end within ten seconds, or ten times what it took without if that is more. A mutant that does not apply
//! or does not compile is a mistake in its entry, and fails this test like one that survives.
//!
//! `MUTANT=part-of-a-name cargo test --test mutants` tries only the mutants so named. The simulation runs fewer seeds here
//! than for itself, and always the same: what is caught once is caught each time.
//!
//! A new mutant is a paragraph of a text file in `list`. It may change what functions do, and nothing outside of their bodies: a constant is
//! changed where it is used. Functions that return `impl Trait` may not be changed: two bodies are two types.

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

/// How long a check has at least to catch a mutant.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long it has with no mutant active. Some checks build an example first.
const FIRST_TIMEOUT: Duration = Duration::from_secs(180);

/// The others take minutes to say so.
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
        // A few hundred lines of what went well hide the one that did not.
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
    // Most wait for what does not happen with the mutant.
    in_lanes(
        &sound,
        4,
        |(_, mutant)| mutant.caught_by,
        |(number, mutant)| say(**number, verdict(&checks, **number, mutant, &without)),
    );
    let failures = failures.into_inner();
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

/// What each check took with no mutant active, or why it did not pass: then it would catch everything.
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

/// How the mutant was caught, or why it was not.
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

/// Does `work` for all. Of those whose check may mind how busy the machine is, so many at a time, and one other beside them.
fn in_lanes<T: Sync>(all: &[T], delicate_at_a_time: usize, check: impl Fn(&T) -> Check, work: impl Fn(&T) + Sync) {
    let (delicate, others): (Vec<&T>, Vec<&T>) = all.iter().partition(|one| matches!(check(one), Check::Test(..)));
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

/// Says it past the test harness, which keeps to itself what a test that passes prints.
fn report(what: &str) {
    let _ = writeln!(std::io::stderr().lock(), "mutants: {what}");
}
