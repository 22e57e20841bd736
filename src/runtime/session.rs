//! One candidacy without I/O, thread or channel: an election, and all that a runtime decides around it. Whoever drives it is
//! told what to do, and says what has happened; a simulation does that as well as threads do.

use std::collections::VecDeque;
use std::time::Duration;

use log::Level;

use crate::clock::{Moment, Now};
use crate::config::Settings;
use crate::election::deadline::Deadline;
use crate::election::{Change, Election, Event, Response, Step};
use crate::runtime::failure_log::FailureLog;
use crate::runtime::failures::{Failed, Failures};
use crate::runtime::notice::Notice;
use crate::stop_reason::StopReason;
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::sync::Arc;

/// A candidacy. What [`handle`](Self::handle) and [`next`](Self::next) make of it comes out of [`effect`](Self::effect), which
/// is drained after each of them.
#[derive(Debug)]
pub struct Session {
    election: Election,
    failures: Failures,
    /// Of other processes with our identity.
    conflicts: FailureLog,
    settings: Arc<Settings>,
    /// The campaign that waits for a term.
    campaign: Option<u64>,
    /// Whether that is for one round, and nothing is waited for.
    is_round: bool,
    /// The request under way, by its number.
    in_flight: Option<(u64, StoreOperation)>,
    /// Whom the record names.
    leader: Option<String>,
    /// Whether it was told that its lease has run out.
    has_run_out: bool,
    /// Whether it was told that it is waited for.
    is_awaited: bool,
    effects: VecDeque<Effect>,
}

/// What a session is told.
#[derive(Debug)]
pub enum Input {
    /// Somebody asks for one term, for as long as that takes or (`once`) in one bounded round of requests.
    Campaign {
        /// Campaigns are counted.
        id: u64,
        /// Whether it is for one round.
        once: bool,
    },
    /// Nobody waits for that campaign any more.
    Withdraw(u64),
    /// Nobody took the term that was offered.
    NotTaken,
    /// The holder ended the validity of its term.
    StepDown,
    /// The term ended for a reason that is not in its record.
    Lost(StopReason),
    /// The guard of the term is gone.
    GuardGone {
        /// Since when.
        at: Moment,
    },
    /// No campaign will come any more.
    Close,
    /// The store answered this request.
    Response(u64, Response),
    /// A watch stands.
    WatchOpened {
        /// Whether it begins with what is there.
        from_scratch: bool,
    },
    /// The watch told of a change.
    Watched {
        /// When that was received.
        received_at: Moment,
        /// What it told.
        change: Change,
    },
    /// The watch has ended, or was refused.
    WatchEnded,
}

/// What waits behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The release of a record.
    Release,
    /// What others did to a record.
    News,
}

/// What a session wants done, or known.
#[derive(Debug)]
pub enum Effect {
    /// A term is won. If nobody takes it, [`Input::NotTaken`].
    Offer {
        /// For which campaign; `None` when none waits any more.
        campaign: Option<u64>,
        /// Until when the term is valid.
        deadline: Arc<Deadline>,
        /// The term's token.
        fencing_token: u64,
    },
    /// The store refuses a campaign in a way that no waiting changes.
    Refuse {
        /// Which campaign.
        campaign: u64,
        /// The refusal.
        error: StoreError,
    },
    /// A campaign for one round ended without a term.
    RoundOver {
        /// Which campaign.
        campaign: u64,
        /// What failed, if that is why.
        error: Option<StoreError>,
    },
    /// A write has prolonged the term; it took so long.
    Renewed(Duration),
    /// The term is not valid any more.
    TermEnded(StopReason),
    /// The record of the last term is not ours any more.
    Released,
    /// A request under way, by its number, is left until then to finish by itself, and then cancelled: what was told waits
    /// behind it. Told again, the earliest counts.
    CancelAt(u64, Moment, Behind),
    /// The record names another than before, or nobody; or it is renewed after its lease had run out.
    Leader(Option<String>),
    /// The lease of whoever leads has run out on our clock.
    LeaderHasRunOut,
    /// The watch is to be given up for one that begins with what is there.
    RestartWatch,
    /// A line for the log: another process uses our identity.
    IdentityConflict(Notice),
    /// A line for the log.
    Log(Notice),
}

impl Session {
    /// A candidacy that knows nothing yet. Many may share their settings. `seed` feeds jitter and the random digits of
    /// `acquireTime`.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64) -> Self {
        let settings = settings.into();
        Self {
            election: Election::new(Arc::clone(&settings), seed),
            failures: Failures::new(settings.renew_deadline),
            conflicts: FailureLog::default(),
            settings,
            campaign: None,
            is_round: false,
            in_flight: None,
            leader: None,
            has_run_out: false,
            is_awaited: false,
            effects: VecDeque::new(),
        }
    }

    /// What has happened, at any time: also while a request is under way.
    pub fn handle(&mut self, now: Moment, input: Input) {
        match input {
            Input::Campaign { id, once } => {
                self.campaign = Some(id);
                self.is_round = once;
                self.election.campaign(once);
            }
            Input::Withdraw(id) => {
                if self.campaign.take_if(|campaign| *campaign == id).is_some() {
                    self.election.withdraw();
                }
            }
            Input::NotTaken => self.election.guard_gone(now, now),
            Input::StepDown => self.election.step_down(now),
            Input::Lost(reason) => self.election.end_term(now, reason),
            Input::GuardGone { at } => {
                self.cancel_at(now + self.election.interrupt_after().release, Behind::Release);
                self.election.guard_gone(now, at);
            }
            Input::Close => {
                self.campaign = None;
                self.election.close();
            }
            Input::Response(id, response) => self.on_response(now, id, response),
            Input::WatchOpened { from_scratch } => self.election.watch_opened(now, from_scratch),
            Input::Watched { received_at, change } => {
                if self.is_of_others(&change) {
                    self.cancel_at(now + self.election.interrupt_after().news, Behind::News);
                }
                self.election.on_change(now, received_at, change);
            }
            Input::WatchEnded => self.election.watch_lost(now),
        }
        self.hear(now);
    }

    /// The next thing to do or to tell, in order.
    pub fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// What to do now, when no request is under way.
    pub fn next(&mut self, now: Now) -> Step {
        let mut step = self.election.next(now);
        match &mut step {
            Step::Send(request) => self.in_flight = Some((request.id, request.operation.kind())),
            Step::Wait(until) if !self.has_run_out => {
                *until = self.leader_until().map_or(*until, |runs_out| runs_out.max(now.local).min(*until));
            }
            Step::Wait(_) | Step::Finished => {}
        }
        self.hear(now.local);
        step
    }

    /// When the lease of whoever leads runs out, unless something is heard of it before.
    pub fn leader_until(&self) -> Option<Moment> {
        self.election.leader_until()
    }

    /// How its requests have fared.
    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }

    pub(crate) fn failures_mut(&mut self) -> &mut Failures {
        &mut self.failures
    }

    /// Whether it knows what stands in the store, if that is nothing.
    pub(crate) fn has_observed(&self) -> bool {
        self.election.has_observed()
    }

    /// What it runs by.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Who this candidate is in the record.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    fn cancel_at(&mut self, at: Moment, behind: Behind) {
        self.effects.extend(self.in_flight.map(|(request, _)| Effect::CancelAt(request, at, behind)));
    }

    /// Whether a change may end a term or let one begin: what we did ourselves does neither.
    fn is_of_others(&self, change: &Change) -> bool {
        match change {
            Change::Written(observed) => observed.record.holder() != Some(&self.settings.identity),
            Change::Deleted { .. } => true,
        }
    }

    fn on_response(&mut self, now: Moment, id: u64, response: Response) {
        // What comes late has been counted already.
        if let Some((_, operation)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id) {
            let failed = match &response {
                Response::Failed(error) => self.failures.failed(now, operation, error),
                _ => Failed { notice: self.failures.succeeded(now, operation), is_permanent: false },
            };
            self.effects.extend(failed.notice.map(Effect::Log));
            if let Response::Failed(error) = &response
                && failed.is_permanent
                && let Some(campaign) = self.campaign.take()
            {
                // Before the election hears of it: a round would end of it too, and so be told twice.
                self.election.withdraw();
                self.effects.push_back(Effect::Refuse { campaign, error: error.clone() });
            }
        }
        self.election.on_response(now, id, response);
    }

    /// Hears what the election has to tell.
    fn hear(&mut self, now: Moment) {
        while let Some(event) = self.election.event() {
            let effect = match event {
                Event::Leader(leader) => {
                    (self.has_run_out, self.is_awaited) = (false, false);
                    self.leader.clone_from(&leader);
                    Effect::Leader(leader)
                }
                Event::Elected { deadline, fencing_token } => {
                    Effect::Offer { campaign: self.campaign.take(), deadline, fencing_token }
                }
                Event::Renewed { sent_at } => Effect::Renewed(now.since(sent_at)),
                Event::TermEnded(reason) => {
                    // What failed more than once in a minute has not been told at `warn` each time, and cost a term now.
                    if let (StopReason::Expired, Some(error)) = (&reason, self.failures.last()) {
                        let notice = Notice::of_error(Level::Warn, "the last attempt failed", error);
                        self.effects.push_back(Effect::Log(notice));
                    }
                    Effect::TermEnded(reason)
                }
                Event::Released => Effect::Released,
                Event::RoundOver => {
                    let error = self.failures.take_last();
                    let Some(campaign) = self.campaign.take() else { continue };
                    Effect::RoundOver { campaign, error }
                }
                Event::WatchStale => {
                    let line = "the watch is given up for a new one";
                    self.effects.push_back(Effect::Log(Notice::new(Level::Debug, line)));
                    Effect::RestartWatch
                }
                Event::IdentityConflict => {
                    self.conflicts.works(now);
                    let told = self.conflicts.failed(now, StoreErrorKind::Conflict);
                    let level = if told == Some(Level::Warn) { Level::Error } else { Level::Debug };
                    let line = "another process uses our identity: every candidate needs its own";
                    Effect::IdentityConflict(Notice::new(level, line))
                }
                Event::Predecessor => {
                    let rest = match self.settings.reclaim_own_identity {
                        true => "it is reclaimed",
                        false => {
                            "it has to run out, unless reclaim_own_identity(true) says that no two processes ever share one"
                        }
                    };
                    let line = format!("held under our identity, by a process before this one: {rest}");
                    Effect::Log(Notice::new(Level::Info, line))
                }
            };
            self.effects.push_back(effect);
        }
        let has_run_out = self.leader_until().is_some_and(|until| until <= now);
        if has_run_out != self.has_run_out && self.leader.is_some() {
            (self.has_run_out, self.is_awaited) = (has_run_out, false);
            self.effects.push_back(match has_run_out {
                true => Effect::LeaderHasRunOut,
                false => Effect::Leader(self.leader.clone()),
            });
        }
        let leader = self.leader.as_ref().filter(|leader| !has_run_out && **leader != self.settings.identity);
        if let Some(leader) = leader.filter(|_| self.campaign.is_some() && !self.is_round && !self.is_awaited) {
            self.is_awaited = true;
            let left = self.leader_until().map_or(Duration::ZERO, |until| until.since(now));
            let left = humantime::format_duration(Duration::from_secs(left.as_secs_f64().ceil() as u64));
            let line =
                format!("waiting until {leader} releases the lease, or it runs out, in {left} if it is not renewed");
            self.effects.push_back(Effect::Log(Notice::new(Level::Info, line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::builder::LeaderElectorBuilder;
    use crate::election::{Operation, Request};
    use crate::record::{LeaderElectionRecord, Observed, Opaque};

    /// A session, and its clock.
    struct Scenario {
        session: Session,
        now: Moment,
    }

    impl Scenario {
        fn new() -> Self {
            let settings = LeaderElectorBuilder::new("jobs".to_owned()).settings().unwrap();
            Self { session: Session::new(settings, 1), now: Moment::from_nanos(1_000_000_000) }
        }

        fn campaigning(id: u64, once: bool) -> Self {
            let mut scenario = Self::new();
            scenario.handle(Input::Campaign { id, once });
            scenario
        }

        fn handle(&mut self, input: Input) {
            self.session.handle(self.now, input);
        }

        /// The next request, whenever it comes.
        fn request(&mut self) -> Request {
            loop {
                match self.session.next(Now { local: self.now, wall: SystemTime::UNIX_EPOCH }) {
                    Step::Send(request) => return request,
                    Step::Wait(until) => self.now = until,
                    Step::Finished => panic!("nobody closed it"),
                }
            }
        }

        fn fails(&mut self, kind: StoreErrorKind) {
            let id = self.request().id;
            self.handle(Input::Response(id, Response::Failed(StoreError::new(kind, "made up"))));
        }

        /// Finds nothing there, and creates it: what is asked, and what comes of the answer.
        fn creates(&mut self) -> Input {
            let read = self.request();
            let Operation::Get(context) = read.operation else { panic!("{read:?}") };
            self.handle(Input::Response(read.id, Response::Read(context, None)));
            let create = self.request();
            let Operation::Create(record) = create.operation else { panic!("{create:?}") };
            Input::Response(create.id, Response::Written(Observed::new(record, 7, Opaque::none())))
        }

        /// The watch tells of a write of another's.
        fn hears_of_another(&mut self, version: u64) {
            let record = LeaderElectionRecord {
                uid: Some("u".to_owned()),
                holder_identity: Some("other".to_owned()),
                lease_duration_seconds: Some(15),
                lease_transitions: i32::try_from(version).ok(),
                ..LeaderElectionRecord::default()
            };
            let change = Change::Written(Observed::new(record, version, Opaque::none()));
            self.handle(Input::Watched { received_at: self.now, change });
        }

        /// What is wanted, but for lines in the log.
        fn wants(&mut self) -> Vec<Effect> {
            let effects = std::iter::from_fn(|| self.session.effect());
            effects.filter(|effect| !matches!(effect, Effect::Log(_))).collect()
        }
    }

    #[test]
    fn a_renewal_takes_as_long_as_since_it_was_sent() {
        let mut scenario = Scenario::campaigning(1, false);
        let won = scenario.creates();
        scenario.handle(won);
        scenario.wants();
        let renewal = scenario.request();
        let Operation::Update(base, record) = renewal.operation else { panic!("{renewal:?}") };
        let observed = Observed::new(record, base.version + 1, Opaque::none());
        scenario.now = scenario.now + Duration::from_millis(30);
        scenario.handle(Input::Response(renewal.id, Response::Written(observed)));
        assert!(matches!(scenario.wants()[..], [Effect::Renewed(took)] if took == Duration::from_millis(30)));
        assert!(scenario.session.leader_until().is_some_and(|until| until == scenario.now + Duration::from_secs(15)));
    }

    /// Who only watches has nothing else to wake up for.
    #[test]
    fn that_a_lease_has_run_out_is_told_at_that_moment_and_that_it_is_renewed_as_well() {
        let mut scenario = Scenario::new();
        scenario.handle(Input::WatchOpened { from_scratch: true });
        for version in 1..=2 {
            scenario.hears_of_another(version);
            assert!(matches!(&scenario.wants()[..], [Effect::Leader(Some(leader))] if leader == "other"));
            let runs_out = scenario.now + Duration::from_secs(15);
            while !scenario.wants().iter().any(|effect| matches!(effect, Effect::LeaderHasRunOut)) {
                assert!(scenario.now <= runs_out, "it is not told");
                match scenario.session.next(Now { local: scenario.now, wall: SystemTime::UNIX_EPOCH }) {
                    Step::Wait(until) => scenario.now = until,
                    Step::Send(request) => {
                        let error = StoreError::new(StoreErrorKind::Unavailable, "made up");
                        scenario.handle(Input::Response(request.id, Response::Failed(error)));
                    }
                    Step::Finished => panic!("nobody closed it"),
                }
            }
            assert_eq!(scenario.now, runs_out);
        }
    }

    #[test]
    fn whom_a_campaign_waits_for_is_told_once_and_again_when_that_one_is_back() {
        for (once, lines) in [(false, [1, 0, 0, 1, 0, 1]), (true, [0; 6])] {
            let mut scenario = Scenario::campaigning(5, once);
            let told = |scenario: &mut Scenario| {
                let lines = std::iter::from_fn(|| scenario.session.effect());
                lines.filter(|effect| format!("{effect:?}").contains("waiting until other releases")).count()
            };
            scenario.handle(Input::WatchOpened { from_scratch: true });
            let mut counts = Vec::new();
            for version in 1..=2 {
                scenario.hears_of_another(version);
                counts.push(told(&mut scenario));
            }
            scenario.now = scenario.now + Duration::from_secs(16);
            scenario.handle(Input::WatchEnded);
            counts.push(told(&mut scenario));
            scenario.hears_of_another(3);
            counts.push(told(&mut scenario));
            // The same one: a program that asks again and again does not fill the log.
            for id in 6..9 {
                scenario.handle(Input::Withdraw(id - 1));
                scenario.handle(Input::Campaign { id, once });
            }
            counts.push(told(&mut scenario));
            scenario.now = scenario.now + Duration::from_secs(16);
            scenario.handle(Input::WatchEnded);
            scenario.hears_of_another(4);
            counts.push(told(&mut scenario));
            assert_eq!(counts, lines);
        }
    }

    #[test]
    fn a_term_that_is_won_is_offered_to_the_campaign_and_released_when_nobody_takes_it() {
        let mut scenario = Scenario::campaigning(5, false);
        let won = scenario.creates();
        scenario.handle(won);
        let offer = scenario.wants().into_iter().find(|effect| matches!(effect, Effect::Offer { .. }));
        assert!(matches!(offer, Some(Effect::Offer { campaign: Some(5), fencing_token: 7, .. })), "{offer:?}");
        scenario.handle(Input::NotTaken);
        assert!(matches!(scenario.wants()[..], [Effect::TermEnded(StopReason::Released), ..]));
        let Operation::Update(_, record) = scenario.request().operation else { panic!("it is released") };
        assert_eq!(record.holder(), None);
    }

    #[test]
    fn what_is_won_after_a_withdrawal_is_offered_to_nobody() {
        let mut scenario = Scenario::campaigning(5, false);
        let won = scenario.creates();
        scenario.handle(Input::Withdraw(4));
        scenario.handle(Input::Withdraw(5));
        scenario.handle(won);
        let offered =
            scenario.wants().into_iter().any(|effect| matches!(effect, Effect::Offer { campaign: Some(_), .. }));
        assert!(!offered);
    }

    #[test]
    fn a_refusal_that_persists_is_told_to_one_campaign_once() {
        let mut scenario = Scenario::campaigning(5, true);
        let began = scenario.now;
        let mut refused = Vec::new();
        scenario.handle(Input::Campaign { id: 6, once: false });
        while scenario.now < began + Duration::from_secs(60) {
            scenario.fails(StoreErrorKind::Forbidden);
            refused.extend(scenario.wants());
        }
        assert!(matches!(refused[..], [Effect::Refuse { campaign: 6, .. }]), "{refused:?}");
    }

    #[test]
    fn a_term_that_runs_out_says_what_the_last_attempt_failed_of() {
        let mut scenario = Scenario::campaigning(5, false);
        let won = scenario.creates();
        scenario.handle(won);
        let mut effects = Vec::new();
        while !effects.iter().any(|effect| matches!(effect, Effect::TermEnded(_))) {
            scenario.fails(StoreErrorKind::Unavailable);
            effects.extend(std::iter::from_fn(|| scenario.session.effect()));
        }
        let last = Notice::of_error(
            Level::Warn,
            "the last attempt failed",
            &StoreError::new(StoreErrorKind::Unavailable, "made up"),
        );
        let ended = effects.iter().position(|effect| matches!(effect, Effect::TermEnded(StopReason::Expired)));
        let told = effects.iter().position(|effect| matches!(effect, Effect::Log(notice) if *notice == last));
        assert!(told.is_some() && told < ended, "{effects:?}");
    }

    #[test]
    fn a_round_ends_with_what_failed_and_an_answer_that_comes_twice_counts_once() {
        let mut scenario = Scenario::campaigning(5, true);
        scenario.fails(StoreErrorKind::Unavailable);
        let wanted = scenario.wants();
        let [Effect::RoundOver { campaign: 5, error: Some(error) }] = &wanted[..] else { panic!("{wanted:?}") };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        scenario.handle(Input::Response(1, Response::Failed(StoreError::new(StoreErrorKind::Timeout, "late"))));
        assert!(scenario.wants().is_empty());
        scenario.handle(Input::Campaign { id: 6, once: true });
        scenario.fails(StoreErrorKind::Conflict);
        let wanted = scenario.wants();
        assert!(matches!(wanted[..], [Effect::RoundOver { campaign: 6, error: None }]), "{wanted:?}");
    }
}
