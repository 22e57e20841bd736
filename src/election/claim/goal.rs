//! The goal of a claim: the want of the candidate, and the state of its pursuit.

use crate::election::claim::held_lease::HeldLease;
use crate::store::StoreErrorKind;
use crate::store::record::MicroTime;
use crate::util::clock::Moment;

/// The use that the candidate has for its record now.
///
/// The candidate decides its want again at each input, and stores no part of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Observe the record, and release the lease if this candidate holds the lease.
    Observe(ObserverNeeds),
    /// Acquire the lease for this campaign.
    Acquire {
        /// The number of the campaign.
        campaign: u64,
        /// `true` if the campaign ends after one round: a read and at most one write.
        once: bool,
    },
    /// Renew the lease of the term.
    Renew,
    /// Write nothing, because the term is lost and its guard exists.
    Abstain,
}

/// The needs of a candidate that only observes the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObserverNeeds {
    /// The end of the release timeout, if a caller waits for the release.
    pub release_by: Option<Moment>,
    /// `true` if the candidate is closed.
    pub is_closing: bool,
    /// The campaign that waits until the candidate may acquire the lease.
    pub campaign: Option<u64>,
    /// `true` if the candidate needs the answer to a read even if a watch is open.
    pub must_read: bool,
}

impl Want {
    /// Returns the campaign that acquires the lease, or that waits until the candidate may acquire the lease.
    pub(super) fn campaign(self) -> Option<u64> {
        match self {
            Self::Observe(needs) => needs.campaign,
            Self::Acquire { campaign, .. } => Some(campaign),
            Self::Renew | Self::Abstain => None,
        }
    }
}

/// The state of the pursuit of a [`Want`].
#[derive(Debug)]
pub(super) enum Goal {
    Observe(ObserverNeeds),
    Acquire(Acquiring),
    Renew(HeldLease),
    Abstain,
}

/// The pursuit of a campaign.
#[derive(Debug)]
pub(super) struct Acquiring {
    campaign: u64,
    attempt: Option<Attempt>,
    round: Option<Round>,
}

/// The writes of a campaign on one observed record.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) acquisition: u64,
    pub(super) acquire_time: MicroTime,
}

/// The progress of a campaign that ends after one round: a read and at most one write.
#[derive(Debug, Default)]
pub(super) struct Round {
    has_read: bool,
    has_written: bool,
    /// `true` after a watch event has interrupted the read of the round.
    is_interrupted: bool,
}

impl Acquiring {
    pub(super) fn new(campaign: u64, once: bool) -> Self {
        Self { campaign, attempt: None, round: once.then(Round::default) }
    }

    pub(super) fn campaign(&self) -> u64 {
        self.campaign
    }

    /// Returns `true` if the campaign ends after one round.
    pub(super) fn is_round(&self) -> bool {
        self.round.is_some()
    }

    /// Returns the progress of the round, if the campaign ends after one round.
    pub(super) fn round(&mut self) -> Option<&mut Round> {
        self.round.as_mut()
    }

    /// Returns the number of the current attempt, if there is one.
    pub(super) fn acquisition(&self) -> Option<u64> {
        self.attempt.as_ref().map(|attempt| attempt.acquisition)
    }

    /// Returns the attempt to which the next write belongs.
    pub(super) fn writes(&mut self, start: impl FnOnce() -> Attempt) -> Attempt {
        self.round.iter_mut().for_each(|round| round.has_written = true);
        self.attempt.get_or_insert_with(start).clone()
    }

    /// Ends the attempt, because the record has changed.
    pub(super) fn abandon_attempt(&mut self) {
        self.attempt = None;
    }
}

impl Round {
    /// Returns `true` if the round has sent its write.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Returns `true` once, because a round starts with one read.
    pub(super) fn starts_read(&mut self) -> bool {
        !std::mem::replace(&mut self.has_read, true)
    }

    /// Allows the last request again, because its connection was lost.
    pub(super) fn repeat(&mut self) {
        (self.has_read, self.has_written) = (self.has_written, false);
    }

    /// Notes a failed request. Returns `true` if the failure ends the round.
    ///
    /// A request that fails before the read of the round is from the time before the round. If a watch event interrupts
    /// the read, the round repeats the read once.
    pub(super) fn failed(&mut self, kind: StoreErrorKind) -> bool {
        let repeats = kind == StoreErrorKind::Interrupted && !self.has_written && !self.is_interrupted;
        if repeats {
            (self.has_read, self.is_interrupted) = (false, true);
        }
        !repeats && self.has_read && !self.has_written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StoreErrorKind::{Conflict, Interrupted, Unavailable};

    #[test]
    fn round_reads_once_and_writes_once() {
        let attempt = || Attempt { acquisition: 1, acquire_time: MicroTime::from_unix_micros(1) };
        let mut acquiring = Acquiring::new(7, true);
        assert!(acquiring.campaign() == 7 && acquiring.acquisition().is_none());
        let round = acquiring.round().unwrap();
        assert!(!round.failed(Unavailable), "a request from before the round");
        assert_eq!([round.starts_read(), round.starts_read()], [true, false]);
        round.repeat();
        assert_eq!([round.starts_read(), round.starts_read()], [true, false], "the read is repeated");
        assert!(!round.failed(Interrupted) && round.starts_read(), "the first interruption");
        assert!(round.failed(Interrupted) && round.failed(Unavailable));
        acquiring.writes(attempt);
        let round = acquiring.round().unwrap();
        assert!(round.has_written() && !round.failed(Conflict), "the answer to the write does not end the round");
        round.repeat();
        assert!(!round.has_written() && !round.starts_read(), "the write is repeated");
        assert_eq!(acquiring.acquisition(), Some(1));
        acquiring.abandon_attempt();
        assert!(acquiring.acquisition().is_none() && Acquiring::new(7, false).round().is_none());
    }
}
