//! The state of leases, derived from changes of their records.
//!
//! This module does no I/O and reads no clock.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTimeError};

use leasehold::store::{LeaderElectionRecord, RecordNotes, VersionedRecord};

use crate::clock::{Moment, Now};
use crate::one_line::OneLine;
use serde::Serialize;

/// An update from the store about the followed leases.
#[derive(Debug)]
pub enum Update {
    /// A watch of `key`, or of all keys, has opened.
    ///
    /// Later versions may be lower than known versions, for example because a backup was restored.
    Opened { key: Option<Box<str>>, from_scratch: bool },
    /// The record of a lease, or `None` if the record is absent.
    Record {
        key: Box<str>,
        found: Option<VersionedRecord>,
        /// The version of the event, or `None` for the result of a linearizable read.
        version: Option<u64>,
    },
    /// The watch of `key`, or of all keys, has delivered every existing record.
    ToldAll { key: Option<Box<str>> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    NewLeader,
    Renewed,
    NewAddress,
    Released,
    Expired,
    Deleted,
    Unheld,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseEvent {
    pub at: Now,
    pub key: Box<str>,
    pub what: EventKind,
    /// The previous holder, if the holder has changed.
    pub previous_holder: Option<String>,
    /// The state after the event.
    pub lease: LeaseView,
}

impl LeaseEvent {
    /// Returns the state of a lease that was read once.
    pub fn of_read(key: &str, found: Option<VersionedRecord>, at: Now) -> Self {
        let mut events = Leases::new(Which::Named).apply(Update::Record { key: key.into(), found, version: None }, at);
        events.pop().expect("the first state of a named lease is an event")
    }
}

/// The state of a lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// `None` if there is no record.
    pub record: Option<LeaderElectionRecord>,
    /// The notes beside the record.
    pub notes: Box<RecordNotes>,
    pub version: Option<u64>,
    /// The number of observed renewals.
    pub renewals: u64,
    /// `true` if this process has seen the present holder change its record.
    ///
    /// A record that was only read may belong to a holder that crashed long ago.
    has_renewed: bool,
    /// `true` if no change was received for the lease duration in the record.
    pub has_expired: bool,
    /// The local time at which the record was received.
    received: Moment,
    /// The latest delivered version. Events with this version or an older version are ignored.
    known: u64,
    /// `true` if the open watch has delivered the record.
    is_told: bool,
}

impl LeaseView {
    pub fn holder(&self) -> Option<&str> {
        self.record.as_ref()?.holder()
    }

    /// Returns the address that the holder advertises.
    pub fn address(&self) -> Option<&str> {
        self.notes.term.address.as_deref()
    }

    /// Returns the holder if this process has seen a renewal, and the lease has not expired.
    pub fn leader(&self) -> Option<&str> {
        self.holder().filter(|_| self.has_renewed && !self.has_expired)
    }

    /// Returns the owner in the record of a shard, or `None` for another record.
    pub fn owner(&self) -> Option<&str> {
        self.holder().filter(|_| self.is_shard()).and_then(|holder| holder.splitn(3, '/').nth(2))
    }

    /// Returns `true` for the record of a shard, which is never renewed.
    pub fn is_shard(&self) -> bool {
        self.record.as_ref().is_some_and(is_shard)
    }

    /// Returns the seconds since the last renewal by the clock of the holder.
    ///
    /// The result is negative if that clock is ahead.
    pub fn seconds_since_renewal(&self, now: Now) -> Option<f64> {
        let record = self.record.as_ref().filter(|record| record.holder().is_some())?;
        let renewed = humantime::parse_rfc3339(record.renew_time.as_ref()?.as_str()).ok()?;
        let ahead = |ahead: SystemTimeError| -ahead.duration().as_secs_f64();
        Some(now.wall.duration_since(renewed).map_or_else(ahead, |since| since.as_secs_f64()))
    }

    /// Returns what the record shows about its holder, in words.
    pub fn standing(&self, now: Now) -> String {
        let (Some(record), holder) = (&self.record, OneLine(self.holder().unwrap_or_default())) else {
            return "no record".to_owned();
        };
        let address = self.address().map_or_else(String::new, |address| format!(" at {}", OneLine(address)));
        if record.holder().is_none() {
            return if self.is_shard() { "no owner" } else { "no holder" }.to_owned();
        } else if self.is_shard() {
            return format!("owned by {}", OneLine(self.owner().unwrap_or_default()));
        } else if self.has_expired {
            return format!("expired, held by {holder}");
        } else if self.leader().is_some() {
            return format!("{holder} leads{address}");
        }
        let ago = self.seconds_since_renewal(now).map(|ago| seconds(Duration::from_secs(ago.max(0.0) as u64)));
        let ago = ago.map_or_else(String::new, |ago| format!(", renewed {ago} ago by its clock"));
        let left = self.remaining(now.local).map(|left| seconds(Duration::from_secs(left.as_secs_f64().ceil() as u64)));
        let left = left.map_or_else(String::new, |left| format!("; free in {left} unless it renews"));
        format!("held by {holder}{address}{ago}{left}")
    }

    /// Returns the time until the lease expires, or `None` without a holder or a duration.
    pub fn remaining(&self, now: Moment) -> Option<Duration> {
        Some(self.expiry()?.since(now))
    }

    fn expiry(&self) -> Option<Moment> {
        let record = self.record.as_ref()?;
        record.holder()?;
        let seconds = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let seconds = seconds.filter(|seconds| *seconds > 0 && !self.is_shard())?;
        Some(self.received + Duration::from_secs(seconds))
    }
}

/// The followed leases.
#[derive(Debug)]
pub struct Leases {
    leases: BTreeMap<Box<str>, LeaseView>,
    of: Which,
}

/// The selection of followed leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The leases with the given names. A deleted lease stays in the list.
    Named,
    /// All leases. A deleted lease is removed from the list.
    All,
    /// All objects that contain a record. Most objects of this type contain no record.
    AllRecords,
}

impl Leases {
    pub fn new(of: Which) -> Self {
        Self { leases: BTreeMap::new(), of }
    }

    pub fn get(&self, key: &str) -> Option<&LeaseView> {
        self.leases.get(key)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &LeaseView)> {
        self.leases.iter().map(|(key, lease)| (&**key, lease))
    }

    /// Applies an update that was received at `at`, and returns its events.
    pub fn apply(&mut self, update: Update, at: Now) -> Vec<LeaseEvent> {
        match update {
            Update::Opened { key, from_scratch } => {
                for (_, lease) in self.of_watch(key.as_deref()) {
                    lease.known = 0;
                    lease.is_told &= !from_scratch;
                }
                Vec::new()
            }
            Update::Record { key, found, version } => {
                // If the lease expired before the change, its expiry is the first event.
                let expired = self.leases.get_mut(&key).and_then(|lease| expire(&key, lease, at));
                let change = match found {
                    _ if version.is_some_and(|version| self.is_known(&key, version)) => None,
                    Some(observed) => self.stands(key, observed, at),
                    None => self.is_gone(key, version, at),
                };
                expired.into_iter().chain(change).collect()
            }
            Update::ToldAll { key } => {
                let untold = self.of_watch(key.as_deref()).filter(|(_, lease)| !lease.is_told);
                let untold: Vec<_> = untold.map(|(key, _)| key.clone()).collect();
                untold.into_iter().filter_map(|key| self.is_gone(key, None, at)).collect()
            }
        }
    }

    /// Returns one event for each lease that has newly expired by the local clock.
    pub fn expire(&mut self, now: Now) -> Vec<LeaseEvent> {
        self.leases.iter_mut().filter_map(|(key, lease)| expire(key, lease, now)).collect()
    }

    /// Returns the time at which the next lease expires by the local clock.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.leases.values().filter(|lease| !lease.has_expired).filter_map(LeaseView::expiry).min()
    }

    fn of_watch(&mut self, of: Option<&str>) -> impl Iterator<Item = (&Box<str>, &mut LeaseView)> {
        self.leases.iter_mut().filter(move |(key, _)| of.is_none_or(|of| of == &***key))
    }

    /// Returns `true` if this version or a later version was already delivered.
    ///
    /// A watch may deliver an event late or twice.
    fn is_known(&mut self, key: &str, version: u64) -> bool {
        self.leases.get_mut(key).is_some_and(|lease| {
            lease.is_told = true;
            version <= lease.known
        })
    }

    fn stands(&mut self, key: Box<str>, observed: VersionedRecord, at: Now) -> Option<LeaseEvent> {
        let (record, version, notes) = (observed.record, observed.version, observed.notes);
        let has_fields = record != LeaderElectionRecord { uid: record.uid.clone(), ..LeaderElectionRecord::default() };
        if self.of == Which::AllRecords && !has_fields {
            return self.is_gone(key, Some(version), at);
        }
        let previous = self.leases.get(&key);
        let was = previous.and_then(|lease| lease.record.as_ref());
        let previous_holder = was.and_then(LeaderElectionRecord::holder).filter(|was| Some(*was) != record.holder());
        let previous_holder = previous_holder.map(str::to_owned);
        let is_same = was == Some(&record);
        let has_renewed = match is_same {
            true => previous.is_some_and(|lease| lease.has_renewed),
            false => record.holder().is_some() && was.and_then(LeaderElectionRecord::holder) == record.holder(),
        };
        let is_renewal = !is_same && record.holder().is_some() && was.is_some_and(|was| is_same_term(was, &record));
        let has_moved = previous.is_some_and(|lease| lease.notes.term.address != notes.term.address);
        let what = match (was, record.holder()) {
            _ if has_moved && (is_same || is_renewal) => Some(EventKind::NewAddress),
            _ if is_same => None,
            _ if is_renewal => Some(EventKind::Renewed),
            (_, Some(_)) => Some(EventKind::NewLeader),
            (Some(was), None) => was.holder().is_some().then_some(EventKind::Released),
            (None, None) => previous.is_none().then_some(EventKind::Unheld),
        };
        let renewals = previous.map_or(0, |lease| lease.renewals) + u64::from(is_renewal);
        // An unchanged record does not extend the lease.
        let reported = previous.filter(|_| is_same).cloned().unwrap_or_else(|| reported_at(at));
        let (record, shown) = (Some(record), Some(version));
        let lease = LeaseView {
            record,
            notes,
            version: shown,
            renewals,
            has_renewed,
            known: version,
            is_told: true,
            ..reported
        };
        self.leases.insert(key.clone(), lease.clone());
        Some(LeaseEvent { at, key, what: what?, previous_holder, lease })
    }

    /// Records the absence of a record.
    ///
    /// `version` is `None` if the version of the deletion is unknown.
    fn is_gone(&mut self, key: Box<str>, version: Option<u64>, at: Now) -> Option<LeaseEvent> {
        let previous = self.leases.get(&key);
        let was = previous.and_then(|lease| lease.record.as_ref());
        let what = match (previous, was) {
            (_, Some(_)) => Some(EventKind::Deleted),
            // An absent lease that was never observed is reported only if the user named the lease.
            (None, None) => (self.of == Which::Named).then_some(EventKind::Unheld),
            (Some(_), None) => None,
        };
        let previous_holder = was.and_then(LeaderElectionRecord::holder).map(str::to_owned);
        let renewals = previous.map_or(0, |lease| lease.renewals);
        let known = version.unwrap_or_else(|| previous.map_or(0, |lease| lease.known));
        let lease = LeaseView { version, renewals, known, ..reported_at(at) };
        match self.of {
            Which::Named => drop(self.leases.insert(key.clone(), lease.clone())),
            Which::All | Which::AllRecords => drop(self.leases.remove(&key)),
        }
        Some(LeaseEvent { at, key, what: what?, previous_holder, lease })
    }
}

/// Returns an absent lease that an update has reported.
fn reported_at(at: Now) -> LeaseView {
    LeaseView { received: at.local, is_told: true, ..LeaseView::default() }
}

fn expire(key: &str, lease: &mut LeaseView, now: Now) -> Option<LeaseEvent> {
    let expiry = lease.expiry().filter(|expiry| !lease.has_expired && *expiry <= now.local)?;
    lease.has_expired = true;
    let wall = now.wall.checked_sub(now.local.since(expiry)).unwrap_or(now.wall);
    let at = Now { local: expiry, wall };
    Some(LeaseEvent { at, key: key.into(), what: EventKind::Expired, previous_holder: None, lease: lease.clone() })
}

/// Returns `true` for the record of a shard, which is never renewed.
pub fn is_shard(record: &LeaderElectionRecord) -> bool {
    record.lease_duration_seconds == Some(i32::MAX)
}

/// Returns the error of a command that would wait for a shard's owner forever.
pub fn shard_error(key: &str) -> String {
    let group = key.rsplit_once("-shard-").map_or("GROUP", |(group, _)| group);
    format!(
        "{key} is a shard, whose owner neither renews it nor reads requests; use `leasehold observe --group {group}`"
    )
}

/// Returns a whole number of seconds as text, such as `11m31s`.
pub fn seconds(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

/// Returns `true` if both records belong to the same term.
///
/// If a record lacks transitions and acquire time, only another holder shows a new term.
fn is_same_term(one: &LeaderElectionRecord, other: &LeaderElectionRecord) -> bool {
    one.uid == other.uid
        && one.holder() == other.holder()
        && one.lease_transitions == other.lease_transitions
        && one.acquire_time == other.acquire_time
}

#[cfg(test)]
mod tests;
