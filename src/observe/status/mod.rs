//! What an elector is about and how it fares, at one moment.

use std::time::Duration;

use crate::election::settings::Settings;
use crate::leadership::term::Term;
use crate::observe::health::HealthCheck;
use crate::observe::observer::Fact;
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::sync::{Arc, Mutex};

mod display;
mod prometheus;

/// What an elector is about and how it fares, at the moment that [`LeaderElector::status`](crate::LeaderElector::status) was
/// called.
///
/// # Examples
///
/// ```
/// use leasehold::{LeaderElector, MemoryStore};
///
/// let elector = LeaderElector::builder("jobs").identity("me").start_on(MemoryStore::new())?;
/// let guard = elector.block_until_leader()?;
/// let status = elector.status();
/// assert!(status.is_leader);
/// assert_eq!(status.counters.terms, 1);
///
/// let mut text = String::new();
/// status.write_prometheus(&mut text).expect("writing to a String does not fail");
/// assert!(text.contains("leader_election_master_status{name=\"jobs\",record=\"jobs in memory\",identity=\"me\"} 1"));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// The key of the record: the name of the Lease.
    pub name: String,
    /// What the store calls it, such as `lease default/my-controller`.
    pub record: String,
    /// What the election runs by, this candidate's identity among it.
    pub settings: Settings,
    /// Who leads, as last observed. It may be this candidate itself.
    pub leader: Option<String>,
    /// Whether the lease of that leader has run out on this process's clock: then nobody leads, or somebody soon will. On two
    /// stores, whether one of its two leases has.
    pub leader_lease_expired: bool,
    /// Whether this candidate has a valid term.
    pub is_leader: bool,
    /// How long that stays valid without another renewal.
    pub remaining: Duration,
    /// The token of the term, also after it ended, until its record is released.
    pub fencing_token: Option<u64>,
    /// How long ago the store last told this elector anything, as
    /// [`HealthCheck::check_contact`](crate::HealthCheck::check_contact) says. `None` before the first time.
    pub last_contact: Option<Duration>,
    /// Why the last read failed, until the store answers a read or a watch reports a change.
    ///
    /// If reads work, this field has the value of [`failed_write`](Self::failed_write).
    pub last_error: Option<StoreError>,
    /// Why the last write failed, until a write succeeds. Reads do not change this field.
    ///
    /// A later successful write of this candidate clears this field. If the error is [transient](StoreError::is_transient), a successful write of
    /// another candidate also clears this field. A conflict counts as a failure after conflicts have refused each write for three renew deadlines.
    pub failed_write: Option<StoreError>,
    /// Whether this candidate is fit to lead; true where nobody is asked, and also while one that is fit again has to wait before it
    /// may acquire.
    pub is_fit: bool,
    /// For how long it has not been. `None` while it is.
    pub unfit_for: Option<Duration>,
    /// How long it has to wait yet before it may acquire, having become fit again. `None` where it need not.
    pub may_acquire_in: Option<Duration>,
    /// How long ago the work of the present term made progress: the part of it that is furthest behind; also of one that is over and
    /// whose guard is still there. `None` without a term, and
    /// without [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout).
    pub since_progress: Option<Duration>,
    /// Whether a watch is open. Without one the record is polled.
    pub is_watching: bool,
    /// Whether the elector is at work: not after its end, or a panic of its thread.
    pub is_running: bool,
    /// What has been counted since the start.
    pub counters: Counters,
    has_twin: bool,
}

/// What an elector has counted since it was started.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Counters {
    /// Terms that began.
    pub terms: u64,
    /// Terms that ended otherwise than by a release or a step-down.
    pub terms_lost: u64,
    /// How long renewals took.
    pub renewals: Histogram,
    /// Reads in the middle of a term, as [`RequestOutcome::is_slow_path`](crate::RequestOutcome::is_slow_path) says.
    pub slow_paths: u64,
    /// Watches that were opened.
    pub watches_opened: u64,
    /// Watches that ended or were refused.
    pub watches_lost: u64,
    requests: [u64; StoreOperation::ALL.len()],
    failures: [u64; StoreErrorKind::ALL.len()],
}

/// How often something took how long.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// In place `i`, how many took at most `BOUNDS_MS[i]` and more than `BOUNDS_MS[i - 1]`; in the last, how many took more than all
    /// [`BOUNDS_MS`](Histogram::BOUNDS_MS). Not cumulative.
    pub counts: [u64; Histogram::BOUNDS_MS.len() + 1],
    /// How long all of them took together.
    pub sum: Duration,
}

impl Histogram {
    /// Where one place ends and the next begins, in milliseconds.
    pub const BOUNDS_MS: [u64; 11] = [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000];

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, took: Duration) {
        let place = Self::BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < took);
        self.counts[place] += 1;
        self.sum = self.sum.saturating_add(took);
    }
}

impl Counters {
    /// How many requests asked for this, answered or not.
    pub fn requests(&self, operation: StoreOperation) -> u64 {
        self.requests[operation as usize]
    }

    /// How many requests failed like this. A [`Conflict`](StoreErrorKind::Conflict) is no fault of anything: another
    /// candidate was faster.
    pub fn failures(&self, kind: StoreErrorKind) -> u64 {
        self.failures[kind as usize]
    }

    pub(crate) fn count(&mut self, fact: &Fact) {
        match fact {
            Fact::StartedLeading(_) => self.terms += 1,
            Fact::StoppedLeading(reason) => self.terms_lost += u64::from(!reason.was_asked_for()),
            Fact::NewLeader(_) | Fact::Fitness(_) => {}
            Fact::Renewed(latency) => self.renewals.add(*latency),
            Fact::Request(outcome) => {
                self.requests[outcome.operation as usize] += 1;
                if let Some(kind) = outcome.failure {
                    self.failures[kind as usize] += 1;
                }
                self.slow_paths += u64::from(outcome.is_slow_path);
            }
            Fact::WatchOpened => self.watches_opened += 1,
            Fact::WatchLost => self.watches_lost += 1,
        }
    }
}

/// What an elector's threads note for its status.
#[derive(Default)]
pub(crate) struct Observations(Mutex<StatusState>);

#[derive(Default)]
struct StatusState {
    counters: Counters,
    term: Option<Arc<Term>>,
    has_twin: bool,
    /// Whom the record names, and when that lease runs out: of one moment.
    leader: Option<String>,
    leader_until: Option<Moment>,
    is_watching: bool,
    has_ended: bool,
    /// Since when it is not fit, while it is not.
    unfit_since: Option<Moment>,
    /// From when it may acquire, having become fit again.
    may_acquire_at: Option<Moment>,
    /// Whether the guard of the term is gone, though its record is ours yet.
    is_released: bool,
}

impl StatusState {
    fn leader_lease_expired(&self, now: Moment) -> bool {
        self.leader_until.is_some_and(|until| until <= now)
    }

    fn last_progress(&self) -> Option<Moment> {
        self.term.as_ref().filter(|_| !self.is_released)?.last_progress()
    }
}

impl Observations {
    /// Of a candidate that is not known to be fit, if somebody is asked.
    pub(crate) fn new(settings: &Settings) -> Self {
        let observations = Self::default();
        observations.fitness(!settings.is_judged(), Duration::ZERO);
        observations
    }

    /// Whether it is fit has changed; if it is, for how long it has to wait.
    pub(crate) fn fitness(&self, is_fit: bool, pause: Duration) {
        let (now, mut state) = (clock::now(), self.0.lock());
        state.unfit_since = (!is_fit).then_some(now);
        state.may_acquire_at = is_fit.then_some(now + pause);
    }

    pub(crate) fn is_fit(&self) -> bool {
        self.0.lock().unfit_since.is_none()
    }

    pub(crate) fn note(&self, fact: &Fact) {
        self.0.lock().counters.count(fact);
    }

    /// Whether all that is to be watched is.
    pub(crate) fn watching(&self, is_watching: bool) {
        self.0.lock().is_watching = is_watching;
    }

    pub(crate) fn term(&self, term: Option<Arc<Term>>) {
        let mut state = self.0.lock();
        (state.term, state.is_released) = (term, false);
    }

    pub(crate) fn guard_gone(&self) {
        self.0.lock().is_released = true;
    }

    /// Notes when the lease of the present leader expires, or has expired (`None` if that is unknown), and whether another
    /// process wrote the record under this candidate's identity.
    pub(crate) fn leader_until(&self, until: Option<Moment>, has_twin: bool) {
        let mut state = self.0.lock();
        (state.leader_until, state.has_twin) = (until, has_twin);
    }

    /// The record names another than before, or nobody.
    pub(crate) fn leader(&self, leader: Option<String>, until: Option<Moment>) {
        let mut state = self.0.lock();
        (state.leader, state.leader_until) = (leader, until);
    }

    pub(crate) fn valid_term(&self) -> Option<Arc<Term>> {
        self.0.lock().term.clone().filter(|term| term.is_valid())
    }

    pub(crate) fn ended(&self) {
        self.0.lock().has_ended = true;
    }

    /// Whom the record names, if that lease has not run out.
    pub(crate) fn current_leader(&self) -> Option<String> {
        let state = self.0.lock();
        state.leader.clone().filter(|_| !state.leader_lease_expired(clock::now()))
    }

    pub(crate) fn status(&self, (name, record): (&str, &str), settings: &Settings, health: &HealthCheck) -> Status {
        let (last_contact, [last_error, failed_write]) = (health.since_contact(), health.last_errors());
        let now = clock::now();
        let state = self.0.lock();
        let remaining = state.term.as_ref().map_or(Duration::ZERO, |term| term.remaining());
        Status {
            name: name.to_owned(),
            record: record.to_owned(),
            settings: settings.clone(),
            leader: state.leader.clone(),
            leader_lease_expired: state.leader_lease_expired(now),
            is_leader: !remaining.is_zero(),
            remaining,
            fencing_token: state.term.as_ref().map(|term| term.fencing_token()),
            last_contact,
            last_error,
            failed_write,
            has_twin: state.has_twin,
            is_fit: state.unfit_since.is_none(),
            unfit_for: state.unfit_since.map(|since| now.since(since)),
            may_acquire_in: state.may_acquire_at.map(|at| at.since(now)).filter(|left| !left.is_zero()),
            since_progress: state.last_progress().map(|at| now.since(at)),
            is_watching: state.is_watching && !state.has_ended,
            is_running: !state.has_ended,
            counters: state.counters.clone(),
        }
    }
}
