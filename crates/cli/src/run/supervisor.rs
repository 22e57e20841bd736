//! The supervisor: campaigns, and leads while the command runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select, tick};
use leasehold::job::{NotDue, OncePer};
use leasehold::{LeaderElector, LeaderGuard, StopReason};
use log::Level;
use parking_lot::Mutex;
use signal_hook::consts::{SIGCHLD, SIGTERM};

use super::command::{self, TERM_ENDED, by_signal};
use super::guardian::{Guarded, Guardian, Lost};
use super::http::CommandWork;
use super::messages::{GuardianReport, OrderKind, signal_name};
use super::probe::Judge;
use super::progress::{ProgressSource, Watchdog};
use super::signals::{self, Caught};
use super::term::{self, Means, TICKS, TermOutcome, Why, WorkRight, between_ticks};
use crate::backoff::Backoff;
use crate::election::Error;
use crate::log::COMMAND;

/// The action after a term that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnLoss {
    /// Campaign again
    Campaign,
    /// Exit with 124
    Exit,
}

pub struct Supervisor {
    pub guarded: Guarded,
    pub restart: bool,
    pub on_loss: OnLoss,
    pub progress: Option<(ProgressSource, Duration)>,
    /// The time limit of a campaign, or `None` for no limit.
    pub wait: Option<Duration>,
    /// The job that the command does, if it runs once per period.
    pub job: Option<PeriodicJob>,
    pub elector: Arc<LeaderElector>,
    pub means: Means,
    pub work: Arc<Mutex<CommandWork>>,
    pub backoff: Backoff,
}

/// A job that runs once per period.
pub struct PeriodicJob {
    pub once_per: OncePer,
    /// `true` if the attempt starts in spite of the history.
    pub is_forced: bool,
}

impl Supervisor {
    /// Runs until the command has ended or a signal stops it. Returns the exit code.
    pub fn run(mut self) -> Result<u8, Error> {
        // The wait of a job must include one answer of the store, because that answer decides whether the job is due.
        let shortest = if self.job.is_some() { self.means.retry_period } else { Duration::ZERO };
        let limit = self.wait.map(|wait| wait.max(shortest));
        let mut wait = limit;
        loop {
            let guard = match self.campaign(wait)? {
                Ok(guard) => guard,
                Err(code) => return Ok(code),
            };
            let began = Instant::now();
            let outcome = self.lead(&guard)?;
            if !outcome.is_gone {
                // A remaining process acts as if the lease were held, so the lease must expire without a release. The
                // guardian still tries to kill the process.
                std::mem::forget(guard);
                std::mem::forget(self.means.guardian);
                return Err(term::NOT_KILLED.into());
            }
            self.means.judge.iter_mut().for_each(Judge::tell);
            let is_last = match &self.job {
                None => self.is_last(&outcome),
                Some(job) => self.is_last_attempt(&guard, &outcome, job.is_forced),
            };
            if is_last.is_some() {
                // The guardian is not needed during the release, because no process of the command is left.
                self.means.guardian.dismiss();
            }
            self.release(guard, &outcome, is_last.is_some());
            if let Some(code) = is_last {
                return Ok(code);
            }
            if matches!(outcome.why, Some(Why::GuardianLost(_))) {
                self.means.guardian = Guardian::start(&self.guarded)?;
            }
            // After a request, this replica stands aside, which may take longer than the limit.
            wait = limit.filter(|_| outcome.why != Some(Why::Lost(StopReason::Requested)));
            // After a lost term, there is no pause. Either another candidate leads, or the lease must be acquired again
            // as soon as possible.
            if matches!(outcome.why, None | Some(Why::NoProgress(_) | Why::GuardianLost(_))) {
                let is_crash = outcome.end.is_none_or(|end| end.exit_code() != 0);
                let pause = restart_pause(&mut self.backoff, began.elapsed(), is_crash);
                if let Some(code) = self.pause(pause) {
                    return Ok(code);
                }
            }
        }
    }

    /// Campaigns until a term starts, at most for `wait`.
    ///
    /// Returns its guard, or the exit code if the campaign has ended.
    fn campaign(&mut self, wait: Option<Duration>) -> Result<Result<LeaderGuard, u8>, Error> {
        self.means.guardian.prepare();
        if wait.is_some_and(|wait| wait.is_zero()) {
            return self.try_once();
        }
        self.means.judge.iter_mut().for_each(Judge::tell);
        let campaign = match &self.job {
            Some(job) => self.elector.campaign_once_per(&job.once_per)?,
            None => self.elector.campaign()?,
        };
        let given_up = wait.map_or_else(never, after);
        let ticks = tick(between_ticks(self.means.retry_period));
        loop {
            let guardian = self.means.guardian.reports.clone();
            let told = select! {
                recv(campaign.receiver()) -> won => return self.guard_or_code(won?),
                recv(self.means.verdicts()) -> verdict => {
                    if let Some(judge) = &mut self.means.judge {
                        judge.hear(verdict.ok());
                        judge.tell();
                    }
                    Ok(None)
                }
                recv(given_up) -> _ => {
                    return match won_before_the_wait_ended(campaign.receiver()) {
                        Some(won) => self.guard_or_code(won),
                        None => self.not_acquired().map(Err),
                    };
                }
                recv(self.means.signals) -> caught => Ok(self.told(caught?)),
                recv(ticks) -> _ => self.means.guardian.order(OrderKind::Ping).and_then(|()| self.means.guardian.tick(TICKS)).map(|()| None),
                recv(guardian) -> report => match report {
                    Ok(GuardianReport::Acknowledged(number)) => {
                        self.means.guardian.acknowledged(number);
                        Ok(None)
                    }
                    Ok(GuardianReport::AskedToStop) => Ok(Some(SIGTERM)),
                    Ok(_) => Ok(None),
                    Err(_) => Err(Lost("exited".to_owned())),
                },
            };
            match told {
                Ok(None) => {}
                Ok(Some(signal)) => return Ok(Err(by_signal(signal))),
                Err(Lost(why)) => {
                    log::warn!(target: COMMAND, "guardian lost, starting another: {why}");
                    self.means.guardian.kill(self.means.drain_timeout);
                    self.means.guardian = Guardian::start(&self.guarded)?;
                    self.means.guardian.prepare();
                }
            }
        }
    }

    /// Returns the guard of a campaign, or the exit code if the job is not due.
    fn guard_or_code(&self, won: Result<LeaderGuard, leasehold::Error>) -> Result<Result<LeaderGuard, u8>, Error> {
        let Err(leasehold::Error::NotDue(reason)) = &won else { return Ok(Ok(won?)) };
        let record = self.elector.status().record;
        if let NotDue::Succeeded(_) = reason {
            log::info!(target: COMMAND, "{record}: {reason}");
            return Ok(Err(0));
        }
        log::error!(target: COMMAND, "{record}: job failed: {reason}");
        let code = reason.history().last_attempt_exit_code.and_then(|code| u8::try_from(code).ok());
        Ok(Err(code.filter(|code| *code != 0).unwrap_or(command::FAILED)))
    }

    fn try_once(&mut self) -> Result<Result<LeaderGuard, u8>, Error> {
        if let Some(judge) = &mut self.means.judge {
            judge.wait();
            judge.tell();
        }
        // An attempt may fail because another candidate was faster. The limit ends a series of such attempts.
        for _ in 0..5 {
            match self.elector.try_acquire() {
                Ok(Some(guard)) => return Ok(Ok(guard)),
                // If another candidate was faster, the next attempt reads the new holder.
                Ok(None) if self.elector.current_leader().is_none() => {}
                Ok(None) | Err(leasehold::Error::Unfit) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.not_acquired().map(Err)
    }

    /// Returns exit code 75 if another candidate holds the lease, or if this candidate is unfit or held back.
    ///
    /// Returns an error if the lease was not acquired for another reason.
    fn not_acquired(&self) -> Result<u8, Error> {
        let status = self.elector.status();
        let (wait, hold_back) = (self.wait.unwrap_or_default(), status.settings.hold_back);
        let what = format!("{} was not acquired within {}", status.record, humantime::format_duration(wait));
        let (holder, is_fit) = (self.elector.current_leader(), status.is_fit && status.may_acquire_in.is_none());
        // While another candidate holds the lease, an old failure of a write does not matter.
        if let Some(error) = status.last_error.filter(|_| holder.is_none() || status.failed_write.is_none()) {
            return Err(format!("{what}: {error}").into());
        }
        match holder {
            _ if !is_fit => log::warn!(target: COMMAND, "{what}: this replica is unfit to lead"),
            _ if status.last_contact.is_none() => return Err(format!("{what}: the store has not answered").into()),
            Some(holder) if wait <= status.settings.lease_duration => {
                let least = humantime::format_duration(status.settings.lease_duration);
                let rule =
                    format!("to take over from a crashed holder, --wait must exceed the lease duration ({least})");
                log::warn!(target: COMMAND, "{what}: held by {holder}; {rule}");
            }
            Some(holder) => log::warn!(target: COMMAND, "{what}: held by {holder}"),
            // A single attempt is not held back.
            None if !wait.is_zero() && !hold_back.is_zero() => {
                log::warn!(target: COMMAND, "{what}: --hold-back ({hold_back:?}) leaves a free lease to other replicas");
            }
            None => return Err(format!("{what}: the lease is free, but no write has succeeded").into()),
        }
        Ok(command::NOT_ACQUIRED)
    }

    /// Handles a signal while no command runs. Returns the signal if it ends this process.
    fn told(&self, caught: Caught) -> Option<i32> {
        if caught.signal == SIGCHLD {
            self.means.guardian.reap_adopted();
        }
        let ends_us = caught.ends_us();
        if ends_us {
            log::info!(target: COMMAND, "received {}, no command is running", signal_name(caught.signal));
        }
        ends_us.then_some(caught.signal)
    }

    fn lead(&mut self, guard: &LeaderGuard) -> Result<TermOutcome, Error> {
        let progress = self.progress.as_ref();
        let watchdog = progress.map(|(source, within)| Watchdog::start(source, *within)).transpose()?;
        self.work.lock().begins(guard.leadership());
        let outcome = term::lead(WorkRight::Lease(guard), &mut self.means, watchdog);
        self.work.lock().ended(outcome.end.filter(|_| outcome.why.is_none()));
        match (&outcome.why, &outcome.end) {
            (None, Some(end)) => {
                let level = if end.exit_code() == 0 { Level::Info } else { Level::Warn };
                log::log!(target: COMMAND, level, "command ended {end}");
            }
            (Some(why), Some(end)) => {
                log::info!(target: COMMAND, "command ended {end} after it was stopped: {why}")
            }
            (Some(why), None) => log::info!(target: COMMAND, "command killed: {why}"),
            (None, None) => {}
        }
        Ok(outcome)
    }

    /// Returns the exit code, unless another campaign follows.
    fn is_last(&self, TermOutcome { why, told, end, .. }: &TermOutcome) -> Option<u8> {
        let end = end.map(|end| end.exit_code());
        if let Some(signal) = told {
            return Some(end.unwrap_or_else(|| by_signal(*signal)));
        }
        match why {
            Some(Why::NotStarted { code, error }) => {
                log::error!(target: COMMAND, "cannot start the command: {error}");
                Some(*code)
            }
            // After a panic, the elector cannot campaign again.
            Some(Why::Lost(StopReason::ElectorPanicked)) => Some(command::FAILED),
            // The candidate stands aside until another candidate has led.
            Some(Why::Lost(StopReason::Requested)) => None,
            Some(_) => (self.on_loss == OnLoss::Exit).then_some(TERM_ENDED),
            None => (!self.restart).then(|| end.unwrap_or(command::FAILED)),
        }
    }

    /// Records the result of an attempt. Returns the exit code, unless another campaign follows.
    fn is_last_attempt(&self, guard: &LeaderGuard, outcome: &TermOutcome, is_forced: bool) -> Option<u8> {
        let code = match outcome {
            TermOutcome { why: Some(Why::NotStarted { code, .. }), .. } => Some(*code),
            TermOutcome { why: None, told: None, end, .. } => end.map(|end| end.exit_code()),
            // A command that was stopped is no success.
            _ => None,
        };
        let recorded = code.map_or(Ok(()), |code| guard.record_result(code.into()));
        // The code 0 means that the job has succeeded, so a command that was stopped ends by its signal.
        let last = self.is_last(outcome).map(|code| outcome.told.filter(|_| code == 0).map_or(code, by_signal));
        match (code, recorded) {
            (Some(0), Ok(())) => Some(0),
            (Some(0), Err(error)) => {
                log::error!(target: COMMAND, "{}: result lost: {error}", self.elector.status().record);
                Some(command::FAILED)
            }
            (code, _) if is_forced => {
                if let (None, Some(why)) = (last, &outcome.why) {
                    log::error!(target: COMMAND, "forced run was stopped: {why}");
                }
                let end = outcome.end.map(|end| end.exit_code()).filter(|code| *code != 0);
                Some(last.or(code).or(end).unwrap_or(command::FAILED))
            }
            // The next campaign decides whether another attempt may start.
            (Some(_), _) if outcome.why.is_none() => None,
            _ => last,
        }
    }

    /// Releases the lease.
    ///
    /// Before an exit, waits until the release is confirmed or the lease has expired.
    fn release(&self, guard: LeaderGuard, outcome: &TermOutcome, is_last: bool) {
        if let Some(Why::NotRenewed(_)) = outcome.why {
            // The command was killed shortly before the end of the term, which then counts as a lost term.
            guard.wait(guard.remaining());
        }
        let Err(error) = guard.release() else { return };
        log::warn!(target: COMMAND, "{}: {error}", self.elector.status().record);
        let until = Instant::now() + self.elector.status().settings.renew_deadline;
        let is_ours = || {
            let status = self.elector.status();
            status.is_running
                && status.leader.as_deref() == Some(self.elector.identity())
                && !status.leader_lease_expired
        };
        while is_last && is_ours() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits, so that other candidates can take over.
    ///
    /// Returns the exit code if a signal ends this process.
    fn pause(&self, pause: Duration) -> Option<u8> {
        log::info!(target: COMMAND, "campaigning again in {}", humantime::format_duration(pause));
        signals::ended_by(&self.means.signals, pause, || self.means.guardian.reap_adopted())
    }
}

/// Returns the result of a campaign that has ended at the same moment as its wait.
///
/// `select!` chooses one of the two events at random, and a won term must not be lost.
fn won_before_the_wait_ended<R>(results: &Receiver<R>) -> Option<R> {
    results.try_recv().ok()
}

/// The first pause before the command runs again.
///
/// Each pause is twice the previous pause, up to [`LONGEST_PAUSE`]. After a successful run, or a run that was longer
/// than [`LONGEST_PAUSE`], the pause is short again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Returns the pause before the command runs again.
fn restart_pause(backoff: &mut Backoff, ran: Duration, is_crash: bool) -> Duration {
    if ran > LONGEST_PAUSE || !is_crash {
        backoff.reset();
    }
    backoff.pause(FIRST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaign_won_as_its_wait_ends_is_won() {
        let (sender, results) = crossbeam_channel::bounded(1);
        assert_eq!(won_before_the_wait_ended(&results), None);
        sender.send("term").expect("a receiver");
        let given_up = after(Duration::ZERO);
        given_up.recv().expect("the end of the wait");
        assert_eq!(won_before_the_wait_ended(&results), Some("term"));
    }

    #[test]
    fn pause_doubles_until_a_run_is_long_or_succeeds() {
        let mut backoff = Backoff::default();
        let mut after = |ran, is_crash| restart_pause(&mut backoff, Duration::from_secs(ran), is_crash).as_secs();
        assert_eq!([0, 60, 1, 1, 1, 1, 1, 1].map(|ran| after(ran, true)), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!([(61, true), (0, true), (0, false), (0, true)].map(|(ran, crash)| after(ran, crash)), [1, 2, 1, 2]);
    }
}
