//! A candidate that acts like client-go v0.27 on its MultiLock.
//!
//! The candidate sends one request at a time, and another candidate may act between two of its requests.

use std::time::Duration;

use leasehold::store::{LeaderElectionRecord, MicroTime, VersionedRecord};
use leasehold::util::clock::Moment;

const UNKNOWN: &str = "leaderelection.k8s.io/unknown";

/// A request to the object with the given index.
#[derive(Debug, Clone)]
pub enum Ask {
    Get(usize),
    Create(usize, LeaderElectionRecord),
    /// An update of the given version.
    Update(usize, u64, LeaderElectionRecord),
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum Told {
    Found(Option<VersionedRecord>),
    /// The write succeeded, and created this version.
    Written(u64),
    /// The create was refused, because the object exists.
    Exists,
    /// The request was refused for another reason, or was not answered in time.
    Failed,
}

/// The next step of the candidate.
pub enum Next {
    Ask(Ask),
    Wait(Duration),
    /// The candidate has ended.
    Done,
}

#[derive(Debug)]
pub struct MultiLock {
    identity: String,
    lease: Duration,
    deadline: Duration,
    retry: Duration,
    /// Both records as the candidate last found them, because client-go compares the bytes.
    raw: Option<[Option<LeaderElectionRecord>; 2]>,
    observed: Option<LeaderElectionRecord>,
    /// The time at which the bytes last changed, or at which the candidate last wrote.
    observed_at: Moment,
    /// The time of the last acquisition or renewal, or `None` if the candidate does not lead.
    ///
    /// The candidate leads for a retry period and a renew deadline after this time.
    renewing_since: Option<Moment>,
    at: At,
    /// The version of the primary that the candidate last read or wrote.
    primary_version: u64,
    stop: bool,
    releasing: bool,
}

/// The position in client-go's `tryAcquireOrRenew` or `release`.
#[derive(Debug, Clone)]
enum At {
    Idle,
    GetPrimary,
    GetSecondary(VersionedRecord),
    CreatePrimary(LeaderElectionRecord),
    CreateSecondary(LeaderElectionRecord),
    UpdatePrimary(LeaderElectionRecord),
    GetSecondaryAgain(LeaderElectionRecord),
    WriteSecondary(LeaderElectionRecord),
}

impl MultiLock {
    pub fn new(identity: &str, (lease, deadline, retry): (Duration, Duration, Duration)) -> Self {
        Self {
            identity: identity.to_owned(),
            lease,
            deadline,
            retry,
            raw: None,
            observed: None,
            observed_at: Moment::from_nanos(0),
            renewing_since: None,
            at: At::Idle,
            primary_version: 0,
            stop: false,
            releasing: false,
        }
    }

    pub fn leads(&self, now: Moment) -> bool {
        // The next attempt starts only after a retry period, and the renew deadline applies from then on.
        self.renewing_since.is_some_and(|since| now.since(since) < self.retry + self.deadline)
    }

    /// Cancels the candidate's context.
    ///
    /// The candidate stops leading at once, and releases after the request under way.
    pub fn stop(&mut self) {
        self.stop = true;
        self.renewing_since = None;
    }

    /// Starts another attempt.
    pub fn wake(&mut self, now: Moment, wall: u64) -> Next {
        if self.renewing_since.is_some() && !self.leads(now) {
            self.stop();
        }
        if self.stop {
            return self.release(wall);
        }
        self.at = At::GetPrimary;
        Next::Ask(Ask::Get(0))
    }

    fn release(&mut self, wall: u64) -> Next {
        self.at = At::Idle;
        let own = self.observed.take_if(|record| record.holder() == Some(&self.identity));
        let Some(own) = own.filter(|_| !std::mem::replace(&mut self.releasing, true)) else { return self.later() };
        let time = Some(MicroTime::from_unix_micros(wall - wall % 1_000_000));
        let record = LeaderElectionRecord {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: time.clone(),
            renew_time: time,
            ..own
        };
        self.at = At::UpdatePrimary(record.clone());
        Next::Ask(Ask::Update(0, self.primary_version, record))
    }

    /// Returns the step that follows an answer.
    pub fn told(&mut self, now: Moment, wall: u64, told: Told) -> Next {
        if self.stop && !self.releasing {
            return self.release(wall);
        }
        match (std::mem::replace(&mut self.at, At::Idle), told) {
            (At::GetPrimary, Told::Found(Some(primary))) => {
                self.primary_version = primary.version;
                self.at = At::GetSecondary(primary);
                Next::Ask(Ask::Get(1))
            }
            (At::GetPrimary, Told::Found(None)) => self.create(wall),
            (At::GetSecondary(primary), Told::Found(None)) if primary.record.holder() == Some(&self.identity) => {
                self.create(wall)
            }
            (At::GetSecondary(primary), Told::Found(secondary)) => self.decide(now, wall, primary, secondary),
            (At::CreatePrimary(record), told @ (Told::Written(_) | Told::Exists)) => {
                if let Told::Written(version) = told {
                    self.primary_version = version;
                }
                self.at = At::CreateSecondary(record.clone());
                Next::Ask(Ask::Create(1, record))
            }
            (At::UpdatePrimary(record), Told::Written(version)) => {
                self.primary_version = version;
                self.at = At::GetSecondaryAgain(record);
                Next::Ask(Ask::Get(1))
            }
            (At::GetSecondaryAgain(record), Told::Found(secondary)) => {
                self.at = At::WriteSecondary(record.clone());
                Next::Ask(match secondary {
                    Some(standing) => Ask::Update(1, standing.version, record),
                    None => Ask::Create(1, record),
                })
            }
            (At::WriteSecondary(record) | At::CreateSecondary(record), Told::Written(_)) => {
                let leads = record.holder() == Some(&self.identity) && !self.stop;
                self.observed_at = now;
                self.observed = Some(record);
                self.renewing_since = leads.then_some(now);
                self.later()
            }
            _ => self.later(),
        }
    }

    fn later(&self) -> Next {
        if self.stop { Next::Done } else { Next::Wait(self.retry) }
    }

    fn create(&mut self, wall: u64) -> Next {
        let record = self.record(wall, None, 0);
        self.at = At::CreatePrimary(record.clone());
        Next::Ask(Ask::Create(0, record))
    }

    fn decide(&mut self, now: Moment, wall: u64, primary: VersionedRecord, secondary: Option<VersionedRecord>) -> Next {
        let mut found = primary.record.clone();
        let other = secondary.as_ref().map(|secondary| secondary.record.clone());
        if other.as_ref().is_some_and(|other| other.holder() != found.holder()) {
            found.holder_identity = Some(UNKNOWN.to_owned());
        }
        // client-go compares the bytes of the primary unchanged, unless the holders differ. If they differ, client-go
        // marshals the record again.
        let differ = found.holder() == Some(UNKNOWN);
        let raw = Some([
            Some(if differ { in_seconds(&found) } else { found.clone() }),
            other.map(|other| in_seconds(&other)),
        ]);
        if self.raw != raw {
            self.raw = raw;
            self.observed = Some(found.clone());
            self.observed_at = now;
        }
        let is_leader = self.observed.as_ref().is_some_and(|record| record.holder() == Some(&self.identity));
        let waits = Duration::from_secs(found.lease_duration_seconds.unwrap_or(0).max(0) as u64);
        if found.holder().is_some() && now < self.observed_at + waits && !is_leader {
            return self.later();
        }
        let record = match is_leader {
            true => self.record(wall, found.acquire_time.clone(), found.lease_transitions.unwrap_or(0)),
            false => self.record(wall, None, found.lease_transitions.unwrap_or(0) + 1),
        };
        self.at = At::UpdatePrimary(record.clone());
        Next::Ask(Ask::Update(0, primary.version, record))
    }

    /// Returns a record with times in whole seconds, as client-go writes them.
    fn record(&self, wall: u64, acquired: Option<MicroTime>, transitions: i32) -> LeaderElectionRecord {
        let time = MicroTime::from_unix_micros(wall - wall % 1_000_000);
        LeaderElectionRecord {
            uid: None,
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.lease.as_secs() as i32),
            acquire_time: Some(acquired.unwrap_or_else(|| time.clone())),
            renew_time: Some(time),
            lease_transitions: Some(transitions),
        }
    }
}

/// Returns `record` with times in whole seconds, as client-go writes them.
fn in_seconds(record: &LeaderElectionRecord) -> LeaderElectionRecord {
    let seconds = |time: &MicroTime| MicroTime::from_text(&time.as_str()[..19]);
    LeaderElectionRecord {
        uid: None,
        acquire_time: record.acquire_time.as_ref().map(seconds),
        renew_time: record.renew_time.as_ref().map(seconds),
        ..record.clone()
    }
}
