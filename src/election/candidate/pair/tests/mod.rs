//! Tests of a pair on virtual time.

use std::time::{Duration, SystemTime};

use super::*;
use crate::election::candidate::candidacy::Candidacy;
use crate::election::drain::DrainLimit;
use crate::election::settings::Config;
use crate::election::{Change, Operation, StoreRequest, StoreResponse};
use crate::store::record::{LeaderElectionRecord, StoreData, VersionedRecord};
use crate::store::{StoreError, StoreErrorKind};
use Side::{Primary, Secondary};

mod ends;
mod failures;
mod fitness;

const SECOND: Duration = Duration::from_secs(1);

/// A record in a store with virtual time, whose answers the test can delay or refuse.
#[derive(Default)]
struct Table {
    observed: Option<VersionedRecord>,
    refuses: Option<StoreErrorKind>,
    refuses_writes: Option<StoreErrorKind>,
    retry_after: Option<Duration>,
    write_takes: Duration,
    writes: u64,
}

/// A pair on two records that share one version counter.
struct Scenario {
    pair: Candidacy,
    now: Moment,
    version: u64,
    tables: [Table; 2],
    /// The side and the holder of each write, in order and without repetitions.
    written: Vec<(Side, Option<String>)>,
    told: Vec<Effect>,
    term: Option<(Arc<Deadline>, u64)>,
}

impl Scenario {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let settings = Config { identity: Some("me".to_owned()), ..config }.validate().unwrap();
        Self {
            pair: Candidacy::new(settings, 1, Some(2)),
            now: Moment::from_nanos(1_000_000_000),
            version: 0,
            tables: Default::default(),
            written: Vec::new(),
            told: Vec::new(),
            term: None,
        }
    }

    fn campaigning() -> Self {
        Self::campaigning_with(Config::default())
    }

    fn campaigning_with(config: Config) -> Self {
        let mut scenario = Self::with(config);
        scenario.user(Input::Campaign { id: 1, once: false });
        scenario
    }

    /// Returns a candidate that holds the primary while another candidate holds the secondary.
    fn waiting() -> Self {
        Self::waiting_with(Config::default())
    }

    fn waiting_with(config: Config) -> Self {
        let mut scenario = Self::with(config);
        scenario.give_to(Secondary, "other");
        scenario.user(Input::Campaign { id: 1, once: false });
        scenario.pass(SECOND);
        scenario
    }

    fn leading() -> Self {
        Self::campaigning().leads()
    }

    fn leads(self) -> Self {
        let mut scenario = self;
        scenario.pass(SECOND);
        assert!(scenario.is_valid());
        scenario.told.clear();
        scenario.written.clear();
        scenario
    }

    /// Handles an input of the user.
    fn user(&mut self, input: Input) {
        self.pair.handle(self.now, Primary, input);
        self.listen();
    }

    fn listen(&mut self) {
        while let Some((_, effect)) = self.pair.effect() {
            if let Effect::Offer { deadline, fencing_token, .. } = &effect {
                self.term = Some((Arc::clone(deadline), *fencing_token));
            }
            if !matches!(effect, Effect::Log(_)) {
                self.told.push(effect);
            }
        }
    }

    /// Runs the pair for this duration.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let waits = Side::BOTH.map(|side| self.drive_until(side, until));
            if self.now <= until && self.pair.touched().is_some() {
                continue;
            }
            let next = waits.into_iter().flatten().fold(until, Moment::min);
            self.now = next.max(self.now);
            if next >= until {
                return;
            }
        }
    }

    /// Runs a side until the side waits.
    ///
    /// Returns the end of the wait, or `None` if the side has finished or the time is over.
    fn drive(&mut self, side: Side) -> Option<Moment> {
        self.drive_until(side, self.now + 3_600 * SECOND)
    }

    fn drive_until(&mut self, side: Side, end: Moment) -> Option<Moment> {
        while self.now <= end {
            let step = self.pair.next(Now { local: self.now, wall: SystemTime::UNIX_EPOCH }, side);
            self.listen();
            match step {
                Step::Send(request) => self.answer(side, request),
                Step::Wait(until) if until <= self.now => self.now = self.now + Duration::from_nanos(1),
                Step::Wait(until) => return Some(until),
                Step::Finished => return None,
            }
        }
        None
    }

    fn answer(&mut self, side: Side, StoreRequest { id, operation, .. }: StoreRequest) {
        let table = &mut self.tables[side as usize];
        let is_write = !matches!(operation, Operation::Get(_));
        self.now = self.now + if is_write { table.write_takes } else { Duration::ZERO };
        let retry_after = table.retry_after;
        let refused = |kind| StoreResponse::Failed(StoreError::new(kind, "made up").with_retry_after(retry_after));
        let refuses = table.refuses.or(table.refuses_writes.filter(|_| is_write));
        let response = match (refuses, operation) {
            (Some(kind), _) => refused(kind),
            (None, Operation::Get(context)) => StoreResponse::Read(context, table.observed.clone()),
            (None, Operation::Create(_)) if table.observed.is_some() => refused(StoreErrorKind::AlreadyExists),
            (None, Operation::Create(record)) => StoreResponse::Written(self.write(side, record)),
            (None, Operation::Update(base, record)) => match &table.observed {
                Some(standing) if standing.version == base.version => StoreResponse::Written(self.write(side, record)),
                _ => refused(StoreErrorKind::Conflict),
            },
        };
        self.pair.handle(self.now, side, Input::Response(id, response));
        self.listen();
    }

    fn write(&mut self, side: Side, record: LeaderElectionRecord) -> VersionedRecord {
        self.version += 1;
        let holder = record.holder().map(str::to_owned);
        let observed = VersionedRecord::new(record, self.version, StoreData::none());
        let table = &mut self.tables[side as usize];
        table.observed = Some(observed.clone());
        table.writes += 1;
        if self.written.last().is_none_or(|last| *last != (side, holder.clone())) {
            self.written.push((side, holder));
        }
        observed
    }

    /// Writes `holder` into this record for an hour. An empty `holder` releases the record.
    fn give_to(&mut self, side: Side, holder: &str) {
        let record = LeaderElectionRecord {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(3_600),
            lease_transitions: i32::try_from(self.version).ok(),
            ..LeaderElectionRecord::default()
        };
        let observed = self.write(side, record);
        let change = Change::Written(observed);
        self.pair.handle(self.now, side, Input::Watched { received_at: self.now, change });
        self.listen();
        self.written.clear();
    }

    fn holder(&self, side: Side) -> Option<&str> {
        self.tables[side as usize].observed.as_ref().and_then(|observed| observed.record.holder())
    }

    fn published(&self, side: Side) -> Option<i32> {
        self.tables[side as usize].observed.as_ref().and_then(|observed| observed.record.lease_duration_seconds)
    }

    fn is_valid(&self) -> bool {
        self.term.as_ref().is_some_and(|(deadline, _)| deadline.is_valid(self.now))
    }

    /// Steps down like `LeaderGuard::step_down`.
    fn step_down(&mut self) {
        let (deadline, _) = self.term.as_ref().unwrap();
        deadline.end(self.now, StopReason::SteppedDown);
        self.user(Input::StepDown(DrainLimit::AsSet));
    }

    fn writes(&self) -> [u64; 2] {
        self.tables.each_ref().map(|table| table.writes)
    }

    fn renews_neither(&mut self) {
        let before = self.writes();
        self.pass(60 * SECOND);
        assert_eq!(self.writes(), before, "neither is renewed");
    }

    /// Drops the guard.
    fn drop_guard(&mut self) {
        let (deadline, _) = self.term.take().unwrap();
        deadline.end(self.now, StopReason::Released);
        self.user(Input::GuardGone { at: self.now });
    }

    /// Drops the guard. Both records must be released within a second, the secondary first.
    fn releases_both(&mut self) {
        self.written.clear();
        self.drop_guard();
        self.pass(SECOND);
        assert_eq!(self.written, [(Secondary, None), (Primary, None)]);
    }

    /// Returns the number of effects for which `is` returns `true`.
    fn count(&self, is: impl Fn(&Effect) -> bool) -> usize {
        self.told.iter().filter(|effect| is(effect)).count()
    }

    fn ended_by(&self) -> Vec<&StopReason> {
        let mut reasons = Vec::new();
        for effect in &self.told {
            if let Effect::TermEnded(reason, _) = effect {
                reasons.push(reason);
            }
        }
        reasons
    }
}

#[test]
fn term_starts_with_both_records_and_the_token_of_the_secondary() {
    let mut scenario = Scenario::campaigning();
    scenario.pass(SECOND);
    let me = || Some("me".to_owned());
    assert_eq!(scenario.written, [(Primary, me()), (Secondary, me())]);
    assert_eq!(scenario.term.as_ref().map(|(_, token)| *token), Some(2));
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Offer { campaign: Some(1), .. })), 1);
    assert!(scenario.is_valid());
    scenario.pass(60 * SECOND);
    assert!(scenario.is_valid(), "both are renewed");
    assert!(scenario.count(|effect| matches!(effect, Effect::Renewed(_))) > 20);
}

#[test]
fn the_secondary_is_left_alone_while_another_holds_the_primary() {
    let mut scenario = Scenario::new();
    scenario.give_to(Primary, "other");
    scenario.user(Input::Campaign { id: 1, once: false });
    scenario.pass(600 * SECOND);
    assert_eq!((scenario.written.len(), scenario.holder(Secondary)), (0, None));
}

#[test]
fn the_primary_is_kept_while_the_secondary_is_waited_for() {
    let mut scenario = Scenario::waiting();
    scenario.pass(60 * SECOND);
    assert_eq!((scenario.holder(Primary), scenario.holder(Secondary)), (Some("me"), Some("other")));
    assert!(scenario.tables[0].writes > 20, "it is renewed");
    assert!(scenario.term.is_none());
    scenario.user(Input::Withdraw(1));
    scenario.pass(SECOND);
    assert_eq!((scenario.holder(Primary), scenario.published(Primary)), (None, Some(15)));
}

#[test]
fn loss_of_the_primary_while_waiting_restarts_the_campaign() {
    let mut scenario = Scenario::waiting();
    scenario.give_to(Primary, "other");
    scenario.give_to(Secondary, "");
    scenario.pass(10 * SECOND);
    assert_eq!((scenario.written.len(), scenario.term.is_some()), (0, false), "only the primary is campaigned for");
    scenario.give_to(Primary, "");
    scenario.pass(10 * SECOND);
    assert!(scenario.is_valid());
}

/// The secondary is won after the term on the primary has expired unnoticed.
#[test]
fn win_after_the_primary_expired_is_no_term() {
    let mut scenario = Scenario::waiting();
    scenario.now = scenario.now + 11 * SECOND;
    scenario.give_to(Secondary, "");
    scenario.drive(Secondary);
    assert_eq!(scenario.holder(Primary), Some("me"));
    assert!(scenario.term.is_none());
    scenario.pass(30 * SECOND);
    assert!(scenario.is_valid());
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Offer { campaign: Some(1), .. })), 1);
}

/// The common term ends with the record whose renewals fail.
#[test]
fn a_term_is_valid_for_as_long_as_both_are() {
    for silent in Side::BOTH {
        let mut scenario = Scenario::leading();
        scenario.tables[silent as usize].refuses = Some(StoreErrorKind::Unavailable);
        let remaining = |scenario: &Scenario| scenario.term.as_ref().unwrap().0.remaining(scenario.now);
        let left = remaining(&scenario);
        scenario.pass(5 * SECOND);
        assert_eq!(remaining(&scenario), left - 5 * SECOND, "even if every thread is stopped");
        scenario.pass(left - 5 * SECOND - Duration::from_millis(1));
        assert!(scenario.is_valid());
        scenario.pass(Duration::from_millis(2));
        assert!(!scenario.is_valid());
        assert_eq!(scenario.ended_by(), [&StopReason::Expired]);
    }
}

#[test]
fn write_that_does_not_extend_the_term_is_no_renewal() {
    let mut scenario = Scenario::leading();
    scenario.tables[1].refuses = Some(StoreErrorKind::Unavailable);
    let writes = scenario.tables[0].writes;
    scenario.pass(9 * SECOND);
    assert!(scenario.tables[0].writes > writes + 2);
    // Only the first renewal of the primary can extend the common term. Later, the validity of the secondary is
    // shorter.
    assert!(scenario.count(|effect| matches!(effect, Effect::Renewed(_))) <= 1);
}

#[test]
fn the_loss_of_either_ends_both_and_neither_is_renewed() {
    for lost in Side::BOTH {
        let mut scenario = Scenario::leading();
        scenario.give_to(lost, "other");
        assert!(!scenario.is_valid());
        let by = Some("other".to_owned());
        assert_eq!(scenario.ended_by(), [&StopReason::Superseded { by }]);
        scenario.pass(60 * SECOND);
        assert_eq!(scenario.written, [], "nothing is released beside the guard, nor renewed");
        scenario.drop_guard();
        scenario.pass(SECOND);
        let kept = if lost == Primary { Secondary } else { Primary };
        assert_eq!(scenario.written, [(kept, None)]);
        assert_eq!(scenario.published(Primary), if lost == Primary { Some(3_600) } else { Some(15) });
        assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 1);
        assert_eq!(scenario.ended_by().len(), 1, "reported once");
    }
}

#[test]
fn secondary_is_released_first_and_primary_keeps_its_duration() {
    let mut scenario = Scenario::leading();
    scenario.drop_guard();
    assert_eq!(scenario.ended_by(), [&StopReason::Released]);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 0);
    scenario.pass(SECOND);
    assert_eq!(scenario.written, [(Secondary, None), (Primary, None)]);
    assert_eq!((scenario.published(Primary), scenario.published(Secondary)), (Some(15), Some(1)));
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 1);
}

#[test]
fn primary_is_released_if_the_secondary_does_not_answer() {
    let mut scenario = Scenario::leading();
    scenario.tables[1].refuses = Some(StoreErrorKind::Unavailable);
    scenario.drop_guard();
    // The release of the primary starts after half of the release timeout of two seconds.
    scenario.pass(Duration::from_millis(999));
    assert_eq!(scenario.written, []);
    scenario.pass(Duration::from_millis(2));
    assert_eq!(scenario.written, [(Primary, None)]);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 0);
    scenario.tables[1].refuses = None;
    scenario.pass(10 * SECOND);
    assert_eq!(scenario.written, [(Primary, None), (Secondary, None)]);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 1);
}

/// The release of the previous term has not been answered when the campaign starts.
#[test]
fn new_campaign_takes_over_unreleased_records() {
    let mut scenario = Scenario::leading();
    scenario.tables[1].refuses = Some(StoreErrorKind::Unavailable);
    scenario.drop_guard();
    scenario.user(Input::Campaign { id: 2, once: false });
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 1, "the end is reported");
    scenario.pass(SECOND);
    assert_eq!(scenario.holder(Primary), Some("me"));
    scenario.tables[1].refuses = None;
    scenario.pass(10 * SECOND);
    assert!(scenario.is_valid());
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Offer { campaign: Some(2), .. })), 1);
    scenario.pass(60 * SECOND);
    assert!(scenario.is_valid());
    assert_eq!(scenario.ended_by().len(), 1);
}

#[test]
fn a_round_wins_both_or_gives_the_primary_back() {
    let mut scenario = Scenario::new();
    scenario.user(Input::Campaign { id: 1, once: true });
    scenario.pass(SECOND);
    assert!(scenario.is_valid());

    let mut scenario = Scenario::new();
    scenario.give_to(Secondary, "other");
    scenario.user(Input::Campaign { id: 1, once: true });
    scenario.pass(SECOND);
    let is_over = |effect: &Effect| matches!(effect, Effect::RoundOver { campaign: 1, error: None });
    assert_eq!((scenario.count(is_over), scenario.holder(Primary)), (1, None));

    let mut scenario = Scenario::new();
    scenario.give_to(Primary, "other");
    scenario.user(Input::Campaign { id: 1, once: true });
    scenario.pass(SECOND);
    assert_eq!((scenario.count(is_over), scenario.written.len()), (1, 0));
}

#[test]
fn primary_stays_free_until_the_secondary_is_readable() {
    let mut scenario = Scenario::campaigning();
    scenario.tables[1].refuses = Some(StoreErrorKind::Unavailable);
    scenario.pass(600 * SECOND);
    assert_eq!(scenario.written, []);
    scenario.tables[1].refuses = None;
    scenario.pass(10 * SECOND);
    assert!(scenario.is_valid());

    let mut scenario = Scenario::new();
    scenario.tables[1].refuses = Some(StoreErrorKind::Unavailable);
    scenario.user(Input::Campaign { id: 1, once: true });
    scenario.pass(SECOND);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::RoundOver { campaign: 1, error: Some(_) })), 1);
    assert_eq!(scenario.written, []);
    // From here, the watch works, and the next round reads again.
    scenario.watch();
    scenario.tables[1].refuses = None;
    scenario.user(Input::Campaign { id: 2, once: true });
    scenario.pass(3 * SECOND);
    assert!(scenario.is_valid(), "{:?}", scenario.told);
}

/// The primary stays free for a lease duration, so that another candidate can acquire it.
#[test]
fn primary_is_released_if_the_secondary_stays_unwritable() {
    let mut scenario = Scenario::leading();
    scenario.pass(5 * SECOND);
    scenario.tables[1].refuses_writes = Some(StoreErrorKind::Forbidden);
    scenario.pass(15 * SECOND);
    assert!(!scenario.is_valid());
    scenario.drop_guard();
    scenario.user(Input::Campaign { id: 2, once: false });
    scenario.pass(SECOND);
    assert_eq!(scenario.holder(Primary), Some("me"));
    scenario.pass(12 * SECOND);
    assert_eq!((scenario.holder(Primary), scenario.published(Primary)), (None, Some(15)));
    let writes = scenario.tables[0].writes;
    scenario.pass(11 * SECOND);
    assert_eq!(scenario.tables[0].writes, writes);
    scenario.pass(5 * SECOND);
    assert_eq!(scenario.holder(Primary), Some("me"), "it is tried again");
    scenario.tables[1].refuses_writes = None;
    scenario.pass(10 * SECOND);
    assert!(scenario.is_valid());
}

/// The thread read the clock before the expiry, and handles an answer after the expiry.
#[test]
fn expired_term_seen_by_its_holder_is_reported_as_over() {
    let mut scenario = Scenario::leading();
    let deadline = Arc::clone(&scenario.term.as_ref().unwrap().0);
    scenario.pass(2 * SECOND);
    let request = loop {
        match scenario.pair.next(Now { local: scenario.now, wall: SystemTime::UNIX_EPOCH }, Secondary) {
            Step::Send(request) => break request,
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not closed"),
        }
    };
    scenario.now = scenario.now + deadline.remaining(scenario.now);
    let late = scenario.now;
    assert!(!deadline.is_valid(late));
    scenario.now = Moment::from_nanos(late.as_nanos() - 1);
    scenario.answer(Secondary, request);
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.ended_by(), [&StopReason::Expired]);
    scenario.renews_neither();
}

/// Only the thread of one side runs, because the other thread hangs in a request.
#[test]
fn the_thread_of_either_side_notices_that_the_term_has_run_out() {
    for side in Side::BOTH {
        let mut scenario = Scenario::leading();
        for _ in 0..100 {
            scenario.now = scenario.now + SECOND / 5;
            scenario.drive(side);
        }
        assert_eq!(scenario.ended_by(), [&StopReason::Expired]);
        let writes = scenario.tables[side as usize].writes;
        scenario.now = scenario.now + 10 * SECOND;
        scenario.drive(side);
        assert_eq!(scenario.tables[side as usize].writes, writes);
    }
}

/// The thread of the other side may handle an event. The event must still make its own side take a new step.
#[test]
fn the_news_of_a_watch_is_a_reason_for_its_side_to_look_again() {
    for side in Side::BOTH {
        let mut scenario = Scenario::new();
        scenario.pass(SECOND);
        while scenario.pair.touched().is_some() {}
        scenario.give_to(side, "other");
        assert_eq!(scenario.pair.touched(), Some(side));
    }
}

#[test]
fn leader_is_the_holder_of_both_records() {
    let mut scenario = Scenario::new();
    let leaders = |scenario: &mut Scenario| {
        let told = std::mem::take(&mut scenario.told).into_iter();
        let leader = |effect| match effect {
            Effect::Leader(leader) => Some(leader.map(|leader| leader.identity)),
            _ => None,
        };
        told.filter_map(leader).collect::<Vec<_>>()
    };
    scenario.give_to(Primary, "one");
    assert!(leaders(&mut scenario).is_empty() && scenario.pair.leader_until().is_none());
    scenario.give_to(Secondary, "one");
    assert_eq!(leaders(&mut scenario), [Some("one".to_owned())]);
    assert_eq!(scenario.pair.leader_until(), Some(scenario.now + 3_600 * SECOND));
    scenario.give_to(Primary, "two");
    assert_eq!(leaders(&mut scenario), [None]);
    assert!(scenario.pair.leader_until().is_none());
    scenario.give_to(Secondary, "two");
    assert_eq!(leaders(&mut scenario), [Some("two".to_owned())]);
    // Both leases expire. The holder then renews the secondary first and the primary later.
    scenario.pass(3_601 * SECOND);
    let expired = |scenario: &Scenario| scenario.pair.leader_until().is_some_and(|until| until < scenario.now);
    assert!(expired(&scenario));
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::LeaderLeaseExpired)), 1);
    scenario.give_to(Secondary, "two");
    assert!(expired(&scenario) && leaders(&mut scenario).is_empty(), "the lease of the primary is not renewed");
    scenario.give_to(Primary, "two");
    assert!(!expired(&scenario));
    assert_eq!(leaders(&mut scenario), [Some("two".to_owned())]);
}
