//! The command `leasehold`: leader election for programs that cannot link a library.
//!
//! `leasehold run` runs a program while its lease is held. `leasehold elect` campaigns for other programs, which ask over
//! HTTP who leads. `leasehold observe` and `leasehold status` show who leads,
//! `leasehold wait` waits for a leader, `leasehold where` prints the address of the leader, and `leasehold step-down`
//! asks the leader to step down.
#![forbid(unsafe_code)]

mod backoff;
mod clock;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "`leasehold run` needs Linux"))]
mod election;
mod follow;
mod job;
mod leader;
mod log;
mod observe;
mod one_line;
mod password;
#[cfg(target_os = "linux")]
mod run;
mod say;
mod status;
mod wait;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use say::{FAILED, Failure};

/// Leader election for any program, on a Kubernetes Lease, etcd or a database
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    #[cfg(target_os = "linux")]
    Run(Box<run::RunArgs>),
    /// Run a command while the lease is held (Linux only)
    #[cfg(not(target_os = "linux"))]
    Run {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    #[cfg(target_os = "linux")]
    Elect(Box<run::elect::ElectArgs>),
    Observe(Box<observe::ObserveArgs>),
    Status(Box<status::StatusArgs>),
    Wait(Box<wait::WaitArgs>),
    /// Print the address that the leader advertises
    ///
    /// The command reads the record once. The command cannot detect a crashed holder, so the address may be old.
    ///
    /// Exit codes: 0 if the record has a holder with an address; 1 if the record has no holder, or the holder has no
    /// address; 125 for errors.
    Where(Box<leader::LeaderArgs>),
    /// Ask the leader to step down
    ///
    /// The command writes a request beside the record, and does not wait for the next leader. The holder steps down if
    /// it accepts requests (`leasehold run --accept-requests`). The command then waits until the holder renews the
    /// lease, for at most half of the lease duration. A holder may publish nothing about requests, as client-go does;
    /// the command then prints that the acceptance is unknown, and does not wait.
    ///
    /// Exit codes: 0 if the request is written, and the holder has renewed the lease since, or publishes nothing; 1 if
    /// the record has no holder; 3 if the holder accepts no requests, so that nothing is written; 4 if the request is
    /// written, and the holder has not renewed the lease; 125 for errors.
    StepDown(Box<leader::LeaderArgs>),
}

/// Runs the subcommand that the arguments name.
fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(ended) = run::hidden(std::env::args_os().skip(1)) {
        return exit_by(ended);
    }
    let Cli { command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            say::print(&error.render().to_string(), say::PATIENCE);
            return ExitCode::from(FAILED);
        }
    };
    #[cfg(target_os = "linux")]
    let is_quiet = match &command {
        CliCommand::Run(run) => run.quiet,
        CliCommand::Elect(elect) => elect.quiet,
        _ => false,
    };
    #[cfg(not(target_os = "linux"))]
    let is_quiet = false;
    let _log = match log::StderrLog::start(is_quiet) {
        Ok(log) => log,
        Err(error) => return exit_by(Err(format!("cannot start the log thread: {error}").into())),
    };
    let ended = match command {
        #[cfg(target_os = "linux")]
        CliCommand::Run(arguments) => run::run(*arguments),
        #[cfg(not(target_os = "linux"))]
        CliCommand::Run { .. } => Err(Failure::from(
            "leasehold run needs Linux, because only there no process of a command can outlive its term; observe and wait run on \
             every system",
        )),
        #[cfg(target_os = "linux")]
        CliCommand::Elect(arguments) => run::elect::elect(*arguments),
        CliCommand::Observe(arguments) => observe::run(&arguments),
        CliCommand::Status(arguments) => status::run(&arguments),
        CliCommand::Wait(arguments) => wait::run(&arguments),
        CliCommand::Where(arguments) => leader::print_address(&arguments),
        CliCommand::StepDown(arguments) => leader::request_step_down(&arguments),
    };
    let code = exit_by(ended);
    password::end_programs();
    code
}

fn exit_by(ended: Result<u8, Failure>) -> ExitCode {
    ExitCode::from(ended.unwrap_or_else(|Failure(code, message)| {
        say::say(&message);
        code
    }))
}
