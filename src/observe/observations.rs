//! The observations of an elector's threads, for its status and its health.

use std::time::Duration;

use crate::election::LeaderInfo;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::leadership::term::Term;
use crate::observe::observer::Event;
use crate::observe::status::{Counters, Status};
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::util::clock::{self, Moment};
use crate::util::sync::{Arc, Mutex};

/// The observations of an elector's threads.
pub(crate) struct Observations(pub(super) Mutex<ObservationState>);

#[derive(Default)]
pub(super) struct ObservationState {
    counters: Counters,
    /// The term whose record has this candidate as its holder.
    term: Option<Arc<Term>>,
    /// The term whose guard still exists.
    pub(super) guarded: Option<Arc<Term>>,
    /// The time at which the end of the `guarded` term was first noticed.
    pub(super) ended: Option<Moment>,
    /// The time at which the ended `guarded` term was no longer renewed while its work drains.
    pub(super) drain_ended: Option<Moment>,
    /// The time of the last write of a record that names this candidate.
    ///
    /// Cleared when the record names another holder, or the guard is dropped.
    pub(super) renewed: Option<Moment>,
    /// The time of the last contact with the store.
    pub(super) contact: Option<Moment>,
    /// The error of the last read.
    ///
    /// Cleared when a read is answered or a watch reports a change.
    failed_read: Option<StoreError>,
    /// The time of the first failed write and the error of the last failed write.
    ///
    /// Cleared when a write succeeds.
    pub(super) failed_write: Option<(Moment, StoreError)>,
    pub(super) started: Moment,
    pub(super) panicked: bool,
    identity_is_shared: bool,
    /// The holder in the record, followed by the time at which its lease expires.
    leader: Option<LeaderInfo>,
    leader_until: Option<Moment>,
    /// The time since which the record names no holder. `None` while the record names one.
    unheld_since: Option<Moment>,
    is_watching: bool,
    has_ended: bool,
    /// The time at which the candidate became unfit, or `None` while the candidate is fit.
    unfit_since: Option<Moment>,
    /// The time at which a recovered candidate may acquire.
    may_acquire_at: Option<Moment>,
}

impl Observations {
    /// Creates the observations of an elector.
    ///
    /// A candidate with a fitness probe or a fitness flag starts unfit.
    pub(crate) fn new(settings: &Settings) -> Self {
        let now = clock::now();
        Self(Mutex::new(ObservationState {
            started: now,
            unheld_since: Some(now),
            unfit_since: settings.has_fitness_source().then_some(now),
            ..ObservationState::default()
        }))
    }

    /// Notes an event.
    ///
    /// `term` is the term of the candidate, if there is one.
    pub(crate) fn note(&self, event: &Event, term: Option<&Arc<Term>>) {
        let (now, state) = (clock::now(), &mut *self.0.lock());
        let counters = &mut state.counters;
        match event {
            Event::StartedLeading { .. } => {
                counters.terms += 1;
                (state.term, state.guarded) = (term.cloned(), term.cloned());
                (state.ended, state.drain_ended, state.renewed) = (None, None, Some(now));
            }
            Event::StoppedLeading { reason } => {
                counters.terms_lost += u64::from(!reason.was_asked_for());
                // If the guard is already dropped, no work can outlive the term.
                if *reason != StopReason::Released && state.guarded.is_some() {
                    state.ended.get_or_insert(now);
                }
                if !matches!(reason, StopReason::Released | StopReason::Expired) {
                    state.renewed = None;
                }
            }
            Event::Renewed { latency } => {
                counters.renewals.add(*latency);
                let ago = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
                if state.guarded.is_some() {
                    state.renewed = Some(Moment::from_nanos(now.as_nanos().saturating_sub(ago)));
                }
            }
            Event::Request(outcome) => {
                counters.requests[outcome.operation as usize] += 1;
                outcome.failure.into_iter().for_each(|kind| counters.failures[kind as usize] += 1);
                counters.slow_paths += u64::from(outcome.is_slow_path);
            }
            Event::WatchOpened => {
                counters.watches_opened += 1;
                state.is_watching = true;
            }
            Event::WatchLost => {
                counters.watches_lost += 1;
                state.is_watching = false;
            }
            Event::Fit { pause } => (state.unfit_since, state.may_acquire_at) = (None, Some(now + *pause)),
            Event::Unfit => (state.unfit_since, state.may_acquire_at) = (Some(now), None),
            Event::NewLeader { .. } | Event::NoLeader { .. } => {}
            Event::ShardStarted { .. } | Event::ShardEnded { .. } => {}
        }
    }

    /// Notes that an ended term is no longer renewed while its work drains.
    pub(crate) fn drain_ended(&self) {
        let mut state = self.0.lock();
        if state.guarded.is_some() {
            state.drain_ended.get_or_insert_with(clock::now);
        }
    }

    pub(crate) fn guard_dropped(&self) {
        let mut state = self.0.lock();
        (state.guarded, state.ended, state.drain_ended, state.renewed) = (None, None, None, None);
    }

    /// Notes that the record no longer names this candidate.
    pub(crate) fn released(&self) {
        self.0.lock().term = None;
    }

    /// Notes that the record names another holder than before, or no holder.
    ///
    /// The change proves that the store accepts writes, so a transient write error is cleared. A permanent error stays,
    /// because the permanent error may concern only this candidate.
    pub(crate) fn leader(&self, leader: Option<LeaderInfo>, until: Option<Moment>, identity: &str) {
        let mut state = self.0.lock();
        if leader.as_ref().is_none_or(|leader| leader.identity != identity) {
            state.renewed = None;
        }
        state.failed_write.take_if(|(_, error)| error.is_transient());
        let since = state.unheld_since.unwrap_or_else(clock::now);
        state.unheld_since = leader.is_none().then_some(since);
        (state.leader, state.leader_until) = (leader, until);
    }

    /// Notes the time at which the lease of the current leader expires, or `None` if unknown.
    ///
    /// `identity_is_shared` means that another process wrote the record under this candidate's identity.
    pub(crate) fn leader_until(&self, until: Option<Moment>, identity_is_shared: bool) {
        let mut state = self.0.lock();
        (state.leader_until, state.identity_is_shared) = (until, identity_is_shared);
    }

    /// Notes that the store has sent an answer or an event.
    pub(crate) fn contact(&self) {
        self.0.lock().contact = Some(clock::now());
    }

    /// Notes that a watch has reported a change of the record.
    pub(crate) fn watch_delivered(&self) {
        self.0.lock().failed_read = None;
    }

    /// Notes that the store has answered a request, or has failed.
    pub(crate) fn answered(&self, operation: StoreOperation, error: Option<&StoreError>) {
        let is_read = operation == StoreOperation::Get;
        // A refusal because another write was faster counts as an answer.
        match error.filter(|error| !error.kind().is_conflict()) {
            // This elector interrupted the request, so the error is not a failure of the store.
            Some(error) if error.kind() == StoreErrorKind::Interrupted => {}
            Some(error) if is_read => self.0.lock().failed_read = Some(error.clone()),
            Some(error) => self.write_failed(error),
            None => {
                self.contact();
                self.watch_delivered();
                self.0.lock().failed_write.take_if(|_| !is_read && error.is_none());
            }
        }
    }

    pub(crate) fn write_failed(&self, error: &StoreError) {
        let failed = &mut self.0.lock().failed_write;
        failed.get_or_insert_with(|| (clock::now(), error.clone())).1 = error.clone();
    }

    pub(crate) fn thread_panicked(&self) {
        self.0.lock().panicked = true;
    }

    pub(crate) fn ended(&self) {
        self.0.lock().has_ended = true;
    }

    pub(crate) fn is_fit(&self) -> bool {
        self.0.lock().unfit_since.is_none()
    }

    pub(crate) fn valid_term(&self) -> Option<Arc<Term>> {
        self.0.lock().term.clone().filter(|term| term.is_valid())
    }

    /// Returns the holder in the record, or `None` if its lease has expired.
    pub(crate) fn current_leader(&self) -> Option<String> {
        let state = self.0.lock();
        let leader = state.leader.as_ref().filter(|_| !state.leader_lease_expired(clock::now()));
        leader.map(|leader| leader.identity.clone())
    }

    /// Returns the error of the last read, or else the error of the last write.
    pub(crate) fn last_error(&self) -> Option<StoreError> {
        self.0.lock().last_errors()[0].cloned()
    }

    pub(crate) fn status(&self, (name, record): (&str, &str), settings: &Settings) -> Status {
        let (now, state) = (clock::now(), self.0.lock());
        let remaining = state.term.as_ref().map_or(Duration::ZERO, |term| term.remaining());
        let progress = state.guarded.as_ref().and_then(|term| term.deadline.progress_limit());
        let [last_error, failed_write] = state.last_errors().map(Option::<&StoreError>::cloned);
        Status {
            name: name.to_owned(),
            record: record.to_owned(),
            settings: settings.clone(),
            leader: state.leader.as_ref().map(|leader| leader.identity.clone()),
            leader_address: state.leader.as_ref().and_then(|leader| leader.address.clone()),
            leader_lease_expired: state.leader_lease_expired(now),
            is_leader: !remaining.is_zero(),
            remaining,
            fencing_token: state.term.as_ref().map(|term| term.fencing_token),
            last_contact: state.contact.map(|at| now.since(at)),
            last_error,
            failed_write,
            identity_is_shared: state.identity_is_shared,
            is_fit: state.unfit_since.is_none(),
            unfit_for: state.unfit_since.map(|since| now.since(since)),
            may_acquire_in: state.may_acquire_at.map(|at| at.since(now)).filter(|left| !left.is_zero()),
            since_progress: progress.map(|limit| now.since(limit.last())),
            is_watching: state.is_watching && !state.has_ended,
            is_running: !state.has_ended,
            counters: state.counters.clone(),
        }
    }
}

impl ObservationState {
    fn leader_lease_expired(&self, now: Moment) -> bool {
        self.leader_until.is_some_and(|until| until <= now)
    }

    /// Returns the time since which the lease has no holder or has expired, or since the start.
    pub(super) fn leaderless_since(&self, now: Moment) -> Option<Moment> {
        self.unheld_since.or(self.leader_until.filter(|until| *until <= now))
    }

    /// Returns the last error and the error of the last write.
    ///
    /// The last error is the error of the last read, or else the error of the last write.
    fn last_errors(&self) -> [Option<&StoreError>; 2] {
        let write = self.failed_write.as_ref().map(|(_, error)| error);
        [self.failed_read.as_ref().or(write), write]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;

    #[test]
    fn failed_write_is_kept_until_a_write_succeeds() {
        use StoreErrorKind::{Conflict, Forbidden, Interrupted, Malformed, Unavailable};
        use StoreOperation::{Create, Get, Update};
        let observations = Observations::new(&Config::default().validate().unwrap());
        let errors = || observations.0.lock().last_errors().map(|error| error.map(StoreError::kind));
        let after = |operation, failed: Option<StoreErrorKind>| {
            let error = failed.map(|kind| StoreError::new(kind, "made up"));
            observations.answered(operation, error.as_ref());
            errors()
        };
        for kind in [Unavailable, Forbidden] {
            assert_eq!(after(Update, Some(kind)), [Some(kind), Some(kind)]);
            assert_eq!(after(Get, Some(Malformed)), [Some(Malformed), Some(kind)]);
            assert_eq!(after(Get, Some(Interrupted)), [Some(Malformed), Some(kind)]);
            assert_eq!(after(Create, Some(Conflict)), [Some(kind), Some(kind)], "the store answers");
            after(Get, Some(Malformed));
            assert_eq!(after(Get, None), [Some(kind), Some(kind)]);
            observations.watch_delivered();
            assert_eq!(errors(), [Some(kind), Some(kind)]);
            let leader = LeaderInfo { identity: "a".to_owned(), address: None };
            observations.leader(Some(leader), None, "me");
            let kept = Some(Forbidden).filter(|_| kind == Forbidden);
            assert_eq!(errors(), [kept, kept], "another candidate may write");
        }
        assert_eq!(after(Create, None), [None, None]);
    }
}
