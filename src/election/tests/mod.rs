//! Tests of the rules of `docs/internals/PROTOCOL.md` on virtual time, named after the rules.

mod figures;
mod fitness;
mod hold_back;
mod in_doubt_writes;
mod jobs;
mod keep_alive;
mod notes;
mod numbered_rules;
mod order;
mod pace;
mod safety_rules;
mod silence;

mod watching;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;
use crate::election::candidate::Candidate;
use crate::election::candidate::fitness::FitnessSource;
use crate::election::candidate::messages::{Effect, Input};
use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::settings::Config;
use crate::election::stop_reason::StopReason;
use crate::store::notes::RecordNotes;
use crate::store::record::{LeaderElectionRecord, MicroTime, StoreData, VersionedRecord};
use crate::store::{StoreError, StoreErrorKind};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

const ME: &str = "me";
const OTHER: &str = "other";

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One candidate on a virtual clock that the test moves.
struct Scenario {
    candidate: Candidate,
    now: Moment,
    wall: SystemTime,
    /// The number of the newest campaign.
    campaign: u64,
    /// The newest record that the candidate has received, and its version.
    newest: Option<(LeaderElectionRecord, u64)>,
}

#[derive(Debug, Clone)]
struct Write {
    id: u64,
    /// `None` for a create.
    base: Option<u64>,
    record: LeaderElectionRecord,
    notes: RecordNotes,
    timeout: Duration,
}

impl Write {
    fn of(StoreRequest { id, operation, notes, timeout }: StoreRequest) -> Self {
        match operation {
            Operation::Create(record) => Self { id, base: None, record, notes, timeout },
            Operation::Update(base, record) => Self { id, base: Some(base.version), record, notes, timeout },
            Operation::Get(_) => panic!("expected a write, not a read"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Read {
    id: u64,
    context: ReadContext,
}

impl Scenario {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::seeded(1, change)
    }

    /// Returns a candidate whose random numbers start with `seed`.
    fn seeded(seed: u64, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { identity: Some(ME.into()), ..Config::default() };
        change(&mut config);
        Self {
            candidate: Candidate::new(config.validate().expect("a valid configuration"), seed),
            now: Moment::from_nanos(1_000_000_000_000),
            wall: UNIX_EPOCH + secs(1_700_000_000),
            campaign: 0,
            newest: None,
        }
    }

    fn handle(&mut self, input: Input) {
        self.candidate.handle(self.now, input);
    }

    /// Starts a campaign, for one round if `once` is `true`.
    fn campaign(&mut self, once: bool) {
        self.campaign += 1;
        self.handle(Input::Campaign { id: self.campaign, once });
    }

    fn withdraw(&mut self) {
        self.handle(Input::Withdraw(self.campaign));
    }

    /// Reports the fitness of the program, for a candidate with `has_fitness`.
    fn set_fit(&mut self, is_fit: bool) {
        self.handle(Input::Fitness(FitnessSource::Program, is_fit));
    }

    fn step_down(&mut self, within: Option<Duration>) {
        self.handle(Input::StepDown(within.map_or(DrainLimit::AsSet, DrainLimit::Within)));
    }

    fn watch_opens(&mut self, from_scratch: bool) {
        self.handle(Input::WatchOpened { from_scratch });
    }

    fn watch_ends(&mut self) {
        self.handle(Input::WatchEnded);
    }

    /// Delivers an event of the watch, which was received at `received_at`.
    fn hears_at(&mut self, received_at: Moment, change: Change) {
        if let Change::Written(observed) = &change {
            self.learned(observed);
        }
        self.handle(Input::Watched { received_at, change });
    }

    fn responds(&mut self, id: u64, response: StoreResponse) {
        if let StoreResponse::Read(_, Some(observed)) | StoreResponse::Written(observed) = &response {
            self.learned(observed);
        }
        self.handle(Input::Response(id, response));
    }

    fn learned(&mut self, observed: &VersionedRecord) {
        if observed.version >= self.newest_version() {
            self.newest = Some((observed.record.clone(), observed.version));
        }
    }

    fn newest_version(&self) -> u64 {
        self.newest.as_ref().map_or(0, |(_, version)| *version)
    }

    /// Returns an observer that has found `record` at `version`.
    fn observing(record: LeaderElectionRecord, version: u64) -> Self {
        let mut scenario = Self::new();
        scenario.found(record, version);
        scenario
    }

    /// Returns a candidate that has not read the record yet.
    fn campaigning() -> Self {
        Self::campaigning_with(|_| {})
    }

    fn campaigning_with(change: impl FnOnce(&mut Config)) -> Self {
        let mut scenario = Self::with(change);
        scenario.campaign(false);
        scenario
    }

    /// Returns a candidate that has found `record` at `version`.
    fn campaigning_on(record: LeaderElectionRecord, version: u64) -> Self {
        let mut scenario = Self::campaigning();
        scenario.found(record, version);
        scenario
    }

    /// Returns a candidate that has found no record, and the create of the candidate.
    fn creating() -> (Self, Write) {
        Self::creating_with(|_| {})
    }

    fn creating_with(change: impl FnOnce(&mut Config)) -> (Self, Write) {
        let mut scenario = Self::campaigning_with(change);
        scenario.found_nothing();
        let create = scenario.write();
        (scenario, create)
    }

    /// Returns a candidate that campaigns for one round.
    fn trying_once() -> Self {
        let mut scenario = Self::new();
        scenario.campaign(true);
        scenario
    }

    /// Returns a candidate that has found a deleted lease, and an earlier unanswered read.
    fn gone_beside_an_early_read() -> (Self, Read) {
        let mut scenario = Self::campaigning_on(held_by(OTHER, 15), 10);
        scenario.wait_out();
        let early = scenario.read();
        scenario.fails(early.id, StoreErrorKind::Timeout);
        scenario.wait_out();
        scenario.found_nothing();
        (scenario, early)
    }

    /// Returns a leader whose create has version 10, its deadline and its record.
    fn leading() -> (Self, Arc<Deadline>, LeaderElectionRecord) {
        Self::leading_with(|_| {})
    }

    fn leading_with(change: impl FnOnce(&mut Config)) -> (Self, Arc<Deadline>, LeaderElectionRecord) {
        let (mut scenario, write) = Self::creating_with(change);
        let record = scenario.applied(&write, 10);
        let (deadline, _) = scenario.elected();
        (scenario, deadline, record)
    }

    /// Returns a new leader on a store with the round-trip time `far`, and the version.
    ///
    /// The election has measured only two requests: the read, which also opened the connection, and the create.
    fn leading_from_afar(far: Duration) -> (Self, u64) {
        let mut scenario = Self::campaigning();
        let read = scenario.read();
        scenario.advance(far * 3);
        scenario.responds(read.id, StoreResponse::Read(read.context, None));
        let create = scenario.write();
        scenario.advance(far);
        scenario.wins_by(&create, 10);
        (scenario, 10)
    }

    fn advance(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.wall += duration;
    }

    fn next(&mut self) -> Step {
        self.candidate.next(Now { local: self.now, wall: self.wall })
    }

    fn read(&mut self) -> Read {
        match self.next() {
            Step::Send(StoreRequest { id, operation: Operation::Get(context), .. }) => Read { id, context },
            other => panic!("expected a read, not {other:?}"),
        }
    }

    fn write(&mut self) -> Write {
        match self.next() {
            Step::Send(request) => Write::of(request),
            other => panic!("expected a write, not {other:?}"),
        }
    }

    /// Waits until the next write is due, and returns the write.
    fn due_write(&mut self) -> Write {
        self.wait_out();
        self.write()
    }

    fn due_write_fails(&mut self, kind: StoreErrorKind) -> Write {
        self.wait_out();
        self.write_fails(kind)
    }

    fn write_fails(&mut self, kind: StoreErrorKind) -> Write {
        let write = self.write();
        self.fails(write.id, kind);
        write
    }

    fn due_write_succeeds(&mut self, version: u64) -> Write {
        self.wait_out();
        self.write_succeeds(version)
    }

    fn write_succeeds(&mut self, version: u64) -> Write {
        let write = self.write();
        self.applied(&write, version);
        write
    }

    /// Returns the next write. Answers all reads before the write with `record`.
    fn next_write(&mut self, record: &LeaderElectionRecord, version: u64) -> Write {
        loop {
            let request = self.request();
            if let Some(write) = self.answers_read(request, Some((record, version))) {
                break write;
            }
        }
    }

    /// Returns the next request before `until`.
    ///
    /// Returns `None` if the election finishes or waits longer.
    fn request_before(&mut self, until: Moment) -> Option<StoreRequest> {
        while self.now < until {
            match self.next() {
                Step::Send(request) => return Some(request),
                Step::Wait(next) => self.advance(next.min(until).since(self.now)),
                Step::Finished => return None,
            }
        }
        None
    }

    /// Returns the next request after all waits.
    fn request(&mut self) -> StoreRequest {
        self.request_before(self.now + secs(1_000_000)).expect("a request")
    }

    /// Answers a read with the record and its version, or with no record.
    ///
    /// Returns the request if the request is a write.
    fn answers_read(&mut self, request: StoreRequest, standing: Option<(&LeaderElectionRecord, u64)>) -> Option<Write> {
        let Operation::Get(context) = request.operation else { return Some(Write::of(request)) };
        let answer = standing.map(|(record, version)| observed(record.clone(), version));
        self.responds(request.id, StoreResponse::Read(context, answer));
        None
    }

    /// Returns the time that the election waits.
    fn wait(&mut self) -> Duration {
        match self.next() {
            Step::Wait(until) => until.since(self.now),
            other => panic!("expected a wait, not {other:?}"),
        }
    }

    /// Returns the time until the next request, with all waits in between.
    fn quiet_for(&mut self) -> Duration {
        let since = self.now;
        self.request();
        self.now.since(since)
    }

    /// Advances the clock to the end of the next wait.
    fn wait_out(&mut self) {
        let wait = self.wait();
        self.advance(wait);
    }

    /// Applies and answers the write. Returns the record in the store.
    fn applied(&mut self, write: &Write, version: u64) -> LeaderElectionRecord {
        let record = standing(write);
        let mut observed = observed(record.clone(), version);
        *observed.notes = write.notes.clone();
        self.responds(write.id, StoreResponse::Written(observed));
        record
    }

    /// Applies an acquisition that wins no term. Returns the release of the record.
    ///
    /// The election learns of the acquisition by the answer, or by a read after a timeout.
    fn lands_in_vain(&mut self, write: &Write, version: u64, is_answered: bool) -> Write {
        if is_answered {
            self.applied(write, version);
        } else {
            self.fails(write.id, StoreErrorKind::Timeout);
            self.found(standing(write), version);
        }
        self.not_elected();
        let release = self.write();
        assert_eq!((release.base, release.record.holder()), (Some(version), None));
        release
    }

    fn written(&mut self, write: &Write, record: LeaderElectionRecord, version: u64) {
        self.responds(write.id, StoreResponse::Written(observed(record, version)));
    }

    fn fails(&mut self, id: u64, kind: StoreErrorKind) {
        self.responds(id, StoreResponse::Failed(StoreError::new(kind, "made up")));
    }

    fn reads(&mut self, read: Read, record: LeaderElectionRecord, version: u64) {
        let found = Some(observed(record, version));
        self.responds(read.id, StoreResponse::Read(read.context, found));
    }

    fn found(&mut self, record: LeaderElectionRecord, version: u64) {
        let read = self.read();
        self.reads(read, record, version);
    }

    fn found_nothing(&mut self) {
        let read = self.read();
        self.responds(read.id, StoreResponse::Read(read.context, None));
    }

    /// Opens a watch from scratch, which delivers a record.
    fn watches(&mut self, record: LeaderElectionRecord, version: u64) {
        self.watch_opens(true);
        self.hears(record, version);
    }

    /// Delivers a record by the watch.
    fn hears(&mut self, record: LeaderElectionRecord, version: u64) {
        self.hears_at(self.now, Change::Written(observed(record, version)));
    }

    fn hears_deletion(&mut self, version: u64) {
        self.hears_at(self.now, Change::Deleted { version });
    }

    fn guard_dropped(&mut self) {
        self.handle(Input::GuardDropped { at: self.now });
    }

    /// Takes all effects.
    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.candidate.effect()).collect()
    }

    /// Takes all effects. Returns the effects without log lines and cancellations.
    fn events(&mut self) -> Vec<Effect> {
        let mut events = self.effects();
        events.retain(|effect| !matches!(effect, Effect::Log(_) | Effect::CancelAt(..)));
        events
    }

    /// Takes all effects. Returns the number of log lines that contain `text`.
    fn lines(&mut self, text: &str) -> usize {
        let is_line = |effect: &Effect| matches!(effect, Effect::Log(notice) if format!("{notice:?}").contains(text));
        self.effects().iter().filter(|effect| is_line(effect)).count()
    }

    /// Takes all effects. Returns the time from now until the request under way is canceled.
    fn cancelled_after(&mut self) -> Duration {
        let cancelled_at = self.effects().into_iter().find_map(|effect| match effect {
            Effect::CancelAt(_, at) => Some(at),
            _ => None,
        });
        cancelled_at.expect("a cancellation").since(self.now)
    }

    fn elected(&mut self) -> (Arc<Deadline>, u64) {
        self.events()
            .into_iter()
            .find_map(|event| match event {
                Effect::Offer { deadline, fencing_token, .. } => Some((deadline, fencing_token)),
                _ => None,
            })
            .expect("a term")
    }

    /// Applies the next write, which starts a term.
    fn wins(&mut self, version: u64) -> (Arc<Deadline>, u64) {
        let write = self.write();
        self.wins_by(&write, version)
    }

    /// Applies `write`, which starts a term.
    fn wins_by(&mut self, write: &Write, version: u64) -> (Arc<Deadline>, u64) {
        self.applied(write, version);
        self.elected()
    }

    /// Drops the guard and starts another campaign.
    fn campaigns_again(&mut self) {
        self.guard_dropped();
        self.campaign(false);
    }

    /// Takes all events. Returns the reported leaders.
    fn leaders(&mut self) -> Vec<Option<LeaderInfo>> {
        let leader = |event| match event {
            Effect::NewLeader { leader, .. } => Some(Some(*leader)),
            Effect::NoLeader { is_expiry: false, .. } => Some(None),
            _ => None,
        };
        self.events().into_iter().filter_map(leader).collect()
    }

    fn round_over(&mut self) -> bool {
        self.events().iter().any(|event| matches!(event, Effect::RoundOver { .. }))
    }

    fn stale(&mut self) -> bool {
        self.events().iter().any(|event| matches!(event, Effect::RestartWatch))
    }

    fn not_elected(&mut self) {
        assert!(!self.events().iter().any(|event| matches!(event, Effect::Offer { .. })), "no term");
    }

    fn lost(&mut self) -> Option<StopReason> {
        let mut reasons: Vec<_> = self
            .events()
            .into_iter()
            .filter_map(|event| match event {
                Effect::TermEnded(reason, _) => Some(reason),
                _ => None,
            })
            .collect();
        assert!(reasons.len() <= 1, "a term is lost once: {reasons:?}");
        reasons.pop()
    }

    fn released(&mut self) -> bool {
        self.events().iter().any(|event| matches!(event, Effect::Released))
    }
}

/// Returns `true` for the log line about an earlier process with this identity.
fn is_predecessor(effect: &Effect) -> bool {
    matches!(effect, Effect::Log(notice) if format!("{notice:?}").contains("held by an earlier process"))
}

fn info(identity: &str, address: Option<&str>) -> Option<LeaderInfo> {
    Some(LeaderInfo { identity: identity.to_owned(), address: address.map(str::to_owned) })
}

fn observed(record: LeaderElectionRecord, version: u64) -> VersionedRecord {
    VersionedRecord::new(record, version, StoreData::none())
}

/// Returns the record in the store after `write`.
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

/// Records that end the term of a leader, `None` for a deletion, and the reason of the end.
fn losses() -> [(Option<LeaderElectionRecord>, StopReason); 3] {
    [
        (Some(held_by(OTHER, 15)), StopReason::Superseded { by: Some(OTHER.into()) }),
        (Some(held_by("", 1)), StopReason::Superseded { by: None }),
        (None, StopReason::Deleted),
    ]
}

fn renewed(record: &LeaderElectionRecord) -> LeaderElectionRecord {
    let text = format!("{}+", record.renew_time.as_ref().expect("a time"));
    LeaderElectionRecord { renew_time: Some(MicroTime::from_text(text)), ..record.clone() }
}
