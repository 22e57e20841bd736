//! The renewals of an acquired lease.

use crate::election::settings::Settings;
use crate::store::record::{LeaderElectionRecord, MicroTime};
use crate::util::clock::Moment;

/// The lease that this candidate has acquired, and when its next renewal is due.
#[derive(Debug)]
pub(super) struct HeldLease {
    acquisition: u64,
    acquire_time: MicroTime,
    transitions: i32,
    /// The send time of the newest applied write, plus the renew deadline.
    renewed_until: Moment,
    renew_at: Moment,
    /// The number of renewals that were sent since the last applied write.
    renewals_sent: u32,
}

impl HeldLease {
    /// Creates the lease that the acquisition `acquisition`, which was sent at `sent_at`, has won with `record`.
    pub(super) fn won(acquisition: u64, sent_at: Moment, record: &LeaderElectionRecord, settings: &Settings) -> Self {
        Self {
            acquisition,
            acquire_time: record.acquire_time.clone().unwrap_or_else(|| MicroTime::from_unix_micros(0)),
            transitions: record.lease_transitions.unwrap_or(0),
            renewed_until: sent_at + settings.renew_deadline,
            renew_at: sent_at + settings.renew_interval,
            renewals_sent: 0,
        }
    }

    /// Returns the number of the acquisition, to which all renewals belong.
    pub(super) fn acquisition(&self) -> u64 {
        self.acquisition
    }

    /// Returns the `acquireTime` and the transitions, which a renewal keeps (rule 5).
    pub(super) fn renewed_fields(&self) -> (MicroTime, i32) {
        (self.acquire_time.clone(), self.transitions)
    }

    /// Returns the end of the validity that the renewals have reached.
    pub(super) fn renewed_until(&self) -> Moment {
        self.renewed_until
    }

    /// Returns the time of the next renewal.
    pub(super) fn renew_at(&self) -> Moment {
        self.renew_at
    }

    /// Returns `true` if the renewal under way is the first since the last applied write.
    pub(super) fn is_first_attempt(&self) -> bool {
        self.renewals_sent == 1
    }

    /// Notes that a renewal is sent. A third attempt in a row waits until `third_at`.
    ///
    /// After a conflict with an edit of other fields, the second attempt follows at once.
    pub(super) fn renewal_sent(&mut self, third_at: Moment) {
        self.renewals_sent += 1;
        if self.renewals_sent > 1 {
            self.renew_at = third_at;
        }
    }

    /// Plans the next attempt after a renewal that failed.
    pub(super) fn retry_at(&mut self, at: Moment) {
        self.renew_at = at;
    }

    /// Allows one immediate attempt with the time of a first attempt, because the connection of the last one was lost.
    pub(super) fn repeat(&mut self, now: Moment) {
        (self.renew_at, self.renewals_sent) = (now, 0);
    }

    /// Notes an applied write that was sent at `sent_at`.
    pub(super) fn renewed(&mut self, sent_at: Moment, settings: &Settings) {
        self.renewed_until = self.renewed_until.max(sent_at + settings.renew_deadline);
        self.renew_at = sent_at + settings.renew_interval;
        self.renewals_sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    /// Returns the defaults: the renew deadline is 10 s, and the renew interval 2 s.
    fn settings() -> Settings {
        Config::default().validate().unwrap()
    }

    /// Returns a lease whose winning write was sent at 0 s.
    fn lease() -> HeldLease {
        let record = LeaderElectionRecord { lease_transitions: Some(4), ..LeaderElectionRecord::default() };
        HeldLease::won(7, at(0), &record, &settings())
    }

    #[test]
    fn attempts_of_a_renewal_follow_its_failures() {
        let mut lease = lease();
        assert_eq!(lease.renew_at(), at(2));
        lease.renewal_sent(at(30));
        assert_eq!((lease.is_first_attempt(), lease.renew_at()), (true, at(2)), "a second attempt follows at once");
        lease.renewal_sent(at(30));
        assert_eq!((lease.is_first_attempt(), lease.renew_at()), (false, at(30)));
        lease.retry_at(at(6));
        assert_eq!(lease.renew_at(), at(6));
        lease.repeat(at(3));
        lease.renewal_sent(at(30));
        assert_eq!((lease.is_first_attempt(), lease.renew_at()), (true, at(3)), "as a first attempt");
        assert_eq!((lease.acquisition(), lease.renewed_fields().1), (7, 4));
    }

    #[test]
    fn renewal_counts_from_its_send_time_and_shortens_nothing() {
        let mut lease = lease();
        lease.renewal_sent(at(30));
        lease.renewed(at(2), &settings());
        assert_eq!((lease.renewed_until(), lease.renew_at()), (at(12), at(4)));
        lease.renewed(at(1), &settings());
        assert_eq!((lease.renewed_until(), lease.renew_at()), (at(12), at(3)));
        lease.renewal_sent(at(30));
        assert!(lease.is_first_attempt());
    }
}
