//! The content, the times and the timeouts of requests.

use std::time::Duration;

use super::in_doubt::{Base, InDoubtWrite, Outcome};
use super::messages::{Operation, ReadContext, StoreRequest};
use super::{Election, ObservedState, Phase, TermPhase};
use crate::election::settings::JITTER_FACTOR;
use crate::election::timer::Timer;
use crate::store::record::{LeaderElectionRecord, MicroTime, VersionedRecord, unix_micros};
use crate::store::{StoreError, StoreErrorKind};
use crate::util::backoff::requested_pause;
use crate::util::clock::{Moment, Now};

/// The shortest timeout of a release request. With a timeout of zero, a store would not send the request.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(1);

/// The idle time after which a middlebox, such as a firewall, may have dropped a connection without notice.
const MAY_BE_DROPPED: Duration = Duration::from_secs(10);

/// The shortest first attempt on a connection that may be dropped.
const SHORTEST_FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// The urgency of requests, which sets their timeouts and delays.
enum Urgency {
    /// A term expires after `left`.
    Term {
        left: Duration,
    },
    /// A caller still waits `left` for a release.
    Release {
        left: Duration,
    },
    None,
}

impl Election {
    pub(super) fn read(&mut self, now: Moment) -> StoreRequest {
        self.schedule.read_at = now + self.retry_delay(now);
        let absent = matches!(self.observed, ObservedState::Absent { .. });
        let context = ReadContext { newest: self.newest, absent, sent_at: now };
        self.send(now, Operation::Get(context))
    }

    pub(super) fn write(
        &mut self,
        now: Moment,
        base: Option<VersionedRecord>,
        record: LeaderElectionRecord,
        acquisition: Option<u64>,
    ) -> StoreRequest {
        self.schedule.write_at = now + self.retry_delay(now);
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
        let within = self.answer_on_an_idle_connection_within(now);
        self.schedule.may_be_dropped = within.is_some();
        let timeout = self.attempt_timeout(now, &operation).min(within.unwrap_or(Duration::MAX));
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

    /// Returns the timeout of a request, which usually leaves time for another request.
    fn attempt_timeout(&self, now: Moment, operation: &Operation) -> Duration {
        let renew_deadline = self.settings.renew_deadline;
        match self.urgency(now) {
            Urgency::Term { left } => {
                let shortest = (left / 2).max(renew_deadline / 20);
                let is_write = !matches!(operation, Operation::Get(_));
                // The next renewal starts late after a slow answer, so a slow server needs more than half of the rest.
                let first = match &self.phase {
                    Phase::Leading(term) if is_write && term.attempts == 1 => {
                        let reserve = self.settings.retry_period.max(renew_deadline / 5);
                        // If the server stays too slow for this term, no timeout helps. It may have become fast again.
                        let slow = self.round_trip.as_slow_as_before();
                        let needed = if slow <= left { slow * 5 / 4 } else { Duration::ZERO };
                        left.saturating_sub(reserve).max(needed)
                    }
                    _ => Duration::ZERO,
                };
                shortest.max(first).min(left)
            }
            // On a new connection, one attempt takes three round trips. A distant store therefore needs most of the
            // time for one attempt.
            Urgency::Release { left } => {
                left.saturating_sub(self.release_reserve()).max(left / 2).clamp(SHORTEST_ATTEMPT, renew_deadline)
            }
            Urgency::None => renew_deadline / 2,
        }
    }

    /// Returns the time in which a candidate expects an answer on a connection that has been idle.
    ///
    /// Returns `None` if the connection is in use or new, or if the request is not for a campaign.
    fn answer_on_an_idle_connection_within(&self, now: Moment) -> Option<Duration> {
        let is_idle = self.schedule.answered_at.is_some_and(|at| now.since(at) > MAY_BE_DROPPED);
        let is_for_a_campaign = matches!(self.phase, Phase::Campaigning(_)) && !self.owes_release();
        let within = self.round_trip.answered_anew_by().max(SHORTEST_FIRST_ATTEMPT);
        (is_idle && is_for_a_campaign && !self.schedule.repeated).then_some(within)
    }

    /// Returns the time that the first release attempt leaves for a second attempt.
    ///
    /// Returns zero if the time would not be enough.
    ///
    /// The second attempt needs a new connection, because a timeout closes the connection of the first attempt.
    fn release_reserve(&self) -> Duration {
        let reserve = self.settings.release_timeout / 8;
        if self.round_trip.answered_anew_by() <= reserve { reserve } else { Duration::ZERO }
    }

    /// Returns the retry period with up to 20 % jitter.
    pub(super) fn jittered_retry(&mut self) -> Duration {
        self.settings.retry_period.mul_f64(1.0 + (JITTER_FACTOR - 1.0) * self.random.f64())
    }

    /// Returns the delay before a failed request may be retried.
    pub(super) fn retry_delay(&mut self, now: Moment) -> Duration {
        let jittered = self.jittered_retry();
        match self.urgency(now) {
            Urgency::Term { left } => jittered.min((left / 2).max(self.settings.renew_deadline / 20)),
            Urgency::Release { .. } => jittered.min(self.settings.release_timeout / 4),
            Urgency::None => jittered,
        }
    }

    /// Starts a pause that the store requested, which is at most a lease duration plus jitter.
    ///
    /// If a term or a release is urgent, [`urgent_pause`](Self::urgent_pause) may shorten the pause.
    pub(super) fn pause(&mut self, now: Moment, asked: Option<Duration>) {
        let limited = requested_pause(asked, self.settings.lease_duration, self.random.f64());
        self.schedule.asked_until = self.schedule.asked_until.max(now + limited);
        let pause = self.urgent_pause(now, asked.unwrap_or_default()).unwrap_or(limited).min(limited);
        self.schedule.paused_until = self.schedule.paused_until.max(now + pause);
    }

    /// Shortens the current pause if a term or a release is urgent.
    pub(super) fn shorten_pause(&mut self, now: Moment) {
        let rest = self.schedule.paused_until.since(now);
        self.schedule.paused_until = now + self.urgent_pause(now, rest).unwrap_or(rest);
    }

    /// Returns the pause of an urgent term or release, or `None` if neither is urgent.
    ///
    /// If the pause that was asked for would leave too little time for another attempt, the pause is at most half of
    /// the remaining time.
    fn urgent_pause(&self, now: Moment, asked: Duration) -> Option<Duration> {
        let (left, reserve) = match self.urgency(now) {
            Urgency::Term { left } => (left, self.settings.renew_deadline / 5),
            Urgency::Release { left } => (left, (self.settings.release_timeout / 8).max(self.round_trip.answered_by())),
            Urgency::None => return None,
        };
        Some(if asked <= left.saturating_sub(reserve) { asked } else { asked.min(left / 2) })
    }

    fn urgency(&self, now: Moment) -> Urgency {
        match &self.phase {
            Phase::Leading(term) if term.phase != TermPhase::Lost => {
                Urgency::Term { left: term.covered_until.since(now) }
            }
            Phase::Observing | Phase::Campaigning(_) if self.owes_release() => match self.release_deadline {
                Some(until) if now < until => Urgency::Release { left: until.since(now) },
                _ => Urgency::None,
            },
            _ => Urgency::None,
        }
    }
}
