//! `leasehold run`: a command that runs while its lease is held.
//!
//! There are three processes: the supervisor, which campaigns, renews and releases; the guardian, which starts the command, and ends it
//! by itself when the term is over; and the command. Either of the first two may be stopped or killed, and nothing of the command
//! outlives its term.

mod command;
mod descendants;
mod exec;
mod guardian;
mod http;
mod messages;
mod probe;
mod progress;
mod signals;
mod supervisor;
mod term;
mod times;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use crossbeam_channel::{Sender, bounded};
use leasehold::{Fitness, Observer};
use rustix::process::{getpid, set_child_subreaper};

use super::election::{ElectionArgs, by_flags, duration, positive_duration};
use super::say::Failure;
use guardian::{Guarded, Guardian};
use http::Listen;
use probe::{Judge, Probe};
use progress::ProgressSource;
use supervisor::{OnLoss, Plan, Supervisor};
use term::Means;
use times::Times;

use crate::log::COMMAND;
use leasehold::util::backoff::Backoff;

/// Run a command while the lease is held
///
/// The command is started when the lease is acquired, and the lease is released when nothing of the command is left: so a standby
/// starts its own within milliseconds. If the lease cannot be renewed, the command is ended before others may acquire it.
///
/// It finds LEASEHOLD_LEASE, LEASEHOLD_IDENTITY and LEASEHOLD_FENCING_TOKEN in its environment.
///
/// Exit codes: that of the command, or 128 and the signal that ended it; 75 when another candidate holds the lease for longer than
/// --wait, or the probe fails; 124 if the term ended and --on-loss is exit; 125 for errors of leasehold; 126 when the command cannot
/// be executed; 127 when it is not found.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    election: ElectionArgs,
    /// How long the command may take to end when it is told to stop, from SIGTERM until SIGKILL
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s", help_heading = "Ending")]
    stop_timeout: Duration,
    /// How long it may take to end when the lease is not renewed [default: 2s, less where the renew deadline is short]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Ending")]
    loss_grace: Option<Duration>,
    /// How long before its term is over it is killed [default: 500ms, less where the renew deadline is short]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Ending")]
    kill_margin: Option<Duration>,
    /// Campaign again when the command has ended by itself, after a pause that grows while it keeps failing
    #[arg(long, help_heading = "Ending")]
    restart: bool,
    /// Time to wait for the lease; 0s tries once [default: forever]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    wait: Option<Duration>,
    /// What to do when the lease was lost
    #[arg(long, value_name = "WHAT", value_enum, default_value = "campaign", help_heading = "Ending")]
    on_loss: OnLoss,
    /// A program with its arguments, run each retry period without a shell: only while it ends with 0 may this replica lead
    #[arg(long, value_name = "COMMAND", help_heading = "Fitness")]
    probe: Option<String>,
    /// How long a run of the probe may take [default: the retry period]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, requires = "probe", help_heading = "Fitness")]
    probe_timeout: Option<Duration>,
    /// What shows that the command makes progress: a file that it changes, or `notify` for what it says as a service of systemd with
    /// a watchdog. Without progress it is stopped
    #[arg(long, value_name = "FILE|notify", requires = "progress_timeout", help_heading = "Fitness")]
    progress: Option<ProgressSource>,
    /// How long the command may go without progress
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, requires = "progress", help_heading = "Fitness")]
    progress_timeout: Option<Duration>,
    /// Answer /leader, /healthz, /readyz and /metrics there: 127.0.0.1:8080, or :8080 for all addresses
    #[arg(long, value_name = "ADDRESS", help_heading = "Fitness")]
    http: Option<Listen>,
    /// Say nothing on stderr but warnings and errors; LEASEHOLD_LOG has the last word
    #[arg(short, long)]
    pub quiet: bool,
    /// The command, and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// What a process of ours does that is none of the user's to start.
pub fn hidden(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let name = arguments.next()?;
    if name == guardian::process::NAME {
        return Some(guardian::process::main(arguments.collect()));
    }
    (name == exec::NAME).then(|| exec::main(arguments))
}

/// # Errors
///
/// Returns the exit code of an error, and the message on stderr.
pub fn run(arguments: RunArgs) -> Result<u8, Failure> {
    fn failed(error: impl Into<Box<dyn std::error::Error>>) -> Failure {
        (command::FAILED, by_flags(&*error.into()))
    }
    let RunArgs { election, stop_timeout, loss_grace, kill_margin, restart, on_loss, command, .. } = arguments;
    command::check(&command[0])?;
    let mut builder = election.builder();
    let settings = builder.validate().map_err(failed)?;
    // It may have been made up just now, and is the same for all of us.
    builder = builder.identity(&settings.identity);
    let times = Times::new(stop_timeout, loss_grace, kill_margin, &settings).map_err(failed)?;
    let mut judge = None;
    if let Some(probe) = &arguments.probe {
        let timeout = arguments.probe_timeout.unwrap_or(settings.retry_period);
        let probe = Probe::new(probe, timeout).map_err(failed)?;
        command::check(probe.arguments[0].as_ref()).map_err(|(_, message)| failed(format!("--probe {message}")))?;
        let fitness = Fitness::new();
        builder = builder.fitness(&fitness);
        judge = Some((probe, fitness));
    }
    descendants::check().map_err(|error| {
        failed(format!(
            "/proc does not list the children of processes: {error}; mount /proc, on a kernel with CONFIG_PROC_CHILDREN"
        ))
    })?;
    // Of the guardian, should it end.
    set_child_subreaper(Some(getpid())).map_err(failed)?;
    let signals = signals::take().map_err(failed)?;
    let environment = [("LEASEHOLD_LEASE", election.lease.clone()), ("LEASEHOLD_IDENTITY", settings.identity)];
    let guarded = Guarded { arguments: command, environment };
    let guardian =
        Guardian::start(&guarded).map_err(|error| failed(format!("the guardian was not started: {error}")))?;
    let place = election.place.open(election.lock_type, true).map_err(failed)?;
    let (renewed, renewals) = bounded(1);
    let elector = Arc::new(place.start(builder.observer(Renewals(renewed))).map_err(failed)?);
    let work = Arc::default();
    if let Some(listen) = arguments.http {
        let address = http::serve(&listen, &elector, Arc::clone(&work))
            .map_err(|error| failed(format!("--http {}: {error}", listen.text)))?;
        log::info!(target: COMMAND, "answers on http://{address}");
    }
    let progress = arguments.progress.zip(arguments.progress_timeout);
    if let Some((ProgressSource::File(path), _)) = &progress {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if directory.is_some_and(|directory| !directory.is_dir()) {
            log::warn!(target: COMMAND, "--progress {}: its directory is not there yet", path.display());
        }
    }
    let judge = judge.map(|(probe, fitness)| Judge::start(probe, settings.retry_period, fitness)).transpose();
    let judge = judge.map_err(failed)?;
    let plan = Plan { guarded, restart, on_loss, progress, wait: arguments.wait };
    let retry_period = settings.retry_period;
    let drain_timeout = settings.drain_timeout.unwrap_or(settings.renew_deadline);
    let means = Means { guardian, signals, renewals, judge, times, retry_period, drain_timeout };
    Supervisor { plan, elector, means, work, backoff: Backoff::default() }.run().map_err(failed)
}

/// Tells the supervisor that its term goes on.
struct Renewals(Sender<()>);

impl Observer for Renewals {
    fn on_renewed(&self, _: Duration) {
        let _ = self.0.try_send(());
    }
}
