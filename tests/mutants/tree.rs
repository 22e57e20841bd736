//! A copy of the tree that can be broken, built and checked.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::list::{Check, Edit};

/// So many seeds of one suite catch every mutant that the simulation is to catch.
const SEEDS: u32 = 1_000;

/// A check of the copy takes seconds. One that is broken may not end.
const PATIENCE: Duration = Duration::from_secs(180);

/// What of the package the copy needs.
const PARTS: [&str; 7] = ["Cargo.toml", "Cargo.lock", "README.md", "src", "tests", "examples", "benches"];

pub struct Tree {
    root: PathBuf,
    target: PathBuf,
}

pub enum Outcome {
    Passed,
    /// A check failed, and what it said.
    Failed(String),
    /// It did not come to a check.
    Mistake(String),
}

impl Tree {
    pub fn copy() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| package.join("target"), PathBuf::from);
        let mutants = package.join(target).join("mutants");
        let tree = Self { root: mutants.join("tree"), target: mutants.join("target") };
        if tree.root.exists() {
            fs::remove_dir_all(&tree.root).expect("the last copy can be removed");
        }
        fs::create_dir_all(&tree.root).expect("a place for the copy");
        for part in PARTS.iter().filter(|part| package.join(part).exists()) {
            copy(&package.join(part), &tree.root.join(part)).expect("the package can be copied");
        }
        // It lies inside of a package, and is none of its members.
        let manifest = tree.root.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("a manifest");
        if !text.contains("[workspace]") {
            fs::write(manifest, text + "\n[workspace]\n").expect("a manifest of its own");
        }
        tree
    }

    /// What `check` says while `edits` are applied.
    pub fn with(&self, edits: &[Edit], check: impl FnOnce() -> Outcome) -> Result<Outcome, String> {
        let mut before = Vec::new();
        let mut applied = Ok(());
        for Edit { file, old, new } in edits {
            let path = self.root.join(file);
            let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
            let times = text.matches(old).count();
            if times != 1 {
                applied = Err(format!("it does not apply any more: its text is {times} times in {file}"));
                break;
            }
            fs::write(&path, text.replace(old, new)).map_err(|error| format!("{file}: {error}"))?;
            before.push((path, text));
        }
        let outcome = applied.map(|()| check());
        // Backwards, should two edits be of one file.
        for (path, text) in before.into_iter().rev() {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        outcome
    }

    pub fn run(&self, check: &Check) -> Outcome {
        let (target, test): (&[&str], _) = match check {
            Check::Simulation(test) => (&["--test", "simulation"], test),
            Check::Unit(test) => (&["--lib"], test),
            Check::Test(file, test) => (&["--test", file], test),
        };
        match self.build(target) {
            Ok(program) => self.check(&program, test),
            Err(what) => Outcome::Mistake(what),
        }
    }

    fn build(&self, target: &[&str]) -> Result<PathBuf, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["test", "--offline", "--locked", "--no-run", "--message-format=json"])
            .args(target)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        let (status, said) = self.carry_out(cargo)?;
        let messages: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !status.success() {
            let errors: Vec<_> =
                messages.iter().filter_map(|message| message["message"]["rendered"].as_str()).collect();
            let why = if errors.is_empty() { said.clone() } else { errors.concat() };
            return Err(format!("it does not compile:\n{why}"));
        }
        messages
            .iter()
            .filter_map(|message| message["executable"].as_str())
            .next_back()
            .map(PathBuf::from)
            .ok_or_else(|| "cargo names no program".to_owned())
    }

    fn check(&self, program: &Path, test: &str) -> Outcome {
        let mut run = Command::new(program);
        run.args(["--exact", test]).current_dir(&self.root);
        run.env("SIM_SEEDS", SEEDS.to_string()).env_remove("SIM_SEED").env("RUST_BACKTRACE", "0");
        let (status, said) = match self.carry_out(run) {
            Ok(done) => done,
            Err(what) => return Outcome::Mistake(what),
        };
        if status.success() {
            return match said.contains("test result: ok. 1 passed") {
                true => Outcome::Passed,
                false => Outcome::Mistake(format!("there is no test {test}")),
            };
        }
        if !said.contains("test result: FAILED") {
            return Outcome::Mistake(format!("{test} did not end: {said}"));
        }
        // The first line of the panic's message; for the simulation that names the seed.
        let mut lines = said.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
        Outcome::Failed(lines.next().unwrap_or_default().trim().to_owned())
    }

    /// Runs it to its end, and gives back all that it printed.
    fn carry_out(&self, mut command: Command) -> Result<(ExitStatus, String), String> {
        let path = self.root.join("output");
        let output = File::create(&path).map_err(|error| error.to_string())?;
        let errors = output.try_clone().map_err(|error| error.to_string())?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            // Only the checks: a build from nothing takes what it takes.
            if began.elapsed() > PATIENCE && command.get_program() != env!("CARGO") {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end in {PATIENCE:?}"));
            }
            thread::sleep(Duration::from_millis(20));
        };
        let said = fs::read(&path).map_err(|error| error.to_string())?;
        Ok((status, String::from_utf8_lossy(&said).into_owned()))
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}
