//! Runs one check in the copy of the tree, with or without a mutant.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::compile::set_up;
use crate::list::Check;
use crate::process::run_to_its_end;
use crate::tree::Target;
use crate::{marked, switch};

/// The number of seeds that each suite of the simulation runs.
///
/// These seeds are enough to catch every mutant that the simulation must catch.
const SEEDS: u32 = 1_000;

/// The package that the mutants change.
pub const LIBRARY: &str = "leasehold";

/// The package of the command.
pub const COMMAND: &str = "leasehold-cli";

/// The package that runs the library's sources under the thread scheduler shuttle.
pub const THREADS: &str = "leasehold-shuttle";

/// A test program that is built from the copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    pub package: &'static str,
    pub of: Of,
}

/// The part of the package whose tests a program runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    Library,
    Binary,
    File(&'static str),
}

/// The environment variable that marks the processes of a check.
///
/// The mark allows the test to find and end these processes.
const MARK: &str = "LEASEHOLD_MUTANT_CHECK";

/// The number of the next check, which makes the mark of its processes unique.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The time that the processes of a check may take to end after they are killed.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Checks {
    root: PathBuf,
    target: Target,
    programs: BTreeMap<Program, PathBuf>,
}

pub enum Outcome {
    Passed,
    /// The check failed.
    ///
    /// The text is its error message.
    Failed(String),
    /// The check could not run.
    ///
    /// The text is the reason.
    Mistake(String),
}

impl Checks {
    pub fn new(root: &Path, target: &Target, programs: BTreeMap<Program, PathBuf>) -> Self {
        Self { root: root.to_owned(), target: target.clone(), programs }
    }

    /// Runs the check with `mutant` active, or without a mutant.
    pub fn run(&self, check: &Check, mutant: Option<usize>, timeout: Duration) -> Outcome {
        let Some(program) = self.programs.get(&check.program) else {
            return Outcome::Mistake("cargo named no program for it".to_owned());
        };
        let mut run = Command::new(program);
        run.args(["--exact", check.test]).current_dir(&self.root);
        // Some tests build examples, so the test program needs cargo's environment variables too.
        set_up(&mut run, &self.target);
        run.env("SIM_SEEDS", SEEDS.to_string()).env("RUST_BACKTRACE", "0");
        for variable in ["SIM_SEED", "SHUTTLE_TIMES", "SHUTTLE_RANDOM_SEED", switch::VARIABLE] {
            run.env_remove(variable);
        }
        run.envs(mutant.map(|number| (switch::VARIABLE, number.to_string())));
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run.env(MARK, &mark);
        let ended = run_to_its_end(run, Some(timeout));
        // A check that was killed leaves behind the processes that it started.
        marked::end(MARK, &mark, PATIENCE);
        let (status, said) = match ended {
            Ok(done) => done,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Outcome::Failed(format!("it did not end in {timeout:.0?}"));
            }
            Err(error) => return Outcome::Mistake(format!("{}: {error}", program.display())),
        };
        if !status.success() {
            // The line after `panicked at` is the panic's message, which names the seed if the check is a simulation.
            let mut lines = said.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
            return Outcome::Failed(lines.next().map_or_else(|| status.to_string(), |line| line.trim().to_owned()));
        }
        match said.contains("test result: ok. 1 passed") {
            true => Outcome::Passed,
            false => Outcome::Mistake("no such test came to its end".to_owned()),
        }
    }
}
