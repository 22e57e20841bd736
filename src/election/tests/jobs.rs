//! Tests of the rule 'Jobs'.

use super::*;
use crate::election::candidate::job::{JobDue, JobPlan};
use crate::store::notes::JobNotes;

/// The time of the store at the start of each scenario, in Unix microseconds.
const STORE_TIME: u64 = 1_800_000_000_000_000;

const PERIOD: Duration = secs(3_600);

fn at(seconds: u64) -> Option<MicroTime> {
    Some(MicroTime::from_unix_micros(STORE_TIME + seconds * 1_000_000))
}

fn plan() -> JobPlan {
    JobPlan { period: PERIOD, max_attempts: 2, is_forced: false }
}

/// Returns the history after a success that started at `start`, in seconds.
fn succeeded(start: u64) -> JobNotes {
    JobNotes {
        period: Some(PERIOD),
        first_attempt_start: at(start),
        attempts: Some(1),
        last_attempt_host: Some(OTHER.to_owned()),
        last_attempt_start: at(start),
        last_attempt_exit_code: Some(0),
        last_success_host: Some(OTHER.to_owned()),
        last_success_start: at(start),
        last_success_end: at(start + 60),
        ..JobNotes::default()
    }
}

/// Returns the history after `attempts` attempts, of which the first started at zero.
fn attempted(attempts: u32, exit_code: Option<i32>) -> JobNotes {
    JobNotes {
        period: Some(PERIOD),
        first_attempt_start: at(0),
        attempts: Some(attempts),
        last_attempt_host: Some(OTHER.to_owned()),
        last_attempt_start: at(5),
        last_attempt_exit_code: exit_code,
        ..JobNotes::default()
    }
}

fn with_job(record: LeaderElectionRecord, version: u64, job: JobNotes) -> VersionedRecord {
    let mut observed = observed(record, version);
    observed.notes.job = Some(Box::new(job));
    observed
}

impl Scenario {
    fn job_campaign(&mut self, plan: JobPlan) {
        self.campaign += 1;
        self.handle(Input::JobCampaign { id: self.campaign, plan });
    }

    /// Answers the next read, with the time of the store.
    fn finds_at(&mut self, store_time: u64, found: Option<VersionedRecord>) {
        let read = self.read();
        self.handle(Input::StoreTime { unix_micros: STORE_TIME + store_time * 1_000_000 });
        self.responds(read.id, StoreResponse::Read(read.context, found));
    }

    /// Returns the reason why the campaign for the job has ended, and the exit code of the last attempt.
    fn not_due(&mut self) -> (JobDue, Option<i32>) {
        let ended = self.events().into_iter().find_map(|effect| match effect {
            Effect::JobNotDue { due, history, .. } => Some((due, history.last_attempt_exit_code)),
            _ => None,
        });
        ended.expect("the end of the campaign")
    }

    fn recorded(&mut self) -> Option<bool> {
        self.events().into_iter().find_map(|effect| match effect {
            Effect::JobRecorded(is_recorded) => Some(is_recorded),
            _ => None,
        })
    }

    /// Wins the term of a job at the time zero of the store.
    fn in_job() -> (Self, Arc<Deadline>) {
        let mut scenario = Self::new();
        scenario.job_campaign(plan());
        scenario.finds_at(0, Some(observed(held_by("", 1), 10)));
        let (deadline, _) = scenario.wins(11);
        (scenario, deadline)
    }
}

#[test]
fn attempt_is_written_with_the_acquisition() {
    let mut scenario = Scenario::new();
    scenario.job_campaign(plan());
    scenario.finds_at(7_200, Some(with_job(held_by("", 1), 10, succeeded(0))));
    scenario.advance(secs(2));
    let acquisition = scenario.write();
    let job = acquisition.notes.job.clone().expect("a history");
    let start = at(7_202);
    assert_eq!((job.period, job.attempts, job.last_attempt_exit_code), (Some(PERIOD), Some(1), None));
    assert_eq!((&job.first_attempt_start, &job.last_attempt_start), (&start, &start));
    assert_eq!(job.last_attempt_host.as_deref(), Some(ME));
    assert_eq!(job.last_success_start, at(0), "an earlier success stays");
    scenario.wins_by(&acquisition, 11);
    assert_eq!(scenario.due_write_succeeds(12).notes.job, Some(job.clone()), "a renewal keeps the history");
    scenario.guard_dropped();
    assert_eq!(scenario.write().notes.job, Some(job), "a release keeps the history");
}

#[test]
fn candidate_reads_before_its_first_attempt() {
    let mut scenario = Scenario::new();
    scenario.watches(held_by("", 1), 10);
    scenario.job_campaign(plan());
    // The watch has delivered the record, but not the time of the store.
    scenario.finds_at(0, Some(observed(held_by("", 1), 10)));
    assert_eq!(scenario.write().base, Some(10));
}

#[test]
fn absent_record_is_created_with_the_attempt() {
    let mut scenario = Scenario::new();
    scenario.job_campaign(plan());
    scenario.finds_at(0, None);
    let create = scenario.write();
    assert_eq!((create.base, create.notes.job.and_then(|job| job.attempts)), (None, Some(1)));
}

#[test]
fn store_without_a_clock_refuses_the_campaign() {
    let mut scenario = Scenario::new();
    scenario.job_campaign(plan());
    scenario.found(held_by("", 1), 10);
    let events = scenario.events();
    let refused = events
        .iter()
        .any(|effect| matches!(effect, Effect::Refuse { error, .. } if error.kind() == StoreErrorKind::Unsupported));
    assert!(refused, "{events:?}");
    assert!(matches!(scenario.next(), Step::Wait(_)), "nothing is written");
}

#[test]
fn success_of_the_period_ends_the_campaign_at_once() {
    // The lease may even be held, between the success and the release.
    for holder in ["", OTHER] {
        let mut scenario = Scenario::new();
        scenario.job_campaign(plan());
        scenario.finds_at(3_599, Some(with_job(held_by(holder, 15), 10, succeeded(0))));
        assert_eq!(scenario.not_due(), (JobDue::Succeeded, Some(0)), "{holder:?}");
    }
}

#[test]
fn success_of_another_host_ends_the_campaign_that_waits() {
    let mut scenario = Scenario::new();
    scenario.job_campaign(plan());
    scenario.finds_at(10, Some(with_job(held_by(OTHER, 15), 10, attempted(1, None))));
    scenario.watch_opens(false);
    scenario.advance(secs(5));
    let released = with_job(held_by("", 1), 11, succeeded(5));
    scenario.hears_at(scenario.now, Change::Written(released));
    assert_eq!(scenario.not_due(), (JobDue::Succeeded, Some(0)));
    assert!(matches!(scenario.next(), Step::Wait(_)), "nothing is written");
}

#[test]
fn failed_attempt_is_followed_by_another() {
    let mut scenario = Scenario::new();
    scenario.job_campaign(plan());
    scenario.finds_at(10, Some(with_job(held_by("", 1), 10, attempted(1, Some(3)))));
    let job = scenario.write().notes.job.expect("a history");
    assert_eq!((job.attempts, job.first_attempt_start, job.last_attempt_start), (Some(2), at(0), at(10)));
    assert_eq!(job.last_attempt_exit_code, None);
}

#[test]
fn success_of_a_long_run_ends_the_campaign_that_waits() {
    // The job runs for 60 s. The campaign begins before its end, or after.
    for (began, due) in [(59, Some(JobDue::Succeeded)), (60, None)] {
        let plan = JobPlan { period: secs(30), ..plan() };
        let history = |job: JobNotes| JobNotes { period: Some(plan.period), ..job };
        let mut scenario = Scenario::new();
        scenario.job_campaign(plan.clone());
        scenario.finds_at(began, Some(with_job(held_by(OTHER, 15), 10, history(attempted(1, None)))));
        scenario.advance(secs(4));
        scenario.finds_at(began + 4, Some(with_job(held_by("", 1), 11, history(succeeded(0)))));
        match due {
            Some(due) => assert_eq!(scenario.not_due(), (due, Some(0))),
            None => assert_eq!(scenario.write().notes.job.and_then(|job| job.attempts), Some(1)),
        }
    }
}

#[test]
fn last_attempt_may_still_succeed_until_its_lease_expires() {
    for exit_code in [None, Some(3)] {
        let mut scenario = Scenario::new();
        scenario.job_campaign(plan());
        scenario.finds_at(10, Some(with_job(held_by(OTHER, 15), 10, attempted(2, exit_code))));
        assert!(scenario.events().iter().all(|effect| !matches!(effect, Effect::JobNotDue { .. })));
        scenario.watch_opens(false);
        scenario.advance(secs(15));
        scenario.next();
        assert_eq!(scenario.not_due(), (JobDue::Exhausted, exit_code), "the lease has expired");
    }
}

#[test]
fn exhausted_attempts_of_a_released_lease_end_the_campaign() {
    let mut scenario = Scenario::new();
    scenario.job_campaign(plan());
    scenario.finds_at(10, Some(with_job(held_by("", 1), 10, attempted(2, Some(3)))));
    assert_eq!(scenario.not_due(), (JobDue::Exhausted, Some(3)));
}

#[test]
fn other_period_is_refused_and_a_forced_run_sets_the_period() {
    let other = JobPlan { period: PERIOD * 2, ..plan() };
    let mut scenario = Scenario::new();
    scenario.job_campaign(other.clone());
    scenario.finds_at(10, Some(with_job(held_by("", 1), 10, succeeded(0))));
    assert_eq!(scenario.not_due().0, JobDue::OtherPeriod { recorded: PERIOD, planned: PERIOD * 2 });
    scenario.job_campaign(JobPlan { is_forced: true, ..other });
    let job = scenario.write().notes.job.expect("a history");
    assert_eq!((job.period, job.attempts, job.first_attempt_start), (Some(PERIOD * 2), Some(1), at(10)));
}

#[test]
fn result_is_written_at_once_and_reported_when_written() {
    let (mut scenario, _) = Scenario::in_job();
    scenario.advance(secs(1));
    scenario.handle(Input::JobEnded { exit_code: 0 });
    let write = scenario.write();
    assert_eq!(scenario.recorded(), None, "the write is not answered");
    let job = write.notes.job.clone().expect("a history");
    assert_eq!((job.last_success_start, job.last_success_end), (at(0), at(1)));
    assert_eq!((job.last_success_host.as_deref(), job.last_attempt_exit_code), (Some(ME), Some(0)));
    scenario.applied(&write, 12);
    assert_eq!(scenario.recorded(), Some(true));
    scenario.guard_dropped();
    assert_eq!(scenario.write().notes.job, write.notes.job, "the release keeps the success");
}

#[test]
fn result_is_written_again_after_a_renewal_without_it() {
    let (mut scenario, _) = Scenario::in_job();
    let renewal = scenario.due_write();
    scenario.handle(Input::JobEnded { exit_code: 7 });
    scenario.applied(&renewal, 12);
    assert_eq!(scenario.recorded(), None, "the renewal was sent before the end of the job");
    let write = scenario.write();
    assert_eq!(write.notes.job.as_ref().and_then(|job| job.last_attempt_exit_code), Some(7));
    assert_eq!(write.notes.job.as_ref().and_then(|job| job.last_success_start.clone()), None);
    scenario.applied(&write, 13);
    assert_eq!(scenario.recorded(), Some(true));
}

#[test]
fn result_in_doubt_is_found_by_a_read() {
    let (mut scenario, _) = Scenario::in_job();
    scenario.handle(Input::JobEnded { exit_code: 0 });
    let write = scenario.write();
    // A proxy has repeated the applied write.
    scenario.fails(write.id, StoreErrorKind::Conflict);
    let found = with_job(standing(&write), 12, *write.notes.job.clone().expect("a history"));
    scenario.finds_at(2, Some(found));
    assert_eq!(scenario.recorded(), Some(true));
}

#[test]
fn result_that_is_not_written_within_the_term_is_reported() {
    let (mut scenario, deadline) = Scenario::in_job();
    scenario.handle(Input::JobEnded { exit_code: 0 });
    while deadline.is_valid(scenario.now) {
        match scenario.next() {
            Step::Send(request) => scenario.fails(request.id, StoreErrorKind::Unavailable),
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("a term"),
        }
    }
    scenario.next();
    assert_eq!(scenario.recorded(), Some(false));
}

#[test]
fn job_that_ends_after_its_term_is_no_success() {
    let (mut scenario, deadline) = Scenario::in_job();
    deadline.end(scenario.now, StopReason::SteppedDown);
    scenario.step_down(None);
    scenario.events();
    scenario.handle(Input::JobEnded { exit_code: 0 });
    assert_eq!(scenario.recorded(), Some(false));
    let renewal = scenario.due_write();
    let job = renewal.notes.job.expect("a history");
    assert_eq!((job.last_success_start, job.last_attempt_exit_code), (None, None));
}

/// An editor may remove all annotations of a Lease.
#[test]
fn removed_history_is_reported_once_and_written_again() {
    let (mut scenario, _) = Scenario::in_job();
    let write = scenario.due_write_succeeds(12);
    for version in [13, 14] {
        scenario.hears_at(scenario.now, Change::Written(observed(standing(&write), version)));
    }
    assert_eq!(scenario.lines("removed the history of the job"), 1);
    assert_eq!(scenario.due_write_succeeds(15).notes.job, write.notes.job);
}

#[test]
fn result_without_a_job_is_not_recorded() {
    let mut scenario = Scenario::new();
    scenario.handle(Input::JobEnded { exit_code: 0 });
    assert_eq!(scenario.recorded(), Some(false), "without a term");
    let (mut scenario, ..) = Scenario::leading();
    scenario.handle(Input::JobEnded { exit_code: 0 });
    assert_eq!(scenario.recorded(), Some(false), "a term without a job");
}

/// `Date` headers have full seconds, so the clock of the store goes back by up to a second.
#[test]
fn clock_that_goes_back_does_not_end_a_campaign_with_a_write() {
    let mut scenario = Scenario::new();
    scenario.job_campaign(plan());
    scenario.finds_at(3_600, Some(with_job(held_by("", 1), 10, succeeded(0))));
    let acquisition = scenario.write();
    scenario.handle(Input::StoreTime { unix_micros: STORE_TIME + 3_599 * 1_000_000 });
    scenario.fails(acquisition.id, StoreErrorKind::Timeout);
    let again = scenario.next_write(&held_by("", 1), 10);
    assert_eq!(again.notes.job.as_ref().and_then(|job| job.attempts), Some(1));
    scenario.wins_by(&again, 11);
}
