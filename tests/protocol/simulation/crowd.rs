//! A hundred candidates that become unfit and fit again, on a store that answers at once: what that costs it, and who leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold::election::candidate::candidacy::Candidacy;
use leasehold::election::candidate::fitness::FitnessSource;
use leasehold::election::candidate::session::{Effect, Input};
use leasehold::election::candidate::side::Side;
use leasehold::election::deadline::Deadline;
use leasehold::election::{Change, Operation, Step, StoreRequest, StoreResponse};
use leasehold::util::clock::{Moment, Now};
use leasehold::{Fitness, LeaderElector, Settings, StoreData, StoreError, StoreErrorKind, VersionedRecord};

const CANDIDATES: usize = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// How long work takes to end.
const ENDING: Duration = Duration::from_millis(10);

struct Candidate {
    session: Candidacy,
    wakes_at: Moment,
    is_fit: bool,
    term: Option<Arc<Deadline>>,
    /// When it drops the guard of a term that is over.
    drops_at: Option<Moment>,
    campaigns: u64,
}

struct Crowd {
    candidates: Vec<Candidate>,
    settings: Settings,
    now: Moment,
    observed: Option<VersionedRecord>,
    version: u64,
    random: fastrand::Rng,
    terms: usize,
    reads: usize,
    writes: usize,
    /// Of each minute.
    most_writes: usize,
}

impl Crowd {
    fn new(seed: u64) -> Self {
        let settings = |index: usize| {
            let builder = LeaderElector::builder("crowd").identity(format!("candidate-{index}"));
            builder.fitness(&Fitness::new()).validate().expect("valid settings")
        };
        let now = Moment::from_nanos(1_000_000_000_000);
        let candidate = |index: usize| Candidate {
            session: Candidacy::new(settings(index), seed + index as u64, None),
            wakes_at: now,
            is_fit: false,
            term: None,
            drops_at: None,
            campaigns: 0,
        };
        let mut crowd = Self {
            candidates: (0..CANDIDATES).map(candidate).collect(),
            settings: settings(0),
            now,
            observed: None,
            version: 0,
            random: fastrand::Rng::with_seed(seed),
            terms: 0,
            reads: 0,
            writes: 0,
            most_writes: 0,
        };
        for index in 0..CANDIDATES {
            crowd.tell(index, Input::WatchOpened { from_scratch: true });
            crowd.campaign(index);
        }
        crowd
    }

    fn tell(&mut self, index: usize, input: Input) {
        let candidate = &mut self.candidates[index];
        candidate.session.handle(self.now, Side::Primary, input);
        candidate.wakes_at = self.now;
        self.listen(index);
    }

    fn campaign(&mut self, index: usize) {
        let candidate = &mut self.candidates[index];
        candidate.campaigns += 1;
        let id = candidate.campaigns;
        self.tell(index, Input::Campaign { id, once: false });
    }

    fn says(&mut self, index: usize, is_fit: bool) {
        if std::mem::replace(&mut self.candidates[index].is_fit, is_fit) != is_fit {
            self.tell(index, Input::Fitness(FitnessSource::Program, is_fit));
        }
    }

    fn listen(&mut self, index: usize) {
        let candidate = &mut self.candidates[index];
        while let Some((_, effect)) = candidate.session.effect() {
            match effect {
                Effect::Offer { deadline, .. } => {
                    assert!(candidate.is_fit, "who is unfit leads");
                    self.terms += 1;
                    candidate.term = Some(deadline);
                }
                Effect::TermEnded(_) => candidate.drops_at = candidate.term.is_some().then_some(self.now + ENDING),
                _ => {}
            }
        }
    }

    /// Goes on for so long, while somebody may flip.
    fn pass(&mut self, time: Duration, mut flip: impl FnMut(&mut Self)) {
        let until = self.now + time;
        let (mut minute, mut writes) = (self.now + MINUTE, self.writes);
        while self.now < until {
            flip(self);
            for index in 0..CANDIDATES {
                self.drive(index);
            }
            let valid =
                self.candidates.iter().filter(|it| it.term.as_ref().is_some_and(|term| term.is_valid(self.now)));
            assert!(valid.count() <= 1, "two lead");
            let wakes = self.candidates.iter().flat_map(|it| [Some(it.wakes_at), it.drops_at]).flatten();
            let soon = self.now + Duration::from_millis(250);
            self.now = wakes.fold(soon.min(until), Moment::min).max(self.now + Duration::from_micros(10));
            if self.now >= minute {
                self.most_writes = self.most_writes.max(self.writes - writes);
                (minute, writes) = (minute + MINUTE, self.writes);
            }
        }
    }

    fn drive(&mut self, index: usize) {
        let candidate = &mut self.candidates[index];
        if candidate.drops_at.is_some_and(|at| at <= self.now) {
            (candidate.drops_at, candidate.term) = (None, None);
            self.tell(index, Input::GuardGone { at: self.now });
            self.campaign(index);
        }
        while self.candidates[index].wakes_at <= self.now {
            let step = self.candidates[index]
                .session
                .next(Now { local: self.now, wall: SystemTime::UNIX_EPOCH }, Side::Primary);
            self.listen(index);
            match step {
                Step::Send(request) => self.answer(index, request),
                Step::Wait(until) => {
                    self.candidates[index].wakes_at = until.max(self.now + Duration::from_micros(1));
                }
                Step::Finished => unreachable!("nobody closes it"),
            }
        }
    }

    fn answer(&mut self, index: usize, StoreRequest { id, operation, .. }: StoreRequest) {
        let refused = |kind| StoreResponse::Failed(StoreError::new(kind, "refused"));
        let (response, written) = match (operation, &self.observed) {
            (Operation::Get(context), observed) => {
                self.reads += 1;
                (StoreResponse::Read(context, observed.clone()), None)
            }
            (Operation::Create(_), Some(_)) => (refused(StoreErrorKind::AlreadyExists), None),
            (Operation::Update(base, _), observed) if observed.as_ref().is_none_or(|it| it.version != base.version) => {
                (refused(StoreErrorKind::Conflict), None)
            }
            (Operation::Create(record) | Operation::Update(_, record), _) => {
                self.writes += 1;
                self.version += 1;
                let observed = VersionedRecord::new(record, self.version, StoreData::none());
                (StoreResponse::Written(observed.clone()), Some(observed))
            }
        };
        if let Some(observed) = &written {
            self.observed = Some(observed.clone());
        }
        self.tell(index, Input::Response(id, response));
        for other in (0..CANDIDATES).filter(|_| written.is_some()) {
            let change = written.clone().map(Change::Written);
            change.into_iter().for_each(|change| self.tell(other, Input::Watched { received_at: self.now, change }));
        }
    }

    fn leads(&self) -> bool {
        self.candidates.iter().any(|it| it.term.as_ref().is_some_and(|term| term.is_valid(self.now)))
    }
}

#[test]
fn a_hundred_candidates_that_flap_do_no_harm_and_when_they_are_fit_one_leads() {
    let mut crowd = Crowd::new(7);
    let Settings { retry_period, lease_duration, .. } = crowd.settings.clone();
    crowd.pass(10 * MINUTE, |_| {});
    assert_eq!((crowd.terms, crowd.writes), (0, 0), "all are unfit");
    // Who is told all by a watch asks for nothing.
    assert!(crowd.reads <= 2 * CANDIDATES, "{} reads", crowd.reads);

    // Each is fit for up to twenty seconds, and unfit for up to twenty.
    let mut flips: BTreeMap<usize, Moment> = (0..CANDIDATES).map(|index| (index, crowd.now)).collect();
    let before = crowd.reads;
    let flapping = 10 * MINUTE;
    crowd.pass(flapping, |crowd| {
        for index in 0..CANDIDATES {
            if flips[&index] <= crowd.now {
                let pause = Duration::from_millis(crowd.random.u64(1..20_000));
                flips.insert(index, crowd.now + pause);
                let is_fit = !crowd.candidates[index].is_fit;
                crowd.says(index, is_fit);
            }
        }
    });
    println!(
        "{} terms, {} writes, at most {} a minute, {} reads",
        crowd.terms,
        crowd.writes,
        crowd.most_writes,
        crowd.reads - before
    );
    // One after another: each lasts as long as its leader had to wait, at least a retry period, or doubles that, of which there
    // are six until it is longer than anybody is fit.
    let lasting = flapping.as_nanos().div_ceil(retry_period.as_nanos()) as usize;
    assert!(crowd.terms > CANDIDATES / 10 && crowd.terms <= lasting + 6 * CANDIDATES, "{} terms", crowd.terms);
    // Of each term the acquisition and the release, and renewals each retry period.
    assert!(crowd.writes <= 2 * crowd.terms + lasting, "{} writes", crowd.writes);

    (0..CANDIDATES).for_each(|index| crowd.says(index, false));
    let (terms, writes) = (crowd.terms, crowd.writes);
    crowd.pass(2 * MINUTE, |_| {});
    assert_eq!(crowd.terms, terms, "all are unfit");
    assert!(crowd.writes <= writes + 2, "what was held is released");

    (0..CANDIDATES).for_each(|index| crowd.says(index, true));
    crowd.pass(4 * lease_duration + Duration::from_secs(1), |_| {});
    assert!(crowd.leads(), "the longest pause is over");
}
