//! Builds the copy, and finds out which mutants cannot be built.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::check::{LIBRARY, Of, Program};
use crate::process::run_to_its_end;
use crate::tree::{Mistakes, Target};

/// Whose bodies are in the files of the copy that have one.
pub type Bodies = BTreeMap<PathBuf, usize>;

/// Builds these programs of the copy at `root`, or says which mutants stand against that, and how.
pub fn compile(
    root: &Path,
    target: &Target,
    wanted: &BTreeSet<Program>,
    bodies: &Bodies,
) -> Result<BTreeMap<Program, PathBuf>, Mistakes> {
    let mut built = BTreeMap::new();
    for programs in wanted.iter().collect::<Vec<_>>().chunk_by(|one, next| one.package == next.package) {
        let mut cargo = Command::new(env!("CARGO"));
        // What both packages depend on is built once, if it is to have the same features.
        cargo.args(["test", "--locked", "--no-run", "--message-format=json", "--package", LIBRARY]);
        cargo.args(["--package", programs[0].package]);
        for program in programs {
            match program.of {
                Of::File(test) => cargo.args(["--test", test]),
                Of::Library => cargo.arg("--lib"),
                Of::Binary => cargo.args(["--bin", program.package]),
            };
        }
        cargo.current_dir(root);
        set_up(&mut cargo, target);
        let (status, said) = run_to_its_end(cargo, None).expect("cargo runs");
        let messages: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !status.success() {
            let mistakes = blame(root, &messages, bodies);
            let errors: String = messages.iter().filter_map(|it| it["message"]["rendered"].as_str()).collect();
            let errors = if errors.is_empty() { said } else { errors };
            assert!(!mistakes.is_empty(), "the copy cannot be built, and not because of a mutant:\n{errors}");
            return Err(mistakes);
        }
        for program in programs {
            let is_it = |target: &Value| match program.of {
                Of::File(test) => target["kind"][0] == "test" && target["name"] == test,
                Of::Library => target["kind"][0] == "lib",
                Of::Binary => target["kind"][0] == "bin",
            };
            // The command is built also as it is, for tests that run it.
            let tests = messages.iter().filter(|it| it["profile"]["test"] == true);
            let mut paths = tests.filter(|it| is_it(&it["target"])).filter_map(|it| it["executable"].as_str());
            built.insert(**program, paths.next().expect("cargo names what it has built").into());
        }
    }
    Ok(built)
}

/// What every command that may build anything of the copy is told, lest it be built again. Dependencies are those of the
/// package itself, built once: what distinguishes the copy's own parts from the package's is their profile.
pub fn set_up(command: &mut Command, target: &Target) {
    command
        .env("CARGO_TARGET_DIR", &target.of_the_copy)
        .env("CARGO_BUILD_BUILD_DIR", &target.shared)
        .env("CARGO_INCREMENTAL", "1");
    // What `cargo test` tells us of this package would make some build scripts run again.
    for (variable, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(variable);
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
}

/// The mutants in whose bodies the compiler's errors are.
fn blame(root: &Path, messages: &[Value], bodies: &Bodies) -> Mistakes {
    let mut errors = BTreeMap::<usize, BTreeSet<&str>>::new();
    for error in messages.iter().map(|message| &message["message"]).filter(|message| message["level"] == "error") {
        let primary = of(error, "spans").filter(|span| span["is_primary"] == true);
        let mut mutants = mutants_at(root, primary, bodies);
        if mutants.is_empty() {
            mutants = mutants_at(root, of(error, "spans"), bodies);
        }
        for mutant in mutants {
            errors.entry(mutant).or_default().extend(error["rendered"].as_str());
        }
    }
    let all = |errors: BTreeSet<&str>| errors.into_iter().collect::<String>();
    errors.into_iter().map(|(mutant, errors)| (mutant, format!("it does not compile:\n{}", all(errors)))).collect()
}

fn mutants_at<'a>(root: &Path, spans: impl Iterator<Item = &'a Value>, bodies: &Bodies) -> BTreeSet<usize> {
    // What is wrong in a macro is wrong where that is used.
    let ways = spans.flat_map(|span| std::iter::successors(Some(span), |span| span["expansion"].get("span")));
    let files = ways.filter_map(|span| Path::new(span["file_name"].as_str()?).strip_prefix(root).ok());
    files.filter_map(|file| bodies.get(file).copied()).collect()
}

fn of<'a>(message: &'a Value, what: &str) -> impl Iterator<Item = &'a Value> {
    message[what].as_array().into_iter().flatten()
}
