//! Candidates in separate processes: the `leader_election` example and its output.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::{Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::cluster::NAMESPACE;
use super::exclusion::History;
use super::run::{Ended, Run};
use super::{SOON, repository};

/// One line that a candidate printed.
#[derive(Clone, Debug, Deserialize)]
pub struct Line {
    pub event: String,
    pub identity: String,
    /// The time by `CLOCK_MONOTONIC`, which all processes of a machine share.
    pub mono: f64,
    pub fencing_token: Option<u64>,
    pub leader: Option<String>,
    pub address: Option<String>,
    pub reason: Option<String>,
    /// The shard of a member of a group.
    pub shard: Option<usize>,
}

impl Line {
    pub fn token(&self) -> u64 {
        self.fencing_token.expect("a fencing token")
    }
}

/// Returns the current time on the clock of [`Line::mono`].
pub fn mono() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The candidates for one lease, and all lines that they printed.
pub struct Stage {
    /// The flags that select the cluster or another store.
    place: Vec<OsString>,
    lease: String,
    flags: Vec<String>,
    said: Arc<Said>,
}

#[derive(Default)]
struct Said {
    /// The lines in the order of arrival.
    ///
    /// Only the lines of a single candidate are certain to be in the order of `mono`.
    lines: Mutex<Vec<Line>>,
    more: Condvar,
}

impl Stage {
    pub fn new(kubeconfig: impl Into<PathBuf>, lease: &str, flags: &[&str]) -> Stage {
        Stage::at(in_cluster(&kubeconfig.into()), lease, flags)
    }

    /// Creates a stage whose candidates use the store with this URL.
    pub fn on_store(url: &str, lease: &str, flags: &[&str]) -> Stage {
        Stage::at(on_store(url), lease, flags)
    }

    fn at(place: Vec<OsString>, lease: &str, flags: &[&str]) -> Stage {
        Stage {
            place,
            lease: lease.to_owned(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            said: Arc::default(),
        }
    }

    pub fn candidate(&self, id: &str) -> Candidate {
        self.candidate_with(id, &[])
    }

    /// Starts a candidate with additional flags.
    pub fn candidate_with(&self, id: &str, flags: &[&str]) -> Candidate {
        let place: Vec<_> = self.place.iter().cloned().chain(flags.iter().map(OsString::from)).collect();
        self.candidate_at(&place, id)
    }

    /// Starts a candidate that connects to the server with this kubeconfig.
    pub fn candidate_by_way_of(&self, kubeconfig: &Path, id: &str) -> Candidate {
        self.candidate_at(&in_cluster(kubeconfig), id)
    }

    /// Starts a candidate that connects to the store with this URL.
    pub fn candidate_on_store(&self, url: &str, id: &str) -> Candidate {
        self.candidate_at(&on_store(url), id)
    }

    fn candidate_at(&self, place: &[OsString], id: &str) -> Candidate {
        let mut command = example("leader_election");
        command.args(["--lease-lock-name", &self.lease, "--id", id]).args(place).args(&self.flags);
        self.candidate_of(command, id)
    }

    /// Starts a candidate with another program, which prints lines in the same format.
    pub fn candidate_of(&self, program: Command, id: &str) -> Candidate {
        Candidate::spawn(id, program, &self.said)
    }

    /// Returns all lines that the candidates have printed so far.
    pub fn lines(&self) -> Vec<Line> {
        self.said.lines.lock().clone()
    }

    /// Returns the lines with a stamp after `mono`, apart from lines that arrived very late.
    pub fn lines_since(&self, mono: f64) -> Vec<Line> {
        let lines = self.said.lines.lock();
        let recent = lines.iter().rev().take_while(|line| line.mono > mono - 5.0);
        recent.filter(|line| line.mono > mono).cloned().collect()
    }

    /// Returns the number of lines received so far.
    ///
    /// The number is the index of the next line in [`Stage::lines`].
    pub fn heard(&self) -> usize {
        self.said.lines.lock().len()
    }

    /// Returns the last `leading` line.
    pub fn last_heartbeat(&self) -> Option<Line> {
        self.said.lines.lock().iter().rfind(|line| line.event == "leading").cloned()
    }

    /// Waits for the first line that `wanted` accepts, from any candidate.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Line) -> bool) -> Line {
        let found = self.said.wait_for(0, wanted).map(|(_, line)| line);
        found.unwrap_or_else(|| panic!("{what}: not among {:#?}", without_heartbeats(self.lines())))
    }

    /// Waits for the start of a term with a greater fencing token than `token`.
    pub fn wait_for_leader_after(&self, token: u64) -> Line {
        self.wait_for(&format!("a leader with a token above {token}"), |line| {
            line.event == "started_leading" && line.token() > token
        })
    }

    /// Asserts that the `leading` lines show no overlapping terms, and that fencing tokens grow.
    pub fn assert_one_leader_at_a_time(&self) -> History {
        let history = History::of(&self.lines());
        assert!(history.overlaps.is_empty(), "two led at a time: {:?}", history.overlaps);
        assert!(history.disorder.is_empty(), "tokens went back: {:?}", history.disorder);
        history
    }
}

impl Said {
    fn say(&self, line: Line) {
        self.lines.lock().push(line);
        self.more.notify_all();
    }

    /// Waits for the first wanted line with the index `from` or a higher index.
    ///
    /// Returns the index and the line, or `None` if no such line arrives in time.
    fn wait_for(&self, from: usize, wanted: impl Fn(&Line) -> bool) -> Option<(usize, Line)> {
        let until = Instant::now() + SOON;
        let mut looked_at = from;
        let mut lines = self.lines.lock();
        loop {
            if let Some(found) = (looked_at..lines.len()).find(|&index| wanted(&lines[index])) {
                return Some((found, lines[found].clone()));
            }
            looked_at = lines.len().max(from);
            if self.more.wait_until(&mut lines, until).timed_out() {
                return None;
            }
        }
    }
}

fn in_cluster(kubeconfig: &Path) -> Vec<OsString> {
    vec!["--kubeconfig".into(), kubeconfig.into(), "--lease-lock-namespace".into(), NAMESPACE.into()]
}

fn on_store(url: &str) -> Vec<OsString> {
    vec!["--store".into(), url.into()]
}

/// Removes the `leading` lines, which would make failure messages very long.
fn without_heartbeats(lines: Vec<Line>) -> Vec<Line> {
    lines.into_iter().filter(|line| line.event != "leading").collect()
}

/// A candidate in its own process. The process ends at the latest when this value is dropped.
pub struct Candidate {
    pub id: String,
    run: Run,
    said: Arc<Said>,
    /// The number of lines received before the start of the candidate.
    born: usize,
    /// The index from which this candidate's next line is searched.
    heard: Cell<usize>,
}

impl Deref for Candidate {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

impl Candidate {
    fn spawn(id: &str, mut command: Command, said: &Arc<Said>) -> Candidate {
        let born = said.lines.lock().len();
        let tells = Arc::clone(said);
        let run = Run::telling(command.stdin(Stdio::null()), move |line| {
            // The last line of a killed process may be incomplete.
            if let Ok(line) = serde_json::from_str(line) {
                tells.say(line);
            }
        });
        Candidate { id: id.to_owned(), run, said: Arc::clone(said), born, heard: Cell::new(born) }
    }

    /// Waits for this candidate's next line with this event.
    ///
    /// The search starts after the line that the previous call returned.
    pub fn wait_for(&self, event: &str) -> Line {
        let wanted = |line: &Line| line.identity == self.id && line.event == event;
        match self.said.wait_for(self.heard.get(), wanted) {
            Some((index, line)) => {
                self.heard.set(index + 1);
                line
            }
            None => panic!(
                "{} did not print {event}, but {:#?}\nand on stderr {}",
                self.id,
                without_heartbeats(self.said.lines.lock().clone()),
                self.errors()
            ),
        }
    }

    /// Returns the lines that this candidate has printed so far.
    pub fn lines(&self) -> Vec<Line> {
        lines_of(&self.said, self.born, &self.id)
    }

    pub fn assert_running(&mut self) {
        assert!(self.run.is_running(), "{} ended by itself: {}", self.id, self.errors());
    }

    /// Kills the process with SIGKILL, and returns its last lines.
    pub fn kill(self) -> Vec<Line> {
        self.run.kill();
        lines_of(&self.said, self.born, &self.id)
    }

    /// Waits for the process to end by itself.
    pub fn end(self) -> Ended {
        self.run.end()
    }
}

fn lines_of(said: &Said, born: usize, id: &str) -> Vec<Line> {
    said.lines.lock()[born..].iter().filter(|line| line.identity == id).cloned().collect()
}

/// Runs the example `leader_election` with only these flags, and waits for its end.
pub fn run(flags: &[&str]) -> Ended {
    Run::of(example("leader_election").args(flags).stdin(Stdio::null())).end()
}

/// Returns the command of an example, without environment variables for clusters and logs.
pub fn example(name: &'static str) -> Command {
    take_sigint();
    static PROGRAMS: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut command = Command::new(PROGRAMS.lock().entry(name).or_insert_with(|| built_example(name)));
    for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HOME", "RUST_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Makes programs start with the default action of SIGINT.
///
/// A shell that starts the tests in the background ignores SIGINT, and programs would inherit that. A handler is not
/// inherited. This handler ends the process of the tests, as the default action does.
pub fn take_sigint() {
    static TAKEN: Once = Once::new();
    TAKEN.call_once(|| {
        let ends = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_default(signal_hook::consts::SIGINT, ends).expect("a handler");
    });
}

/// Returns the program of an example.
///
/// Builds the program if it is missing or older than its sources.
///
/// `cargo test` builds all examples, but `cargo test --test …` does not. The test would then run outdated code.
fn built_example(name: &str) -> PathBuf {
    let source = match name {
        "group_member" => "benches/groups/member.rs".to_owned(),
        "stop_program" => "tests/support/stop_program.rs".to_owned(),
        _ => format!("examples/{name}.rs"),
    };
    built(&format!("examples/{name}"), &source, &["--example", name])
}

/// Returns the command `leasehold`, which is built like an example.
pub fn built_command() -> PathBuf {
    built("leasehold", "crates/cli", &["--bin", "leasehold"])
}

fn built(name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let this = std::env::current_exe().expect("the path of this test");
    // target/debug/deps/this
    let [profile_dir, target] = [2, 3].map(|up| this.ancestors().nth(up).expect("a target directory"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| target.to_owned(), PathBuf::from);
    let profile_dir = target.join(profile_dir.file_name().expect("a profile"));
    let program = profile_dir.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let sources = ["src", source, "Cargo.toml"].map(|path| newest(&repository().join(path)));
    let built = std::fs::metadata(&program).and_then(|program| program.modified()).ok();
    if built < sources.into_iter().max() {
        let mut cargo = cargo();
        cargo.args(["build", "--quiet"]).args(arguments).arg("--target-dir").arg(target);
        if profile_dir.ends_with("release") {
            cargo.arg("--release");
        }
        let built = cargo.status().expect("cargo runs");
        assert!(built.success(), "{cargo:?}: {built}");
    }
    program
}

/// Returns `cargo` in the project, without the variables of `cargo test` and `tests/stress`.
///
/// If these variables change, cargo runs build scripts again: in this build, and in the next build without the
/// variables.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        cargo.env_remove(variable);
    }
    cargo.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH").env_remove("RUSTC_BOOTSTRAP");
    cargo.current_dir(repository());
    cargo
}

/// Returns the time of the last change to a file, or to any file below a directory.
fn newest(path: &Path) -> SystemTime {
    match std::fs::read_dir(path) {
        Ok(entries) => {
            let entries = entries.map(|entry| newest(&entry.expect("a directory entry").path()));
            entries.max().unwrap_or(SystemTime::UNIX_EPOCH)
        }
        Err(_) => std::fs::metadata(path).and_then(|file| file.modified()).expect("a source file"),
    }
}
