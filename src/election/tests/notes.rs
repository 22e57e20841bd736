//! Tests of the rules 'Address' and 'Requests'.

use super::*;
use crate::store::notes::{RequestAcceptance, TermNotes};

fn noted(record: LeaderElectionRecord, version: u64, change: impl FnOnce(&mut RecordNotes)) -> VersionedRecord {
    let mut observed = observed(record, version);
    change(&mut observed.notes);
    observed
}

impl Scenario {
    fn hears_noted(&mut self, observed: VersionedRecord) {
        self.hears_at(self.now, Change::Written(observed));
    }

    /// Delivers the own record with a request to step down that names `identity`.
    fn requested_of(&mut self, identity: &str, record: &LeaderElectionRecord, version: u64) {
        self.hears_noted(noted(record.clone(), version, |notes| notes.step_down = Some(identity.to_owned())));
    }
}

fn accepting(config: &mut Config) {
    config.accepts_requests = true;
}

#[test]
fn address_is_in_each_write_of_the_holder() {
    let (mut scenario, create) = Scenario::creating_with(|config| config.address = Some("host:1".to_owned()));
    assert_eq!(create.notes.term.address.as_deref(), Some("host:1"));
    scenario.wins_by(&create, 10);
    let renewal = scenario.due_write_succeeds(11);
    assert_eq!(renewal.notes.term.address.as_deref(), Some("host:1"));
    scenario.guard_dropped();
    assert_eq!(scenario.write().notes, RecordNotes::default());
}

#[test]
fn write_without_an_address_removes_the_earlier_address() {
    let mut scenario = Scenario::campaigning();
    let read = scenario.read();
    let earlier = noted(held_by("", 1), 10, |notes| notes.term.address = Some("host:1".to_owned()));
    scenario.responds(read.id, StoreResponse::Read(read.context, Some(earlier)));
    assert_eq!(scenario.write().notes.term.address, None);
}

#[test]
fn changed_address_is_reported_without_a_new_record() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    assert_eq!(scenario.leaders(), [info(OTHER, None)]);
    scenario.advance(secs(5));
    let address = |notes: &mut RecordNotes| notes.term.address = Some("host:1".to_owned());
    scenario.hears_noted(noted(held_by(OTHER, 15), 11, address));
    scenario.hears_noted(noted(held_by(OTHER, 15), 12, address));
    assert_eq!(scenario.leaders(), [info(OTHER, Some("host:1"))]);
    let until = scenario.candidate.leader().until.expect("a holder");
    assert_eq!(until.since(scenario.now), secs(10), "the wait does not start again");
}

/// Returns notes that are not of a term, with those of a later version.
fn history(notes: &mut RecordNotes) {
    let job = notes.job.get_or_insert_default();
    job.attempts = Some(3);
    job.unknown = Some(r#"{"next":1}"#.into());
    notes.unknown = Some(r#"{"later":2}"#.into());
}

#[test]
fn every_write_keeps_the_notes_of_the_record() {
    let mut scenario = Scenario::campaigning();
    let read = scenario.read();
    let earlier = noted(held_by("", 1), 10, history);
    let mut kept = RecordNotes::default();
    history(&mut kept);
    scenario.responds(read.id, StoreResponse::Read(read.context, Some(earlier)));
    let acquisition = scenario.write();
    assert_eq!(acquisition.notes.released(), kept);
    let record = scenario.applied(&acquisition, 11);
    scenario.elected();
    scenario.hears_noted(noted(record, 12, |notes| {
        history(notes);
        notes.term.unknown = Some(r#"{"zone":"b"}"#.into());
    }));
    let renewal = scenario.due_write_succeeds(13);
    assert_eq!(renewal.notes.released(), kept);
    assert_eq!(renewal.notes.term.unknown.as_deref(), Some(r#"{"zone":"b"}"#));
    scenario.guard_dropped();
    assert_eq!(scenario.write().notes, kept);
}

#[test]
fn acceptance_of_requests_is_published() {
    let (_, create) = Scenario::creating_with(|_| ());
    assert_eq!(create.notes.term.accepts_requests, Some(RequestAcceptance::Never));
    let (mut scenario, create) = Scenario::creating_with(accepting);
    assert_eq!(create.notes.term.accepts_requests, Some(RequestAcceptance::After(Duration::ZERO)));
    let record = scenario.applied(&create, 10);
    let (deadline, _) = scenario.elected();
    // The pause after the first request is one lease duration, counted from the winning write.
    scenario.requested_until_the_end(&deadline, record);
    scenario.guard_dropped();
    let released = scenario.write_succeeds(12);
    assert_eq!(released.notes.term, TermNotes::default());
    scenario.campaign(false);
    let acquisition = scenario.acquires_after(&released, 12);
    let published = acquisition.notes.term.accepts_requests;
    assert_eq!(published, Some(RequestAcceptance::After(secs(15))));
    scenario.advance(millis(700));
    scenario.applied(&acquisition, 13);
    let (deadline, _) = scenario.elected();
    let renewal = scenario.due_write();
    assert_eq!(renewal.notes.term.accepts_requests, published, "renewals keep the time");
    let record = scenario.applied(&renewal, 14);
    let (led, _) = scenario.requested_until_the_end(&deadline, record);
    assert!((secs(10)..=secs(15)).contains(&led), "{led:?}");
}

/// A store that has lost its last commits may use a version again for other notes.
#[test]
fn read_of_the_known_version_replaces_its_notes() {
    let (mut scenario, deadline, record) = Scenario::leading();
    let renewal = scenario.due_write();
    scenario.fails(renewal.id, StoreErrorKind::NotApplied);
    let read = scenario.read();
    let found = noted(record, 10, history);
    scenario.responds(read.id, StoreResponse::Read(read.context, Some(found)));
    assert!(deadline.is_valid(scenario.now), "the record has not changed");
    assert_eq!(scenario.write().notes.job.as_ref().and_then(|job| job.attempts), Some(3));
}

#[test]
fn request_ends_the_term_and_the_lease_is_renewed() {
    let (mut scenario, deadline, record) = Scenario::leading_with(accepting);
    scenario.requested_of(ME, &record, 11);
    assert!(!deadline.is_valid(scenario.now));
    let events = scenario.events();
    assert!(
        matches!(events[..], [Effect::TermEnded(StopReason::Requested, _), Effect::Fitness { is_fit: false, .. }]),
        "{events:?}"
    );
    let renewal = scenario.due_write();
    assert_eq!((renewal.base, renewal.record.holder()), (Some(11), Some(ME)));
    assert_eq!(renewal.notes.step_down.as_deref(), Some(ME), "only an acquisition removes the request");
    scenario.fails(renewal.id, StoreErrorKind::Timeout);
    // The drain has the limit of an unfit candidate, which is the renew deadline.
    scenario.advance(secs(9));
    scenario.next();
    let events = scenario.events();
    assert!(events.iter().any(|event| matches!(event, Effect::DrainEnded(_))), "{events:?}");
}

#[test]
fn request_is_removed_by_the_next_acquisition() {
    let (mut scenario, _, record) = Scenario::leading_with(accepting);
    scenario.requested_of(ME, &record, 11);
    scenario.guard_dropped();
    let release = scenario.write_succeeds(12);
    assert_eq!(release.notes.step_down.as_deref(), Some(ME));
    scenario.campaign(false);
    assert_eq!(scenario.acquires_after(&release, 12).notes.step_down, None);
}

#[test]
fn request_for_another_candidate_is_ignored() {
    let (mut scenario, deadline, record) = Scenario::leading_with(accepting);
    for (version, identity) in [(11, OTHER), (12, ""), (13, "me "), (14, "m")] {
        scenario.requested_of(identity, &record, version);
        assert!(deadline.is_valid(scenario.now), "{identity:?}");
    }
    let renewal = scenario.due_write();
    assert_eq!(renewal.notes.step_down.as_deref(), Some("m"), "the request is kept");
}

#[test]
fn request_to_a_standby_is_ignored() {
    let mut scenario = Scenario::campaigning_with(accepting);
    scenario.found(held_by(OTHER, 15), 10);
    scenario.requested_of(ME, &held_by(OTHER, 15), 11);
    scenario.requested_of(OTHER, &held_by(OTHER, 15), 12);
    let events = scenario.events();
    assert!(!events.iter().any(|event| matches!(event, Effect::Fitness { .. })), "{events:?}");
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.requested_of(ME, &held_by(OTHER, 15), 11);
    assert_eq!(scenario.lines("request to step down"), 0, "without acceptance");
}

#[test]
fn request_without_acceptance_is_reported_once() {
    let (mut scenario, deadline, record) = Scenario::leading();
    for version in 11..14 {
        scenario.requested_of(ME, &record, version);
    }
    assert_eq!(scenario.lines("request to step down ignored"), 1);
    assert!(deadline.is_valid(scenario.now));
}

impl Scenario {
    /// Repeats the request until the term ends. Returns the time until then, and the number of reports of a deferral.
    fn requested_until_the_end(&mut self, deadline: &Deadline, mut record: LeaderElectionRecord) -> (Duration, usize) {
        let (since, mut version) = (self.now, self.newest_version());
        loop {
            version += 1;
            self.requested_of(ME, &record, version);
            if !deadline.is_valid(self.now) {
                return (self.now.since(since), self.lines("request to step down deferred"));
            }
            self.wait_out();
            if let Step::Send(request) = self.next() {
                let write = Write::of(request);
                version += 1;
                record = self.applied(&write, version);
            }
        }
    }

    /// Returns the acquisition of a candidate that was asked to step down, after the time for which it is unfit.
    fn acquires_after(&mut self, release: &Write, version: u64) -> Write {
        loop {
            match self.request() {
                StoreRequest { id, operation: Operation::Get(context), .. } => {
                    let found = noted(standing(release), version, |notes| *notes = release.notes.clone());
                    self.responds(id, StoreResponse::Read(context, Some(found)));
                }
                request => return Write::of(request),
            }
        }
    }

    /// Drops the guard, releases the lease, and wins the next term.
    fn leads_again(&mut self) -> (Arc<Deadline>, LeaderElectionRecord) {
        self.guard_dropped();
        let release = self.write_succeeds(self.newest_version() + 1);
        self.campaign(false);
        let acquired = self.acquires_after(&release, self.newest_version());
        let record = self.applied(&acquired, self.newest_version() + 1);
        (self.elected().0, record)
    }
}

/// A tool that restores a request forever must not keep the lease without a leader.
#[test]
fn restored_request_is_deferred_longer_each_time() {
    let (mut scenario, mut deadline, mut record) = Scenario::leading_with(accepting);
    for (least, is_deferred) in [(0, 0), (15, 1), (30, 1), (60, 1)] {
        let (led, deferred) = scenario.requested_until_the_end(&deadline, record);
        assert!((secs(least)..secs(least + 3)).contains(&led), "{led:?}, not {least} s");
        assert_eq!(deferred, is_deferred, "one report");
        // The work drains.
        scenario.advance(secs(7));
        (deadline, record) = scenario.leads_again();
    }
    // After another candidate has led, a request has its effect at once.
    scenario.hears(held_by(OTHER, 15), scenario.newest_version() + 1);
    scenario.guard_dropped();
    scenario.advance(secs(900));
    scenario.hears(held_by("", 1), scenario.newest_version() + 1);
    scenario.campaign(false);
    let acquired = scenario.next_write(&held_by("", 1), scenario.newest_version());
    let record = scenario.applied(&acquired, scenario.newest_version() + 1);
    let (deadline, _) = scenario.elected();
    assert_eq!(scenario.requested_until_the_end(&deadline, record), (Duration::ZERO, 0));
}

#[test]
fn request_to_an_expired_term_has_no_effect() {
    let (mut scenario, _, record) = Scenario::leading_with(accepting);
    scenario.advance(secs(10));
    scenario.requested_of(ME, &record, 11);
    scenario.next();
    let events = scenario.events();
    assert!(matches!(events[..], [Effect::TermEnded(StopReason::Expired, _)]), "{events:?}");
}

/// If a client edits the object before each renewal arrives, no renewal succeeds.
#[test]
fn second_conflict_of_a_renewal_is_not_repeated_at_once() {
    let (mut scenario, deadline, record) = Scenario::leading_with(accepting);
    scenario.watch_opens(true);
    let (mut version, mut writes, since) = (11, 0, scenario.now);
    scenario.requested_of(OTHER, &record, version);
    while deadline.is_valid(scenario.now) {
        if let Some(request) = scenario.request_before(scenario.now + millis(10))
            && let Some(write) = scenario.answers_read(request, Some((&record, version)))
        {
            writes += 1;
            version += 1;
            scenario.requested_of(OTHER, &record, version);
            scenario.fails(write.id, StoreErrorKind::Conflict);
            version += 1;
            scenario.requested_of(OTHER, &record, version);
        }
    }
    assert!(scenario.now.since(since) >= secs(10));
    assert!((5..15).contains(&writes), "{writes} writes in the last 10 s of a term");
}

/// A client that edits the notes every 10 ms causes no more than one write per renewal interval.
#[test]
fn frequent_edits_of_notes_cause_no_additional_writes() {
    let (mut scenario, deadline, mut record) = Scenario::leading_with(accepting);
    scenario.watch_opens(true);
    let (mut version, mut writes, since) = (10, 0, scenario.now);
    while scenario.now.since(since) < secs(60) {
        // An edit changes the version before each write arrives, unless the write is the first after a renewal.
        version += 1;
        scenario.requested_of(OTHER, &record, version);
        if let Some(request) = scenario.request_before(scenario.now + millis(10)) {
            let write = Write::of(request);
            writes += 1;
            version += 1;
            record = scenario.applied(&write, version);
        }
    }
    assert!(deadline.is_valid(scenario.now));
    assert!(writes <= 31, "{writes} writes in 60 s");
}
