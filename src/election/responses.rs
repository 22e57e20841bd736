//! The evaluation of answers and events: the rules 'In-doubt writes' and 'Order'.

use super::in_doubt::{InDoubtWrite, WriteProgress};
use super::messages::{ElectionEvent, ReadContext, StoreResponse};
use super::watching::{MENTIONED_WITHIN, TOLD_WITHIN};
use super::{CampaignPhase, CurrentTerm, Election, Holder, ObservedRecord, ObservedState, Phase, TermPhase};
use crate::election::deadline::Deadline;
use crate::election::progress::ProgressLimit;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::store::record::{LeaderElectionRecord, MicroTime, VersionedRecord};
use crate::util::clock::Moment;
use crate::util::sync::Arc;

impl ObservedRecord {
    /// Returns the time from which other candidates may take over, unless the record changes before.
    pub(super) fn runs_out_at(&self, settings: &Settings) -> Moment {
        self.changed_at + self.observed.record.lease_duration_or(settings.lease_duration)
    }
}

impl Election {
    /// Returns the time at which the holder's lease expires without another renewal.
    pub fn leader_until(&self) -> Option<Moment> {
        let known = self.observed.known().filter(|known| known.observed.record.holder().is_some())?;
        Some(known.runs_out_at(&self.settings))
    }

    /// Notes the time of an answer. A failure without an answer of the store does not count.
    pub(super) fn note_round_trip(&mut self, now: Moment, id: u64, answer: &StoreResponse) {
        let is_answer = match answer {
            StoreResponse::Read(..) | StoreResponse::Written(_) => true,
            StoreResponse::Failed(error) => error.kind().is_beaten(),
        };
        if is_answer {
            self.schedule.repeated = false;
        }
        if let Some((_, sent_at)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id)
            && is_answer
        {
            self.round_trip.note(now.since(sent_at));
        }
    }

    /// Evaluates the record in the answer to the request `id`. Returns `false` if the record is not new.
    pub(super) fn learn_answer(&mut self, now: Moment, id: u64, observed: VersionedRecord) -> bool {
        // The answer is older than the observed deletion.
        if self.is_gone(&observed.record) {
            return false;
        }
        let is_news = self.learn(now, now, observed);
        // The found object is not the object of an earlier create, unless that create has `Landed`.
        for create in self.open.iter_mut().filter(|write| write.base == 0 && write.id < id) {
            if create.progress != WriteProgress::Landed {
                create.progress = WriteProgress::Overtaken;
            }
        }
        is_news
    }

    /// Evaluates the record in an event of the watch.
    pub(super) fn learn_told(&mut self, now: Moment, received_at: Moment, observed: VersionedRecord) {
        // A server that lags behind may deliver changes from before the deletion of the record.
        if !self.is_gone(&observed.record) {
            // A late event may be about any object, so an event does not resolve a create.
            self.learn(now, received_at, observed);
        }
    }

    /// Evaluates the record in the store, in the order of the rule 'In-doubt writes'. Returns `false` if the record is not new.
    fn learn(&mut self, now: Moment, received_at: Moment, observed: VersionedRecord) -> bool {
        if observed.version <= self.newest {
            return false;
        }
        self.newest = observed.version;

        let record = &observed.record;
        let same_record = matches!(&self.observed, ObservedState::Record(known) if known.observed.record == *record);
        let ours = self.open.iter().filter(|write| write.is(record)).min_by_key(|write| write.sent_at);
        // The fields of an own write in an object with another uid mean that the write re-created a deleted record. A term does
        // not continue in another object.
        let is_another = match (&self.phase, &self.observed) {
            (Phase::Leading(_), ObservedState::Record(known)) => known.observed.record.uid != record.uid,
            _ => ours.is_none(),
        };
        let recreated = is_another && self.open.iter().any(|write| write.record.same_fields(record));
        let adopted = ours
            .filter(|write| !recreated && self.may_be_adopted(write, now))
            .map(|write| (write.acquisition, write.sent_at));
        let is_ours = ours.is_some() || recreated;
        let too_late = ours.filter(|write| !recreated && self.is_too_late_for_progress(write, now));
        let too_late = too_late.map(|write| now.since(write.sent_at));
        let has_our_identity = record.holder() == Some(&self.settings.identity);

        // A second copy of the create would make another object, after the deletion of this object.
        for create in self.open.iter_mut().filter(|write| write.base == 0 && write.is(record)) {
            create.record.uid.clone_from(&record.uid);
            create.progress = WriteProgress::Landed;
        }

        let was_unsettled = std::mem::take(&mut self.schedule.must_read);
        self.schedule.write_at = now;
        self.open.retain(|write| write.base == 0 || write.base >= observed.version);

        if let Some((acquisition, sent_at)) = adopted {
            self.see(observed, received_at, Holder::Ourselves);
            self.adopt(now, acquisition, sent_at);
        } else if same_record {
            if let ObservedState::Record(known) = &mut self.observed {
                known.observed = observed;
            }
            // A change of other fields made the last renewal fail. The renewal is sent again at once.
            if let (Phase::Leading(term), true) = (&mut self.phase, was_unsettled) {
                term.renew_at = now;
            }
        } else if is_ours && has_our_identity {
            self.see(observed, received_at, Holder::Ourselves);
            self.gives_back |= too_late.is_some();
            self.events.extend(too_late.map(ElectionEvent::TooLateForProgress));
            // If the write was observed too late, the term has already expired. Otherwise the store was restored, because this
            // candidate sent no later write.
            self.end_term(now, if recreated { StopReason::Deleted } else { StopReason::StoreRestored });
        } else if has_our_identity && matches!(self.observed, ObservedState::Nothing) {
            self.see(observed, received_at, Holder::Predecessor);
            // After a restore, the record is an older own record, and the restore was reported.
            if !self.watch.is_doubtful() {
                self.events.push_back(ElectionEvent::Predecessor);
            }
        } else if has_our_identity {
            if !matches!(&self.observed, ObservedState::Record(known) if known.holder == Holder::DuplicateIdentity) {
                self.events.push_back(ElectionEvent::IdentityConflict);
                self.schedule.reclaim_at = now + self.jittered_retry();
            }
            self.see(observed, received_at, Holder::DuplicateIdentity);
            self.end_term(now, StopReason::IdentityConflict);
        } else {
            let by = record.holder().map(str::to_owned);
            self.see(observed, received_at, if by.is_some() { Holder::Other } else { Holder::Nobody });
            self.end_term(now, StopReason::Superseded { by });
        }
        self.report_leader();
        true
    }

    /// Stores a changed record and ends the attempt on the previous record.
    fn see(&mut self, observed: VersionedRecord, changed_at: Moment, holder: Holder) {
        self.observed = ObservedState::Record(ObservedRecord { observed, changed_at, holder });
        self.abandon_attempt();
        if holder != Holder::Ourselves {
            self.given_back(changed_at);
        }
    }

    /// Notes that a late acquisition is released. Delays the next acquisition, which would otherwise repeat the failure at once.
    fn given_back(&mut self, now: Moment) {
        if std::mem::take(&mut self.gives_back) {
            self.schedule.write_at = now + self.jittered_retry();
        }
    }

    pub(super) fn abandon_attempt(&mut self) {
        if let Phase::Campaigning(candidacy) = &mut self.phase {
            candidacy.attempt = None;
        }
    }

    /// Starts or extends a term by an applied own write. The validity counts from before the write was sent.
    fn adopt(&mut self, now: Moment, acquisition: u64, sent_at: Moment) {
        let valid_until = sent_at + self.settings.renew_deadline;
        let renew_at = sent_at + self.settings.renew_interval;
        match &mut self.phase {
            Phase::Leading(term) => {
                term.covered_until = term.covered_until.max(valid_until);
                term.renew_at = renew_at;
                // A term that its holder ended waits for the queued step-down. An expired term is lost now.
                let extended = term.deadline.extend(now, valid_until) || term.deadline.was_ended();
                match (term.phase, extended) {
                    (TermPhase::Valid, true) if !term.deadline.was_ended() => {
                        self.events.push_back(ElectionEvent::Renewed { sent_at })
                    }
                    (TermPhase::Valid, false) => self.end_term(now, StopReason::Expired),
                    _ => {}
                }
            }
            Phase::Campaigning(_) => {
                let ObservedState::Record(ObservedRecord { observed: VersionedRecord { record, version, .. }, .. }) =
                    &self.observed
                else {
                    return;
                };
                // The work must make progress from the start. A term without a guard makes no progress.
                let progress =
                    self.settings.progress_timeout.map(|within| Arc::new(ProgressLimit::new(sent_at, within)));
                let deadline = Arc::new(Deadline::new(valid_until).limited_by(progress.clone()));
                let fencing_token = *version;
                self.phase = Phase::Leading(CurrentTerm {
                    acquisition,
                    acquire_time: record.acquire_time.clone().unwrap_or_else(|| MicroTime::from_unix_micros(0)),
                    transitions: record.lease_transitions.unwrap_or(0),
                    deadline: Arc::clone(&deadline),
                    progress,
                    covered_until: valid_until,
                    renew_at,
                    phase: TermPhase::Valid,
                });
                // With a distant store, the event of this write may come after its answer, and the last read may be long ago.
                let pause = self.retry_delay(now).min(MENTIONED_WITHIN);
                self.read_within(now, pause);
                // The pause of a candidate may be longer than a term allows.
                self.shorten_pause(now);
                self.report_leader();
                self.events.push_back(ElectionEvent::Elected { deadline, fencing_token });
            }
            Phase::Observing => {}
        }
    }

    /// Handles the absence of the record.
    pub(super) fn learn_absence(&mut self, now: Moment) {
        let gone = match &mut self.observed {
            ObservedState::Absent { .. } => return,
            ObservedState::Record(known) => known.observed.record.uid.take(),
            ObservedState::Nothing => None,
        };
        self.observed = ObservedState::Absent { gone };
        self.abandon_attempt();
        self.given_back(now);
        self.end_term(now, StopReason::Deleted);
        self.report_leader();
    }

    /// Compares the result of a read with the events of the watch.
    pub(super) fn compare_watch(&mut self, now: Moment, context: ReadContext, found: Option<&VersionedRecord>) {
        let told_by = now + self.retry_delay(now);
        if !self.watch.agrees_with_read(context, found, told_by) {
            self.give_up_watch(now);
        }
    }

    /// Handles the deletion of the object by a write with this version.
    pub(super) fn learn_deletion(&mut self, now: Moment, version: u64) {
        if version > self.newest {
            self.newest = version;
            // A create may still be applied, as a new object.
            self.open.retain(|write| write.base == 0 || write.base >= version);
            self.schedule.write_at = now;
            self.schedule.must_read = false;
            self.learn_absence(now);
        }
    }

    /// Returns `true` if the store was restored to an older state.
    ///
    /// A read proves a restore if the read finds an older version than the newest version known when the read was sent. At the
    /// same version, another record proves that the version was used again.
    pub(super) fn store_was_restored(&self, context: ReadContext, observed: &VersionedRecord) -> bool {
        let version = observed.version;
        let is_another =
            |known: &ObservedRecord| known.observed.version == version && known.observed.record != observed.record;
        // The absence was known before the read was sent, so the found object came back.
        let is_back = context.absent && context.newest == self.newest && self.is_gone(&observed.record);
        version < context.newest
            || is_back
            || (context.absent && version == context.newest)
            || matches!(&self.observed, ObservedState::Record(known) if is_another(known))
    }

    /// Returns `true` if the record is in the object that was deleted.
    fn is_gone(&self, record: &LeaderElectionRecord) -> bool {
        matches!(&self.observed, ObservedState::Absent { gone: Some(gone) } if record.uid.as_ref() == Some(gone))
    }

    /// Forgets all observations after a restore of the store.
    pub(super) fn reset(&mut self, now: Moment, restored: LeaderElectionRecord) {
        self.newest = 0;
        self.observed = ObservedState::Nothing;
        self.open.clear();
        self.abandon_attempt();
        self.end_term(now, StopReason::StoreRestored);
        // The watch waits for versions of the far future, or delivers changes from before the restore.
        self.watch.doubt(restored);
        self.events.push_back(ElectionEvent::WatchStale);
    }

    /// Handles a write that failed or is in doubt. `moved` is `true` if the record has changed.
    pub(super) fn write_failed(&mut self, now: Moment, moved: bool) {
        match &mut self.phase {
            // A new renewal resolves an in-doubt renewal and renews at the same time.
            Phase::Leading(term) if term.phase != TermPhase::Lost => {
                term.renew_at = self.schedule.write_at;
                self.schedule.must_read |= moved;
            }
            _ => self.schedule.must_read = true,
        }
        if self.schedule.must_read {
            // An open watch delivers the change, so many losing candidates need no read each. A release reads at once.
            self.schedule.read_at = match self.phase {
                _ if !moved || !self.watch_tells(now) => now,
                Phase::Observing => now,
                Phase::Leading(_) => now + self.retry_delay(now).min(TOLD_WITHIN),
                Phase::Campaigning(_) => now + self.retry_delay(now),
            };
        }
    }

    /// Returns `true` for an acquisition that took longer than the progress timeout, whose term would end at its start.
    fn is_too_late_for_progress(&self, write: &InDoubtWrite, now: Moment) -> bool {
        let Phase::Campaigning(CampaignPhase { attempt: Some((acquisition, _)), .. }) = &self.phase else {
            return false;
        };
        let is_late = self.settings.progress_timeout.is_some_and(|within| now >= write.sent_at + within);
        let would_win = now < write.sent_at + self.settings.renew_deadline;
        is_late && would_win && *acquisition == write.acquisition && write.progress != WriteProgress::Landed
    }

    /// Returns `true` if the write would still start or extend a term if the store has applied the write.
    pub(super) fn may_be_adopted(&self, write: &InDoubtWrite, now: Moment) -> bool {
        let renew_deadline = self.settings.renew_deadline;
        let (current, validity) = match &self.phase {
            Phase::Observing => return false,
            Phase::Campaigning(_) if self.is_too_late_for_progress(write, now) => return false,
            Phase::Campaigning(candidacy) => {
                (candidacy.attempt.as_ref().map(|(acquisition, _)| *acquisition), renew_deadline)
            }
            Phase::Leading(term) => ((term.phase != TermPhase::Lost).then_some(term.acquisition), renew_deadline),
        };
        current == Some(write.acquisition) && write.progress != WriteProgress::Landed && now < write.sent_at + validity
    }
}
