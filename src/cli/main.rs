//! The command `leasehold`: leader election for programs that cannot link a library.
//!
//! `leasehold run` runs a program while its lease is held, `leasehold observe` shows who leads, `leasehold wait` waits for a
//! leader.
#![forbid(unsafe_code)]

#[path = "../util/backoff.rs"]
mod backoff;
#[path = "mod.rs"]
mod cli;
#[allow(dead_code, reason = "the library's clock, and the command only reads the time")]
#[path = "../util/clock/mod.rs"]
mod clock;
#[path = "../util/one_line.rs"]
mod one_line;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
