use std::time::SystemTime;

use super::*;
use crate::election::LeaderInfo;
use crate::election::candidate::fitness::FitnessSource;
use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::settings::Config;
use crate::election::{Operation, Step, StoreRequest};
use crate::store::StoreError;
use crate::store::StoreErrorKind;
use crate::store::record::{LeaderElectionRecord, StoreData, VersionedRecord};

/// A candidate, and its clock.
struct Scenario {
    candidate: Candidate,
    now: Moment,
}

impl Scenario {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let settings = config.validate().unwrap();
        Self { candidate: Candidate::new(settings, 1), now: Moment::from_nanos(1_000_000_000) }
    }

    fn campaigning(id: u64, once: bool) -> Self {
        let mut scenario = Self::new();
        scenario.handle(Input::Campaign { id, once });
        scenario
    }

    fn handle(&mut self, input: Input) {
        self.candidate.handle(self.now, input);
    }

    fn effect(&mut self) -> Option<Effect> {
        self.candidate.effect()
    }

    fn step(&mut self) -> Step {
        self.candidate.next(Now { local: self.now, wall: SystemTime::UNIX_EPOCH })
    }

    /// Returns the next request after all waits.
    fn request(&mut self) -> StoreRequest {
        loop {
            match self.step() {
                Step::Send(request) => return request,
                Step::Wait(until) => self.now = until,
                Step::Finished => panic!("not closed"),
            }
        }
    }

    fn fails(&mut self, kind: StoreErrorKind) {
        let id = self.request().id;
        self.answer_fails(id, kind);
    }

    fn answer_fails(&mut self, id: u64, kind: StoreErrorKind) {
        self.handle(Input::Response(id, StoreResponse::Failed(StoreError::new(kind, "made up"))));
    }

    /// Returns a leader that has won campaign 5.
    fn leading() -> Self {
        let mut scenario = Self::campaigning(5, false);
        scenario.wins();
        scenario
    }

    /// Returns a fit candidate whose probe must answer within `timeout`.
    fn probed_within(timeout: Duration) -> Self {
        let config = Config { is_probed: true, probe_timeout: Some(timeout), ..Config::default() };
        let mut scenario = Self::with(config);
        scenario.handle(says(true));
        scenario.handle(Input::Campaign { id: 1, once: false });
        scenario
    }

    fn finds_nothing(&mut self) {
        let read = self.request();
        let Operation::Get(context) = read.operation else { panic!("{read:?}") };
        self.handle(Input::Response(read.id, StoreResponse::Read(context, None)));
    }

    fn wins(&mut self) {
        let won = self.creates();
        self.handle(won);
    }

    /// Expects an update as the next request. Returns its number and the updated record.
    fn updates(&mut self) -> (u64, VersionedRecord) {
        let update = self.request();
        let Operation::Update(base, record) = update.operation else { panic!("{update:?}") };
        (update.id, VersionedRecord::new(record, base.version + 1, StoreData::none()))
    }

    /// Expects a release as the next request. Returns its number and the released record.
    fn releases(&mut self) -> (u64, VersionedRecord) {
        let release = self.updates();
        assert_eq!(release.1.record.holder(), None);
        release
    }

    /// Answers all reads with `found`. Returns the next write.
    fn write_on(&mut self, found: Option<VersionedRecord>) -> Operation {
        loop {
            let request = self.request();
            let Operation::Get(context) = request.operation else { break request.operation };
            self.handle(Input::Response(request.id, StoreResponse::Read(context, found.clone())));
        }
    }

    /// Finds no record and sends a create. Returns the answer to the create.
    fn creates(&mut self) -> Input {
        self.finds_nothing();
        let create = self.request();
        let Operation::Create(record) = create.operation else { panic!("{create:?}") };
        Input::Response(create.id, StoreResponse::Written(VersionedRecord::new(record, 7, StoreData::none())))
    }

    /// Answers all requests until `end`. Returns the times of the renewals.
    fn renews_until(&mut self, end: Moment) -> Vec<Moment> {
        let (mut renewals, mut stored) = (Vec::new(), None);
        loop {
            let (id, response) = match self.step() {
                Step::Wait(until) if until >= end => {
                    self.now = end;
                    return renewals;
                }
                Step::Wait(until) => {
                    self.now = until;
                    continue;
                }
                Step::Send(StoreRequest { id, operation: Operation::Update(base, record), .. }) => {
                    renewals.push(self.now);
                    let written = VersionedRecord::new(record, base.version + 1, StoreData::none());
                    stored = Some(written.clone());
                    (id, StoreResponse::Written(written))
                }
                Step::Send(StoreRequest { id, operation: Operation::Get(context), .. }) => {
                    (id, StoreResponse::Read(context, stored.clone()))
                }
                other => panic!("{other:?}"),
            };
            self.handle(Input::Response(id, response));
        }
    }

    /// Delivers an event about a write of another candidate.
    fn hears_of_another(&mut self, version: u64) {
        self.hears_of("other", version);
    }

    /// Delivers an event about a write of `holder`, whose address names the version.
    fn hears_of(&mut self, holder: &str, version: u64) {
        let record = LeaderElectionRecord {
            uid: Some("u".to_owned()),
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: i32::try_from(version).ok(),
            ..LeaderElectionRecord::default()
        };
        let mut observed = VersionedRecord::new(record, version, StoreData::none());
        observed.notes.term.address = Some(format!("host:{version}"));
        self.handle(Input::Watched { received_at: self.now, change: Change::Written(observed) });
    }

    /// Takes all effects. Returns their texts.
    fn texts(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.effect()).map(|effect| format!("{effect:?}")).collect()
    }

    /// Takes all effects. Returns the number of effects that contain this text.
    fn count(&mut self, text: &str) -> usize {
        self.texts().iter().filter(|it| it.contains(text)).count()
    }

    /// Takes all effects. Returns the effects without log lines.
    fn wants(&mut self) -> Vec<Effect> {
        let effects = std::iter::from_fn(|| self.effect());
        effects.filter(|effect| !matches!(effect, Effect::Log(_))).collect()
    }
}

#[test]
fn a_renewal_takes_as_long_as_since_it_was_sent() {
    let mut scenario = Scenario::leading();
    scenario.wants();
    let (id, renewed) = scenario.updates();
    scenario.now = scenario.now + Duration::from_millis(30);
    scenario.handle(Input::Response(id, StoreResponse::Written(renewed)));
    assert!(matches!(scenario.wants()[..], [Effect::Renewed(took)] if took == Duration::from_millis(30)));
    assert!(scenario.candidate.leader().until.is_some_and(|until| until == scenario.now + Duration::from_secs(15)));
}

#[test]
fn close_during_an_acquisition_waits_for_its_outcome() {
    let mut scenario = Scenario::campaigning(1, false);
    assert!(!scenario.candidate.may_hold());
    let won = scenario.creates();
    scenario.wants();
    scenario.handle(Input::Close);
    assert!(scenario.candidate.may_hold());
    assert!(matches!(scenario.wants()[..], [Effect::CancelAt(2, _)]));
    scenario.handle(won);
    assert!(scenario.candidate.may_hold(), "it is ours");
    let (id, released) = scenario.releases();
    scenario.handle(Input::Response(id, StoreResponse::Written(released)));
    assert!(!scenario.candidate.may_hold());

    let mut scenario = Scenario::campaigning(1, false);
    let _ = scenario.creates();
    scenario.handle(Input::Close);
    scenario.answer_fails(2, StoreErrorKind::NotApplied);
    assert!(!scenario.candidate.may_hold(), "it was another's");
}

#[test]
fn close_during_a_hanging_acquisition_waits_for_one_read() {
    let mut scenario = Scenario::campaigning(1, false);
    let _ = scenario.creates();
    scenario.handle(Input::Close);
    scenario.answer_fails(2, StoreErrorKind::Interrupted);
    assert!(scenario.candidate.may_hold(), "it may be ours");
    let since = scenario.now;
    scenario.finds_nothing();
    assert_eq!(scenario.now, since, "at once");
    assert!(!scenario.candidate.may_hold(), "it may land at any time, or never");
}

#[test]
fn close_as_leader_does_not_wait() {
    let mut scenario = Scenario::leading();
    scenario.updates();
    scenario.wants();
    scenario.handle(Input::Close);
    assert!(!scenario.candidate.may_hold(), "the guard exists");
    assert!(scenario.wants().is_empty());
}

/// With a working watch, only the expiry itself wakes the candidate.
#[test]
fn expiry_and_renewal_of_a_lease_are_reported_at_once() {
    let mut scenario = Scenario::new();
    scenario.handle(Input::WatchOpened { from_scratch: true });
    for version in 1..=2 {
        scenario.hears_of_another(version);
        let leader = LeaderInfo { identity: "other".to_owned(), address: Some(format!("host:{version}")) };
        assert!(matches!(&scenario.wants()[..], [Effect::NewLeader { leader: reported, .. }] if **reported == leader));
        let runs_out = scenario.now + Duration::from_secs(15);
        loop {
            assert!(scenario.now <= runs_out, "not reported");
            let step = scenario.step();
            if scenario.wants().iter().any(|effect| matches!(effect, Effect::NoLeader { is_expiry: true, .. })) {
                break;
            }
            match step {
                Step::Wait(until) => scenario.now = until,
                Step::Send(request) => scenario.answer_fails(request.id, StoreErrorKind::Unavailable),
                Step::Finished => panic!("not closed"),
            }
        }
        assert_eq!(scenario.now, runs_out);
    }
}

#[test]
fn awaited_holder_is_logged_once_and_again_on_return() {
    for (once, lines) in [(false, [1, 0, 0, 1, 0, 1]), (true, [0; 6])] {
        let mut scenario = Scenario::campaigning(5, once);
        let standby_lines = |scenario: &mut Scenario| scenario.count("standby: other holds the lease");
        scenario.handle(Input::WatchOpened { from_scratch: true });
        let mut counts = Vec::new();
        for version in 1..=2 {
            scenario.hears_of_another(version);
            counts.push(standby_lines(&mut scenario));
        }
        scenario.now = scenario.now + Duration::from_secs(16);
        scenario.handle(Input::WatchEnded);
        counts.push(standby_lines(&mut scenario));
        scenario.hears_of_another(3);
        counts.push(standby_lines(&mut scenario));
        // The same leader is logged once, so that repeated campaigns do not fill the log.
        for id in 6..9 {
            scenario.handle(Input::Withdraw(id - 1));
            scenario.handle(Input::Campaign { id, once });
        }
        counts.push(standby_lines(&mut scenario));
        scenario.now = scenario.now + Duration::from_secs(16);
        scenario.handle(Input::WatchEnded);
        scenario.hears_of_another(4);
        counts.push(standby_lines(&mut scenario));
        assert_eq!(counts, lines);
    }
}

#[test]
fn won_term_is_offered_and_released_if_unclaimed() {
    let mut scenario = Scenario::leading();
    let offer = scenario.wants().into_iter().find(|effect| matches!(effect, Effect::Offer { .. }));
    assert!(matches!(offer, Some(Effect::Offer { campaign: 5, fencing_token: 7, .. })), "{offer:?}");
    scenario.handle(Input::NotTaken);
    assert!(matches!(scenario.wants()[..], [Effect::TermEnded(StopReason::Released, None), ..]));
    scenario.releases();
}

#[test]
fn term_won_after_a_withdrawal_is_not_offered() {
    let mut scenario = Scenario::campaigning(5, false);
    let won = scenario.creates();
    scenario.handle(Input::Withdraw(4));
    scenario.handle(Input::Withdraw(5));
    scenario.handle(won);
    let offered = scenario.wants().into_iter().any(|effect| matches!(effect, Effect::Offer { .. }));
    assert!(!offered);
}

#[test]
fn lasting_refusal_is_reported_to_one_campaign_once() {
    let mut scenario = Scenario::campaigning(5, true);
    let began = scenario.now;
    let mut refused = Vec::new();
    scenario.handle(Input::Campaign { id: 6, once: false });
    while scenario.now < began + Duration::from_secs(60) {
        scenario.fails(StoreErrorKind::Forbidden);
        refused.extend(scenario.wants());
    }
    assert!(matches!(refused[..], [Effect::Refuse { campaign: 6, .. }]), "{refused:?}");
    for _ in 0..2 {
        scenario.finds_nothing();
    }
}

#[test]
fn request_is_canceled_for_a_release_and_for_a_foreign_event() {
    let mut scenario = Scenario::campaigning(5, false);
    scenario.handle(Input::Withdraw(4));
    scenario.wins();
    assert!(scenario.wants().iter().any(|effect| matches!(effect, Effect::Offer { campaign: 5, .. })));
    let (renewal, sent_at) = (scenario.request().id, scenario.now);
    let by = |holder: &str| LeaderElectionRecord { holder_identity: Some(holder.into()), ..Default::default() };
    let ours = by(scenario.candidate.identity());
    let watched = |change| Input::Watched { received_at: sent_at, change };
    let written = |record| watched(Change::Written(VersionedRecord::new(record, 6, StoreData::none())));
    let foreign = Some(250);
    for (input, expected) in [
        (written(ours), None),
        (written(by("other")), foreign),
        (watched(Change::Deleted { version: 6 }), foreign),
        (Input::GuardDropped { at: sent_at }, Some(50)),
    ] {
        scenario.handle(input);
        let cancelled = scenario.wants().into_iter().find_map(|effect| match effect {
            Effect::CancelAt(id, at) if id == renewal => Some(at.since(sent_at).as_millis()),
            _ => None,
        });
        assert_eq!(cancelled, expected);
    }
    // The failure of another request does not count for the request in flight.
    scenario.answer_fails(renewal + 1, StoreErrorKind::Unavailable);
    assert!(scenario.candidate.failures.take_last().is_none() && scenario.candidate.claim.under_way().is_some());
}

#[test]
fn each_event_has_its_line_and_its_level() {
    fn logs(scenario: &mut Scenario, level: &str, text: &str) {
        let effects = scenario.texts();
        let is_there = effects.iter().any(|it| it.contains(&format!("level: {level}")) && it.contains(text));
        assert!(is_there, "{level} {text}: {effects:?}");
    }
    for (reclaims, text) in [(true, "reclaiming the lease"), (false, "waiting until the lease expires; reclaim")] {
        let mut scenario = Scenario::with(Config { reclaim_own_identity: reclaims, ..Config::default() });
        let ours = scenario.candidate.identity().to_owned();
        scenario.hears_of(&ours, 1);
        logs(&mut scenario, "Info", text);
        for (version, level, wait) in [(2, "Error", 0), (4, "Debug", 1), (6, "Error", 60)] {
            scenario.now = scenario.now + Duration::from_secs(wait);
            scenario.hears_of(&ours, version);
            logs(&mut scenario, level, "another process uses");
            scenario.hears_of_another(version + 1);
        }
    }
    let mut scenario = Scenario::with(Config { progress_timeout: Some(Duration::from_secs(5)), ..Config::default() });
    scenario.handle(Input::Campaign { id: 1, once: false });
    scenario.fails(StoreErrorKind::Unavailable);
    logs(&mut scenario, "Warn", "get failed, retrying");
    scenario.wins();
    scenario.now = scenario.now + Duration::from_secs(5);
    scenario.step();
    logs(&mut scenario, "Warn", "no progress for 5s");
    let mut scenario = probed();
    scenario.handle(says(true));
    logs(&mut scenario, "Info", "\"fit to lead\"");
    scenario.handle(Input::Campaign { id: 1, once: false });
    scenario.handle(says(false));
    assert!(!scenario.wants().iter().any(|effect| matches!(effect, Effect::NotFit { .. })), "the campaign waits");
    scenario.handle(says(true));
    logs(&mut scenario, "Info", "fit again: may acquire the lease in 2s");
}

#[test]
fn end_of_a_term_has_the_last_error_since_the_renewal() {
    use StoreErrorKind::{Forbidden, Interrupted, Unauthorized, Unavailable};
    // Each row has the failures in their order, and the error of the end. After the failures, the term expires, or its
    // guard is dropped.
    for (failures, kind) in [
        (&[Unavailable][..], Some(Unavailable)),
        (&[Unavailable, Unauthorized], Some(Unauthorized)),
        (&[Forbidden, Interrupted], Some(Forbidden)),
        (&[], None),
    ] {
        for expires in [true, false] {
            let mut scenario = Scenario::leading();
            failures.iter().for_each(|kind| scenario.fails(*kind));
            if expires {
                scenario.now = scenario.now + Duration::from_secs(10);
                scenario.step();
            } else {
                scenario.handle(Input::GuardDropped { at: scenario.now });
            }
            let mut ends = scenario.wants().into_iter().filter_map(|effect| match effect {
                Effect::TermEnded(reason, error) => Some((reason, error)),
                _ => None,
            });
            let (reason, error) = ends.next().expect("an end");
            assert_eq!(reason, if expires { StopReason::Expired } else { StopReason::Released });
            assert_eq!(error.as_ref().map(|error| error.kind()), kind, "{failures:?}");
            let text = format!("{:?}", Notice::of_end(&reason, error.as_deref()));
            assert_eq!(text.contains("; last error: made up"), kind.is_some(), "{text}");
        }
    }
    // The renewal that ran out of time has not failed yet.
    let mut scenario = Scenario::leading();
    scenario.request();
    scenario.now = scenario.now + Duration::from_secs(8);
    scenario.handle(Input::GuardDropped { at: scenario.now });
    let ends = scenario.wants();
    let Some(Effect::TermEnded(StopReason::Expired, Some(error))) = ends.last() else { panic!("{ends:?}") };
    assert_eq!(error.to_string(), "the store has not answered a request for 8.0 s");
}

/// Without the repetition, the failure would stay the last error of the elector until the next change.
#[test]
fn failed_read_is_repeated_although_a_watch_delivers_all() {
    let mut scenario = Scenario::with(Config::default());
    let request = scenario.request();
    scenario.handle(Input::WatchOpened { from_scratch: true });
    scenario.hears_of_another(1);
    scenario.answer_fails(request.id, StoreErrorKind::Unavailable);
    let began = scenario.now;
    assert!(matches!(scenario.request().operation, Operation::Get(_)));
    assert!(scenario.now.since(began) <= Duration::from_millis(2_400));
}

#[test]
fn round_ends_with_a_failure_and_a_duplicate_answer_counts_once() {
    let mut scenario = Scenario::campaigning(5, true);
    scenario.fails(StoreErrorKind::Unavailable);
    let wanted = scenario.wants();
    let [Effect::RoundOver { campaign: 5, error: Some(error) }] = &wanted[..] else { panic!("{wanted:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    scenario.answer_fails(1, StoreErrorKind::Timeout);
    assert!(scenario.wants().is_empty());
    scenario.handle(Input::Campaign { id: 6, once: true });
    scenario.fails(StoreErrorKind::Conflict);
    let wanted = scenario.wants();
    assert!(matches!(wanted[..], [Effect::RoundOver { campaign: 6, error: None }]), "{wanted:?}");
    // The first write was lost with its connection, or was applied. The second write conflicts.
    scenario.handle(Input::Campaign { id: 7, once: true });
    let Input::Response(id, _) = scenario.creates() else { panic!("a create") };
    scenario.answer_fails(id, StoreErrorKind::ConnectionClosed);
    scenario.fails(StoreErrorKind::AlreadyExists);
    scenario.step();
    let wanted = scenario.wants();
    assert!(matches!(wanted[..], [Effect::RoundOver { campaign: 7, error: None }]), "{wanted:?}");
}

/// Returns a candidate whose probe results come from the test.
fn probed() -> Scenario {
    Scenario::with(Config { is_probed: true, ..Config::default() })
}

fn says(is_fit: bool) -> Input {
    Input::Fitness(FitnessSource::Probe, is_fit)
}

#[test]
fn unfit_round_ends_at_once_or_when_it_becomes_unfit() {
    let mut scenario = probed();
    assert!(matches!(scenario.wants()[..], [Effect::Fitness { is_fit: false, .. }]), "reported from the start");
    scenario.handle(Input::Campaign { id: 1, once: true });
    assert!(matches!(scenario.wants()[..], [Effect::NotFit { campaign: 1 }]));
    scenario.handle(says(true));
    scenario.handle(Input::Campaign { id: 2, once: true });
    scenario.handle(says(false));
    assert!(matches!(
        scenario.wants()[..],
        [Effect::Fitness { is_fit: true, .. }, Effect::NotFit { campaign: 2 }, Effect::Fitness { is_fit: false, .. }]
    ));
}

#[test]
fn win_during_a_silent_probe_is_no_term() {
    let timeout = Duration::from_secs(5);
    let mut scenario = Scenario::probed_within(timeout);
    let won = scenario.creates();
    scenario.now = scenario.now + timeout;
    scenario.handle(won);
    let wants = scenario.wants();
    assert!(!wants.iter().any(|effect| matches!(effect, Effect::Offer { .. })), "{wants:?}");
    scenario.releases();
}

#[test]
fn the_silence_of_a_probe_ends_a_term_at_its_moment() {
    let timeout = Duration::from_secs(5);
    let mut scenario = Scenario::probed_within(timeout);
    scenario.wins();
    let silent_at = scenario.now + timeout;
    scenario.wants();
    while scenario.now < silent_at {
        let Step::Wait(until) = scenario.step() else {
            // The step is a renewal, which times out.
            let id = scenario.candidate.claim.under_way().unwrap().id;
            scenario.answer_fails(id, StoreErrorKind::Timeout);
            continue;
        };
        assert!(until <= silent_at);
        scenario.now = until.max(scenario.now + Duration::from_millis(1)).min(silent_at);
    }
    scenario.step();
    let wants = scenario.wants();
    assert!(wants.iter().any(|effect| matches!(effect, Effect::TermEnded(StopReason::Unfit, _))), "{wants:?}");
}

#[test]
fn candidate_fit_again_acquires_after_a_pause() {
    let mut scenario = probed();
    [true, false].into_iter().for_each(|is_fit| scenario.handle(says(is_fit)));
    scenario.handle(Input::Campaign { id: 1, once: false });
    scenario.handle(says(true));
    let began = scenario.now;
    scenario.finds_nothing();
    assert!(matches!(scenario.write_on(None), Operation::Create(_)));
    assert_eq!(scenario.now.since(began), Duration::from_secs(2));
}

/// The timeout of a request does not depend on the probe timeout.
#[test]
fn request_may_outlast_the_probe_timeout() {
    let mut scenario = Scenario::probed_within(Duration::from_millis(2_500));
    assert_eq!(scenario.request().timeout, Duration::from_secs(5));
}

#[test]
fn unfit_candidate_waits_for_no_holder_and_logs_the_reason() {
    let mut scenario = probed();
    scenario.handle(Input::WatchOpened { from_scratch: true });
    scenario.handle(Input::Campaign { id: 1, once: false });
    scenario.hears_of_another(1);
    scenario.handle(says(false));
    scenario.handle(says(false));
    let lines = scenario.texts();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(
        (count("standby: "), count("since the start, not acquiring the lease: the probe returned false")),
        (0, 1),
        "{lines:?}"
    );
    scenario.handle(says(true));
    assert_eq!(scenario.count("standby: other holds the lease"), 1);
}

#[test]
fn released_acquisition_logs_its_reason_once_a_minute() {
    let within = Duration::from_secs(3);
    let mut scenario = Scenario::with(Config { progress_timeout: Some(within), ..Config::default() });
    scenario.handle(Input::Campaign { id: 1, once: false });
    let (began, mut lines, mut stands): (_, _, Option<VersionedRecord>) = (scenario.now, Vec::new(), None);
    while scenario.now < began + Duration::from_secs(70) {
        let request = scenario.request();
        let response = match request.operation {
            Operation::Get(context) => StoreResponse::Read(context, stands.clone()),
            Operation::Create(record) | Operation::Update(_, record) => {
                scenario.now = scenario.now + within;
                let record = LeaderElectionRecord { uid: Some("u".to_owned()), ..record };
                let version = stands.map_or(1, |stands| stands.version + 1);
                let written = VersionedRecord::new(record, version, StoreData::none());
                stands = Some(written.clone());
                StoreResponse::Written(written)
            }
        };
        scenario.handle(Input::Response(request.id, response));
        lines.extend(scenario.texts());
    }
    let why: Vec<_> = lines.iter().filter(|line| line.contains("longer than progress_timeout (3s)")).collect();
    assert_eq!(why.iter().filter(|line| line.contains("Warn")).count(), 2, "{why:?}");
    assert!(why.len() > 5 && why[0].contains("acquiring took 3s"), "{why:?}");
}

#[test]
fn flapping_probe_is_logged_at_warn_once_a_minute() {
    let mut scenario = probed();
    let mut warned = 0;
    for second in 0..110 {
        scenario.now = scenario.now + Duration::from_secs(1);
        scenario.handle(says(second % 2 == 0));
        warned += scenario.count("Warn");
    }
    assert_eq!(warned, 2);
}

/// Returns a leader whose term a request has just ended.
fn requested(drain_timeout: Option<u64>) -> Scenario {
    let drain_timeout = drain_timeout.map(Duration::from_secs);
    let mut scenario = Scenario::with(Config { accepts_requests: true, drain_timeout, ..Config::default() });
    scenario.handle(Input::Campaign { id: 5, once: false });
    let Input::Response(id, StoreResponse::Written(mut won)) = scenario.creates() else { panic!("a create") };
    won.notes.step_down = won.record.holder().map(str::to_owned);
    scenario.handle(Input::Response(id, StoreResponse::Written(won)));
    assert_eq!(scenario.count("TermEnded(Requested, None)"), 1);
    scenario
}

#[test]
fn requested_candidate_waits_only_until_another_has_led() {
    let mut scenario = requested(Some(60));
    // Another candidate leads and releases during the drain, because the renewals were lost.
    scenario.hears_of_another(20);
    assert_eq!(scenario.count("Fitness { is_fit: true"), 1);
    let free = VersionedRecord::new(LeaderElectionRecord::default(), 21, StoreData::none());
    scenario.handle(Input::Watched { received_at: scenario.now, change: Change::Written(free) });
    scenario.handle(Input::GuardDropped { at: scenario.now });
    assert_eq!(scenario.count("Fitness"), 0, "the request is over");
}

#[test]
fn requested_candidate_stays_aside_after_a_long_drain() {
    let mut scenario = requested(Some(60));
    let began = scenario.now;
    while scenario.now.since(began) < Duration::from_secs(30) {
        let (id, renewed) = scenario.updates();
        scenario.handle(Input::Response(id, StoreResponse::Written(renewed)));
    }
    assert_eq!(scenario.count("Fitness"), 0, "no change while the work drains");
    let released_at = scenario.now;
    scenario.handle(Input::GuardDropped { at: released_at });
    let (id, released) = scenario.releases();
    scenario.handle(Input::Response(id, StoreResponse::Written(released)));
    scenario.handle(Input::Campaign { id: 6, once: false });
    let free = LeaderElectionRecord { holder_identity: Some(String::new()), ..Default::default() };
    let found = VersionedRecord::new(free, 100, StoreData::none());
    assert!(matches!(scenario.write_on(Some(found)), Operation::Update(..)));
    assert_eq!(scenario.now.since(released_at), Duration::from_secs(15), "a lease duration");
}

#[test]
fn requested_term_is_renewed_for_one_renew_deadline() {
    let seconds = Duration::from_secs;
    let mut scenario = requested(None);
    let began = scenario.now;
    let last = scenario.renews_until(began + seconds(60)).pop().expect("a renewal");
    assert!(last > began + seconds(7) && last < began + seconds(10), "{:?}", last.since(began));
    assert_eq!(scenario.count("DrainEnded(None)"), 1);
    scenario.handle(Input::GuardDropped { at: scenario.now });
    scenario.releases();
}

/// Returns a term without a drain timeout that has stepped down, and its deadline.
fn draining() -> (Scenario, Arc<Deadline>) {
    let mut scenario = Scenario::with(Config { has_fitness: true, ..Config::default() });
    scenario.handle(Input::Fitness(FitnessSource::Program, true));
    scenario.handle(Input::Campaign { id: 5, once: false });
    scenario.wins();
    let offered = |effect| if let Effect::Offer { deadline, .. } = effect { Some(deadline) } else { None };
    let deadline = scenario.wants().into_iter().find_map(offered).expect("a term");
    deadline.end(scenario.now, StopReason::SteppedDown);
    scenario.handle(Input::StepDown(DrainLimit::AsSet));
    (scenario, deadline)
}

#[test]
fn drain_without_limit_outlasts_lease_and_unfitness() {
    let (mut scenario, deadline) = draining();
    scenario.handle(Input::Fitness(FitnessSource::Program, false));
    let began = scenario.now;
    let last = scenario.renews_until(began + Duration::from_secs(60)).pop().expect("a renewal");
    assert!(last > began + Duration::from_secs(55), "{:?}", last.since(began));
    assert!(!deadline.lease_until(scenario.now).since(scenario.now).is_zero(), "a command would be killed");
    assert_eq!(scenario.count("DrainEnded"), 0);
    scenario.handle(Input::GuardDropped { at: scenario.now });
    scenario.releases();
}

#[test]
fn drain_whose_record_is_lost_keeps_no_lease() {
    let (mut scenario, deadline) = draining();
    scenario.hears_of_another(99);
    assert!(
        deadline.lease_until(scenario.now).since(scenario.now).is_zero(),
        "a command would run beside another leader"
    );
}

#[test]
fn draining_term_shortens_a_requested_pause() {
    let mut scenario = requested(Some(60));
    let began = scenario.now;
    let (id, _) = scenario.updates();
    let error = StoreError::new(StoreErrorKind::Unavailable, "made up").with_retry_after(Some(Duration::from_secs(60)));
    scenario.handle(Input::Response(id, StoreResponse::Failed(error)));
    scenario.updates();
    assert!(scenario.now < began + Duration::from_secs(10), "{:?}", scenario.now.since(began));
}

#[test]
fn end_of_leadership_is_reported_before_its_release() {
    let mut scenario = Scenario::leading();
    scenario.wants();
    scenario.handle(Input::GuardDropped { at: scenario.now });
    let (id, released) = scenario.releases();
    scenario.wants();
    scenario.handle(Input::Response(id, StoreResponse::Written(released)));
    let wants = scenario.wants();
    assert!(matches!(&wants[..], [Effect::NoLeader { is_expiry: false, .. }, Effect::Released]), "{wants:?}");
}
