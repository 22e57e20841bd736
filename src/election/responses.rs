//! The evaluation of answers and events: the rules 'In-doubt writes' and 'Order'.

use std::time::Duration;

use super::in_doubt::{Adopts, Verdict};
use super::messages::{ElectionEvent, ReadContext, StoreResponse};
use super::term::HeldTerm;
use super::watching::{MENTIONED_WITHIN, TOLD_WITHIN};
use super::{CampaignPhase, Election, Holder, Phase};
use crate::election::settings::whole_seconds;
use crate::election::stop_reason::StopReason;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::clock::Moment;
use crate::util::sync::Arc;

impl Election {
    /// Returns the time at which the holder's lease expires without another renewal.
    pub fn leader_until(&self) -> Option<Moment> {
        self.observed.expires_at(self.settings.lease_duration)
    }

    /// Notes the round-trip time of an answered request.
    ///
    /// A failure without an answer of the store does not count.
    pub(super) fn note_round_trip(&mut self, now: Moment, id: u64, answer: &StoreResponse) {
        let is_answer = match answer {
            StoreResponse::Read(..) | StoreResponse::Written(_) => true,
            StoreResponse::Failed(error) => error.kind().is_beaten(),
        };
        let sent = self.in_flight.take_if(|(in_flight, _)| *in_flight == id);
        if is_answer {
            self.pace.answered(now, sent.map(|(_, sent_at)| now.since(sent_at)));
        }
    }

    /// Allows one immediate new attempt after a reused connection was closed or was silent under a request.
    ///
    /// Servers and load balancers may close or drop idle connections at any time. The new attempt is a new request, because the
    /// store may have applied the old request.
    pub(super) fn repeat(&mut self, now: Moment) {
        match &mut self.phase {
            // The repetition has the time of a first attempt, because the attempt on the closed connection took none.
            Phase::Leading(term) => term.repeat_renewal(now),
            Phase::Campaigning(CampaignPhase { round: Some(round), .. }) => {
                (round.has_read, round.wrote) = (round.wrote, false);
            }
            _ => {}
        }
    }

    /// Evaluates the record in the answer to the request `id`.
    ///
    /// Returns `false` if the record is not new.
    pub(super) fn learn_answer(&mut self, now: Moment, id: u64, observed: VersionedRecord) -> bool {
        // The answer shows an object whose deletion was already observed, so the answer is outdated.
        if self.observed.is_gone(&observed.record) {
            return false;
        }
        // A store that has lost history may have other notes at the same version.
        let is_known = self.observed.record().is_some_and(|known| known.version == observed.version);
        if is_known && self.observed.see_again(observed.clone()) {
            self.report_leader();
            self.notice_request(now);
        }
        let is_news = self.learn(now, now, observed);
        self.in_doubt.overtaken_by(id);
        is_news
    }

    /// Evaluates the record in an event of the watch.
    pub(super) fn learn_told(&mut self, now: Moment, received_at: Moment, observed: VersionedRecord) {
        // A lagging server may deliver events from before the observed deletion of the object.
        if !self.observed.is_gone(&observed.record) {
            // Unlike an answer, an event does not settle a create, because a late event may show an older object.
            self.learn(now, received_at, observed);
        }
    }

    /// Evaluates an observed record by the table of the rule 'In-doubt writes'.
    ///
    /// Returns `false` if the record is not new.
    fn learn(&mut self, now: Moment, received_at: Moment, observed: VersionedRecord) -> bool {
        if !self.observed.learn_version(observed.version) {
            return false;
        }
        let known = self.observed.record().map(|known| &known.record);
        let verdict = self.in_doubt.evaluate(now, &observed, known, self.adopts(), &self.settings.identity);
        self.pace.learned(now);
        match verdict {
            Verdict::Own { acquisition, sent_at } => {
                self.see(observed, received_at, Holder::Ourselves);
                self.adopt(now, acquisition, sent_at);
            }
            Verdict::Unchanged => _ = self.observed.see_again(observed),
            Verdict::LateOwn { is_recreated, too_late } => {
                self.see(observed, received_at, Holder::Ourselves);
                self.gives_back |= too_late.is_some();
                self.events.extend(too_late.map(ElectionEvent::TooLateForProgress));
                // If the term has expired, the first reason stays. In a valid term, an older own write reappears only
                // after a restore of the store.
                self.end_term(now, if is_recreated { StopReason::Deleted } else { StopReason::StoreRestored });
            }
            Verdict::SharedIdentity if self.observed.is_unknown() => {
                self.see(observed, received_at, Holder::Predecessor);
                // After a restore of the store, the record may be an older record of this candidate, so no predecessor is
                // reported.
                if !self.watch.is_doubtful() {
                    self.events.push_back(ElectionEvent::Predecessor);
                }
            }
            Verdict::SharedIdentity => {
                let is_known = self.observed.holder() == Some(Holder::DuplicateIdentity);
                // After the drop of an elector, its process may start another elector with this identity.
                let is_over = self.closing && matches!(self.phase, Phase::Observing);
                if !is_known && !is_over {
                    self.events.push_back(ElectionEvent::IdentityConflict);
                    self.observed.reclaim_at(now + self.pace.jittered_retry());
                }
                self.see(observed, received_at, Holder::DuplicateIdentity);
                self.end_term(now, StopReason::IdentityConflict);
            }
            Verdict::Other => {
                let by = observed.record.holder().map(str::to_owned);
                self.see(observed, received_at, if by.is_some() { Holder::Other } else { Holder::Nobody });
                self.end_term(now, StopReason::Superseded { by });
            }
        }
        self.report_leader();
        self.notice_request(now);
        true
    }

    /// Stores a changed record and ends the attempt on the previous record.
    fn see(&mut self, observed: VersionedRecord, changed_at: Moment, holder: Holder) {
        self.observed.see(observed, changed_at, holder);
        self.abandon_attempt();
        if holder == Holder::Other {
            self.requests.another_leads();
        }
        if holder != Holder::Ourselves {
            self.given_back(changed_at);
        }
    }

    /// Delays the next acquisition after the release of a late acquisition.
    ///
    /// An immediate acquisition would probably also take longer than the progress timeout.
    fn given_back(&mut self, now: Moment) {
        if std::mem::take(&mut self.gives_back) {
            self.pace.delay_write(now);
        }
    }

    pub(super) fn abandon_attempt(&mut self) {
        if let Phase::Campaigning(candidacy) = &mut self.phase {
            candidacy.attempt = None;
        }
    }

    /// Starts or extends a term by an applied own write.
    ///
    /// The validity counts from the moment before the write was sent.
    fn adopt(&mut self, now: Moment, acquisition: u64, sent_at: Moment) {
        match &mut self.phase {
            Phase::Leading(term) => self.events.extend(term.renewed(now, sent_at, &self.settings)),
            Phase::Campaigning(_) => {
                let Some(won) = self.observed.record() else { return };
                let fencing_token = won.version;
                let accepts_after = self.requests.term_begins(sent_at);
                let term =
                    HeldTerm::begin(acquisition, sent_at, &won.record, whole_seconds(accepts_after), &self.settings);
                let deadline = Arc::clone(term.deadline());
                self.phase = Phase::Leading(term);
                // With a distant store, the watch event of the winning write may arrive after the answer. The next read
                // therefore waits.
                let pause = self.pace.retry_delay(now, self.urgency(now)).min(MENTIONED_WITHIN);
                self.read_within(now, pause);
                // A candidate keeps a requested pause in full, but the new term may not last as long.
                self.pace.shorten_pause(now, self.urgency(now));
                self.report_leader();
                self.events.push_back(ElectionEvent::Elected { deadline, fencing_token });
            }
            Phase::Observing => {}
        }
    }

    /// Handles the absence of the record.
    pub(super) fn learn_absence(&mut self, now: Moment) {
        if !self.observed.vanish() {
            return;
        }
        self.abandon_attempt();
        self.given_back(now);
        self.end_term(now, StopReason::Deleted);
        self.report_leader();
    }

    /// Compares the result of a read with the events of the watch.
    pub(super) fn compare_watch(&mut self, now: Moment, context: ReadContext, found: Option<&VersionedRecord>) {
        let told_by = now + self.pace.retry_delay(now, self.urgency(now));
        if !self.watch.agrees_with_read(context, found, told_by) {
            self.give_up_watch(now);
        }
    }

    /// Handles a watch event about the deletion of the object at `version`.
    pub(super) fn learn_deletion(&mut self, now: Moment, version: u64) {
        if self.observed.learn_version(version) {
            // The deletion settles older updates. A create stays in doubt, because the store may still apply the create
            // as a new object.
            self.in_doubt.settle_updates_below(version);
            self.pace.learned(now);
            self.learn_absence(now);
        }
    }

    /// Forgets all observations after a restore of the store.
    pub(super) fn reset(&mut self, now: Moment, restored: LeaderElectionRecord) {
        self.observed.forget();
        self.in_doubt.forget();
        self.abandon_attempt();
        self.end_term(now, StopReason::StoreRestored);
        // The watch waits for versions above the lost state, or delivers events from before the restore.
        self.watch.doubt(restored);
        self.events.push_back(ElectionEvent::WatchStale);
    }

    /// Schedules the next request after a failed or in-doubt write.
    ///
    /// `moved` is `true` if another write came first.
    pub(super) fn write_failed(&mut self, now: Moment, moved: bool) {
        let is_renewal = match &mut self.phase {
            // A leader needs no read after an in-doubt renewal, because the next renewal also settles the in-doubt
            // renewal.
            Phase::Leading(term) if !moved => term.retry_at(self.pace.retry_write_at()),
            _ => false,
        };
        if is_renewal && !self.pace.must_read() {
            return;
        }
        // An open watch delivers the conflicting record, so losing candidates do not all read. A release reads at once.
        let pause = match self.phase {
            _ if !moved || !self.watch_delivers_all(|at| at <= now) => Duration::ZERO,
            Phase::Observing => Duration::ZERO,
            Phase::Campaigning(_) if self.owes_release() => Duration::ZERO,
            Phase::Leading(_) => self.pace.retry_delay(now, self.urgency(now)).min(TOLD_WITHIN),
            Phase::Campaigning(_) => self.pace.retry_delay(now, self.urgency(now)),
        };
        self.pace.must_read_at(now + pause);
    }

    /// Returns the writes that may start or extend a term.
    pub(super) fn adopts(&self) -> Adopts {
        match &self.phase {
            Phase::Observing => Adopts::Nothing,
            Phase::Campaigning(campaign) => Adopts::Attempt(campaign.attempt.as_ref().map(|(attempt, _)| *attempt)),
            Phase::Leading(term) => Adopts::Term(term.acquisition()),
        }
    }
}
