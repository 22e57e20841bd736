//! The supervisor: it campaigns, and leads as long as the command runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, select, tick};
use leasehold::{LeaderElector, LeaderGuard, StopReason};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::super::escape::Escaped;
use super::command::{self, TERM_ENDED, by_signal};
use super::guardian::{Guarded, Guardian, Lost};
use super::http::Leading;
use super::messages::{Report, What};
use super::progress::{Source, Watchdog};
use super::signals::Caught;
use super::term::{self, Means, Outcome, TICKS, Why, between_ticks};
use super::times::Times;

/// What to do after a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnLoss {
    /// Campaign again
    Campaign,
    /// Exit with 124
    Exit,
}

/// What a supervisor goes by.
pub struct Plan {
    pub guarded: Guarded,
    pub times: Times,
    pub restart: bool,
    pub on_loss: OnLoss,
    pub progress: Option<(Source, Duration)>,
}

pub struct Supervisor {
    plan: Plan,
    elector: Arc<LeaderElector>,
    guardian: Guardian,
    signals: Receiver<Caught>,
    renewals: Receiver<()>,
    leading: Arc<Leading>,
    backoff: Backoff,
}

/// What is wrong with us, and not with the command.
type Error = Box<dyn std::error::Error>;

impl Supervisor {
    pub fn new(
        plan: Plan,
        elector: Arc<LeaderElector>,
        guardian: Guardian,
        signals: Receiver<Caught>,
        renewals: Receiver<()>,
        leading: Arc<Leading>,
    ) -> Self {
        Self { plan, elector, guardian, signals, renewals, leading, backoff: Backoff::default() }
    }

    /// Until the command is done, or we are told to stop. Gives the code to exit with.
    pub fn run(mut self) -> Result<u8, Error> {
        loop {
            let guard = match self.campaign()? {
                Ok(guard) => guard,
                Err(signal) => return Ok(by_signal(signal)),
            };
            let began = Instant::now();
            let outcome = self.lead(&guard)?;
            if !outcome.is_gone {
                // What is left of it acts as if the lease were ours: it must not be released, but run out. The guardian goes on trying.
                std::mem::forget(guard);
                std::mem::forget(self.guardian);
                return Err(
                    "something of the command is left that cannot be killed: see what it waits for, or whose it is"
                        .into(),
                );
            }
            let is_last = self.is_last(&outcome);
            if is_last.is_some() {
                // Meanwhile: there is nothing left to guard.
                self.guardian.dismiss();
            }
            self.release(guard, is_last.is_some());
            if let Some(code) = is_last {
                return Ok(code);
            }
            if matches!(outcome.why, Some(Why::GuardianLost(_))) {
                self.guardian = Guardian::start(&self.plan.guarded)?;
            }
            // Who has lost the lease need not wait: others have it, or it is to be held again as soon as that can be.
            if matches!(outcome.why, None | Some(Why::NoProgress | Why::GuardianLost(_))) {
                let is_crash = outcome.end.is_none_or(|end| end.exit_code() != 0);
                let pause = self.backoff.after(began.elapsed(), is_crash);
                if let Some(signal) = self.pause(pause) {
                    return Ok(by_signal(signal));
                }
            }
        }
    }

    /// A term, or the signal that has ended the campaign.
    fn campaign(&mut self) -> Result<Result<LeaderGuard, i32>, Error> {
        let campaign = self.elector.campaign()?;
        let transitions = self.elector.transitions();
        let ticks = tick(between_ticks(self.elector.settings().retry_period));
        let (record, identity) = (self.elector.status().record, self.elector.identity());
        log::info!("campaigns for {}, as {}", Escaped(&record), Escaped(identity));
        self.guardian.prepare();
        loop {
            let guardian = self.guardian.reports.clone();
            let told = select! {
                recv(campaign.receiver()) -> won => return Ok(Ok(won??)),
                recv(transitions) -> transition => {
                    if let Ok(leasehold::Transition::NewLeader { identity }) = transition {
                        log::info!("{} leads", Escaped(&identity));
                    }
                    Ok(None)
                }
                recv(self.signals) -> caught => Ok(self.told(caught?)),
                recv(ticks) -> _ => self.guardian.order(What::Ping).and_then(|()| self.guardian.tick(TICKS)).map(|()| None),
                recv(guardian) -> report => match report {
                    Ok(Report::Acknowledged(number)) => {
                        self.guardian.acknowledged(number);
                        Ok(None)
                    }
                    Ok(Report::AskedToStop) => Ok(Some(SIGTERM)),
                    Ok(_) => Ok(None),
                    Err(_) => Err(Lost("it has ended".to_owned())),
                },
            };
            match told {
                Ok(None) => {}
                Ok(Some(signal)) => return Ok(Err(signal)),
                Err(Lost(why)) => {
                    log::warn!("the guardian is lost, and another is started: {why}");
                    self.guardian.kill(self.wind_down());
                    self.guardian = Guardian::start(&self.plan.guarded)?;
                    self.guardian.prepare();
                }
            }
        }
    }

    /// While no command runs: the signal, if it is to end us.
    fn told(&self, Caught { signal, .. }: Caught) -> Option<i32> {
        match signal {
            SIGCHLD => {
                self.guardian.reap_adopted();
                None
            }
            SIGTERM | SIGINT | SIGHUP | SIGQUIT => Some(signal),
            _ => None,
        }
    }

    fn lead(&mut self, guard: &LeaderGuard) -> Result<Outcome, Error> {
        log::info!("leads, with fencing token {}: the command is started", guard.fencing_token());
        let watchdog =
            self.plan.progress.as_ref().map(|(source, within)| Watchdog::start(source, *within)).transpose()?;
        let environment = watchdog.as_ref().map(|watchdog| watchdog.environment.clone()).unwrap_or_default();
        self.leading.begin();
        let (retry_period, wind_down) = (self.elector.settings().retry_period, self.wind_down());
        let outcome = term::lead(
            guard,
            Means {
                guardian: &mut self.guardian,
                signals: &self.signals,
                renewals: &self.renewals,
                watchdog,
                times: self.plan.times,
                retry_period,
                wind_down,
                environment,
            },
        );
        self.leading.end();
        match (&outcome.why, &outcome.end) {
            (None, Some(end)) => log::info!("the command has ended by itself, {end}"),
            (Some(why), Some(end)) => log::info!("the command has ended, {end}; it was ended because {why}"),
            (Some(why), None) => log::info!("the command was ended because {why}"),
            (None, None) => {}
        }
        Ok(outcome)
    }

    /// The code to exit with, unless there is to be another campaign.
    fn is_last(&self, Outcome { why, told, end, .. }: &Outcome) -> Option<u8> {
        let end = end.map(|end| end.exit_code());
        if let Some(signal) = told {
            return Some(end.unwrap_or_else(|| by_signal(*signal)));
        }
        match why {
            Some(Why::NotStarted { code, error }) => {
                log::error!("the command cannot be started: {error}");
                let error =
                    code.map_or_else(|| std::io::Error::other(error.clone()), std::io::Error::from_raw_os_error);
                Some(command::not_started(&error))
            }
            // It is over with this elector.
            Some(Why::Lost(StopReason::ElectorPanicked)) => Some(command::FAILED),
            Some(_) => (self.plan.on_loss == OnLoss::Exit).then_some(TERM_ENDED),
            None => (!self.plan.restart).then(|| end.unwrap_or(command::FAILED)),
        }
    }

    /// Releases the lease; before we exit it waits until that is known, or the lease has run out.
    fn release(&self, guard: LeaderGuard, is_last: bool) {
        let Err(error) = guard.release() else { return };
        log::warn!("{error}");
        let until = Instant::now() + self.elector.settings().renew_deadline;
        let is_ours = || {
            let status = self.elector.status();
            status.is_running && status.leader.as_deref() == Some(self.elector.identity()) && !status.leader_has_run_out
        };
        while is_last && is_ours() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Gives others the time to take over. A signal that is to end us, if one comes.
    fn pause(&self, pause: Duration) -> Option<i32> {
        log::info!("campaigns again in {}", humantime::format_duration(pause));
        let over = after(pause);
        loop {
            select! {
                recv(over) -> _ => return None,
                recv(self.signals) -> caught => {
                    let signal = caught.map_or(Some(SIGTERM), |caught| self.told(caught));
                    if signal.is_some() {
                        return signal;
                    }
                }
            }
        }
    }

    fn wind_down(&self) -> Duration {
        let settings = self.elector.settings();
        settings.wind_down.unwrap_or(settings.renew_deadline)
    }
}

/// How long to wait before the command is run again.
#[derive(Default)]
struct Backoff(u32);

/// The first pause; each is twice the one before it, up to the longest, until a run has lasted for longer than that.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Backoff {
    fn after(&mut self, ran: Duration, is_crash: bool) -> Duration {
        if ran > LONGEST_PAUSE || !is_crash {
            self.0 = 0;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.0.min(16)).min(LONGEST_PAUSE);
        self.0 = self.0.saturating_add(1);
        pause
    }
}
