//! The content, the times and the timeouts of requests.

use super::in_doubt::{Base, InDoubtWrite, Outcome};
use super::messages::{Operation, StoreRequest};
use super::pace::{Purpose, Urgency};
use super::{Election, Phase};
use crate::election::timer::Timer;
use crate::store::record::{LeaderElectionRecord, MicroTime, VersionedRecord, unix_micros};
use crate::store::{StoreError, StoreErrorKind};
use crate::util::clock::{Moment, Now};

impl Election {
    pub(super) fn read(&mut self, now: Moment) -> StoreRequest {
        self.pace.read_sent(now, self.urgency(now));
        self.send(now, Operation::Get(self.observed.context(now)))
    }

    pub(super) fn write(
        &mut self,
        now: Moment,
        base: Option<VersionedRecord>,
        record: LeaderElectionRecord,
        acquisition: Option<u64>,
    ) -> StoreRequest {
        self.pace.write_sent(now, self.urgency(now));
        self.in_doubt.send(InDoubtWrite {
            id: self.last_request + 1,
            base: base.as_ref().map_or(Base::Absent, |base| Base::Version(base.version)),
            record: record.clone(),
            sent_at: now,
            acquisition,
            outcome: Outcome::InDoubt,
        });
        let operation = match base {
            Some(base) => Operation::Update(base, record),
            None => Operation::Create(record),
        };
        self.send(now, operation)
    }

    /// Returns an error for a request that has had no answer for a retry period.
    pub(super) fn unanswered(&self, now: Moment) -> Option<StoreError> {
        let waited = self.in_flight.map(|(_, sent_at)| now.since(sent_at));
        let waited = waited.filter(|waited| *waited >= self.settings.retry_period)?;
        let text = format!("the store has not answered a request for {:.1} s", waited.as_secs_f64());
        Some(StoreError::new(StoreErrorKind::Timeout, text))
    }

    fn send(&mut self, now: Moment, operation: Operation) -> StoreRequest {
        self.last_request += 1;
        self.in_flight = Some((self.last_request, now));
        let notes = self.notes(now, &operation);
        let is_write = !matches!(operation, Operation::Get(_));
        let purpose = match &self.phase {
            Phase::Leading(term) if is_write && term.is_first_attempt() => Purpose::FirstRenewal,
            Phase::Campaigning(_) if !self.owes_release() => Purpose::Campaign,
            _ => Purpose::Other,
        };
        let timeout = self.pace.timeout(now, self.urgency(now), purpose);
        StoreRequest { id: self.last_request, operation, notes, timeout }
    }

    /// Returns a record that names this candidate as the holder.
    pub(super) fn held(
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

    /// Returns the next `renewTime`, or `None` if the number of in-doubt writes is at its limit.
    ///
    /// `renewTime` grows with every write, even if the wall clock goes back, because standbys detect a renewal by a
    /// changed record.
    pub(super) fn stamp(&mut self, now: Now, timer: &mut Timer) -> Option<(u64, MicroTime)> {
        let adopts = self.adopts();
        if !self.in_doubt.makes_room(timer, adopts) {
            return None;
        }
        let wall = unix_micros(now.wall);
        let micros = match self.last_stamp {
            Some((last, at)) => {
                let counted = u64::try_from(now.local.since(at).as_micros()).unwrap_or(u64::MAX);
                wall.max(last.saturating_add(counted.max(1)))
            }
            None => wall,
        };
        self.last_stamp = Some((micros, now.local));
        Some((micros, MicroTime::from_unix_micros(micros)))
    }

    /// Returns the urgency of requests.
    pub(super) fn urgency(&self, now: Moment) -> Urgency {
        match &self.phase {
            Phase::Leading(term) => term.renewed_until().map_or(Urgency::None, Urgency::Term),
            Phase::Observing | Phase::Campaigning(_) if self.owes_release() => match self.release_deadline {
                Some(until) if now < until => Urgency::Release(until),
                _ => Urgency::None,
            },
            _ => Urgency::None,
        }
    }
}
