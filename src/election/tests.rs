//! The rules of `docs/PROTOCOL.md`, a test a rule, named after it. Time is virtual.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;
use crate::config::Config;
use crate::lock::LockError;
use crate::record::Rest;

const ME: &str = "me";
const OTHER: &str = "other";

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One election on a virtual clock, stepped by hand.
struct Scenario {
    election: Election,
    now: Moment,
    wall: SystemTime,
}

#[derive(Debug, Clone)]
struct Write {
    id: u64,
    /// `None` for a create.
    base: Option<u64>,
    record: LeaderElectionRecord,
    timeout: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Read {
    id: u64,
    look: Look,
}

impl Scenario {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { identity: Some(ME.into()), ..Config::default() };
        change(&mut config);
        Self {
            election: Election::new(config.validate().expect("a valid configuration"), 1),
            now: Moment::from_nanos(1_000_000_000_000),
            wall: UNIX_EPOCH + secs(1_700_000_000),
        }
    }

    /// A candidate that has found `record` at `version`.
    fn campaigning_on(record: LeaderElectionRecord, version: u64) -> Self {
        let mut scenario = Self::new();
        scenario.election.campaign(false);
        scenario.found(record, version);
        scenario
    }

    /// A leader by its own create, at version 10.
    fn leading() -> (Self, Arc<Deadline>, LeaderElectionRecord) {
        Self::leading_with(|_| {})
    }

    fn leading_with(change: impl FnOnce(&mut Config)) -> (Self, Arc<Deadline>, LeaderElectionRecord) {
        let mut scenario = Self::with(change);
        scenario.election.campaign(false);
        scenario.found_nothing();
        let write = scenario.write();
        let record = scenario.applied(&write, 10);
        let (deadline, _) = scenario.elected();
        (scenario, deadline, record)
    }

    fn advance(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.wall += duration;
    }

    fn next(&mut self) -> Step {
        self.election.next(Now { local: self.now, wall: self.wall })
    }

    fn read(&mut self) -> Read {
        match self.next() {
            Step::Send(Request { id, verb: Verb::Get(look), .. }) => Read { id, look },
            other => panic!("expected a read, not {other:?}"),
        }
    }

    fn write(&mut self) -> Write {
        match self.next() {
            Step::Send(Request { id, verb: Verb::Create(record), timeout }) => {
                Write { id, base: None, record, timeout }
            }
            Step::Send(Request { id, verb: Verb::Update(base, record), timeout }) => {
                Write { id, base: Some(base.version), record, timeout }
            }
            other => panic!("expected a write, not {other:?}"),
        }
    }

    /// How long the election wants to be left alone.
    fn wait(&mut self) -> Duration {
        match self.next() {
            Step::Wait(until) => until.since(self.now),
            other => panic!("expected a wait, not {other:?}"),
        }
    }

    /// Goes on to the next request.
    fn wait_out(&mut self) {
        let wait = self.wait();
        self.advance(wait);
    }

    /// The write is applied and answered; the record that stands then.
    fn applied(&mut self, write: &Write, version: u64) -> LeaderElectionRecord {
        let record = standing(write);
        self.written(write, record.clone(), version);
        record
    }

    fn written(&mut self, write: &Write, record: LeaderElectionRecord, version: u64) {
        self.election.answered(self.now, write.id, Answer::Written(observed(record, version)));
    }

    fn fails(&mut self, id: u64, kind: LockErrorKind) {
        self.election.answered(self.now, id, Answer::Failed(LockError::new(kind, "made up")));
    }

    fn reads(&mut self, read: Read, record: LeaderElectionRecord, version: u64) {
        self.election.answered(self.now, read.id, Answer::Read(read.look, Some(observed(record, version))));
    }

    fn found(&mut self, record: LeaderElectionRecord, version: u64) {
        let read = self.read();
        self.reads(read, record, version);
    }

    fn found_nothing(&mut self) {
        let read = self.read();
        self.election.answered(self.now, read.id, Answer::Read(read.look, None));
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.election.event()).collect()
    }

    fn elected(&mut self) -> (Arc<Deadline>, u64) {
        self.events()
            .into_iter()
            .find_map(|event| match event {
                Event::Elected { deadline, fencing_token } => Some((deadline, fencing_token)),
                _ => None,
            })
            .expect("a term")
    }

    fn not_elected(&mut self) {
        assert!(!self.events().iter().any(|event| matches!(event, Event::Elected { .. })), "no term");
    }

    fn lost(&mut self) -> Option<StopReason> {
        let mut reasons: Vec<_> = self
            .events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Lost(reason) => Some(reason),
                _ => None,
            })
            .collect();
        assert!(reasons.len() <= 1, "a term is lost once: {reasons:?}");
        reasons.pop()
    }

    fn settled(&mut self) -> bool {
        self.events().iter().any(|event| matches!(event, Event::Settled))
    }
}

fn observed(record: LeaderElectionRecord, version: u64) -> Observed {
    Observed::new(record, version, Rest::none())
}

/// What stands in the store after `write`.
fn standing(write: &Write) -> LeaderElectionRecord {
    LeaderElectionRecord { uid: Some("uid-1".into()), ..write.record.clone() }
}

fn held_by(identity: &str, seconds: i32) -> LeaderElectionRecord {
    LeaderElectionRecord {
        uid: Some("uid-1".into()),
        holder_identity: Some(identity.into()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(MicroTime::from_unix_micros(1)),
        renew_time: Some(MicroTime::from_unix_micros(2)),
        lease_transitions: Some(4),
    }
}

fn renewed(record: &LeaderElectionRecord) -> LeaderElectionRecord {
    let text = format!("{}+", record.renew_time.as_ref().expect("a time"));
    LeaderElectionRecord { renew_time: Some(MicroTime::from_text(text)), ..record.clone() }
}

// ---- the numbered rules ----

#[test]
fn rule_1_nothing_there_is_created_and_created_is_elected() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let write = scenario.write();
    assert_eq!(write.base, None);
    assert_eq!(write.record.holder(), Some(ME));
    assert_eq!(write.record.lease_duration_seconds, Some(15));
    assert_eq!(write.record.lease_transitions, Some(0));
    assert_eq!(write.record.uid, None);
    scenario.applied(&write, 10);
    let (deadline, token) = scenario.elected();
    assert!(deadline.is_valid(scenario.now));
    assert_eq!(token, 10);
}

#[test]
fn rule_1_already_exists_reads_again() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::AlreadyExists);
    scenario.not_elected();
    scenario.found(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
}

#[test]
fn rule_2_another_holder_is_waited_out_by_the_duration_it_published() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 40), 10);
    let found_at = scenario.now;
    let write = loop {
        match scenario.next() {
            Step::Wait(until) => scenario.now = until,
            Step::Send(Request { id, verb: Verb::Get(look), .. }) => {
                scenario.reads(Read { id, look }, held_by(OTHER, 40), 10);
            }
            Step::Send(Request { id, verb: Verb::Update(base, record), timeout }) => {
                break Write { id, base: Some(base.version), record, timeout };
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(scenario.now.since(found_at), secs(40), "the holder's duration, not our own, and to the instant");
    assert_eq!(write.base, Some(10));
}

#[test]
fn rule_2_a_holder_without_a_positive_duration_is_waited_out_by_our_own() {
    for seconds in [None, Some(0), Some(-5)] {
        let record = LeaderElectionRecord { lease_duration_seconds: seconds, ..held_by(OTHER, 1) };
        let mut scenario = Scenario::campaigning_on(record.clone(), 10);
        scenario.advance(millis(14_999));
        scenario.found(record, 10);
        assert_eq!(scenario.wait(), millis(1));
        scenario.advance(millis(1));
        scenario.write();
    }
}

#[test]
fn rule_2_every_change_of_the_record_starts_the_wait_again() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.advance(secs(14));
    scenario.found(renewed(&held_by(OTHER, 15)), 11);
    scenario.advance(millis(14_999));
    scenario.found(renewed(&held_by(OTHER, 15)), 11);
    assert_eq!(scenario.wait(), millis(1));
}

#[test]
fn rule_2_the_take_over_is_one_update_with_the_observed_version_and_a_conflict_observes_again() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 1), 10);
    scenario.advance(secs(1));
    let write = scenario.write();
    assert_eq!(write.base, Some(10));
    scenario.fails(write.id, LockErrorKind::Conflict);
    scenario.not_elected();
    scenario.found(held_by("third", 15), 11);
    assert!(scenario.wait() > Duration::ZERO, "the new holder is waited for");
}

#[test]
fn rule_3_a_record_without_a_holder_is_taken_over_at_once() {
    for holder in [None, Some(String::new())] {
        let record = LeaderElectionRecord { holder_identity: holder, ..held_by(OTHER, 15) };
        let mut scenario = Scenario::campaigning_on(record, 10);
        let write = scenario.write();
        assert_eq!(write.base, Some(10));
        assert_eq!(write.record.lease_transitions, Some(5));
    }
}

#[test]
fn rule_4_a_leader_renews_with_the_version_of_its_own_last_write_and_reads_nothing() {
    let (mut scenario, deadline, _) = Scenario::leading();
    let mut version = 10;
    for _ in 0..20 {
        assert_eq!(scenario.wait(), secs(2));
        scenario.wait_out();
        let write = scenario.write();
        assert_eq!(write.base, Some(version));
        version += 3;
        scenario.applied(&write, version);
        assert!(deadline.is_valid(scenario.now));
    }
    assert_eq!(scenario.lost(), None);
}

#[test]
fn rule_5_taking_over_adds_a_transition_and_sets_acquire_time_and_renewing_keeps_both() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 1), 10);
    scenario.advance(secs(1));
    let taken = scenario.write();
    assert_eq!(taken.record.lease_transitions, Some(5));
    assert_ne!(taken.record.acquire_time, held_by(OTHER, 1).acquire_time);
    scenario.applied(&taken, 11);
    scenario.wait_out();
    let renewal = scenario.write();
    assert_eq!(renewal.record.lease_transitions, Some(5));
    assert_eq!(renewal.record.acquire_time, taken.record.acquire_time);
}

#[test]
fn rule_5_transitions_stop_at_the_limit_of_32_bits() {
    let record = LeaderElectionRecord { lease_transitions: Some(i32::MAX), ..held_by("", 15) };
    let mut scenario = Scenario::campaigning_on(record, 10);
    assert_eq!(scenario.write().record.lease_transitions, Some(i32::MAX));
}

#[test]
fn rule_6_a_release_empties_the_holder_and_keeps_the_transitions() {
    let (mut scenario, _, record) = Scenario::leading();
    scenario.election.guard_gone(scenario.now);
    assert_eq!(scenario.lost(), Some(StopReason::Released));
    let release = scenario.write();
    assert_eq!(release.base, Some(10));
    assert_eq!(release.record.holder(), None);
    assert_eq!(release.record.lease_duration_seconds, Some(1));
    assert_eq!(release.record.lease_transitions, record.lease_transitions);
    assert_ne!(release.record.renew_time, record.renew_time);
    scenario.applied(&release, 11);
    assert!(scenario.settled());
}

#[test]
fn rule_6_nothing_is_released_that_is_not_ours() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    scenario.found(held_by(OTHER, 15), 11);
    scenario.events();
    scenario.election.guard_gone(scenario.now);
    assert!(scenario.settled());
    assert!(scenario.wait() > Duration::ZERO);
}

#[test]
fn rule_6_a_release_does_not_wait_for_a_hanging_renewal_and_is_settled_and_repeated() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.wait_out();
    let hanging = scenario.write();
    scenario.fails(hanging.id, LockErrorKind::Interrupted);
    scenario.election.guard_gone(scenario.now);
    scenario.events();
    let release = scenario.write();
    assert_eq!(release.base, Some(10), "from the newest version known");
    // The renewal was faster after all.
    scenario.fails(release.id, LockErrorKind::Conflict);
    scenario.found(standing(&hanging), 11);
    assert!(!scenario.settled());
    let again = scenario.write();
    assert_eq!(again.base, Some(11));
    assert_eq!(again.record.holder(), None);
    scenario.applied(&again, 12);
    assert!(scenario.settled());
}

#[test]
fn rule_6_a_release_without_an_answer_is_settled_within_the_release_timeout() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.election.guard_gone(scenario.now);
    let began = scenario.now;
    let release = scenario.write();
    scenario.advance(release.timeout);
    scenario.fails(release.id, LockErrorKind::Timeout);
    // It had been applied.
    scenario.found(standing(&release), 11);
    assert!(scenario.settled());
    assert!(scenario.now.since(began) < secs(2));
}

#[test]
fn rule_6_a_closed_election_lingers_for_its_open_writes_at_most_for_the_renew_deadline() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.wait_out();
    let hanging = scenario.write();
    scenario.fails(hanging.id, LockErrorKind::Timeout);
    scenario.election.close();
    scenario.election.guard_gone(scenario.now);
    let began = scenario.now;
    loop {
        match scenario.next() {
            Step::Send(request) => scenario.fails(request.id, LockErrorKind::Timeout),
            Step::Wait(until) => scenario.now = until,
            Step::Finished => break,
        }
    }
    assert_eq!(scenario.now.since(began), secs(10));
}

#[test]
fn rule_6_a_closed_election_without_open_writes_finishes_at_once() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.election.close();
    assert!(matches!(scenario.next(), Step::Wait(_)), "the guard keeps it");
    scenario.election.guard_gone(scenario.now);
    let release = scenario.write();
    scenario.applied(&release, 11);
    assert!(matches!(scenario.next(), Step::Finished));
}

// ---- the safety rules ----

#[test]
fn validity_counts_from_before_the_write_was_sent() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let sent_at = scenario.now;
    let write = scenario.write();
    scenario.advance(secs(4));
    scenario.applied(&write, 10);
    let (deadline, _) = scenario.elected();
    assert_eq!(deadline.remaining(scenario.now), secs(6));

    let renewal_sent_at = scenario.now;
    let renewal = scenario.write();
    scenario.advance(secs(3));
    scenario.applied(&renewal, 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), renewal_sent_at + secs(10));
    assert!(renewal_sent_at > sent_at);
}

#[test]
fn validity_ends_without_a_successful_renewal() {
    let (mut scenario, deadline, _) = Scenario::leading();
    let elected_at = scenario.now;
    loop {
        let step = scenario.next();
        if let Some(reason) = scenario.lost() {
            assert_eq!(reason, StopReason::Expired);
            break;
        }
        match step {
            Step::Send(request) => {
                scenario.advance(request.timeout);
                scenario.fails(request.id, LockErrorKind::Timeout);
            }
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not finished"),
        }
        assert!(scenario.now.since(elected_at) <= secs(10), "a wait never goes beyond the deadline");
    }
    assert_eq!(scenario.now.since(elected_at), secs(10), "lost() is not late by a request");
    assert!(!deadline.is_valid(scenario.now));
}

#[test]
fn loss_is_final_a_success_after_the_deadline_does_not_revive_the_term() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.advance(secs(8));
    assert!(!deadline.is_valid(scenario.now), "a view latches it");
    scenario.applied(&renewal, 11);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    assert!(!deadline.is_valid(Moment::from_nanos(2)));
}

#[test]
fn loss_is_final_a_late_success_without_a_view_that_saw_it_does_not_revive_either() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.advance(secs(9));
    scenario.applied(&renewal, 11);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    assert!(!deadline.is_valid(scenario.now));
}

#[test]
fn loss_is_final_while_the_guard_exists_nothing_is_released_nor_renewed() {
    let (mut scenario, _, record) = Scenario::leading();
    scenario.advance(secs(10));
    scenario.found(record.clone(), 10);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    for _ in 0..20 {
        scenario.wait_out();
        scenario.found(record.clone(), 10);
    }
    scenario.election.guard_gone(scenario.now);
    assert_eq!(scenario.lost(), None, "it was lost before");
    assert_eq!(scenario.write().record.holder(), None, "released when the guard goes, as it is still ours");
}

#[test]
fn loss_is_final_after_a_step_down_renewals_go_on_until_the_guard_goes() {
    let (mut scenario, deadline, _) = Scenario::leading();
    deadline.end();
    scenario.election.step_down();
    assert_eq!(scenario.lost(), Some(StopReason::SteppedDown));
    for version in 11..20 {
        scenario.wait_out();
        let renewal = scenario.write();
        assert_eq!(renewal.record.holder(), Some(ME));
        scenario.applied(&renewal, version);
        assert!(!deadline.is_valid(scenario.now));
    }
    scenario.election.guard_gone(scenario.now);
    assert_eq!(scenario.lost(), None);
    assert_eq!(scenario.write().base, Some(19));
}

#[test]
fn loss_is_final_a_term_that_its_holder_ended_waits_for_the_word_of_why() {
    let (mut scenario, deadline, _) = Scenario::leading();
    deadline.end();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.applied(&renewal, 11);
    assert_eq!(scenario.lost(), None);
    scenario.election.guard_gone(scenario.now);
    assert_eq!(scenario.lost(), Some(StopReason::Released));
}

#[test]
fn every_put_names_the_uid_it_observed_and_a_lease_made_anew_by_a_put_is_a_loss() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    assert_eq!(renewal.record.uid.as_deref(), Some("uid-1"));
    let recreated = LeaderElectionRecord { uid: Some("uid-2".into()), ..renewal.record.clone() };
    scenario.written(&renewal, recreated, 12);
    assert_eq!(scenario.lost(), Some(StopReason::Deleted));
    assert!(!deadline.is_valid(scenario.now));
    scenario.election.guard_gone(scenario.now);
    assert_eq!(scenario.write().record.holder(), None, "what our write left behind is cleared away");
}

#[test]
fn renew_time_moves_with_every_write_whatever_the_wall_clock_does() {
    let (mut scenario, _, first) = Scenario::leading();
    let mut last = first.renew_time.unwrap();
    for version in 11..20 {
        // The wall clock steps back an hour at each renewal.
        scenario.wall -= secs(3600);
        scenario.wait_out();
        let renewal = scenario.write();
        let stamp = renewal.record.renew_time.clone().unwrap();
        let moved = humantime::parse_rfc3339(stamp.as_str())
            .unwrap()
            .duration_since(humantime::parse_rfc3339(last.as_str()).unwrap())
            .expect("forward");
        assert_eq!(moved, secs(2), "it moves with the local clock, so that whole seconds change too");
        last = stamp;
        scenario.applied(&renewal, version);
    }
}

#[test]
fn renew_time_moves_by_a_microsecond_when_no_clock_does() {
    let (mut scenario, _, first) = Scenario::leading();
    scenario.election.guard_gone(scenario.now);
    let release = scenario.write();
    assert_ne!(release.record.renew_time, first.renew_time);
    assert!(release.record.renew_time.unwrap().as_str() > first.renew_time.unwrap().as_str());
}

#[test]
fn renew_time_an_unchanged_answer_at_the_base_version_is_no_renewal() {
    let (mut scenario, deadline, record) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    let before = deadline.remaining(scenario.now);
    scenario.written(&renewal, record, 10);
    assert_eq!(deadline.remaining(scenario.now), before);
    scenario.wait_out();
    assert_eq!(scenario.write().base, Some(10), "tried again");
}

#[test]
fn renew_time_the_digits_of_acquire_time_are_random_for_each_acquisition() {
    let digits = |seed| {
        let mut scenario = Scenario::new();
        scenario.election = Election::new(scenario.election.settings.clone(), seed);
        scenario.election.campaign(false);
        scenario.found_nothing();
        let time = scenario.write().record.acquire_time.unwrap();
        time.as_str()[20..26].to_owned()
    };
    let distinct: std::collections::HashSet<_> = (0..50).map(digits).collect();
    assert!(distinct.len() > 45, "{distinct:?}");
}

#[test]
fn open_writes_a_a_renewal_without_an_answer_is_adopted_with_its_own_time() {
    for outcome in [LockErrorKind::Timeout, LockErrorKind::Conflict, LockErrorKind::Unavailable] {
        let (mut scenario, deadline, _) = Scenario::leading();
        scenario.wait_out();
        let sent_at = scenario.now;
        let applied = scenario.write();
        scenario.advance(secs(1));
        scenario.fails(applied.id, outcome);
        if outcome != LockErrorKind::Conflict {
            scenario.wait_out();
            let second = scenario.write();
            assert_eq!(second.base, Some(10), "the same base: a renewal is retried, not read after");
            scenario.fails(second.id, LockErrorKind::Conflict);
        }
        scenario.found(standing(&applied), 11);
        assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10), "{outcome:?}");
        assert_eq!(scenario.lost(), None);
    }
}

#[test]
fn open_writes_a_an_acquisition_without_an_answer_is_adopted() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let sent_at = scenario.now;
    let write = scenario.write();
    scenario.advance(write.timeout);
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.found(standing(&write), 23);
    let (deadline, token) = scenario.elected();
    assert_eq!(token, 23, "the version at which we learned of it");
    assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10));
}

#[test]
fn open_writes_b_an_edit_of_metadata_costs_no_term_and_extends_none() {
    let (mut scenario, deadline, record) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    let before = scenario.now + deadline.remaining(scenario.now);
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    scenario.found(record, 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), before, "the old sending time stands");
    let retry = scenario.write();
    assert_eq!(retry.base, Some(11), "renewed at once, on the new version");
    scenario.applied(&retry, 12);
    assert_eq!(scenario.lost(), None);
}

#[test]
fn open_writes_b_an_edit_of_metadata_does_not_restart_a_standbys_wait() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.advance(secs(14));
    scenario.found(held_by(OTHER, 15), 11);
    assert_eq!(scenario.wait(), secs(1));
    scenario.wait_out();
    assert_eq!(scenario.write().base, Some(11), "against the new version");
}

#[test]
fn open_writes_c_an_acquisition_learned_of_too_late_is_not_adopted_but_taken_over() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let late = scenario.write();
    scenario.advance(secs(10));
    scenario.fails(late.id, LockErrorKind::Timeout);
    scenario.found(standing(&late), 11);
    scenario.not_elected();
    let fresh = scenario.write();
    assert_eq!(fresh.base, Some(11), "at once, by a fresh compare-and-swap");
    assert_eq!(fresh.record.lease_transitions, Some(1), "a new term");
    assert_ne!(fresh.record.acquire_time, late.record.acquire_time);
    scenario.applied(&fresh, 12);
    assert_eq!(scenario.elected().1, 12, "with a new token");
}

#[test]
fn open_writes_c_a_withdrawn_acquisition_that_lands_is_released() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.election.withdraw();
    scenario.found(standing(&write), 11);
    scenario.not_elected();
    let release = scenario.write();
    assert_eq!((release.base, release.record.holder()), (Some(11), None));
}

#[test]
fn open_writes_c_a_withdrawn_acquisition_that_is_answered_is_released() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let write = scenario.write();
    scenario.election.withdraw();
    scenario.applied(&write, 11);
    scenario.not_elected();
    assert_eq!(scenario.write().record.holder(), None);
}

#[test]
fn open_writes_c_a_renewal_that_lands_after_the_loss_is_left_alone_while_the_guard_stands() {
    let (mut scenario, _, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.advance(secs(8));
    scenario.fails(renewal.id, LockErrorKind::Timeout);
    scenario.found(standing(&renewal), 11);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    assert!(scenario.wait() > Duration::ZERO);
    scenario.election.guard_gone(scenario.now);
    scenario.election.campaign(false);
    assert!(scenario.settled(), "before the next term begins");
    let fresh = scenario.write();
    assert_eq!((fresh.base, fresh.record.holder()), (Some(11), Some(ME)), "a new campaign takes it over");
}

#[test]
fn open_writes_d_our_identity_in_a_record_that_we_did_not_write_ends_the_term() {
    let (mut scenario, deadline, record) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    let twins = LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(5)), ..record };
    scenario.found(twins.clone(), 11);
    let events = scenario.events();
    assert!(events.iter().any(|event| matches!(event, Event::IdentityConflict)));
    assert!(events.iter().any(|event| matches!(event, Event::Lost(StopReason::IdentityConflict))));
    assert!(!deadline.is_valid(scenario.now));
    scenario.election.guard_gone(scenario.now);
    assert!(scenario.settled(), "not ours to release");
    scenario.election.campaign(false);
    scenario.advance(millis(14_999));
    scenario.found(twins, 11);
    assert_eq!(scenario.wait(), millis(1), "waited for like anybody else");
}

#[test]
fn open_writes_d_reclaiming_takes_a_record_with_our_identity_at_once() {
    let mut scenario = Scenario::with(|config| config.reclaim_own_identity = true);
    scenario.election.campaign(false);
    scenario.found(held_by(ME, 15), 10);
    let write = scenario.write();
    assert_eq!(write.base, Some(10));
    scenario.applied(&write, 11);
    assert_eq!(scenario.elected().1, 11);
}

#[test]
fn open_writes_e_anothers_record_or_a_deletion_ends_the_term_at_once() {
    for (found, reason) in [
        (Some(held_by(OTHER, 15)), StopReason::Superseded { by: Some(OTHER.into()) }),
        (Some(held_by("", 1)), StopReason::Superseded { by: None }),
        (None, StopReason::Deleted),
    ] {
        let (mut scenario, deadline, _) = Scenario::leading();
        scenario.wait_out();
        let renewal = scenario.write();
        scenario.fails(renewal.id, LockErrorKind::Conflict);
        match found {
            Some(record) => scenario.found(record, 11),
            None => scenario.found_nothing(),
        }
        assert_eq!(scenario.lost(), Some(reason));
        assert!(!deadline.is_valid(scenario.now));
    }
}

#[test]
fn open_writes_a_read_at_the_base_closes_nothing() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.found(held_by("", 1), 10);
    scenario.wait_out();
    let second = scenario.write();
    assert_eq!(second.record.acquire_time, write.record.acquire_time, "the same attempt");
    scenario.fails(second.id, LockErrorKind::Conflict);
    // The first had only been slow.
    scenario.found(standing(&write), 11);
    assert_eq!(scenario.elected().1, 11);
}

#[test]
fn open_writes_a_later_version_closes_them_and_answers_to_closed_writes_are_ignored() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.found(held_by(OTHER, 15), 12);
    scenario.written(&write, standing(&write), 11);
    scenario.written(&write, standing(&write), 13);
    scenario.not_elected();
    assert!(scenario.wait() > Duration::ZERO);
}

#[test]
fn open_writes_do_not_pile_up_without_bound() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    for _ in 0..5_000 {
        match scenario.next() {
            Step::Send(Request { id, verb: Verb::Get(look), .. }) => {
                scenario.reads(Read { id, look }, held_by("", 1), 10);
            }
            Step::Send(Request { id, .. }) => scenario.fails(id, LockErrorKind::Unavailable),
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not finished"),
        }
    }
    assert_eq!(scenario.election.open.len(), MAX_OPEN_WRITES);
}

#[test]
fn order_what_is_not_above_the_newest_version_is_ignored() {
    let (mut scenario, deadline, _) = Scenario::leading();
    // Two reads were under way when version 10 became known: an older one and a deletion before it.
    let early = Look { newest: 0 };
    scenario.election.answered(scenario.now, 900, Answer::Read(early, Some(observed(held_by(OTHER, 15), 9))));
    scenario.election.answered(scenario.now, 901, Answer::Read(early, None));
    assert_eq!(scenario.lost(), None);
    assert!(deadline.is_valid(scenario.now));
}

#[test]
fn order_only_a_read_sent_after_a_version_was_known_proves_a_restored_store() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    scenario.found(held_by(OTHER, 15), 4);
    assert_eq!(scenario.lost(), Some(StopReason::StoreRestored));
    assert!(!deadline.is_valid(scenario.now));
    scenario.election.guard_gone(scenario.now);
    scenario.election.campaign(false);
    scenario.advance(secs(15));
    assert_eq!(scenario.write().base, Some(4), "started over on what stands now");
}

#[test]
fn the_fencing_token_grows_over_deletion_and_re_creation() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    scenario.found_nothing();
    scenario.election.guard_gone(scenario.now);
    scenario.events();
    scenario.election.campaign(false);
    let create = scenario.write();
    assert_eq!((create.base, create.record.lease_transitions), (None, Some(0)), "transitions begin anew");
    scenario.applied(&create, 17);
    assert_eq!(scenario.elected().1, 17, "the token does not");
}

#[test]
fn whole_seconds_are_published_rounded_up() {
    let mut scenario = Scenario::with(|config| config.lease_duration = millis(14_001));
    scenario.election.campaign(false);
    scenario.found_nothing();
    assert_eq!(scenario.write().record.lease_duration_seconds, Some(15));
}

#[test]
fn one_request_never_eats_the_whole_renew_deadline() {
    let (mut scenario, deadline, _) = Scenario::leading();
    let mut tries = 0;
    while deadline.is_valid(scenario.now) {
        match scenario.next() {
            Step::Send(request) => {
                tries += 1;
                assert!(request.timeout <= deadline.remaining(scenario.now));
                scenario.advance(request.timeout);
                scenario.fails(request.id, LockErrorKind::Timeout);
            }
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not finished"),
        }
    }
    assert!((3..=20).contains(&tries), "{tries} tries, each hanging until its time-out");
}

// ---- pace ----

#[test]
fn a_campaign_polls_every_retry_period_with_jitter() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 3600), 10);
    let mut waits = Vec::new();
    for _ in 0..200 {
        let wait = scenario.wait();
        assert!((secs(2)..=millis(2400)).contains(&wait), "{wait:?}");
        waits.push(wait);
        scenario.advance(wait);
        scenario.found(held_by(OTHER, 3600), 10);
    }
    waits.dedup();
    assert!(waits.len() > 150, "jitter");
}

#[test]
fn a_write_is_not_repeated_in_a_tight_loop_when_the_version_stands_still() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let began = scenario.now;
    let mut writes = 0;
    while scenario.now.since(began) < secs(60) {
        match scenario.next() {
            Step::Send(Request { id, verb: Verb::Get(look), .. }) => {
                scenario.reads(Read { id, look }, held_by("", 1), 10);
            }
            Step::Send(Request { id, .. }) => {
                writes += 1;
                scenario.fails(id, LockErrorKind::Conflict);
            }
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not finished"),
        }
    }
    assert!(writes <= 30, "{writes} writes in a minute");
}

#[test]
fn a_store_that_asks_for_a_pause_gets_it() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    let read = scenario.read();
    let busy = LockError::new(LockErrorKind::Unavailable, "made up").with_retry_after(Some(secs(7)));
    scenario.election.answered(scenario.now, read.id, Answer::Failed(busy.clone()));
    assert_eq!(scenario.wait(), secs(7));

    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    let left = deadline.remaining(scenario.now);
    scenario.election.answered(scenario.now, renewal.id, Answer::Failed(busy));
    assert!(scenario.wait() <= left / 2, "but not for so long that the term ends over it");
}

#[test]
fn try_once_reads_writes_at_most_once_and_ends() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    scenario.found(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    assert!(scenario.events().iter().any(|event| matches!(event, Event::RoundOver)));

    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    scenario.found(held_by("", 1), 10);
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Conflict);
    scenario.read();
    assert!(scenario.events().iter().any(|event| matches!(event, Event::RoundOver)));

    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    scenario.found_nothing();
    let write = scenario.write();
    scenario.applied(&write, 10);
    scenario.elected();
}

#[test]
fn try_once_reads_afresh_even_when_a_read_is_not_due() {
    let mut scenario = Scenario::new();
    scenario.found(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    scenario.election.campaign(true);
    scenario.found(held_by("", 1), 11);
    assert_eq!(scenario.write().base, Some(11));
}

#[test]
fn leaders_are_reported_once_each() {
    let mut scenario = Scenario::new();
    let mut reported = Vec::new();
    for (holder, version) in [(OTHER, 10), (OTHER, 11), ("", 12), ("third", 13), ("third", 13)] {
        scenario.advance(secs(3));
        scenario.found(held_by(holder, version as i32), version);
        reported.extend(scenario.events().into_iter().map(|event| match event {
            Event::Leader(leader) => leader,
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(reported, [Some(OTHER.to_owned()), None, Some("third".to_owned())]);
}
