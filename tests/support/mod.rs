//! Code that several test binaries share. Each binary uses only a part of the code.
#![allow(dead_code)]

pub mod api;
pub mod authority;
pub mod client_config;
pub mod cluster;
pub mod command;
pub mod etcd;
pub mod exclusion;
pub mod journal;
pub mod kind;
pub mod kubeconfig;
pub mod late_write;
pub mod logged;
pub mod manifests;
pub mod mariadb;
pub mod marked;
pub mod memory;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod real;
pub mod real_store;
pub mod run;
pub mod server;
pub mod session;
pub mod sql;
pub mod stores;
pub mod version_1;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use leasehold::{LeaderGuard, StopReason};
use tempfile::TempDir;

/// The time limit for events that must happen soon, even on a slow and busy machine.
pub const SOON: Duration = Duration::from_secs(30);

/// The time limit for operations that are documented as immediate.
///
/// Such operations take milliseconds, but a slow machine needs more time.
pub const AT_ONCE: Duration = Duration::from_secs(5);

/// The time for which a test waits to show that an event does not happen.
pub const A_WHILE: Duration = Duration::from_millis(300);

/// Creates a directory for databases, in memory if the system supports this.
///
/// Tests with real time must not depend on a disk: if other processes write, an fsync can take longer than a short
/// lease.
pub fn scratch() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let directory = if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() };
    directory.expect("a scratch directory")
}

/// Waits until the term of `guard` ends, and returns the reason.
pub fn lost(guard: &LeaderGuard, what: &str) -> StopReason {
    assert_eq!(guard.ended().recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "{what}: not lost");
    assert!(!guard.is_leader(), "{what}");
    guard.check().expect_err(what).reason
}

pub fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    wait_within(SOON, what, holds);
}

/// Waits until `find` returns a value.
pub fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until(what, || {
        found = find();
        found.is_some()
    });
    found.expect("it was waited for")
}

pub fn wait_within(limit: Duration, what: &str, holds: impl FnMut() -> bool) {
    wait_or_explain(limit, || what.to_owned(), holds);
}

/// Waits until `holds` returns `true`. Panics with the explanation after `limit`.
pub fn wait_or_explain(limit: Duration, explain: impl FnOnce() -> String, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= until {
            panic!("{}", explain());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the value of an environment variable.
///
/// Panics if the value is invalid.
pub fn chosen<T>(variable: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(parse(&text).unwrap_or_else(|| panic!("{variable}={text} is invalid")))
}

/// Returns the seed in an environment variable, or a random seed. Prints the seed if the test fails.
pub fn seed(variable: &str) -> u64 {
    let seed = chosen(variable, |text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("{variable}={seed}");
    seed
}

/// Returns the root of the repository. Tests of several packages use this module.
pub fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("tests/run").exists()).expect("a folder with tests/run")
}

/// Returns the path of a file in the target directory.
pub fn in_target(path: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory").join(path)
}

/// Returns `true` if the program exists and tests may use servers.
///
/// Otherwise reports the test as skipped.
pub fn is_built(program: &Path, needed_by: &str, builder: &str) -> bool {
    let is_there = program.exists() && may_use_servers();
    if !is_there {
        skip(&format!("{} is not built", program.display()), needed_by, &format!("`{builder}` builds it"));
    }
    is_there
}

/// Returns `false` if `LEASEHOLD_REAL_SERVER` is `none`.
///
/// Tests then do not use even installed servers.
pub fn may_use_servers() -> bool {
    std::env::var("LEASEHOLD_REAL_SERVER").map_or(true, |value| value != "none")
}

/// Reports that the current test is skipped. Panics if `LEASEHOLD_REAL_SERVER` is `required`.
///
/// If `LEASEHOLD_SKIPPED` names a file, the report is a line in this file, and `tests/run` counts the lines. Without
/// the variable, the report is a line on stderr.
pub fn skip(missing: &str, needed_by: &str, remedy: &str) {
    use std::io::Write;
    let required = std::env::var("LEASEHOLD_REAL_SERVER").is_ok_and(|value| value == "required");
    assert!(!required, "{missing}");
    match std::env::var_os("LEASEHOLD_SKIPPED") {
        None => say_aloud(&format!("SKIPPED: {needed_by}: {missing}: {remedy}")),
        Some(path) => {
            let program = std::env::current_exe().expect("the path of this test");
            // The test harness names a thread after its test.
            let thread = std::thread::current();
            let line = format!("{} {}\n", program.display(), thread.name().expect("a test"));
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("a file for the skipped tests");
        }
    }
}

/// Prints a line even if the test passes.
///
/// The harness shows normal output only if the test fails.
pub fn say_aloud(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{what}");
}
