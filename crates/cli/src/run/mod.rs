//! `leasehold run`: runs a command while its lease is held.
//!
//! There are three processes: the supervisor, the guardian and the command. The supervisor campaigns, renews and
//! releases. The guardian starts the command, and ends the command when the term ends. No process of the command
//! outlives its term, even if the supervisor or the guardian is stopped or killed.

mod command;
mod descendants;
pub mod elect;
mod exec;
mod guardian;
mod http;
mod messages;
mod probe;
mod progress;
mod shards;
mod signals;
mod supervisor;
mod term;
mod times;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use crossbeam_channel::{Sender, bounded};
use leasehold::client_go::ResourceLock;
use leasehold::group::{LeaseGroup, LeaseGroupBuilder};
use leasehold::job::OncePer;
use leasehold::{Event, Fitness, LeaderElectorBuilder, Observer, Status};
use rustix::process::{getpid, set_child_subreaper};

use super::election::{ElectionArgs, duration, positive_duration};
use super::say::Failure;
use guardian::{Guarded, Guardian};
use http::{HttpAddresses, StatusServer};
use probe::{Judge, Probe};
use progress::ProgressSource;
use shards::{LastFailure, ShardMeans};
use supervisor::{OnLoss, PeriodicJob, Supervisor};
use term::Means;
use times::Times;

use crate::backoff::Backoff;
use crate::log::COMMAND;

/// Run a command while the lease is held
///
/// The command starts when the lease is acquired. The lease is released when no process of the command is left; a
/// standby then starts its own command within milliseconds. If the lease cannot be renewed, the command is ended
/// before another replica may acquire the lease.
///
/// The command finds LEASEHOLD_LEASE, LEASEHOLD_IDENTITY and LEASEHOLD_FENCING_TOKEN in its environment.
///
/// Exit codes: the code of the command, or 128 + the signal that ended it; 75 if another candidate holds the lease for
/// longer than --wait, the probe fails, or --hold-back has not passed; 124 if the command was stopped because the term
/// ended, with --on-loss exit; 125 for errors of leasehold; 126 if the command cannot be executed; 127 if the command
/// is not found.
///
/// With --group, the replicas divide shards, and each replica runs one command for each of its shards. LEASEHOLD_SHARD
/// contains the number of the shard, from 0, and LEASEHOLD_LEASE the name of its record. A command receives SIGTERM
/// before its shard moves. A command that ends by itself runs again after a pause that doubles from 1s to 60s. After
/// SIGTERM, `leasehold run` exits with 143.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("elected").required(true).args(["lease", "group"]))]
pub struct RunArgs {
    #[command(flatten)]
    election: ElectionArgs,
    /// Group of replicas that divide shards, instead of a lease
    #[arg(long, value_name = "NAME", help_heading = "Group", conflicts_with_all = ["lock_type", "hold_back", "advertise",
        "accept_requests", "wait", "restart", "on_loss", "probe", "progress", "http"])]
    group: Option<String>,
    /// Number of shards of the group, the same on every replica
    #[arg(long, value_name = "NUMBER", conflicts_with = "lease", default_value_t = 16, help_heading = "Group")]
    shards: u32,
    /// Run the command on at most N replicas at a time: N shards, and one shard per replica
    #[arg(long, value_name = "N", conflicts_with_all = ["lease", "shards"], help_heading = "Group")]
    at_most: Option<u32>,
    /// Number of replicas that may own shards; the others wait as spares [default: 16; with --at-most, N + 2]
    #[arg(long, value_name = "NUMBER", conflicts_with = "lease", help_heading = "Group")]
    max_members: Option<u32>,
    /// Time from SIGTERM to SIGKILL if the command is stopped
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s", help_heading = "Ending")]
    stop_timeout: Duration,
    /// Time from SIGTERM to SIGKILL if the lease is not renewed [default: 2s, less for a short renew deadline]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Ending")]
    loss_grace: Option<Duration>,
    /// Time from SIGKILL to the end of the term [default: 500ms, less for a short renew deadline]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Ending")]
    kill_margin: Option<Duration>,
    /// Campaign again after the command ends by itself; failures double the pause from 1s to 60s
    #[arg(long, help_heading = "Ending")]
    restart: bool,
    /// Run the command once per PERIOD, on one of the hosts that run this line
    ///
    /// The period counts from the start of the run that succeeded. While another host runs the command, this host
    /// waits, at most for --wait. If the command fails or its host dies, another host runs it.
    ///
    /// Exit codes: 0 if the command has succeeded in this period, here or elsewhere; the last exit code of the command,
    /// or 125, if all attempts have failed; 75 after --wait; 125 if a success could not be recorded, so that the command
    /// may run again.
    #[arg(long, value_name = "PERIOD", value_parser = positive_duration, help_heading = "Job",
        conflicts_with_all = ["group", "restart", "on_loss"])]
    once_per: Option<Duration>,
    /// Largest number of attempts in a period, on all hosts together
    #[arg(long, value_name = "NUMBER", requires = "once_per", default_value_t = 3, help_heading = "Job",
        value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,
    /// Run the command even if it has succeeded in this period, and write PERIOD into the record
    #[arg(long, requires = "once_per", help_heading = "Job")]
    force: bool,
    /// Time to wait for the lease; 0s tries once [default: forever]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    wait: Option<Duration>,
    /// Action after the term was lost
    #[arg(long, value_name = "ACTION", value_enum, default_value = "campaign", help_heading = "Ending")]
    on_loss: OnLoss,
    /// Program that exits with 0 while this replica may lead; run every retry period without a shell
    #[arg(long, value_name = "COMMAND", help_heading = "Fitness")]
    probe: Option<String>,
    /// Time limit of one run of the probe [default: the retry period]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, requires = "probe", help_heading = "Fitness")]
    probe_timeout: Option<Duration>,
    /// Progress source: a FILE that the command modifies, or `notify` for systemd watchdog messages; without progress,
    /// the command is stopped
    #[arg(long, value_name = "FILE|notify", requires = "progress_timeout", help_heading = "Fitness")]
    progress: Option<ProgressSource>,
    /// Longest time without progress
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, requires = "progress", help_heading = "Fitness")]
    progress_timeout: Option<Duration>,
    /// Serve /, /leader, /healthz, /readyz and /metrics on this address, for example 127.0.0.1:8080, or :8080 for all
    /// addresses
    #[arg(long, value_name = "ADDRESS", value_parser = http::addresses, help_heading = "Fitness")]
    http: Option<HttpAddresses>,
    /// Make /readyz fail after N lease durations without a leader [default: never]
    ///
    /// Every replica becomes unready at the same time, so a rolling update that needs ready replicas stops.
    #[arg(long, value_name = "N", requires = "http", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Fitness")]
    unready_without_leader: Option<u32>,
    /// Log only warnings and errors (overridden by LEASEHOLD_LOG)
    #[arg(short, long)]
    pub quiet: bool,
    /// Command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// The largest number of members of a group.
const MOST_MEMBERS: u32 = 64;

/// The longest drain timeout of an elector.
const LONGEST_DRAIN: Duration = Duration::from_secs(i32::MAX as u64);

/// Runs a hidden subcommand, which only `leasehold run` starts.
///
/// Returns `None` for other arguments, else the exit code or the message on stderr.
pub fn hidden(mut arguments: impl Iterator<Item = OsString>) -> Option<Result<u8, Failure>> {
    let name = arguments.next()?;
    if name == guardian::process::NAME {
        return Some(guardian::process::main(arguments.collect()));
    }
    (name == exec::NAME).then(|| exec::main(arguments))
}

/// Runs the command while the lease is held, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn run(arguments: RunArgs) -> Result<u8, Failure> {
    let RunArgs { election, stop_timeout, loss_grace, kill_margin, restart, on_loss, command, .. } = arguments;
    command::check(&command[0])?;
    let mut builder = election.builder();
    let mut settings = builder.validate()?;
    if arguments.group.is_some() {
        // A shard is owned for at most two thirds of a lease duration after the last renewal.
        settings.renew_deadline = settings.renew_deadline.min(settings.lease_duration * 2 / 3);
    }
    // A random identity is fixed here, because the elector and the command must use the same identity.
    builder = builder.identity(&settings.identity);
    let drain_timeout = settings.drain_timeout.unwrap_or(settings.renew_deadline);
    // After a request, the lease is renewed until the stopped command has ended. A shard is owned until then.
    let longest_drain = stop_timeout.saturating_add(drain_timeout).min(LONGEST_DRAIN);
    if election.accept_requests {
        builder = builder.drain_timeout(longest_drain);
    }
    let job = arguments.once_per.map(|period| PeriodicJob {
        once_per: OncePer::new(period).max_attempts(arguments.attempts).force(arguments.force),
        is_forced: arguments.force,
    });
    if job.is_some() && election.lock_type.is_some_and(|lock_type| lock_type != ResourceLock::Leases) {
        return Err("--once-per needs --lock-type leases, because other objects do not keep the history".into());
    }
    let times = Times::new(stop_timeout, loss_grace, kill_margin, &settings)?;
    let mut judge = None;
    if let Some(probe) = &arguments.probe {
        let timeout = arguments.probe_timeout.unwrap_or(settings.retry_period);
        let probe = Probe::new(probe, timeout)?;
        command::check(probe.arguments[0].as_ref()).map_err(|Failure(_, message)| format!("--probe {message}"))?;
        let fitness = Fitness::new();
        builder = builder.fitness(&fitness);
        judge = Some((probe, fitness));
    }
    let remedy = "mount /proc and use a kernel with CONFIG_PROC_CHILDREN";
    descendants::check().map_err(|error| format!("cannot list child processes in /proc: {error}; {remedy}"))?;
    // As a subreaper, this process adopts the orphans of the guardian.
    set_child_subreaper(Some(getpid()))?;
    let signals = signals::take()?;
    if let Some(name) = arguments.group {
        let group = match arguments.at_most {
            None => LeaseGroup::builder(name).shards(arguments.shards),
            Some(at_most) => {
                if let Some(max_members) = arguments.max_members.filter(|max_members| *max_members < at_most) {
                    return Err(
                        format!("--max-members is {max_members}: must be at least {at_most}, as --at-most").into()
                    );
                }
                let max_members = at_most.saturating_add(2).min(MOST_MEMBERS);
                LeaseGroup::builder(name).shards(at_most).max_shards(1).max_members(max_members)
            }
        };
        let group = arguments.max_members.into_iter().fold(group, LeaseGroupBuilder::max_members);
        let failure = LastFailure::default();
        let group = group.drain_timeout(longest_drain).slot(|_| builder.observer(failure.clone()));
        let means = ShardMeans { arguments: command, signals, times, settings, drain_timeout, failure };
        return Ok(shards::run(group, &election.place, means)?);
    }
    let builder = election.place.namespace.iter().fold(builder, LeaderElectorBuilder::namespace);
    let environment =
        [("LEASEHOLD_LEASE", election.lease.unwrap_or_default()), ("LEASEHOLD_IDENTITY", settings.identity)];
    let guarded = Guarded { arguments: command, environment: environment.into() };
    let guardian = Guardian::start(&guarded).map_err(|error| format!("cannot start the guardian: {error}"))?;
    let place = election.place.open(election.lock_type, true)?;
    let (renewed, renewals) = bounded(1);
    let elector = Arc::new(place.start(builder.observer(Renewals(renewed)))?);
    let work = Arc::default();
    if let Some(addresses) = arguments.http {
        let unready_after = arguments.unready_without_leader.map(|n| settings.lease_duration.saturating_mul(n));
        let (elector, work) = (Arc::downgrade(&elector), Arc::clone(&work));
        StatusServer { elector, work, unready_after, applications: None }.serve(http::listen(&addresses)?)?;
    }
    let progress = arguments.progress.zip(arguments.progress_timeout);
    if let Some((ProgressSource::File(path), _)) = &progress {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if directory.is_some_and(|directory| !directory.is_dir()) {
            log::warn!(target: COMMAND, "--progress {}: the directory does not exist yet", path.display());
        }
    }
    let judge = judge.map(|(probe, fitness)| Judge::start(probe, settings.retry_period, fitness)).transpose()?;
    let (command, retry_period) = ("command".to_owned(), settings.retry_period);
    let last_error = Box::new({
        let elector = Arc::clone(&elector);
        move || last_error(elector.status())
    });
    let means = Means { guardian, signals, renewals, last_error, judge, times, command, retry_period, drain_timeout };
    let (wait, backoff) = (arguments.wait, Backoff::default());
    let supervisor = Supervisor { guarded, restart, on_loss, progress, wait, job, elector, means, work, backoff };
    Ok(supervisor.run()?)
}

/// Returns the last error of the election, or the time since the last answer of the store.
fn last_error(status: Status) -> String {
    match (status.last_error, status.last_contact) {
        (Some(error), _) => error.to_string(),
        (None, Some(ago)) => format!("the last answer of the store came {:.1} s ago", ago.as_secs_f64()),
        (None, None) => "the store has not answered".to_owned(),
    }
}

/// An observer that reports renewals to the supervisor.
struct Renewals(Sender<()>);

impl Observer for Renewals {
    fn on_event(&self, event: &Event) {
        if let Event::Renewed { .. } = event {
            let _ = self.0.try_send(());
        }
    }
}
