//! The notes beside a record: the rules 'Address' and 'Requests'.

use std::time::Duration;

use super::messages::{ElectionEvent, Operation};
use super::step_down_requests::RequestDecision;
use super::{Election, Phase};
use crate::election::drain::DrainLimit;
use crate::election::settings::whole_seconds;
use crate::election::stop_reason::StopReason;
use crate::store::notes::{RecordNotes, RequestAcceptance, TermNotes};
use crate::util::clock::Moment;

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
            _ => base.acquired(self.term_notes(self.requests.accepts_after(now))),
        }
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

    /// Ends the term if a request names this candidate, and the candidate accepts the request.
    pub(super) fn notice_request(&mut self, now: Moment) {
        let Some(record) = self.observed.record().filter(|_| self.observed.is_ours()) else { return };
        if record.notes.step_down.as_ref() != Some(&self.settings.identity) {
            return;
        }
        let is_valid = matches!(&self.phase, Phase::Leading(term) if term.is_valid(now));
        let event = match self.requests.decide(now, is_valid, &self.settings) {
            None => return,
            Some(RequestDecision::Ignored) => ElectionEvent::StepDownIgnored,
            Some(RequestDecision::Deferred(pause)) => ElectionEvent::StepDownDeferred(pause),
            Some(RequestDecision::Accepted) => {
                self.drain(now, StopReason::Requested, DrainLimit::Bounded.limit(&self.settings));
                ElectionEvent::StepDownRequested
            }
        };
        self.events.push_back(event);
    }
}
