//! Deliberately broken copies of the rules: each must be caught, or the checks are worth less than they seem.
//!
//! The tree is copied into the target directory; one mutant at a time is applied to the copy and built there, and the
//! one check that its entry names must fail. First all those checks must pass on the copy as it is. A mutant that does
//! not apply or does not compile is a mistake in its entry, and fails this test like one that survives.
//!
//! `MUTANT=part-of-a-name cargo test --test mutants` tries only the mutants so named. The simulation runs fewer seeds here
//! than for itself, and always the same: what is caught once is caught each time.

mod list;
mod tree;

use std::io::Write;
use std::time::Instant;

use list::{Check, Mutant};
use tree::{Outcome, Tree};

#[test]
fn every_mutant_is_caught() {
    let wanted = std::env::var("MUTANT").unwrap_or_default();
    let mutants: Vec<&Mutant> = list::MUTANTS.iter().filter(|mutant| mutant.name.contains(&wanted)).collect();
    assert!(!mutants.is_empty(), "no mutant is named like {wanted:?}");
    let tree = Tree::copy();
    prove_that_the_copy_passes(&tree, &mutants);
    let began = Instant::now();
    let mut mistakes = Vec::new();
    for Mutant { name, why, edits, caught_by } in &mutants {
        let outcome = tree.with(edits, || tree.run(caught_by)).unwrap_or_else(Outcome::Mistake);
        let line = match outcome {
            Outcome::Failed(how) => format!("caught by {caught_by}: {how}"),
            Outcome::Passed => format!("SURVIVES {caught_by}, although: {why}"),
            Outcome::Mistake(what) => format!("IS NONE: {what}"),
        };
        if !line.starts_with("caught") {
            mistakes.push(format!("{name} {line}"));
        }
        report(&format!("{name:<58} {line}"));
    }
    let caught = mutants.len() - mistakes.len();
    report(&format!("{caught} of {} caught, in {:.0?}", mutants.len(), began.elapsed()));
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Else a check that fails anyway would catch everything.
fn prove_that_the_copy_passes(tree: &Tree, mutants: &[&Mutant]) {
    let mut checks: Vec<&Check> = mutants.iter().map(|mutant| &mutant.caught_by).collect();
    checks.sort();
    checks.dedup();
    for check in checks {
        match tree.run(check) {
            Outcome::Passed => {}
            Outcome::Failed(how) => panic!("{check} fails without a mutant: {how}"),
            Outcome::Mistake(what) => panic!("{check}, without a mutant: {what}"),
        }
    }
}

/// Says it past the test harness, which keeps to itself what a test that passes prints.
fn report(what: &str) {
    let _ = writeln!(std::io::stderr().lock(), "mutants: {what}");
}
