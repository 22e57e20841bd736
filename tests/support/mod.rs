//! What several test binaries share; each uses a part of it.
#![allow(dead_code)]

pub mod authority;
pub mod cluster;
pub mod command;
pub mod etcd;
pub mod exclusion;
pub mod far;
pub mod journal;
pub mod kind;
pub mod late_write;
pub mod manifests;
pub mod mariadb;
pub mod marked;
pub mod memory;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod real;
pub mod server;
pub mod session;
pub mod stores;
pub mod turns;

use std::path::Path;
use std::time::{Duration, Instant};

/// Long enough for anything that is to happen soon on a slow and noisy machine.
pub const SOON: Duration = Duration::from_secs(30);

/// Long enough, on such a machine, for what takes milliseconds and is documented as happening at once.
pub const AT_ONCE: Duration = Duration::from_secs(5);

/// Long enough to see that something does not happen.
pub const A_WHILE: Duration = Duration::from_millis(300);

pub fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    wait_within(SOON, what, holds);
}

pub fn wait_within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the program is there. If not, that is said aloud, and with `LEASEHOLD_REAL_SERVER=required` it is a failure.
pub fn is_built(program: &Path, what_needs_it: &str, what_builds_it: &str) -> bool {
    if !program.exists() {
        skip(
            &format!("{} is not built", program.display()),
            what_needs_it,
            &format!("`tests/run` or `{what_builds_it}` does that"),
        );
    }
    program.exists()
}

pub fn skip(what_is_missing: &str, what_needs_it: &str, what_helps: &str) {
    let required = std::env::var("LEASEHOLD_REAL_SERVER").is_ok_and(|value| value == "required");
    assert!(!required, "{what_is_missing}");
    say_aloud(&format!("SKIPPED: {what_needs_it}: {what_is_missing}: {what_helps}"));
}

/// Says something that shows also when the test passes: the harness shows what is printed only when it fails.
pub fn say_aloud(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{what}");
}
