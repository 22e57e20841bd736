//! The notes beside a record: the rules 'Address' and 'Requests'.

use std::time::Duration;

use super::messages::{ElectionEvent, Operation};
use super::{Election, Phase};
use crate::election::drain::DrainLimit;
use crate::election::settings::whole_seconds;
use crate::election::stop_reason::StopReason;
use crate::store::notes::{RecordNotes, RequestAcceptance, TermNotes};
use crate::util::clock::Moment;

/// The longest time for which a term ignores requests, in lease durations.
const MAX_PAUSE: u32 = 60;

impl Election {
    /// Returns the notes of a write.
    pub(super) fn notes(&self, now: Moment, operation: &Operation) -> RecordNotes {
        let (base, record) = match operation {
            Operation::Get(_) => return RecordNotes::default(),
            Operation::Create(record) => (RecordNotes::none(), record),
            Operation::Update(base, record) => (&*base.notes, record),
        };
        match &self.phase {
            _ if record.holder().is_none() => base.released(),
            Phase::Leading(term) => base.renewed(self.term_notes(term.accepts_after())),
            _ => base.acquired(self.term_notes(self.accepts_after(now))),
        }
    }

    /// Returns the time from the start of a term at `start` to the first request that the term accepts.
    pub(super) fn accepts_after(&self, start: Moment) -> Duration {
        self.accepts_from.since(start).max(self.request_pause)
    }

    fn term_notes(&self, accepts_after: Duration) -> TermNotes {
        TermNotes {
            address: self.settings.address.clone(),
            accepts_requests: Some(match self.settings.accepts_requests {
                true => RequestAcceptance::After(whole_seconds(accepts_after)),
                false => RequestAcceptance::Never,
            }),
            shards: self.settings.shards,
            ..TermNotes::default()
        }
    }

    /// Reports a change of the holder or of its address.
    pub(super) fn report_leader(&mut self) {
        self.events.extend(self.observed.new_leader().map(ElectionEvent::Leader));
    }

    /// Ends the term if a request names this candidate.
    ///
    /// The candidate accepts one request per lease duration. If no other candidate has led since, the next term ignores
    /// requests, and longer each time. A client that repeats the request therefore cannot keep the lease without a
    /// leader.
    pub(super) fn notice_request(&mut self, now: Moment) {
        let Some(record) = self.observed.record().filter(|_| self.observed.is_ours()) else { return };
        if record.notes.step_down.as_ref() != Some(&self.settings.identity) {
            return;
        }
        let is_valid = matches!(&self.phase, Phase::Leading(term) if term.is_valid(now));
        let report = match self.settings.accepts_requests {
            false => ElectionEvent::StepDownIgnored,
            true if !is_valid => return,
            true if now < self.accepts_from => ElectionEvent::StepDownDeferred(self.accepts_from.since(now)),
            true => {
                let lease_duration = self.settings.lease_duration;
                self.accepts_from = now + lease_duration;
                self.request_pause = (self.request_pause * 2).clamp(lease_duration, lease_duration * MAX_PAUSE);
                self.has_reported_request = false;
                self.drain(now, StopReason::Requested, DrainLimit::Bounded.limit(&self.settings));
                return self.events.push_back(ElectionEvent::StepDownRequested);
            }
        };
        if !std::mem::replace(&mut self.has_reported_request, true) {
            self.events.push_back(report);
        }
    }
}
