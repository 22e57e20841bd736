//! A periodic job: whether an attempt may start, and the history that its attempts write.
//!
//! This module implements the rule 'Jobs' of `docs/internals/PROTOCOL.md`. All times are those of the store's clock.

use std::time::Duration;

use crate::store::micro_time::MicroTime;
use crate::store::notes::JobNotes;
use crate::util::clock::Moment;

/// A job that runs with success once per period.
#[derive(Debug, Clone)]
pub struct JobPlan {
    /// The time between the starts of two successful runs, in whole seconds.
    pub period: Duration,
    /// The largest number of attempts in a period.
    pub max_attempts: u32,
    /// `true` if the next attempt starts in spite of the history.
    pub is_forced: bool,
}

/// Whether the next attempt of a job may start.
#[derive(Debug, PartialEq, Eq)]
pub enum JobDue {
    /// An attempt may start.
    Now,
    /// A run of this period has succeeded.
    Succeeded,
    /// All attempts of this period have started.
    Exhausted,
    /// The history has another period.
    OtherPeriod {
        /// The period of the history.
        recorded: Duration,
        /// The period of the plan.
        planned: Duration,
    },
}

/// The attempt of a job in one term.
#[derive(Debug)]
pub(super) struct JobAttempt {
    /// The history, which only this term writes.
    notes: JobNotes,
    /// The end of the time in which the record must contain the result. `None` without a result that waits.
    record_by: Option<Moment>,
    /// `true` once another writer has removed the history from the record.
    is_removed: bool,
}

impl JobPlan {
    /// Decides whether an attempt of a campaign since `waits_since` may start at `now`, in Unix microseconds.
    pub(super) fn is_due(&self, job: &JobNotes, now: u64, waits_since: u64) -> JobDue {
        let success_end = job.last_success_end.as_ref().and_then(MicroTime::unix_micros);
        match job.period {
            _ if self.is_forced => JobDue::Now,
            Some(recorded) if recorded != self.period => JobDue::OtherPeriod { recorded, planned: self.period },
            _ if self.contains(job.last_success_start.as_ref(), now) => JobDue::Succeeded,
            // The run took longer than the period. The campaign has waited for this run.
            _ if success_end.is_some_and(|end| end > waits_since && end <= now) => JobDue::Succeeded,
            _ if self.attempts(job, now) >= self.max_attempts => JobDue::Exhausted,
            _ => JobDue::Now,
        }
    }

    /// Returns the history with an attempt of `host` that starts at `now`.
    pub(super) fn start(&self, job: &JobNotes, now: u64, host: &str) -> JobNotes {
        let attempts = if self.is_forced { 0 } else { self.attempts(job, now) };
        let start = MicroTime::from_unix_micros(now);
        // A first attempt in the future counts as now. Otherwise the success of this attempt would not end its period.
        let is_kept = |first: &MicroTime| attempts > 0 && first.unix_micros().is_some_and(|first| first <= now);
        let first = job.first_attempt_start.clone().filter(is_kept);
        JobNotes {
            period: Some(self.period),
            first_attempt_start: first.or(Some(start.clone())),
            attempts: Some(attempts.saturating_add(1)),
            last_attempt_host: Some(host.to_owned()),
            last_attempt_start: Some(start),
            last_attempt_exit_code: None,
            ..job.clone()
        }
    }

    /// Returns the number of attempts in the current period, which ends with a success.
    fn attempts(&self, job: &JobNotes, now: u64) -> u32 {
        let [first, success] = [&job.first_attempt_start, &job.last_success_start].map(|it| it.as_ref()?.unix_micros());
        let is_current = success < first && self.contains(job.first_attempt_start.as_ref(), now);
        if is_current { job.attempts.unwrap_or(1) } else { 0 }
    }

    /// Returns `true` if the period that started at `start` contains `now`.
    ///
    /// A start in the future counts as now, because clocks of servers differ. A start that is a period or more in the
    /// future does not count, so a wrong clock cannot stop the job for longer than two periods.
    fn contains(&self, start: Option<&MicroTime>, now: u64) -> bool {
        let start = start.and_then(MicroTime::unix_micros);
        start.is_some_and(|start| Duration::from_micros(now.abs_diff(start)) < self.period)
    }
}

impl JobAttempt {
    /// Begins the attempt that the acquisition has written.
    pub(super) fn new(notes: JobNotes) -> Self {
        Self { notes, record_by: None, is_removed: false }
    }

    pub(super) fn notes(&self) -> &JobNotes {
        &self.notes
    }

    /// Notes the exit code of the attempt, which has ended at `now`. The code zero is a success.
    ///
    /// The record must contain the result until `record_by`.
    pub(super) fn ended(&mut self, now: u64, exit_code: i32, record_by: Moment) {
        self.notes.last_attempt_exit_code = Some(exit_code);
        if exit_code == 0 {
            self.notes.last_success_host = self.notes.last_attempt_host.clone();
            self.notes.last_success_start = self.notes.last_attempt_start.clone();
            self.notes.last_success_end = Some(MicroTime::from_unix_micros(now));
        }
        self.record_by = Some(record_by);
    }

    /// Returns the end of the time in which the record must contain the result, while a result waits.
    pub(super) fn record_by(&self) -> Option<Moment> {
        self.record_by
    }

    /// Compares the result with the record. Returns whether the record contains the result, once this is final.
    ///
    /// The answer is final when the record contains the result, and when the lease is no longer renewed.
    pub(super) fn is_recorded(&mut self, now: Moment, record: Option<&JobNotes>, renews: bool) -> Option<bool> {
        let record_by = self.record_by?;
        let result = |job: &JobNotes| (job.last_attempt_start.clone(), job.last_attempt_exit_code);
        let is_recorded = record.map(result) == Some(result(&self.notes));
        let is_final = is_recorded || !renews || now >= record_by;
        is_final.then(|| {
            self.record_by = None;
            is_recorded
        })
    }

    /// Returns `true` once if the own record no longer has the history of this attempt.
    pub(super) fn is_removed_from(&mut self, record: Option<&JobNotes>) -> bool {
        let is_there = record.is_some_and(|job| job.last_attempt_start == self.notes.last_attempt_start);
        !is_there && !std::mem::replace(&mut self.is_removed, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;
    const PERIOD: Duration = Duration::from_secs(20 * 3_600);

    fn plan(is_forced: bool) -> JobPlan {
        JobPlan { period: PERIOD, max_attempts: 2, is_forced }
    }

    /// Returns the history of a first attempt and a success, whose starts are in hours.
    fn history(first: Option<u64>, attempts: Option<u32>, success: Option<u64>) -> JobNotes {
        let time = |hour: Option<u64>| hour.map(|hour| MicroTime::from_unix_micros(hour * HOUR));
        JobNotes {
            first_attempt_start: time(first),
            attempts,
            last_success_start: time(success),
            ..JobNotes::default()
        }
    }

    #[test]
    fn period_counts_from_the_starts_of_success_and_first_attempt() {
        use JobDue::{Exhausted, Now, Succeeded};
        // The first attempt, the attempts, the success, the hour now, the decision, and the number of the attempt.
        for (first, attempts, success, now, expected, number) in [
            (None, None, None, 0, Now, 1),
            (Some(0), Some(1), Some(0), 19, Succeeded, 1),
            (Some(0), Some(1), Some(0), 20, Now, 1),
            (Some(0), Some(2), Some(1), 20, Succeeded, 1),
            (Some(0), Some(2), Some(1), 21, Now, 1),
            (Some(0), Some(1), None, 19, Now, 2),
            (Some(0), Some(2), None, 19, Exhausted, 3),
            (Some(0), Some(9), None, 20, Now, 1),
            (Some(0), None, None, 19, Now, 2),
            // Times after the clock of the store count as now.
            (Some(22), Some(1), Some(22), 3, Succeeded, 1),
            (Some(22), Some(1), Some(10), 3, Succeeded, 2),
            (Some(22), Some(2), None, 3, Exhausted, 3),
            // Times that are a period ahead do not count.
            (Some(23), Some(1), Some(23), 3, Now, 1),
            (Some(90), Some(2), None, 3, Now, 1),
        ] {
            let (job, now) = (history(first, attempts, success), now * HOUR);
            assert_eq!(plan(false).is_due(&job, now, now), expected, "{job:?} at {now}");
            assert_eq!(plan(true).is_due(&job, now, now), Now, "{job:?} at {now}");
            assert_eq!(plan(false).start(&job, now, "a").attempts, Some(number), "{job:?} at {now}");
            let forced = plan(true).start(&job, now, "a");
            assert_eq!(
                (forced.attempts, forced.first_attempt_start),
                (Some(1), Some(MicroTime::from_unix_micros(now)))
            );
        }
    }

    /// The clock of the store was ahead during the first attempt.
    #[test]
    fn success_after_a_clock_was_set_back_ends_its_period() {
        let ahead = history(Some(22), Some(1), None);
        let mut attempt = JobAttempt::new(plan(false).start(&ahead, 3 * HOUR, "a"));
        attempt.ended(4 * HOUR, 0, Moment::default());
        let job = attempt.notes();
        assert_eq!((job.attempts, plan(false).is_due(job, 22 * HOUR, 22 * HOUR)), (Some(2), JobDue::Succeeded));
        assert_eq!(plan(false).is_due(job, 23 * HOUR, 23 * HOUR), JobDue::Now);
        assert_eq!(plan(false).start(job, 23 * HOUR, "a").attempts, Some(1));
    }

    #[test]
    fn period_ends_to_the_microsecond() {
        let job = history(None, None, Some(0));
        assert_eq!(plan(false).is_due(&job, 20 * HOUR - 1, 20 * HOUR - 1), JobDue::Succeeded);
        assert_eq!(plan(false).is_due(&job, 20 * HOUR, 20 * HOUR), JobDue::Now);
    }

    #[test]
    fn invalid_time_counts_as_absent() {
        let job = JobNotes { last_success_start: Some(MicroTime::from_text("soon")), ..JobNotes::default() };
        assert_eq!(plan(false).is_due(&job, HOUR, HOUR), JobDue::Now);
        let endless = JobNotes { attempts: Some(u32::MAX), ..history(Some(0), None, None) };
        assert_eq!(plan(false).start(&endless, HOUR, "a").attempts, Some(u32::MAX));
    }
}
