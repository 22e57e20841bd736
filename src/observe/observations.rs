//! The observations of an elector, for its status, its health and its subscribers.

use std::time::Duration;

use crate::election::LeaderInfo;
use crate::election::candidate::messages::LeaderFacts;
use crate::election::settings::Settings;
use crate::leadership::term::Term;
use crate::observe::observer::Event;
use crate::observe::status::{Counters, Status};
use crate::observe::transition::{Subscribers, Transition, Transitions};
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::util::clock::{self, Moment};
use crate::util::sync::{Arc, Mutex};

/// The observations of an elector, which its threads write and other threads read.
pub(crate) struct Observations {
    pub(super) settings: Arc<Settings>,
    state: Mutex<ObservationState>,
}

struct ObservationState {
    counters: Counters,
    term: Option<TermState>,
    leader: LeaderState,
    contact: StoreContact,
    is_watching: bool,
    /// The time at which the candidate became unfit, or `None` while the candidate is fit.
    unfit_since: Option<Moment>,
    /// The time at which a recovered candidate may acquire.
    may_acquire_at: Option<Moment>,
    thread: ThreadState,
    subscribers: Subscribers<Transition>,
}

/// The last term of this candidate, until the record is released.
#[derive(Clone)]
struct TermState {
    term: Arc<Term>,
    /// `true` until the end of the term was reported.
    is_leading: bool,
    has_guard: bool,
}

/// The leader in the record.
struct LeaderState {
    leader: Option<LeaderInfo>,
    /// `true` from the report of the leader to the report that there is no leader.
    is_reported: bool,
    /// The time at which the lease of the leader expires, or `None` if unknown.
    until: Option<Moment>,
    /// The time since which the record names no holder. `None` while the record names one.
    unheld_since: Option<Moment>,
    /// `true` if another process wrote the record under this candidate's identity.
    identity_is_shared: bool,
}

/// The contact of an elector with its store.
#[derive(Default)]
struct StoreContact {
    last: Option<Moment>,
    /// The error of the last read.
    ///
    /// Cleared when a read is answered or a watch reports a change.
    failed_read: Option<StoreError>,
    /// The error of the last write.
    ///
    /// Cleared when a write succeeds.
    failed_write: Option<StoreError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    Running,
    Ended,
    Panicked,
}

/// A guard whose term has ended, for the health of the process.
pub(super) struct EndedGuard {
    pub(super) term: Arc<Term>,
    pub(super) ended_at: Moment,
    /// The time at which the lease expires without another renewal.
    pub(super) lease_until: Moment,
    /// `true` if the record names this candidate.
    pub(super) is_holder: bool,
}

impl Observations {
    /// Creates the observations of an elector.
    ///
    /// A candidate with a fitness probe or a fitness flag starts unfit.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let started = clock::now();
        let state = ObservationState {
            counters: Counters::default(),
            term: None,
            leader: LeaderState {
                leader: None,
                is_reported: false,
                until: None,
                unheld_since: Some(started),
                identity_is_shared: false,
            },
            contact: StoreContact::default(),
            is_watching: false,
            unfit_since: settings.has_fitness_source().then_some(started),
            may_acquire_at: None,
            thread: ThreadState::Running,
            subscribers: Subscribers::default(),
        };
        Self { settings, state: Mutex::new(state) }
    }

    /// Creates a subscription that starts with the present state.
    pub(crate) fn subscribe(&self) -> Transitions {
        let state = &mut *self.state.lock();
        // The present state is sent under the same lock, so that no transition is missed or repeated.
        let leader = state.leader.leader.clone().filter(|_| state.leader.is_reported);
        let leader = leader.map(|LeaderInfo { identity, address }| Transition::NewLeader { identity, address });
        let leading = state.term.as_ref().filter(|state| state.is_leading);
        let leading = leading.map(|state| Transition::StartedLeading { fencing_token: state.term.fencing_token });
        let is_open = state.thread == ThreadState::Running;
        state.subscribers.subscribe(leader.into_iter().chain(leading), is_open)
    }

    // ---- written by the elector's threads ----

    /// Notes an event, and publishes its transition.
    ///
    /// `leader` is the leader of the candidate after the event.
    pub(crate) fn note(&self, event: &Event, leader: LeaderFacts<'_>) {
        let state = &mut *self.state.lock();
        if let Event::NewLeader { .. } | Event::NoLeader { .. } = event {
            state.set_leader(leader);
        }
        state.note(event);
        if let Some(transition) = Transition::of(event) {
            state.subscribers.publish(&transition);
        }
    }

    /// Notes the leader of the candidate, if no event reports the leader.
    pub(crate) fn note_leader(&self, leader: LeaderFacts<'_>) {
        self.state.lock().set_leader(leader);
    }

    /// Notes the start of a term, before the event of the start.
    pub(crate) fn term_begins(&self, term: Arc<Term>) {
        self.state.lock().term = Some(TermState { term, is_leading: false, has_guard: true });
    }

    pub(crate) fn guard_dropped(&self) {
        if let Some(state) = &mut self.state.lock().term {
            state.has_guard = false;
        }
    }

    /// Notes that the record no longer names this candidate.
    pub(crate) fn released(&self) {
        self.state.lock().term = None;
    }

    /// Notes that the store has sent an answer or an event.
    pub(crate) fn contact(&self) {
        self.state.lock().contact.last = Some(clock::now());
    }

    /// Notes that a watch has reported a change of the record.
    pub(crate) fn watch_delivered(&self) {
        self.state.lock().contact.failed_read = None;
    }

    /// Notes that the store has answered a request, or has failed.
    pub(crate) fn answered(&self, operation: StoreOperation, error: Option<&StoreError>) {
        self.state.lock().contact.answered(operation, error);
    }

    pub(crate) fn write_failed(&self, error: &StoreError) {
        self.state.lock().contact.failed_write = Some(error.clone());
    }

    /// Notes the end of the elector's thread.
    pub(crate) fn ended(&self, by_panic: bool) {
        let thread = &mut self.state.lock().thread;
        if *thread != ThreadState::Panicked {
            *thread = if by_panic { ThreadState::Panicked } else { ThreadState::Ended };
        }
    }

    /// Disconnects every subscription after the last transition.
    pub(crate) fn disconnect(&self) {
        self.state.lock().subscribers = Subscribers::default();
    }

    // ---- read by other threads ----

    pub(crate) fn is_fit(&self) -> bool {
        self.state.lock().unfit_since.is_none()
    }

    /// Returns the last term until the record is released.
    pub(crate) fn term(&self) -> Option<Arc<Term>> {
        self.state.lock().term.as_ref().map(|state| Arc::clone(&state.term))
    }

    /// Returns the term whose end was not reported.
    pub(crate) fn reported_term(&self) -> Option<Arc<Term>> {
        self.state.lock().term.as_ref().filter(|state| state.is_leading).map(|state| Arc::clone(&state.term))
    }

    /// Returns the holder in the record, or `None` if its lease has expired.
    pub(crate) fn current_leader(&self) -> Option<String> {
        let leader = &self.state.lock().leader;
        let holder = leader.leader.as_ref().filter(|_| !leader.has_expired(clock::now()));
        holder.map(|leader| leader.identity.clone())
    }

    /// Returns the error of the last read, or else the error of the last write.
    pub(crate) fn last_error(&self) -> Option<StoreError> {
        self.state.lock().contact.last_errors()[0].cloned()
    }

    pub(super) fn has_panicked(&self) -> bool {
        self.state.lock().thread == ThreadState::Panicked
    }

    /// Returns the guard that still exists after the end of its term.
    pub(super) fn ended_guard(&self, now: Moment) -> Option<EndedGuard> {
        let state = self.state.lock();
        let TermState { term, .. } = state.term.as_ref().filter(|state| state.has_guard)?;
        // The check reads the term itself, because a hanging elector thread does not report the end of the term.
        let ended_at = term.deadline.ended_at(now)?;
        let lease_until = term.deadline.lease_until(now);
        let holder = state.leader.leader.as_ref().map(|leader| &leader.identity);
        let is_holder = holder == Some(&self.settings.identity);
        Some(EndedGuard { term: Arc::clone(term), ended_at, lease_until, is_holder })
    }

    /// Returns the time since which the lease has no holder or has expired, or since the start.
    pub(super) fn leaderless_since(&self, now: Moment) -> Option<Moment> {
        let leader = &self.state.lock().leader;
        leader.unheld_since.or(leader.until.filter(|until| *until <= now))
    }

    pub(crate) fn status(&self, name: &str, record: &str) -> Status {
        let (now, state) = (clock::now(), &*self.state.lock());
        let LeaderState { leader, identity_is_shared, .. } = &state.leader;
        let term = state.term.as_ref();
        let remaining = term.map_or(Duration::ZERO, |state| state.term.deadline.remaining(now));
        let progress = term.filter(|state| state.has_guard).and_then(|state| state.term.deadline.progress_limit());
        let [last_error, failed_write] = state.contact.last_errors().map(Option::<&StoreError>::cloned);
        Status {
            name: name.to_owned(),
            record: record.to_owned(),
            settings: Settings::clone(&self.settings),
            leader: leader.as_ref().map(|leader| leader.identity.clone()),
            leader_address: leader.as_ref().and_then(|leader| leader.address.clone()),
            leader_lease_expired: state.leader.has_expired(now),
            is_leader: !remaining.is_zero(),
            remaining,
            fencing_token: term.map(|state| state.term.fencing_token),
            last_contact: state.contact.last.map(|at| now.since(at)),
            last_error,
            failed_write,
            identity_is_shared: *identity_is_shared,
            is_fit: state.unfit_since.is_none(),
            unfit_for: state.unfit_since.map(|since| now.since(since)),
            may_acquire_in: state.may_acquire_at.map(|at| at.since(now)).filter(|left| !left.is_zero()),
            since_progress: progress.map(|limit| now.since(limit.last())),
            is_watching: state.is_watching && state.thread == ThreadState::Running,
            is_running: state.thread == ThreadState::Running,
            counters: state.counters.clone(),
        }
    }
}

impl ObservationState {
    fn note(&mut self, event: &Event) {
        self.counters.note(event);
        match event {
            Event::StartedLeading { .. } | Event::StoppedLeading { .. } => {
                let is_leading = matches!(event, Event::StartedLeading { .. });
                self.term.iter_mut().for_each(|state| state.is_leading = is_leading);
            }
            Event::NewLeader { .. } => {
                self.leader.is_reported = true;
                self.contact.another_write_succeeded();
            }
            Event::NoLeader { .. } => self.leader.is_reported = false,
            Event::WatchOpened => self.is_watching = true,
            Event::WatchLost => self.is_watching = false,
            Event::Fit { pause } => (self.unfit_since, self.may_acquire_at) = (None, Some(clock::now() + *pause)),
            Event::Unfit => (self.unfit_since, self.may_acquire_at) = (Some(clock::now()), None),
            _ => {}
        }
    }

    /// Sets the leader.
    ///
    /// A change proves that the store accepts writes.
    fn set_leader(&mut self, LeaderFacts { leader, until, identity_is_shared }: LeaderFacts<'_>) {
        let state = &mut self.leader;
        if state.leader.as_ref() != leader {
            state.leader = leader.cloned();
            self.contact.another_write_succeeded();
        }
        (state.until, state.identity_is_shared) = (until, identity_is_shared);
        let since = state.unheld_since.unwrap_or_else(clock::now);
        state.unheld_since = leader.is_none().then_some(since);
    }
}

impl LeaderState {
    fn has_expired(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl StoreContact {
    /// Notes that the store has answered a request, or has failed.
    fn answered(&mut self, operation: StoreOperation, error: Option<&StoreError>) {
        let is_read = operation == StoreOperation::Get;
        // A refusal because another write was faster counts as an answer.
        match error.filter(|error| !error.kind().is_conflict()) {
            // This elector interrupted the request, so the error is not a failure of the store.
            Some(error) if error.kind() == StoreErrorKind::Interrupted => {}
            Some(error) if is_read => self.failed_read = Some(error.clone()),
            Some(error) => self.failed_write = Some(error.clone()),
            None => {
                (self.last, self.failed_read) = (Some(clock::now()), None);
                self.failed_write.take_if(|_| !is_read && error.is_none());
            }
        }
    }

    /// Clears a transient write error. A permanent error stays, because it may concern only this candidate.
    fn another_write_succeeded(&mut self) {
        self.failed_write.take_if(|error| error.is_transient());
    }

    /// Returns the last error and the error of the last write.
    ///
    /// The last error is the error of the last read, or else the error of the last write.
    fn last_errors(&self) -> [Option<&StoreError>; 2] {
        let write = self.failed_write.as_ref();
        [self.failed_read.as_ref().or(write), write]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::deadline::Deadline;
    use crate::election::settings::Config;
    use crate::election::stop_reason::StopReason;

    #[test]
    fn failed_write_is_kept_until_a_write_succeeds() {
        use StoreErrorKind::{Conflict, Forbidden, Interrupted, Malformed, Unavailable};
        use StoreOperation::{Create, Get, Update};
        let observations = Observations::new(Config::default().validate().unwrap().into());
        let errors = || observations.state.lock().contact.last_errors().map(|error| error.map(StoreError::kind));
        let after = |operation, failed: Option<StoreErrorKind>| {
            let error = failed.map(|kind| StoreError::new(kind, "made up"));
            observations.answered(operation, error.as_ref());
            errors()
        };
        for (kind, identity) in [(Unavailable, "a"), (Forbidden, "b")] {
            assert_eq!(after(Update, Some(kind)), [Some(kind), Some(kind)]);
            assert_eq!(after(Get, Some(Malformed)), [Some(Malformed), Some(kind)]);
            assert_eq!(after(Get, Some(Interrupted)), [Some(Malformed), Some(kind)]);
            assert_eq!(after(Create, Some(Conflict)), [Some(kind), Some(kind)], "the store answers");
            after(Get, Some(Malformed));
            assert_eq!(after(Get, None), [Some(kind), Some(kind)]);
            observations.watch_delivered();
            assert_eq!(errors(), [Some(kind), Some(kind)]);
            let leader = LeaderInfo { identity: identity.to_owned(), address: None };
            observations.note_leader(LeaderFacts { leader: Some(&leader), ..LeaderFacts::default() });
            let kept = Some(Forbidden).filter(|_| kind == Forbidden);
            assert_eq!(errors(), [kept, kept], "another candidate may write");
        }
        assert_eq!(after(Create, None), [None, None]);
    }

    fn new_leader(observations: &Observations, identity: &str) {
        let leader = LeaderInfo { identity: identity.to_owned(), address: None };
        let facts = LeaderFacts { leader: Some(&leader), ..LeaderFacts::default() };
        observations.note(&Event::NewLeader { identity: identity.to_owned(), address: None }, facts);
    }

    #[test]
    fn a_subscription_opens_with_the_present_state() {
        let observations = Observations::new(Config::default().validate().unwrap().into());
        new_leader(&observations, "me");
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        observations.term_begins(Arc::new(Term::new(deadline, 7)));
        observations.note(&Event::StartedLeading { fencing_token: 7 }, LeaderFacts::default());
        let late = observations.subscribe();
        observations.note(&Event::StoppedLeading { reason: StopReason::Expired }, LeaderFacts::default());
        observations.disconnect();
        assert_eq!(
            late.iter().collect::<Vec<_>>(),
            [
                Transition::NewLeader { identity: "me".to_owned(), address: None },
                Transition::StartedLeading { fencing_token: 7 },
                Transition::StoppedLeading { reason: StopReason::Expired },
            ]
        );
    }

    #[test]
    fn subscription_without_a_leader_opens_empty() {
        let observations = Observations::new(Config::default().validate().unwrap().into());
        new_leader(&observations, "a");
        observations.note(&Event::NoLeader { previous: "a".to_owned() }, LeaderFacts::default());
        observations.note(&Event::WatchOpened, LeaderFacts::default());
        assert_eq!(observations.subscribe().try_iter().count(), 0);
    }

    #[test]
    fn subscription_after_the_end_is_disconnected() {
        let observations = Observations::new(Config::default().validate().unwrap().into());
        observations.ended(false);
        assert_eq!(observations.subscribe().iter().count(), 0);
    }
}
