//! One term: the command runs while its lease is held, or while its shard is owned.
//!
//! The lease is released, or the shard moves, when no process of the command is left.

use std::convert::Infallible;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crossbeam_channel::{Receiver, after, never, select, tick};
use leasehold::group::Shard;
use leasehold::{LeaderGuard, StopReason};
use log::Level;
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};

use super::guardian::{Guardian, Lost};
use super::messages::{CommandEnd, GuardianReport, OrderKind, signal_name};
use super::probe::Judge;
use super::progress::Watchdog;
use super::signals::Caught;
use super::times::{Times, boot_time};
use crate::log::COMMAND;

/// The parts of the supervisor that each term uses.
pub struct Means {
    pub guardian: Guardian,
    pub signals: Receiver<Caught>,
    /// One message per renewal of the lease.
    ///
    /// Without messages, only the regular checks extend the term.
    pub renewals: Receiver<()>,
    /// Returns the last error of the election, for the log.
    pub last_error: Box<dyn Fn() -> String + Send>,
    pub judge: Option<Judge>,
    pub times: Times,
    /// The name of the command in log lines.
    pub command: String,
    pub retry_period: Duration,
    /// The time to wait for the end of killed processes.
    pub drain_timeout: Duration,
}

impl Means {
    /// Returns the results of the probe, or a channel without messages if there is no probe.
    pub fn verdicts(&self) -> Receiver<bool> {
        self.judge.as_ref().map_or_else(never, |judge| judge.verdicts.clone())
    }
}

/// The reason why a command was stopped or killed. The first reason counts.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    /// This process received the signal.
    Told(i32),
    /// The lease could not be renewed, with the last error. The command is stopped before the term ends.
    NotRenewed(String),
    /// The term has ended.
    Lost(StopReason),
    /// The shard must move, or the process leaves the group.
    ShardRecalled,
    /// This process no longer owns the shard.
    ShardLost,
    /// The probe has failed.
    Unfit,
    /// The command made no progress. The text names the missing sign and the timeout.
    NoProgress(String),
    /// The guardian does not answer.
    GuardianLost(String),
    /// The command was not started. `code` is the exit code, and `error` is the cause.
    NotStarted { code: u8, error: String },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told(signal) => write!(f, "received {}", signal_name(*signal)),
            Self::NotRenewed(error) => write!(f, "the lease could not be renewed: {error}"),
            Self::Lost(reason) => write!(f, "{reason}"),
            Self::ShardRecalled => f.write_str("the shard must be returned"),
            Self::ShardLost => f.write_str("the shard is no longer owned"),
            Self::Unfit => f.write_str("this replica is unfit to lead"),
            Self::NoProgress(what) => write!(f, "no progress: {what}"),
            Self::GuardianLost(why) => write!(f, "guardian lost: {why}"),
            Self::NotStarted { error, .. } => write!(f, "cannot be started: {error}"),
        }
    }
}

/// The right under which a command runs.
#[derive(Clone, Copy)]
pub enum WorkRight<'a> {
    Lease(&'a LeaderGuard),
    Shard(&'a Shard),
}

impl WorkRight<'_> {
    /// Returns how long the lease is kept, or the shard is owned, without another renewal.
    fn kept_for(self) -> Duration {
        match self {
            Self::Lease(guard) => guard.lease_remaining(),
            Self::Shard(shard) => shard.remaining(),
        }
    }

    fn fencing_token(self) -> u64 {
        match self {
            Self::Lease(guard) => guard.fencing_token(),
            Self::Shard(shard) => shard.fencing_token(),
        }
    }

    /// Returns a channel that disconnects when the command must end.
    fn ended(&self) -> &Receiver<Infallible> {
        match self {
            Self::Lease(guard) => guard.ended(),
            Self::Shard(shard) => shard.recalled(),
        }
    }

    /// Ends the term of a lease, so that the lease is not renewed for a command without a guardian.
    ///
    /// The other shards need the slot of the process, so a shard has no such step.
    fn step_down(self) {
        if let Self::Lease(guard) = self {
            guard.step_down_within(Duration::ZERO);
        }
    }
}

/// The outcome of a term.
#[derive(Default)]
pub struct TermOutcome {
    /// The reason why the command was stopped, or `None` if the command ended by itself.
    pub why: Option<Why>,
    /// The signal that ends this process, even if the command was already being stopped.
    pub told: Option<i32>,
    /// The status of the command.
    ///
    /// `None` if the command ended with its guardian, or never started.
    pub end: Option<CommandEnd>,
    /// `true` if no process of the command is left. If `false`, the lease must not be released.
    pub is_gone: bool,
}

/// The error after a term whose command cannot be killed.
pub const NOT_KILLED: &str = "some processes of the command cannot be killed: check their wait state and their user";

/// The number of times that the supervisor checks the guardian in a retry period.
pub const TICKS: u32 = 4;

/// Returns the interval between checks of the guardian.
///
/// A guardian on a busy machine may need hundreds of milliseconds for an answer.
pub fn between_ticks(retry_period: Duration) -> Duration {
    (retry_period / TICKS).max(Duration::from_millis(250))
}

/// The interval between checks of the lease while the command of an ended term drains.
const BETWEEN_DRAIN_TICKS: Duration = Duration::from_millis(50);

/// The time in which the guardian must start to kill the command.
///
/// After this time, the supervisor kills the guardian and the command.
const AT_ONCE: Duration = Duration::from_millis(200);

/// Returns the process group that the command joins to receive signals of the terminal.
///
/// Returns the group of this process if the group is in the foreground of the terminal on stdin, else `None`.
fn group_of_terminal() -> Option<i32> {
    let stdin = io::stdin();
    let is_ours = isatty(&stdin) && tcgetpgrp(&stdin).is_ok_and(|foreground| foreground == getpgrp());
    is_ours.then(|| getpgrp().as_raw_nonzero().get())
}

struct CommandTerm<'a> {
    means: &'a mut Means,
    watchdog: Option<Watchdog>,
    right: WorkRight<'a>,
    /// `true` if the command receives the signals that the terminal sends to the process group.
    is_of_group: bool,
    outcome: TermOutcome,
    /// Fires often while the command of an ended term drains, because a lost lease then causes no event.
    drain_ticks: Receiver<Instant>,
    killing_since: Option<Instant>,
    kill_ordered_at: Option<Instant>,
    /// `true` if remaining processes cannot be killed.
    is_stuck: bool,
}

/// Runs the command during the term.
///
/// If [`TermOutcome::is_gone`] is `true`, the caller may release the lease or the shard.
pub fn lead(right: WorkRight<'_>, means: &mut Means, watchdog: Option<Watchdog>) -> TermOutcome {
    let mut term = CommandTerm::new(right, means, watchdog);
    if let Err(Lost(why)) = term.run() {
        log::error!(target: COMMAND, "guardian lost, killing it and the {}: {why}", term.means.command);
        // Without the guardian, no process ends the command in time, so the term must not be extended.
        right.step_down();
        let reason = Why::GuardianLost(why);
        term.outcome.why.get_or_insert(reason);
        term.outcome.is_gone = term.means.guardian.kill(term.means.drain_timeout);
    }
    if !term.outcome.is_gone {
        right.step_down();
    }
    term.outcome
}

impl<'a> CommandTerm<'a> {
    fn new(right: WorkRight<'a>, means: &'a mut Means, watchdog: Option<Watchdog>) -> Self {
        Self {
            means,
            watchdog,
            right,
            is_of_group: false,
            outcome: TermOutcome::default(),
            drain_ticks: never(),
            killing_since: None,
            kill_ordered_at: None,
            is_stuck: false,
        }
    }

    fn run(&mut self) -> Result<(), Lost> {
        self.start()?;
        let ticks = tick(between_ticks(self.means.retry_period));
        let (reports, mut ended) = (self.means.guardian.reports.clone(), self.right.ended().clone());
        while !self.outcome.is_gone && !self.is_stuck {
            select! {
                recv(reports) -> report => self.hear(report.map_err(|_| Lost("exited".to_owned()))?)?,
                recv(ended) -> _ => {
                    ended = never();
                    self.lose()?;
                }
                recv(self.means.renewals) -> _ => self.extend()?,
                recv(self.means.signals) -> caught => caught.map_or(Ok(()), |caught| self.take(caught))?,
                recv(self.means.verdicts()) -> verdict => {
                    if self.means.judge.as_mut().is_some_and(|judge| !judge.hear(verdict.ok())) {
                        self.stop(Why::Unfit, false)?;
                    }
                }
                recv(ticks) -> _ => self.look()?,
                recv(self.drain_ticks) -> _ => {
                    if self.kill_ordered_at.is_none() && self.right.kept_for().is_zero() {
                        self.kill(Why::NotRenewed((self.means.last_error)()))?;
                    }
                }
                recv(self.too_late()) -> _ => self.end_in_time()?,
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Lost> {
        // The commands of several shards cannot share the terminal.
        let has_terminal = matches!(self.right, WorkRight::Lease(_));
        let group = group_of_terminal().filter(|_| has_terminal);
        self.is_of_group = group.is_some();
        let valid_until = self.valid_until();
        let mut environment = self.watchdog.as_ref().map_or_else(Vec::new, |watchdog| watchdog.environment.clone());
        environment.push(("LEASEHOLD_FENCING_TOKEN".to_owned(), Some(self.right.fencing_token().to_string())));
        let what = OrderKind::Start { times: self.means.times, valid_until, group, environment };
        let stdin = io::stdin();
        self.means.guardian.order_with(what, has_terminal.then(|| stdin.as_fd()))
    }

    /// Returns the time until which the lease is kept in boot time, never too late.
    ///
    /// The clock is read before the remaining time, so a delay between the two makes the result earlier.
    fn valid_until(&self) -> Duration {
        let now = boot_time();
        now + self.right.kept_for()
    }

    fn extend(&mut self) -> Result<(), Lost> {
        let until = self.valid_until();
        // After the loss of the lease, the order only checks that the guardian still answers.
        let is_kept = !self.right.kept_for().is_zero();
        self.means.guardian.order(if is_kept { OrderKind::Valid { until } } else { OrderKind::Ping })
    }

    /// Handles a report of the guardian.
    fn hear(&mut self, report: GuardianReport) -> Result<(), Lost> {
        match report {
            GuardianReport::Acknowledged(number) => self.means.guardian.acknowledged(number),
            GuardianReport::Started(pid) => {
                log::info!(target: COMMAND, "{} started as process {pid}", self.means.command);
            }
            GuardianReport::NotStarted { code, error } => {
                self.outcome.why = Some(Why::NotStarted { code, error });
                self.outcome.is_gone = true;
            }
            GuardianReport::Terminated => self.not_renewed("received SIGTERM"),
            GuardianReport::Killing(processes) => {
                self.killing_since = Some(Instant::now());
                if self.outcome.end.is_none() {
                    // The command is killed without SIGTERM, because the term is about to end.
                    self.not_renewed("received SIGKILL");
                }
                match &self.outcome.why {
                    _ if processes == 0 => {}
                    None => {
                        log::info!(target: COMMAND, "killed {processes} processes that the {} left behind", self.means.command);
                    }
                    Some(_) if self.kill_ordered_at.is_some() => {}
                    Some(_) => {
                        log::warn!(target: COMMAND, "killed {processes} processes that did not exit in time: {}", self.means.command);
                    }
                }
            }
            GuardianReport::Ended(end) => self.outcome.end = Some(end),
            GuardianReport::Gone => self.outcome.is_gone = true,
            GuardianReport::AskedToStop => self.end(SIGTERM, false)?,
            GuardianReport::Ready => {}
        }
        Ok(())
    }

    /// Records that the guardian ends the command before the term ends, unless another reason came first.
    fn not_renewed(&mut self, what: &str) {
        if self.outcome.why.is_none() {
            let error = (self.means.last_error)();
            log::warn!(target: COMMAND, "lease not renewed, {} {what}: {error}", self.means.command);
            self.outcome.why = Some(Why::NotRenewed(error));
        }
    }

    /// Kills the command, because the term has ended.
    ///
    /// After a request, or if a shard must be returned, stops the command first.
    fn lose(&mut self) -> Result<(), Lost> {
        let why = match self.right {
            WorkRight::Lease(guard) => {
                Why::Lost(guard.check().err().map_or(StopReason::SteppedDown, |ended| ended.reason))
            }
            WorkRight::Shard(shard) if shard.is_owned() => Why::ShardRecalled,
            WorkRight::Shard(_) => Why::ShardLost,
        };
        match why {
            // The lease is renewed while the command ends.
            Why::Lost(StopReason::Requested) | Why::ShardRecalled => {
                self.drain_ticks = tick(BETWEEN_DRAIN_TICKS);
                self.stop(why, false)
            }
            why => self.kill(why),
        }
    }

    fn end(&mut self, signal: i32, is_told: bool) -> Result<(), Lost> {
        self.outcome.told.get_or_insert(signal);
        self.stop(Why::Told(signal), is_told)
    }

    fn stop(&mut self, why: Why, is_told: bool) -> Result<(), Lost> {
        if self.outcome.why.is_none() {
            let stop_timeout = humantime::format_duration(self.means.times.stop_timeout);
            let is_asked_for = matches!(why, Why::Told(_) | Why::Lost(StopReason::Requested) | Why::ShardRecalled);
            let level = if is_asked_for { Level::Info } else { Level::Warn };
            log::log!(target: COMMAND, level, "stopping the {} (SIGKILL in {stop_timeout}): {why}", self.means.command);
            self.outcome.why = Some(why);
            return self.means.guardian.order(OrderKind::Stop { is_told });
        }
        Ok(())
    }

    fn kill(&mut self, why: Why) -> Result<(), Lost> {
        log::warn!(target: COMMAND, "killing the {}: {why}", self.means.command);
        self.outcome.why.get_or_insert(why);
        self.kill_ordered_at = Some(Instant::now());
        self.means.guardian.order(OrderKind::Kill)
    }

    fn take(&mut self, Caught { signal, is_of_terminal }: Caught) -> Result<(), Lost> {
        let is_told = is_of_terminal && self.is_of_group;
        match signal {
            SIGCHLD => self.means.guardian.reap_adopted(),
            SIGTERM | SIGINT => return self.end(signal, is_told),
            _ if is_told => {}
            // An error is ignored, because a full socket does not prove that the guardian is lost. The regular check
            // of the guardian decides.
            _ => _ = self.means.guardian.order(OrderKind::Signal(signal)),
        }
        Ok(())
    }

    /// Runs the regular checks.
    fn look(&mut self) -> Result<(), Lost> {
        self.extend()?;
        self.means.guardian.tick(TICKS)?;
        if let Some(missed) = self.watchdog.as_mut().and_then(Watchdog::missed) {
            self.stop(Why::NoProgress(missed), false)?;
        }
        let is_overdue = self.killing_since.is_some_and(|since| since.elapsed() > self.means.drain_timeout);
        if is_overdue {
            self.read_reports(|term| term.outcome.is_gone)?;
        }
        self.is_stuck = is_overdue && !self.outcome.is_gone;
        if self.is_stuck {
            log::error!(
                target: COMMAND,
                "some processes of the {} cannot be killed: letting the lease expire; do not clear the lease while they run",
                self.means.command
            );
        }
        Ok(())
    }

    /// Reads the reports of the guardian until `is_enough` returns `true`, or for a tenth of the kill margin.
    ///
    /// If this process was stopped, the reports are still unread.
    fn read_reports(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<(), Lost> {
        let until = Instant::now() + self.means.times.kill_margin / 10;
        while !is_enough(self)
            && let Ok(report) = self.means.guardian.reports.recv_deadline(until)
        {
            self.hear(report)?;
        }
        Ok(())
    }

    /// Returns a channel that fires if the guardian has not started to kill the command in time.
    fn too_late(&self) -> Receiver<Instant> {
        let kept = self.right.kept_for();
        match (self.killing_since, self.kill_ordered_at) {
            (None, Some(at)) => crossbeam_channel::at(at + AT_ONCE),
            // Half of the kill margin remains for killing the guardian and the command.
            (None, None) if !kept.is_zero() => after(kept.saturating_sub(self.means.times.kill_margin / 2)),
            _ => never(),
        }
    }

    /// Checks that the guardian has started to kill the command in time.
    fn end_in_time(&mut self) -> Result<(), Lost> {
        self.read_reports(|term| term.killing_since.is_some() || term.outcome.is_gone)?;
        // A renewal may have extended the term during the wait.
        let is_late = self.kill_ordered_at.is_some() || self.right.kept_for() <= self.means.times.kill_margin / 2;
        if is_late && self.killing_since.is_none() && !self.outcome.is_gone {
            return Err(Lost("did not end the command in time".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;
    use leasehold::LeaderElector;
    use leasehold::store::MemoryStore;

    use super::*;

    /// Runs `test` in a term whose command is being killed.
    fn in_kill(reports: Receiver<GuardianReport>, drain_timeout: Duration, test: impl FnOnce(&mut CommandTerm<'_>)) {
        let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new()).expect("an elector");
        let guard = elector.block_until_leader().expect("a term");
        let (guardian, _link) = Guardian::fake(reports);
        let hour = Duration::from_secs(3_600);
        let mut means = Means {
            guardian,
            signals: never(),
            renewals: never(),
            last_error: Box::new(String::new),
            judge: None,
            times: Times { stop_timeout: hour, loss_grace: hour, kill_margin: Duration::from_secs(1) },
            command: String::new(),
            retry_period: hour,
            drain_timeout,
        };
        let mut term = CommandTerm::new(WorkRight::Lease(&guard), &mut means, None);
        term.killing_since = Some(Instant::now());
        test(&mut term);
    }

    /// While the supervisor is stopped, the killed command ends and the drain timeout passes.
    #[test]
    fn command_whose_end_is_unread_is_not_stuck() {
        let (sender, reports) = unbounded();
        in_kill(reports, Duration::ZERO, |term| {
            std::thread::sleep(Duration::from_millis(1));
            term.look().expect("a guardian");
            assert!(term.is_stuck, "no report");
            sender.send(GuardianReport::Gone).expect("a receiver");
            term.look().expect("a guardian");
            assert!(!term.is_stuck && term.outcome.is_gone);
        });
    }

    #[test]
    fn guardian_that_is_silent_during_the_kill_is_lost() {
        in_kill(never(), Duration::from_secs(3_600), |term| {
            term.means.guardian.order(OrderKind::Kill).expect("an order");
            assert!((0..=TICKS).any(|_| term.look().is_err()));
        });
    }
}
