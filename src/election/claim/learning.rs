//! The evaluation of answers and events: the rules 'In-doubt writes' and 'Order'.
//!
//! Watch events report changes without polling. Safety does not depend on a watch. The watch thread reports when a watch
//! opens and when a watch ends. Only the claim decides whether an open watch delivers all changes, by comparing the events
//! with the results of reads.

use std::time::Duration;

use super::Claim;
use super::goal::Goal;
use super::held_lease::HeldLease;
use super::in_doubt::{Adopts, FailedWrite, Outcome, Verdict};
use super::observed::Holder;
use super::watch::EventTrust;
use crate::election::messages::{Change, ClaimEvent, ReadContext, StoreResponse};
use crate::election::stop_reason::StopReason;
use crate::store::StoreError;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::clock::Moment;

/// The time in which a new watch must deliver the current record. After this time, the claim reads.
const CURRENT_RECORD_WITHIN: Duration = Duration::from_secs(1);

/// The time that a leader waits for the watch event of a conflicting write. After this time, the leader reads.
const CONFLICT_EVENT_WITHIN: Duration = Duration::from_millis(250);

impl Claim {
    /// Handles the response to the request `id`, even if the driver has abandoned the request.
    pub(crate) fn on_response(&mut self, now: Moment, id: u64, response: StoreResponse) {
        self.note_round_trip(now, id, &response);
        match response {
            StoreResponse::Read(context, Some(found)) => {
                if self.observed.proves_restore(context, &found) {
                    self.reset(found.record.clone());
                }
                self.learn_response(now, id, found.clone());
                self.pace.has_read();
                self.compare_watch(now, context, Some(&found));
            }
            StoreResponse::Read(context, None) => {
                if context.newest == self.observed.newest() {
                    self.learn_absence(now);
                }
                self.in_doubt.absent(context.sent_at);
                self.pace.has_read();
                self.compare_watch(now, context, None);
            }
            StoreResponse::Written(written) => {
                if !self.watch.agrees(&written) {
                    self.give_up_watch(now);
                }
                // The answer to a forgotten write has no effect. Either a watch event has settled the write, or the
                // claim forgot the write after a restore of the store.
                if let Some(outcome) = self.in_doubt.outcome(id)
                    && !self.learn_response(now, id, written)
                    && outcome == Outcome::InDoubt
                {
                    self.write_failed(now, false);
                }
                self.in_doubt.answered(id);
            }
            StoreResponse::Failed(error) if self.pace.repeats(now, error.kind()) => self.repeat(now),
            StoreResponse::Failed(error) => self.request_failed(now, id, &error),
        }
    }

    /// Handles an event of the watch, which was received at `received_at`.
    pub(crate) fn on_change(&mut self, now: Moment, received_at: Moment, change: Change) {
        let delivered = match &change {
            Change::Written(written) => (written.version, Some(&written.record)),
            Change::Deleted { version } => (*version, None),
        };
        let known = self.observed.record().map(|known| &known.record);
        match (self.watch.evaluate_event(received_at, delivered, (self.observed.newest(), known)), change) {
            // A lagging server may deliver events from before the observed deletion of the object.
            (EventTrust::Trusted, Change::Written(written)) if self.observed.is_deleted(&written.record) => {}
            // Unlike an answer, an event does not settle a create, because a late event may show an older object.
            (EventTrust::Trusted, Change::Written(written)) => _ = self.learn(now, received_at, written),
            (EventTrust::Trusted, Change::Deleted { version }) => self.learn_deletion(now, version),
            (EventTrust::Unconfirmed, _) if self.watch.is_open() => self.read_within(now, Duration::ZERO),
            (EventTrust::Unconfirmed, _) => {}
            (EventTrust::Contradicted, _) => self.give_up_watch(now),
        }
    }

    /// Notes that a watch is open.
    ///
    /// If `from_scratch` is `true`, the watch starts with the current record. Otherwise, the watch continues the
    /// previous watch.
    pub(crate) fn watch_opened(&mut self, now: Moment, from_scratch: bool) {
        self.watch.opened(now, from_scratch, self.observed.newest());
        if from_scratch && self.observed.record().is_some() {
            let pause = self.pace.retry_delay(now, self.urgency(now)).min(CURRENT_RECORD_WITHIN);
            self.read_within(now, pause);
        }
    }

    /// Notes that the watch has ended or was refused.
    ///
    /// The store is polled until another watch is open.
    pub(crate) fn watch_lost(&mut self, now: Moment) {
        self.watch.ended();
        // The pause is random, because many candidates may lose their watches at the same time.
        let pause = self.pace.part_of_a_retry();
        self.read_within(now, pause);
    }

    // ---- responses ----

    /// Notes the round-trip time of an answered request.
    ///
    /// A failure without an answer of the store does not count.
    fn note_round_trip(&mut self, now: Moment, id: u64, response: &StoreResponse) {
        let is_answer = match response {
            StoreResponse::Read(..) | StoreResponse::Written(_) => true,
            StoreResponse::Failed(error) => error.kind().is_conflict(),
        };
        let request = self.sent.answered(id);
        if is_answer {
            self.pace.answered(now, request.map(|request| now.since(request.sent_at)));
        }
    }

    fn request_failed(&mut self, now: Moment, id: u64, error: &StoreError) {
        let is_conflict = error.kind().is_conflict();
        let write = self.in_doubt.failed(id, error.kind());
        // A release may interrupt a renewal. The failure of the renewal must not delay the release, which settles both
        // writes.
        let is_given_up = |write: FailedWrite| !is_conflict && !write.is_release && self.must_release();
        // If the watch has already delivered the record that made the create fail, no read is needed.
        let is_explained = |write: FailedWrite| is_conflict && write.is_create && self.observed.record().is_some();
        if write.is_some_and(|write| !is_given_up(write) && !is_explained(write)) {
            self.write_failed(now, is_conflict);
        }
        self.pace.pause(now, error.retry_after(), self.urgency(now));
        if let Goal::Acquire(acquiring) = &mut self.goal
            && acquiring.round().is_some_and(|round| round.failed(error.kind()))
        {
            self.round_over();
        }
    }

    /// Allows one immediate new attempt after a reused connection was closed or was silent under a request.
    ///
    /// Servers and load balancers may close or drop idle connections at any time. The new attempt is a new request, because the
    /// store may have applied the old request.
    fn repeat(&mut self, now: Moment) {
        match &mut self.goal {
            // The repetition has the time of a first attempt, because the attempt on the closed connection took none.
            Goal::Renew(lease) => lease.repeat(now),
            Goal::Acquire(acquiring) => acquiring.round().into_iter().for_each(|round| round.repeat()),
            Goal::Observe(_) | Goal::Abstain => {}
        }
    }

    /// Schedules the next request after a failed or in-doubt write.
    ///
    /// `is_conflict` is `true` if another write came first.
    fn write_failed(&mut self, now: Moment, is_conflict: bool) {
        let retry_at = self.pace.retry_write_at();
        if let Goal::Renew(lease) = &mut self.goal
            && !is_conflict
        {
            lease.retry_at(retry_at);
            // A leader needs no read after an in-doubt renewal, because the next renewal also settles the in-doubt
            // renewal.
            if !self.pace.must_read() {
                return;
            }
        }
        // An open watch delivers the conflicting record, so losing candidates do not all read. A release reads at once.
        let pause = match self.goal {
            _ if !is_conflict || !self.watch_delivers_all(|at| at <= now) => Duration::ZERO,
            _ if self.must_release() => Duration::ZERO,
            Goal::Renew(_) | Goal::Abstain => self.pace.retry_delay(now, self.urgency(now)).min(CONFLICT_EVENT_WITHIN),
            _ if self.campaign().is_some() => self.pace.retry_delay(now, self.urgency(now)),
            Goal::Observe(_) | Goal::Acquire(_) => Duration::ZERO,
        };
        self.pace.must_read_at(now + pause);
    }

    /// Evaluates the record in the answer to the request `id`.
    ///
    /// Returns `false` if the record is not new.
    fn learn_response(&mut self, now: Moment, id: u64, found: VersionedRecord) -> bool {
        // The answer shows an object whose deletion was already observed, so the answer is outdated.
        if self.observed.is_deleted(&found.record) {
            return false;
        }
        // A store that has lost history may have other notes at the same version.
        let is_known = self.observed.record().is_some_and(|known| known.version == found.version);
        if is_known && self.observed.see_again(found.clone()) {
            self.report_request();
        }
        let is_new = self.learn(now, now, found);
        self.in_doubt.overtaken_by(id);
        is_new
    }

    // ---- records ----

    /// Evaluates an observed record by the table of the rule 'In-doubt writes'.
    ///
    /// Returns `false` if the record is not new.
    fn learn(&mut self, now: Moment, received_at: Moment, found: VersionedRecord) -> bool {
        if !self.observed.learn_version(found.version) {
            return false;
        }
        let known = self.observed.record().map(|known| &known.record);
        let verdict = self.in_doubt.evaluate(now, &found, known, self.adopts(), &self.settings.identity);
        self.pace.learned(now);
        match verdict {
            Verdict::Own { acquisition, sent_at } => {
                self.see(found, received_at, Holder::Ourselves);
                self.adopt(now, acquisition, sent_at);
            }
            Verdict::Unchanged => _ = self.observed.see_again(found),
            Verdict::LateOwn { is_recreated, too_late } => {
                self.see(found, received_at, Holder::Ourselves);
                self.releases_late_win |= too_late.is_some();
                self.events.extend(too_late.map(ClaimEvent::TooLateForProgress));
                // If the term has expired, the first reason stays. In a valid term, an older own write reappears only
                // after a restore of the store.
                self.lose(if is_recreated { StopReason::Deleted } else { StopReason::StoreRestored });
            }
            Verdict::SharedIdentity => self.learn_shared_identity(now, received_at, found),
            Verdict::Other => {
                let by = found.record.holder().map(str::to_owned);
                self.see(found, received_at, if by.is_some() { Holder::Other } else { Holder::Nobody });
                self.lose(StopReason::Superseded { by });
            }
        }
        self.report_request();
        true
    }

    /// Evaluates a record with this candidate's identity that this candidate did not write.
    fn learn_shared_identity(&mut self, now: Moment, received_at: Moment, found: VersionedRecord) {
        if self.observed.is_unknown() {
            self.see(found, received_at, Holder::Predecessor);
            // After a restore of the store, the record may be an older record of this candidate, so no predecessor is
            // reported.
            if !self.watch.is_distrusted() {
                self.events.push_back(ClaimEvent::Predecessor);
            }
            return;
        }
        let is_known = self.observed.holder() == Some(Holder::DuplicateIdentity);
        // After the drop of an elector, its process may start another elector with this identity.
        let is_closing = matches!(self.goal, Goal::Observe(needs) if needs.is_closing);
        if !is_known && !is_closing {
            self.events.push_back(ClaimEvent::IdentityConflict);
            self.observed.reclaim_at(now + self.pace.jittered_retry());
        }
        self.see(found, received_at, Holder::DuplicateIdentity);
        self.lose(StopReason::IdentityConflict);
    }

    /// Stores a changed record and ends the attempt on the previous record.
    fn see(&mut self, found: VersionedRecord, changed_at: Moment, holder: Holder) {
        self.observed.see(found, changed_at, holder);
        self.abandon_attempt();
        if holder != Holder::Ourselves {
            self.late_win_released(changed_at);
        }
    }

    /// Delays the next acquisition after the release of a late acquisition.
    ///
    /// An immediate acquisition would probably also take longer than the progress timeout.
    fn late_win_released(&mut self, now: Moment) {
        if std::mem::take(&mut self.releases_late_win) {
            self.pace.delay_write(now);
        }
    }

    fn abandon_attempt(&mut self) {
        if let Goal::Acquire(acquiring) = &mut self.goal {
            acquiring.abandon_attempt();
        }
    }

    /// Starts or extends a term by an applied own write.
    ///
    /// The validity counts from the moment before the write was sent.
    fn adopt(&mut self, now: Moment, acquisition: u64, sent_at: Moment) {
        if let Goal::Renew(lease) = &mut self.goal {
            lease.renewed(sent_at, &self.settings);
            self.events.push_back(ClaimEvent::Renewed { sent_at });
        }
        if let (Goal::Acquire(_), Some(won)) = (&self.goal, self.observed.record()) {
            self.events.push_back(ClaimEvent::Won { sent_at, fencing_token: won.version });
            self.goal = Goal::Renew(HeldLease::won(acquisition, sent_at, &won.record, &self.settings));
            // With a distant store, the watch event of the winning write may arrive after the answer. The next read
            // therefore waits.
            let pause = self.pace.retry_delay(now, self.urgency(now)).min(CURRENT_RECORD_WITHIN);
            self.read_within(now, pause);
            // A candidate keeps a requested pause in full, but the new term may not last as long.
            self.pace.shorten_pause(now, self.urgency(now));
        }
    }

    /// Returns the writes that may start or extend a term.
    pub(super) fn adopts(&self) -> Adopts {
        match &self.goal {
            Goal::Observe(_) => Adopts::Nothing,
            Goal::Acquire(acquiring) => Adopts::Attempt(acquiring.acquisition()),
            Goal::Renew(lease) => Adopts::Term(Some(lease.acquisition())),
            Goal::Abstain => Adopts::Term(None),
        }
    }

    /// Reports a request to step down that names this candidate.
    fn report_request(&mut self) {
        let own = self.observed.record().filter(|_| self.observed.is_ours());
        if own.is_some_and(|known| known.notes.step_down.as_ref() == Some(&self.settings.identity)) {
            self.events.push_back(ClaimEvent::StepDownRequested);
        }
    }

    /// Handles the absence of the record.
    fn learn_absence(&mut self, now: Moment) {
        if self.observed.vanish() {
            self.abandon_attempt();
            self.late_win_released(now);
            self.lose(StopReason::Deleted);
        }
    }

    /// Handles a watch event about the deletion of the object at `version`.
    fn learn_deletion(&mut self, now: Moment, version: u64) {
        if self.observed.learn_version(version) {
            // The deletion settles older updates. A create stays in doubt, because the store may still apply the create
            // as a new object.
            self.in_doubt.settle_updates_below(version);
            self.pace.learned(now);
            self.learn_absence(now);
        }
    }

    /// Forgets all observations after a restore of the store.
    fn reset(&mut self, restored: LeaderElectionRecord) {
        self.observed.forget();
        self.in_doubt.forget();
        self.abandon_attempt();
        self.lose(StopReason::StoreRestored);
        // The watch waits for versions above the lost state, or delivers events from before the restore.
        self.watch.distrust(restored);
        self.events.push_back(ClaimEvent::WatchStale);
    }

    // ---- the watch ----

    /// Compares the result of a read with the events of the watch.
    fn compare_watch(&mut self, now: Moment, context: ReadContext, found: Option<&VersionedRecord>) {
        let delivered_by = now + self.pace.retry_delay(now, self.urgency(now));
        if !self.watch.agrees_with_read(context, found, delivered_by) {
            self.give_up_watch(now);
        }
    }

    /// Returns `true` if the watch delivers every change, so that no polling is needed.
    pub(super) fn watch_delivers_all(&self, is_due: impl FnOnce(Moment) -> bool) -> bool {
        let least = match self.goal {
            Goal::Renew(_) | Goal::Abstain => self.settings.renew_interval * 2,
            Goal::Observe(_) | Goal::Acquire(_) => Duration::ZERO,
        };
        let silent_at = self.watch.silent_at(&self.observed, self.settings.lease_duration, least);
        self.watch.delivers_all(&self.observed, silent_at, is_due)
    }

    /// Ends a watch that misses changes.
    pub(super) fn give_up_watch(&mut self, now: Moment) {
        self.watch_lost(now);
        self.events.push_back(ClaimEvent::WatchStale);
    }

    fn read_within(&mut self, now: Moment, pause: Duration) {
        self.pace.read_by(now + pause, self.observed.is_unknown());
    }
}
