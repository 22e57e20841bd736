//! The command `leasehold`: leader election for programs that cannot link a library.
//!
//! `leasehold run` runs a program while its lease is held, `leasehold observe` shows who leads, `leasehold wait` waits for a
//! leader.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
