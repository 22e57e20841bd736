//! The times at which a command receives SIGTERM and SIGKILL.

use std::time::Duration;

use leasehold::Settings;
use serde::{Deserialize, Serialize};

use crate::clock::{self, Moment};

/// Returns the time since the machine was started.
///
/// The time includes suspend, and all processes of a machine share the clock.
pub fn boot_time() -> Duration {
    clock::now().since(Moment::default())
}

/// The time limits for the end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The time from SIGTERM to SIGKILL, if the command is stopped.
    pub stop_timeout: Duration,
    /// The time from SIGTERM to SIGKILL, if the term cannot be renewed.
    pub loss_grace: Duration,
    /// The time from SIGKILL to the end of the term.
    pub kill_margin: Duration,
}

const LOSS_GRACE: Duration = Duration::from_secs(2);
const KILL_MARGIN: Duration = Duration::from_millis(500);

impl Times {
    /// Creates the limits. The defaults are shorter if the renew deadline is short.
    pub fn new(
        stop_timeout: Duration,
        loss_grace: Option<Duration>,
        kill_margin: Option<Duration>,
        settings: &Settings,
    ) -> Result<Self, String> {
        // The other half of the time between the retry period and the renew deadline is left for renewals.
        let most = settings.renew_deadline.saturating_sub(settings.retry_period) / 2;
        let kill_margin = kill_margin.unwrap_or(KILL_MARGIN.min(most / 5));
        let loss_grace = loss_grace.unwrap_or(LOSS_GRACE.min(most.saturating_sub(kill_margin)));
        if loss_grace.saturating_add(kill_margin) > most {
            let [grace, margin, most] = [loss_grace, kill_margin, most].map(humantime::format_duration);
            return Err(format!(
                "--loss-grace {grace} plus --kill-margin {margin} must be at most {most}, half of (renew deadline - retry \
                 period); decrease either flag, or increase --renew-deadline"
            ));
        }
        Ok(Self { stop_timeout, loss_grace, kill_margin })
    }
}

/// The next action on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillStep {
    Terminate,
    Kill,
}

/// The times of SIGTERM and SIGKILL, derived from the validity of the term.
///
/// Times are those of [`boot_time`].
#[derive(Debug)]
pub struct KillSchedule {
    times: Times,
    valid_until: Duration,
    terminated_at: Option<Duration>,
    is_killed: bool,
}

impl KillSchedule {
    pub fn new(times: Times, valid_until: Duration) -> Self {
        Self { times, valid_until, terminated_at: None, is_killed: false }
    }

    /// Records a renewal. A late message about an earlier renewal does not shorten the term.
    pub fn extend(&mut self, valid_until: Duration) {
        self.valid_until = self.valid_until.max(valid_until);
    }

    /// Records that SIGTERM was sent. A later renewal does not undo SIGTERM.
    pub fn terminated(&mut self, now: Duration) {
        self.terminated_at.get_or_insert(now);
    }

    pub fn is_terminated(&self) -> bool {
        self.terminated_at.is_some() || self.is_killed
    }

    /// Records that the command must be killed at once.
    pub fn kill(&mut self) {
        self.is_killed = true;
    }

    /// Returns the time at which the command receives SIGKILL.
    pub fn kill_at(&self) -> Duration {
        let at_last = self.valid_until.saturating_sub(self.times.kill_margin);
        match self.terminated_at {
            _ if self.is_killed => Duration::ZERO,
            Some(since) => at_last.min(since.saturating_add(self.times.stop_timeout)),
            None => at_last,
        }
    }

    /// Returns the next action and its time. A time in the past means now.
    pub fn next(&self) -> (Duration, KillStep) {
        if self.is_terminated() {
            return (self.kill_at(), KillStep::Kill);
        }
        (self.kill_at().saturating_sub(self.times.loss_grace), KillStep::Terminate)
    }

    /// Returns the action that is due.
    pub fn due(&self, now: Duration) -> Option<KillStep> {
        // If the time of SIGKILL has come, SIGTERM is skipped.
        if self.kill_at() <= now {
            return Some(KillStep::Kill);
        }
        let (at, step) = self.next();
        (at <= now).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use leasehold::LeaderElector;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const TIMES: Times = Times { stop_timeout: ms(10_000), loss_grace: ms(2_000), kill_margin: ms(500) };

    #[test]
    fn command_is_stopped_and_killed_before_its_term_expires() {
        let mut schedule = KillSchedule::new(TIMES, ms(10_000));
        assert_eq!(schedule.due(ms(7_499)), None);
        assert_eq!(schedule.next(), (ms(7_500), KillStep::Terminate));
        assert_eq!(schedule.due(ms(7_500)), Some(KillStep::Terminate));
        schedule.terminated(ms(7_501));
        assert_eq!(schedule.due(ms(9_499)), None);
        assert_eq!(schedule.due(ms(9_500)), Some(KillStep::Kill));
    }

    #[test]
    fn a_renewal_moves_both_and_one_that_comes_late_neither() {
        let mut schedule = KillSchedule::new(TIMES, ms(10_000));
        schedule.extend(ms(12_000));
        assert_eq!(schedule.next(), (ms(9_500), KillStep::Terminate));
        schedule.extend(ms(11_000));
        assert_eq!(schedule.next(), (ms(9_500), KillStep::Terminate));
    }

    #[test]
    fn stop_is_final_and_a_renewal_only_moves_the_kill() {
        let mut schedule = KillSchedule::new(TIMES, ms(10_000));
        schedule.terminated(ms(7_500));
        schedule.extend(ms(12_000));
        assert_eq!(schedule.next(), (ms(11_500), KillStep::Kill));
        schedule.extend(ms(60_000));
        assert_eq!(schedule.next(), (ms(17_500), KillStep::Kill), "the stop timeout");
        schedule.terminated(ms(9_000));
        assert_eq!(schedule.next(), (ms(17_500), KillStep::Kill), "since the first SIGTERM");
    }

    #[test]
    fn process_that_slept_past_the_term_kills_without_sigterm() {
        assert_eq!(KillSchedule::new(TIMES, ms(10_000)).due(ms(9_500)), Some(KillStep::Kill));
        assert_eq!(
            KillSchedule::new(TIMES, ms(100)).due(ms(0)),
            Some(KillStep::Kill),
            "a time before the start of time is now"
        );
        let mut schedule = KillSchedule::new(TIMES, ms(10_000));
        schedule.kill();
        assert_eq!(schedule.due(ms(0)), Some(KillStep::Kill));
    }

    #[test]
    fn default_times_are_short_for_a_short_lease() {
        let settings = |lease, deadline, retry| {
            let builder = LeaderElector::builder("jobs").lease_duration(ms(lease));
            builder.renew_deadline(ms(deadline)).retry_period(ms(retry)).validate().expect("settings")
        };
        let default = settings(15_000, 10_000, 2_000);
        assert_eq!(Times::new(ms(10_000), None, None, &default), Ok(TIMES));
        let short = settings(5_000, 3_000, 500);
        let times = Times::new(ms(10_000), None, None, &short).expect("times");
        assert_eq!((times.loss_grace, times.kill_margin), (ms(1_000), ms(250)));
        let error = Times::new(ms(10_000), Some(ms(1_500)), None, &short).expect_err("too long");
        assert!(error.contains("--loss-grace 1s 500ms plus --kill-margin 250ms must be at most 1s 250ms"), "{error}");
        assert!(Times::new(ms(10_000), None, Some(ms(1_251)), &short).is_err());
        assert!(Times::new(ms(10_000), Some(ms(3_500)), None, &default).is_ok());
        assert!(Times::new(ms(10_000), Some(ms(3_501)), None, &default).is_err());
    }
}
