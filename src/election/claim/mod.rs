//! The claim of a candidate: one record, as the candidate observes and writes it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::election::messages::{ClaimEvent, Operation, StoreRequest};
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::store::notes::RecordNotes;
use crate::store::record::{LeaderElectionRecord, MicroTime, VersionedRecord};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

pub mod goal;
mod held_lease;
mod in_doubt;
mod learning;
mod observed;
mod pace;
mod round_trip;
mod sent_requests;
mod store_clock;
mod watch;

use goal::{Acquiring, Attempt, Goal, Want};
use in_doubt::InDoubt;
#[cfg(test)]
pub(super) use in_doubt::MAX_WRITES;
use observed::Observed;
use pace::{Pace, Purpose, Urgency};
pub use round_trip::InterruptAfter;
use sent_requests::{RequestUnderWay, SentRequests};
use store_clock::StoreClock;
use watch::WatchTrust;

/// The pursuit of what a candidate wants from one record.
///
/// The claim owns everything that is known about the record: its versions, the writes in doubt, the trust in the watch and
/// the pace of requests. A claim knows nothing of guards, fitness or draining.
///
/// The candidate sets its [`Want`] with [`pursue`](Self::pursue). The claim itself takes two steps: from acquiring to
/// renewing when a write wins, and from renewing to abstaining when the record is lost.
#[derive(Debug)]
pub(super) struct Claim {
    settings: Arc<Settings>,
    observed: Observed,
    in_doubt: InDoubt,
    goal: Goal,
    pace: Pace,
    watch: WatchTrust,
    store_clock: StoreClock,
    sent: SentRequests,
    /// `true` while an acquisition that took longer than the progress timeout is released.
    releases_late_win: bool,
    events: VecDeque<ClaimEvent>,
}

impl Claim {
    /// Creates a claim without observations.
    ///
    /// `seed` feeds the jitter and the random digits of `acquireTime`.
    pub(super) fn new(settings: Arc<Settings>, seed: u64) -> Self {
        Self {
            observed: Observed::nothing(),
            in_doubt: InDoubt::new(Arc::clone(&settings)),
            goal: Goal::Observe(goal::ObserverNeeds::default()),
            pace: Pace::new(Arc::clone(&settings), seed),
            watch: WatchTrust::default(),
            store_clock: StoreClock::default(),
            sent: SentRequests::default(),
            releases_late_win: false,
            events: VecDeque::new(),
            settings,
        }
    }

    /// Returns the next event for the candidate, if there is one.
    pub(super) fn event(&mut self) -> Option<ClaimEvent> {
        self.events.pop_front()
    }

    /// Sets what the candidate wants from the record.
    pub(super) fn pursue(&mut self, now: Moment, want: Want) {
        if want.campaign().is_some_and(|campaign| self.campaign() != Some(campaign)) {
            // A term or a release may have shortened the requested pause. A campaign keeps the full pause.
            self.pace.keep_full_pause();
        }
        match (&self.goal, want) {
            (Goal::Acquire(acquiring), Want::Acquire { campaign, .. }) if acquiring.campaign() == campaign => {}
            // The claim has begun to renew with its win, and never renews a lost record.
            (_, Want::Renew) => {}
            (_, Want::Abstain) => self.goal = Goal::Abstain,
            (_, Want::Acquire { campaign, once }) => {
                self.goal = Goal::Acquire(Acquiring::new(campaign, once));
            }
            (Goal::Observe(_) | Goal::Acquire(_), Want::Observe(needs)) => self.goal = Goal::Observe(needs),
            (Goal::Renew(_) | Goal::Abstain, Want::Observe(needs)) => {
                self.goal = Goal::Observe(needs);
                self.pace.start_release(now, self.urgency(now));
            }
        }
    }

    /// Returns the next request, if one is due.
    ///
    /// Registers the moments at which the result may change.
    pub(super) fn next(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        if self.watch.missing_event_deadline().is_some_and(|at| timer.is_due(at)) {
            self.give_up_watch(now.local);
        }
        match &self.goal {
            Goal::Acquire(_) if !self.releases_late_win => self.acquire_when_due(now, timer),
            Goal::Acquire(acquiring) if acquiring.is_round() => self.end_round(now, timer),
            Goal::Observe(_) | Goal::Acquire(_) if self.must_release() => self.release(now, timer),
            Goal::Observe(_) | Goal::Acquire(_) => self.read_when_due(timer),
            Goal::Renew(lease) => {
                let renew_at = self.pace.may_renew_at(lease.renew_at());
                if self.pace.must_read() {
                    self.read_when_due(timer)
                } else if timer.is_due(renew_at) {
                    self.renew(now, timer)
                } else if self.watch.is_open() && self.pace.leaves_time_for_a_read(now.local, renew_at) {
                    // With an open watch, the candidate also reads if an event may be missing. Without a watch, or if
                    // the read would delay the renewal, the answers to renewals are enough.
                    self.read_when_due(timer)
                } else {
                    None
                }
            }
            Goal::Abstain => self.read_when_due(timer),
        }
    }

    /// Returns the time at which the holder's lease expires without another renewal.
    pub(super) fn leader_until(&self) -> Option<Moment> {
        self.observed.expires_at(self.settings.lease_duration)
    }

    pub(super) fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Returns the end of the validity that the renewals have reached, while the candidate renews the lease.
    pub(super) fn renewed_until(&self) -> Option<Moment> {
        if let Goal::Renew(lease) = &self.goal { Some(lease.renewed_until()) } else { None }
    }

    /// Returns the request under way, if there is one.
    pub(super) fn under_way(&self) -> Option<RequestUnderWay> {
        self.sent.under_way()
    }

    /// Returns `true` if this candidate may hold the record without a guard.
    ///
    /// An acquiring write counts while the write is under way, or until a read follows the write. Later, the write does
    /// not count, because such a write may stay in doubt forever.
    pub(super) fn may_hold(&self) -> bool {
        let under_way = self.sent.under_way().map(|request| request.id);
        let may_hold = self.must_release() || self.in_doubt.may_hold(under_way, self.pace.must_read());
        may_hold && matches!(self.goal, Goal::Observe(_) | Goal::Acquire(_))
    }

    /// Returns `true` if this candidate holds the record but does not need the record.
    ///
    /// A term needs the record, and so does a campaign that may acquire the lease.
    pub(super) fn must_release(&self) -> bool {
        let is_wanted = match self.goal {
            Goal::Observe(_) => false,
            Goal::Acquire(_) => !self.releases_late_win,
            Goal::Renew(_) | Goal::Abstain => true,
        };
        !is_wanted && self.observed.is_ours()
    }

    /// Returns `true` if no release is owed and the outcome of every write is known.
    pub(super) fn is_settled(&self) -> bool {
        !self.must_release() && self.in_doubt.is_settled()
    }

    /// Makes the next renewal due now, because the notes have changed.
    pub(super) fn renew_at_once(&mut self, now: Moment) {
        if let Goal::Renew(lease) = &mut self.goal {
            lease.retry_at(now);
        }
    }

    /// Notes the time of the store at an answer.
    pub(super) fn set_store_time(&mut self, now: Moment, unix_micros: u64) {
        self.store_clock.answered(now, unix_micros);
    }

    /// Returns the time of the store in Unix microseconds, or `None` before the first answer with a time.
    pub(super) fn store_time(&self, now: Moment) -> Option<u64> {
        self.store_clock.at(now)
    }

    /// Returns `true` after an answer with the time of the store.
    pub(super) fn knows_store_time(&self) -> bool {
        self.store_clock.is_known()
    }

    /// Notes the idle time after which the connection must be used again to stay open.
    pub(super) fn set_idle_timeout(&mut self, now: Moment, after: Option<Duration>) {
        self.pace.set_idle_timeout(now, after);
    }

    /// Returns the times after which a waiting release or watch event interrupts a request.
    pub(super) fn interrupt_after(&self) -> InterruptAfter {
        self.pace.interrupt_after()
    }

    // ---- requests ----

    /// Returns the next request of a campaign.
    fn acquire_when_due(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        let Goal::Acquire(acquiring) = &mut self.goal else { return None };
        let is_round = acquiring.is_round();
        if let Some(round) = acquiring.round() {
            if round.has_written() || self.pace.is_paused(now.local) {
                return self.end_round(now, timer);
            }
            if round.starts_read() {
                return Some(self.read(now.local));
            }
        }
        // The caller of a round sets the pace, and a held-back round would not acquire a lease that is free for less
        // than the delay.
        let hold_back = if is_round { Duration::ZERO } else { self.settings.hold_back };
        let Settings { reclaim_own_identity, lease_duration, .. } = *self.settings;
        let takeover_at = self.observed.acquirable_at(now.local, hold_back, reclaim_own_identity, lease_duration);
        let takeover_at = takeover_at.filter(|_| !self.pace.must_read());
        // A round sends only one write, so its caller sets the pace. A requested pause has already ended the round
        // above.
        let not_before = self.pace.may_write_at();
        let takeover_at = takeover_at.map(|at| if is_round { at } else { at.max(not_before) });
        match takeover_at {
            _ if is_round && takeover_at.is_none_or(|at| at > now.local) => self.end_round(now, timer),
            Some(at) if timer.is_due(at) => self.acquire(now, timer),
            at if self.pace.keeps_alive(timer, at) => Some(self.read(now.local)),
            _ => self.read_when_due(timer),
        }
    }

    /// Acquires the lease by one write on the observed version (rules 1, 2, 3 and 5).
    fn acquire(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        let (stamp, renew_time) = self.stamp(now, timer)?;
        let Goal::Acquire(acquiring) = &mut self.goal else { return None };
        let base = self.observed.record().cloned();
        let attempt = acquiring.writes(|| {
            // The fraction digits are random, so that two processes with the same identity do not write the same
            // record.
            let mut drawn = || MicroTime::from_unix_micros(stamp - stamp % 1_000_000 + self.pace.random(1_000_000));
            let taken = base.as_ref().and_then(|known| known.record.acquire_time.clone());
            let mut acquire_time = drawn();
            while taken.as_ref() == Some(&acquire_time) {
                acquire_time = drawn();
            }
            Attempt { acquisition: self.sent.next_acquisition(), acquire_time }
        });
        let transitions =
            base.as_ref().map_or(0, |base| base.record.lease_transitions.unwrap_or(0).max(0).saturating_add(1));
        let record = self.held(base.as_ref(), attempt.acquire_time, renew_time, transitions);
        Some(self.write(now.local, base, record, Some(attempt.acquisition)))
    }

    /// Renews the lease by one update of the last own version (rule 4).
    fn renew(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        let (_, renew_time) = self.stamp(now, timer)?;
        let delay = self.pace.retry_delay(now.local, self.urgency(now.local));
        let third_at = now.local + delay.min(self.settings.renew_interval);
        let (Goal::Renew(lease), Some(base)) = (&mut self.goal, self.observed.record().cloned()) else {
            return None;
        };
        lease.renewal_sent(third_at);
        let (acquire_time, transitions) = lease.renewed_fields();
        let acquisition = lease.acquisition();
        let record = self.held(Some(&base), acquire_time, renew_time, transitions);
        Some(self.write(now.local, Some(base), record, Some(acquisition)))
    }

    /// Releases the lease by one write on the newest known version (rule 6).
    fn release(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        let not_before = self.pace.may_write_at();
        if self.pace.must_read() || !timer.is_due(not_before) {
            return self.read_when_due(timer);
        }
        let (_, renew_time) = self.stamp(now, timer)?;
        let base = self.observed.record().cloned()?;
        let record = LeaderElectionRecord {
            holder_identity: Some(String::new()),
            lease_duration_seconds: match self.settings.release_keeps_duration {
                true => base.record.lease_duration_seconds,
                false => Some(1),
            },
            renew_time: Some(renew_time),
            ..base.record.clone()
        };
        Some(self.write(now.local, Some(base), record, None))
    }

    /// Returns a read of the record if a read is due.
    ///
    /// While a watch delivers all changes, a read is due only before a write, to repeat a failed read, or to settle a
    /// create.
    fn read_when_due(&mut self, timer: &mut Timer) -> Option<StoreRequest> {
        let is_needed = match self.goal {
            // Watch events do not settle an in-doubt create, so a closed candidate must read.
            Goal::Observe(needs) => needs.must_read || needs.is_closing && self.in_doubt.has_in_doubt_create(),
            Goal::Acquire(_) | Goal::Renew(_) | Goal::Abstain => false,
        };
        let delivers_all = self.watch_delivers_all(|at| timer.is_due(at));
        let is_wanted = self.pace.must_read() || is_needed || !delivers_all;
        let is_due = is_wanted && timer.is_due(self.pace.may_read_at());
        is_due.then(|| self.read(timer.now()))
    }

    fn read(&mut self, now: Moment) -> StoreRequest {
        self.pace.read_sent(now, self.urgency(now));
        self.send(now, Operation::Get(self.observed.context(now)))
    }

    fn write(
        &mut self,
        now: Moment,
        base: Option<VersionedRecord>,
        record: LeaderElectionRecord,
        acquisition: Option<u64>,
    ) -> StoreRequest {
        self.pace.write_sent(now, self.urgency(now));
        let operation = match base {
            Some(base) => Operation::Update(base, record),
            None => Operation::Create(record),
        };
        self.in_doubt.send(now, self.sent.next_id(), &operation, acquisition);
        self.send(now, operation)
    }

    /// Returns the request, to which the candidate adds its notes.
    fn send(&mut self, now: Moment, operation: Operation) -> StoreRequest {
        let id = self.sent.send(now, operation.kind());
        let is_write = !matches!(operation, Operation::Get(_));
        let purpose = match &self.goal {
            Goal::Renew(lease) if is_write && lease.is_first_attempt() => Purpose::FirstRenewal,
            _ if self.campaign().is_some() && !self.must_release() => Purpose::Campaign,
            _ => Purpose::Other,
        };
        let timeout = self.pace.timeout(now, self.urgency(now), purpose);
        StoreRequest { id, operation, notes: RecordNotes::default(), timeout }
    }

    /// Returns a record that names this candidate as the holder.
    fn held(
        &self,
        base: Option<&VersionedRecord>,
        acquire_time: MicroTime,
        renew_time: MicroTime,
        transitions: i32,
    ) -> LeaderElectionRecord {
        LeaderElectionRecord {
            uid: base.and_then(|base| base.record.uid.clone()),
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(self.settings.published_seconds()),
            acquire_time: Some(acquire_time),
            renew_time: Some(renew_time),
            lease_transitions: Some(transitions),
        }
    }

    /// Returns the `renewTime` of the next write, or `None` if the number of in-doubt writes is at its limit.
    fn stamp(&mut self, now: Now, timer: &mut Timer) -> Option<(u64, MicroTime)> {
        let adopts = self.adopts();
        self.in_doubt.makes_room(timer, adopts).then(|| self.sent.stamp(now))
    }

    /// Returns the urgency of requests.
    fn urgency(&self, now: Moment) -> Urgency {
        match &self.goal {
            Goal::Renew(lease) => Urgency::Term(lease.renewed_until()),
            Goal::Observe(needs) if self.must_release() => match needs.release_by {
                Some(until) if now < until => Urgency::Release(until),
                _ => Urgency::None,
            },
            Goal::Observe(_) | Goal::Acquire(_) | Goal::Abstain => Urgency::None,
        }
    }

    /// Returns the campaign that acquires the lease, or that waits until the candidate may acquire the lease.
    fn campaign(&self) -> Option<u64> {
        match &self.goal {
            Goal::Observe(needs) => needs.campaign,
            Goal::Acquire(acquiring) => Some(acquiring.campaign()),
            Goal::Renew(_) | Goal::Abstain => None,
        }
    }

    /// Ends the round, and returns the next request of a candidate that only observes.
    fn end_round(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        self.round_over();
        self.next(now, timer)
    }

    fn round_over(&mut self) {
        self.goal = Goal::Observe(goal::ObserverNeeds::default());
        self.events.push_back(ClaimEvent::RoundOver);
    }

    /// Stops the renewals, because the record is lost.
    fn lose(&mut self, reason: StopReason) {
        if let Goal::Renew(_) = self.goal {
            self.goal = Goal::Abstain;
            self.events.push_back(ClaimEvent::Lost(reason));
        }
    }
}
