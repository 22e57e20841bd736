//! One term: the command runs while its lease is held, and the lease is released when nothing of it is left.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select, tick};
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
    /// A message each time that the lease was renewed.
    pub renewals: Receiver<()>,
    pub judge: Option<Judge>,
    pub times: Times,
    pub retry_period: Duration,
    /// For how long what cannot be killed is waited for.
    pub drain_timeout: Duration,
}

/// Why a command was ended; the first reason counts.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    /// We were told to, by this signal.
    Told(i32),
    /// The lease could not be renewed, and the command is told to end before it is over.
    NotRenewed,
    /// The term has ended.
    Lost(StopReason),
    /// The probe says no.
    Unfit,
    /// The command made no progress: what has not come, and for how long.
    NoProgress(String),
    /// The guardian does not answer.
    GuardianLost(String),
    /// The command was not started: the exit code, and the cause.
    NotStarted { code: u8, error: String },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told(signal) => write!(f, "{} has come", signal_name(*signal)),
            Self::NotRenewed => f.write_str("the lease is not renewed"),
            Self::Lost(reason) => write!(f, "{reason}"),
            Self::Unfit => f.write_str("this replica is not fit to lead"),
            Self::NoProgress(what) => write!(f, "it made no progress: {what}"),
            Self::GuardianLost(why) => write!(f, "its guardian is lost: {why}"),
            Self::NotStarted { error, .. } => write!(f, "it cannot be started: {error}"),
        }
    }
}

/// How a term went.
pub struct TermOutcome {
    /// `None`: the command ended by itself.
    pub why: Option<Why>,
    /// The signal that we were told to end by, also when the command was being ended already.
    pub told: Option<i32>,
    /// `None`: that is not known, because it was ended with its guardian, or never began.
    pub end: Option<CommandEnd>,
    /// Whether nothing of the command is left. Else the lease must not be released.
    pub is_gone: bool,
}

/// How many looks at the guardian there are in a retry period.
pub const TICKS: u32 = 4;

/// How often to look at it. A guardian on a busy machine may need hundreds of milliseconds for an answer.
pub fn between_ticks(retry_period: Duration) -> Duration {
    (retry_period / TICKS).max(Duration::from_millis(250))
}

/// How long an order that ends the command may be on its way, before the guardian is ended with it.
const AT_ONCE: Duration = Duration::from_millis(200);

/// The process group that the command joins, if it is to be reached by the terminal's keys: ours, in the foreground of the terminal
/// that is stdin.
fn group_of_terminal() -> Option<i32> {
    let stdin = io::stdin();
    let is_ours = isatty(&stdin) && tcgetpgrp(&stdin).is_ok_and(|foreground| foreground == getpgrp());
    is_ours.then(|| getpgrp().as_raw_nonzero().get())
}

struct CommandTerm<'a> {
    means: &'a mut Means,
    watchdog: Option<Watchdog>,
    guard: &'a LeaderGuard,
    /// Whether the command gets what the terminal sends to our process group.
    is_of_group: bool,
    outcome: TermOutcome,
    killing_since: Option<Instant>,
    kill_ordered_at: Option<Instant>,
}

/// Runs the command for as long as the term goes on. When this returns with nothing of it left, the guard may be dropped.
pub fn lead(guard: &LeaderGuard, means: &mut Means, watchdog: Option<Watchdog>) -> TermOutcome {
    let outcome = TermOutcome { why: None, told: None, end: None, is_gone: false };
    let mut term =
        CommandTerm { means, watchdog, guard, is_of_group: false, outcome, killing_since: None, kill_ordered_at: None };
    if let Err(Lost(why)) = term.run() {
        log::error!(target: COMMAND, "the guardian is lost, and is ended with all that it guards: {why}");
        // The guardian is not there to end it in time: nothing prolongs the term any more.
        guard.step_down_within(Duration::ZERO);
        let reason = Why::GuardianLost(why);
        term.outcome.why.get_or_insert(reason);
        term.outcome.is_gone = term.means.guardian.kill(term.means.drain_timeout);
    }
    if !term.outcome.is_gone {
        guard.step_down_within(Duration::ZERO);
    }
    term.outcome
}

impl CommandTerm<'_> {
    fn run(&mut self) -> Result<(), Lost> {
        self.start()?;
        let ticks = tick(between_ticks(self.means.retry_period));
        let (reports, ended) = (self.means.guardian.reports.clone(), self.guard.ended().clone());
        let mut ended = &ended;
        let over = never();
        let mut verdicts = self.means.judge.as_ref().map_or_else(never, |judge| judge.verdicts.clone());
        loop {
            select! {
                recv(reports) -> report => {
                    let Ok(report) = report else { return Err(Lost("it has ended".to_owned())) };
                    if self.hear(report)? {
                        return Ok(());
                    }
                }
                recv(ended) -> _ => {
                    ended = &over;
                    self.lose()?;
                }
                recv(self.means.renewals) -> _ => self.extend()?,
                recv(self.means.signals) -> caught => {
                    if let Ok(caught) = caught {
                        self.take(caught)?;
                    }
                }
                recv(verdicts) -> verdict => {
                    if verdict.is_err() {
                        verdicts = never();
                    }
                    if self.means.judge.as_mut().is_some_and(|judge| !judge.hear(verdict.ok())) {
                        self.stop(Why::Unfit, false)?;
                    }
                }
                recv(ticks) -> _ => {
                    if self.look()? {
                        return Ok(());
                    }
                }
                recv(self.too_late()) -> _ => {
                    if self.end_in_time()? {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn start(&mut self) -> Result<(), Lost> {
        let group = group_of_terminal();
        self.is_of_group = group.is_some();
        let valid_until = self.valid_until();
        let mut environment = self.watchdog.as_ref().map_or_else(Vec::new, |watchdog| watchdog.environment.clone());
        environment.push(("LEASEHOLD_FENCING_TOKEN".to_owned(), Some(self.guard.fencing_token().to_string())));
        let what = OrderKind::Start { times: self.means.times, valid_until, group, environment };
        let stdin = io::stdin();
        self.means.guardian.order_with(what, Some(stdin.as_fd()))
    }

    /// Until when the term is valid, at least: the clock is read first.
    fn valid_until(&self) -> Duration {
        let now = boot_time();
        now + self.guard.remaining()
    }

    fn extend(&mut self) -> Result<(), Lost> {
        let until = self.valid_until();
        // Of a term that is over there is nothing to say, but an answer is wanted.
        self.means.guardian.order(if self.guard.is_leader() { OrderKind::Valid { until } } else { OrderKind::Ping })
    }

    /// True when nothing of the command is left.
    fn hear(&mut self, report: GuardianReport) -> Result<bool, Lost> {
        match report {
            GuardianReport::Acknowledged(number) => self.means.guardian.acknowledged(number),
            GuardianReport::Started { pid } => log::info!(target: COMMAND, "the command runs, as process {pid}"),
            GuardianReport::NotStarted { code, error } => {
                self.outcome.why = Some(Why::NotStarted { code, error });
                self.outcome.is_gone = true;
                return Ok(true);
            }
            GuardianReport::Terminated => {
                log::warn!(target: COMMAND, "the lease is not renewed: the command was told to end");
                self.outcome.why.get_or_insert(Why::NotRenewed);
            }
            GuardianReport::Killing { processes } => {
                self.killing_since = Some(Instant::now());
                if self.outcome.end.is_none() {
                    // It had no time to be told first.
                    self.outcome.why.get_or_insert(Why::NotRenewed);
                }
                match &self.outcome.why {
                    _ if processes == 0 => {}
                    None => {
                        log::info!(target: COMMAND, "killed what the command has left behind: processes: {processes}")
                    }
                    Some(_) if self.kill_ordered_at.is_some() => {}
                    Some(_) => {
                        log::warn!(target: COMMAND, "killed what has not ended in its time: processes: {processes}")
                    }
                }
            }
            GuardianReport::Ended(end) => self.outcome.end = Some(end),
            GuardianReport::Gone => {
                self.outcome.is_gone = true;
                return Ok(true);
            }
            GuardianReport::AskedToStop => self.end(SIGTERM, false)?,
            GuardianReport::Ready => {}
        }
        Ok(false)
    }

    /// The term is over, or has been ended.
    fn lose(&mut self) -> Result<(), Lost> {
        let reason = self.guard.check().err().map_or(StopReason::SteppedDown, |ended| ended.reason);
        self.kill(Why::Lost(reason))
    }

    fn end(&mut self, signal: i32, is_told: bool) -> Result<(), Lost> {
        self.outcome.told.get_or_insert(signal);
        self.stop(Why::Told(signal), is_told)
    }

    fn stop(&mut self, why: Why, is_told: bool) -> Result<(), Lost> {
        if self.outcome.why.is_none() {
            let stop_timeout = humantime::format_duration(self.means.times.stop_timeout);
            let level = if matches!(why, Why::Told(_)) { Level::Info } else { Level::Warn };
            log::log!(target: COMMAND, level, "the command is told to end, and has {stop_timeout} for that: {why}");
            self.outcome.why = Some(why);
            return self.means.guardian.order(OrderKind::Stop { is_told });
        }
        Ok(())
    }

    fn kill(&mut self, why: Why) -> Result<(), Lost> {
        log::warn!(target: COMMAND, "the command is ended: {why}");
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
            // There may be more of them than the guardian takes: whether it is lost is for others to tell.
            _ => _ = self.means.guardian.order(OrderKind::Signal(signal)),
        }
        Ok(())
    }

    /// True when what is left of the command cannot be ended.
    fn look(&mut self) -> Result<bool, Lost> {
        self.extend()?;
        self.means.guardian.tick(TICKS)?;
        if let Some(missed) = self.watchdog.as_mut().and_then(Watchdog::missed) {
            self.stop(Why::NoProgress(missed), false)?;
        }
        let is_stuck = self.killing_since.is_some_and(|since| since.elapsed() > self.means.drain_timeout);
        if is_stuck {
            log::error!(target: COMMAND, "something of the command cannot be killed: the lease is left to run out, and must not be taken by hand before that ends"
            );
        }
        Ok(is_stuck)
    }

    /// When it would be too late for the guardian to end the command, if it has not begun.
    fn too_late(&self) -> Receiver<Instant> {
        match (self.killing_since, self.kill_ordered_at) {
            (Some(_), _) => never(),
            (None, Some(at)) => crossbeam_channel::at(at + AT_ONCE),
            // Half of what it has for that.
            (None, None) if self.guard.is_leader() => {
                after(self.guard.remaining().saturating_sub(self.means.times.kill_margin / 2))
            }
            (None, None) => never(),
        }
    }

    /// True when nothing of the command is left.
    fn end_in_time(&mut self) -> Result<bool, Lost> {
        // Whoever wakes up late finds here what the guardian has done meanwhile.
        let until = Instant::now() + self.means.times.kill_margin / 10;
        while self.killing_since.is_none() {
            match self.means.guardian.reports.recv_deadline(until) {
                Ok(report) => {
                    if self.hear(report)? {
                        return Ok(true);
                    }
                }
                Err(_) => break,
            }
        }
        // The term may have been prolonged since that was waited for.
        let is_late = self.kill_ordered_at.is_some() || self.guard.remaining() <= self.means.times.kill_margin / 2;
        match self.killing_since {
            None if is_late => Err(Lost("it has not ended the command in time".to_owned())),
            _ => Ok(false),
        }
    }
}
