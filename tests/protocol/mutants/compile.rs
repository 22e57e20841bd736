//! Builds the copy, and finds the mutants that do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::check::{COMMAND, LIBRARY, Of, Program};
use crate::process::run_to_its_end;
use crate::tree::{Mistakes, Target};

/// The mutant to whose body each file of the copy belongs, if the file is a mutant's body.
pub type Bodies = BTreeMap<PathBuf, usize>;

/// Builds the `wanted` programs of the copy at `root`.
///
/// If mutants prevent the build, returns these mutants with the compiler's errors.
pub fn compile(
    root: &Path,
    target: &Target,
    wanted: &BTreeSet<Program>,
    bodies: &Bodies,
) -> Result<BTreeMap<Program, PathBuf>, Mistakes> {
    let mut built = BTreeMap::new();
    for programs in wanted.iter().collect::<Vec<_>>().chunk_by(|one, next| one.package == next.package) {
        let mut cargo = Command::new(env!("CARGO"));
        // Every build names `LIBRARY` and `COMMAND`, so all packages use the same features of their dependencies. Cargo
        // then builds each dependency only once.
        cargo.args(["test", "--locked", "--no-run", "--message-format=json"]);
        cargo.args(["--package", LIBRARY, "--package", COMMAND]);
        cargo.args(["--package", programs[0].package]);
        for program in programs {
            match program.of {
                Of::File(test) => cargo.args(["--test", test]),
                Of::Library => cargo.arg("--lib"),
                Of::Binary => cargo.args(["--bin", "leasehold"]),
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
            // Cargo also builds the command without its tests, because other tests run it.
            let tests = messages.iter().filter(|it| it["profile"]["test"] == true);
            let mut paths = tests.filter(|it| is_it(&it["target"])).filter_map(|it| it["executable"].as_str());
            built.insert(**program, paths.next().expect("cargo names what it has built").into());
        }
    }
    Ok(built)
}

/// Prepares a command that may run cargo, so that cargo does not rebuild parts of the copy.
///
/// The copy uses the dependencies that are built for the package itself. Only the profile distinguishes the copy's own
/// crates from the package's.
pub fn set_up(command: &mut Command, target: &Target) {
    command
        .env("CARGO_TARGET_DIR", &target.of_the_copy)
        .env("CARGO_BUILD_BUILD_DIR", &target.shared)
        .env("CARGO_INCREMENTAL", "1");
    // `cargo test` sets these variables for this package. Some build scripts would run again because of them.
    for (variable, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(variable);
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
}

/// Returns the mutants whose bodies contain the compiler's errors.
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
    // If an error is inside a macro, the mutant is where the macro is used.
    let ways = spans.flat_map(|span| std::iter::successors(Some(span), |span| span["expansion"].get("span")));
    let files = ways.filter_map(|span| Path::new(span["file_name"].as_str()?).strip_prefix(root).ok());
    files.filter_map(|file| bodies.get(file).copied()).collect()
}

fn of<'a>(message: &'a Value, what: &str) -> impl Iterator<Item = &'a Value> {
    message[what].as_array().into_iter().flatten()
}
