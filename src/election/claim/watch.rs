//! The trust in a watch, by its events and by reads.

use std::time::Duration;

use super::observed::Observed;
use crate::election::messages::ReadContext;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::clock::Moment;

/// How far this candidate trusts the current watch, by its events and by reads.
#[derive(Debug, Default)]
pub(super) struct WatchTrust {
    open: Option<OpenWatch>,
    /// The time of the last sign that the watch delivers all changes.
    ///
    /// A sign is an event that is not outdated, or a read that finds no undelivered change. A resumed watch keeps this
    /// time, because the silence of the previous watch continues.
    confirmed_at: Option<Moment>,
    /// `true` once an event or a read has confirmed the state that was known before the watch.
    ///
    /// A watch from scratch delivers an existing record, but does not report that a record no longer exists.
    synced: bool,
    /// The record that was found when a restore of the store was detected.
    ///
    /// An API server that was not restarted still delivers events from before the restore. The old and the restored
    /// state are equal up to an unknown version. Only a later write distinguishes both states.
    restored: Option<LeaderElectionRecord>,
}

/// An open watch: one uninterrupted stream of events.
#[derive(Debug)]
struct OpenWatch {
    opened_at: Moment,
    /// The newest delivered version. A resumed watch starts with the newest known version.
    delivered_version: u64,
    /// The last delivered change of the record, and its time.
    change: Option<(Moment, LeaderElectionRecord)>,
    /// The longest time between two delivered changes of the current term.
    longest_gap: Duration,
    /// An undelivered version that a read found, and the latest time for its event.
    missing_event: Option<(u64, Moment)>,
    /// `true` if the events are known to be from the current state of the store.
    verified: bool,
    /// The event that a read must confirm: its version, its record and its time.
    to_confirm: Option<(u64, Option<LeaderElectionRecord>, Moment)>,
}

/// The trust in one event of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventTrust {
    /// The claim evaluates the event, and ignores versions up to the newest.
    Trusted,
    /// A read must confirm the event.
    Unconfirmed,
    /// The event is from before a restore of the store.
    Contradicted,
}

impl WatchTrust {
    /// Notes that a watch is open.
    ///
    /// If `from_scratch` is `true`, the watch starts with the current record. Otherwise, the watch continues after
    /// `newest`.
    pub(super) fn opened(&mut self, now: Moment, from_scratch: bool, newest: u64) {
        self.open = Some(OpenWatch {
            opened_at: now,
            delivered_version: if from_scratch { 0 } else { newest },
            change: None,
            longest_gap: Duration::ZERO,
            missing_event: None,
            verified: !self.is_distrusted(),
            to_confirm: None,
        });
        if from_scratch {
            (self.confirmed_at, self.synced) = (Some(now), false);
        }
    }

    /// Notes that the watch has ended.
    pub(super) fn ended(&mut self) {
        self.open = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns `true` if a restore of the store was detected.
    pub(super) fn is_distrusted(&self) -> bool {
        self.restored.is_some()
    }

    /// Closes the watch, and distrusts all events until reads confirm them.
    pub(super) fn distrust(&mut self, restored: LeaderElectionRecord) {
        self.restored = Some(restored);
        self.open = None;
    }

    /// Evaluates an event with `version`.
    ///
    /// `newest` is the newest known version, and `known` is its record.
    pub(super) fn evaluate_event(
        &mut self,
        at: Moment,
        (version, record): (u64, Option<&LeaderElectionRecord>),
        (newest, known): (u64, Option<&LeaderElectionRecord>),
    ) -> EventTrust {
        // No watch is open, so the event is a late event of an ended watch.
        let Some(open) = &mut self.open else {
            return if self.restored.is_some() { EventTrust::Unconfirmed } else { EventTrust::Trusted };
        };
        if version > open.delivered_version {
            open.delivered_version = version;
            open.note_change(at, record);
            if version >= newest {
                self.confirmed_at = Some(at);
            }
        }
        if open.missing_event.is_some_and(|(missing, _)| missing <= version) {
            open.missing_event = None;
        }
        // After a restore, an event older than `newest` does not verify the watch, because the old state may contain the
        // same event.
        if version > newest && !open.verified {
            open.to_confirm = Some((version, record.cloned(), at));
        } else if version == newest && known.is_some() && record.is_some() && !open.verified {
            if record != known {
                return EventTrust::Contradicted;
            }
            open.verified = record != self.restored.as_ref();
        }
        self.synced |= record.is_some() && version >= newest && open.to_confirm.is_none();
        if open.to_confirm.is_none() { EventTrust::Trusted } else { EventTrust::Unconfirmed }
    }

    /// Compares the result of a read with the events.
    ///
    /// Returns `false` if the events are not from the current state of the store.
    pub(super) fn agrees_with_read(
        &mut self,
        context: ReadContext,
        found: Option<&VersionedRecord>,
        delivered_by: Moment,
    ) -> bool {
        let Some(open) = &mut self.open else {
            self.confirmed_at = self.confirmed_at.max(Some(context.sent_at));
            return true;
        };
        // The read was sent before the watch opened, so the read shows nothing about the watch.
        if context.sent_at < open.opened_at {
            return true;
        }
        self.synced = true;
        let missing_version = match found {
            Some(found) => (found.version > open.delivered_version).then_some(found.version),
            // The read finds no record, but the last event shows a record. The event of the deletion is missing.
            None => open.change.as_ref().map(|_| open.delivered_version + 1),
        };
        open.missing_event =
            missing_version.map(|version| (version, open.missing_event.map_or(delivered_by, |(_, by)| by)));
        if missing_version.is_none() {
            self.confirmed_at = self.confirmed_at.max(Some(context.sent_at));
        }
        match (&open.to_confirm, found) {
            (Some((version, _, at)), Some(found)) if context.sent_at >= *at => {
                let reaches = found.version >= *version;
                self.agrees(found) && reaches
            }
            // The record may have been deleted after the event, so the read neither confirms nor contradicts the event.
            (Some((_, _, at)), None) if context.sent_at >= *at => {
                open.to_confirm = None;
                true
            }
            _ => true,
        }
    }

    /// Returns `true` if a found record does not contradict the event to confirm.
    ///
    /// After a restore, the store uses versions again. Another record at the version of the event is a contradiction.
    pub(super) fn agrees(&mut self, found: &VersionedRecord) -> bool {
        let Some(open) = &mut self.open else { return true };
        match &open.to_confirm {
            Some((version, record, _)) if *version == found.version => {
                let agrees = record.as_ref() == Some(&found.record);
                open.verified |= agrees && *record != self.restored;
                open.to_confirm = None;
                agrees
            }
            // The read found a newer version than the event, so the read cannot confirm the event.
            Some((version, ..)) if *version < found.version => {
                open.to_confirm = None;
                true
            }
            _ => true,
        }
    }
}

impl WatchTrust {
    /// Returns the latest time for the event of a version that a read found.
    pub(super) fn missing_event_deadline(&self) -> Option<Moment> {
        self.open.as_ref()?.missing_event.map(|(_, by)| by)
    }

    /// Returns `true` if the watch delivers every change, so that no polling is needed.
    pub(super) fn delivers_all(
        &self,
        observed: &Observed,
        silent_at: Option<Moment>,
        is_due: impl FnOnce(Moment) -> bool,
    ) -> bool {
        let Some(open) = &self.open else { return false };
        let knows = self.synced || observed.is_absent();
        knows && open.missing_event.is_none() && open.to_confirm.is_none() && !silent_at.is_some_and(is_due)
    }

    /// Returns the time at which an open watch on a held lease has been silent for too long.
    ///
    /// The candidate then reads, because the connection of the watch may be broken without an error. `otherwise` is the
    /// duration of a record without a duration, and `least` is the shortest silence that is tolerated.
    pub(super) fn silent_at(&self, observed: &Observed, otherwise: Duration, least: Duration) -> Option<Moment> {
        let (open, expires_at) = (self.open.as_ref()?, observed.expires_at(otherwise)?);
        let published = observed.record()?.record.lease_duration_or(otherwise);
        let tolerance = (published / 3).max(open.longest_gap * 2).max(least);
        // The read comes early enough to find a renewal before the lease expires. After the expiry, silence is normal.
        let at = self.confirmed_at.unwrap_or(open.opened_at) + tolerance.min(published * 9 / 10);
        (at < expires_at).then_some(at)
    }
}

impl OpenWatch {
    /// Notes the time between two changes within one term of the holder.
    fn note_change(&mut self, at: Moment, record: Option<&LeaderElectionRecord>) {
        let same_term = |before: &LeaderElectionRecord, after: &LeaderElectionRecord| {
            before.holder_identity == after.holder_identity && before.acquire_time == after.acquire_time
        };
        match (&self.change, record) {
            (Some((_, before)), Some(after)) if before == after => return,
            (Some((since, before)), Some(after)) if same_term(before, after) => {
                self.longest_gap = self.longest_gap.max(at.since(*since));
            }
            _ => self.longest_gap = Duration::ZERO,
        }
        self.change = record.map(|record| (at, record.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::claim::observed::Holder;
    use crate::store::record::StoreData;

    const OTHERWISE: Duration = Duration::from_secs(15);

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    fn record(transitions: i32) -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: Some("a".to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(transitions),
            ..LeaderElectionRecord::default()
        }
    }

    fn found(transitions: i32, version: u64) -> VersionedRecord {
        VersionedRecord::new(record(transitions), version, StoreData::none())
    }

    /// Returns the observation of version 10, which was received at 0 s.
    fn observed() -> Observed {
        let mut observed = Observed::nothing();
        observed.learn_version(10);
        observed.see(found(1, 10), at(0), Holder::Other);
        observed
    }

    /// Returns a watch from scratch, which was opened at 1 s, after a restore if `is_distrusted`.
    fn opened(is_distrusted: bool) -> WatchTrust {
        let mut watch = WatchTrust::default();
        if is_distrusted {
            watch.distrust(record(0));
        }
        watch.opened(at(1), true, 10);
        watch
    }

    fn reads(watch: &mut WatchTrust, sent_at: Moment, found: Option<&VersionedRecord>) -> bool {
        watch.agrees_with_read(ReadContext { newest: 10, absent: false, sent_at }, found, at(9))
    }

    #[test]
    fn watch_is_relied_on_only_if_it_delivers_every_change() {
        type Before = fn(&mut WatchTrust);
        let known = record(1);
        let mention: Before = |watch| {
            watch.evaluate_event(at(2), (10, Some(&record(1))), (10, Some(&record(1))));
        };
        let cases: [(&str, Before, bool); 7] = [
            ("nothing delivered", |_| {}, false),
            ("the known version", mention, true),
            (
                "an older version",
                |watch| _ = watch.evaluate_event(at(2), (9, Some(&record(1))), (10, Some(&record(1)))),
                false,
            ),
            ("a read confirms", |watch| assert!(reads(watch, at(2), Some(&found(1, 10)))), false),
            ("a read of an earlier time", |watch| assert!(reads(watch, at(0), Some(&found(1, 10)))), false),
            ("a missing version", |watch| _ = watch.evaluate_event(at(2), (10, None), (10, None)), false),
            ("closed", |watch| watch.ended(), false),
        ];
        for (case, before, expected) in cases {
            let mut watch = opened(false);
            before(&mut watch);
            assert_eq!(watch.delivers_all(&observed(), None, |_| false), expected, "{case}");
        }
        let mut watch = opened(false);
        mention(&mut watch);
        assert!(!watch.delivers_all(&observed(), Some(at(5)), |_| true), "silent");
        // A read finds a version that the watch has not delivered yet.
        assert!(reads(&mut watch, at(3), Some(&found(2, 11))));
        assert_eq!(
            (watch.missing_event_deadline(), watch.delivers_all(&observed(), None, |_| false)),
            (Some(at(9)), false)
        );
        watch.evaluate_event(at(4), (11, Some(&record(2))), (11, Some(&known)));
        assert_eq!((watch.missing_event_deadline(), watch.delivers_all(&observed(), None, |_| false)), (None, true));
    }

    #[test]
    fn event_after_a_restore_needs_a_confirming_read() {
        use EventTrust::{Contradicted, Trusted, Unconfirmed};
        let known = record(1);
        // Whether a restore was detected, the version and the record of the event, and the trust.
        for (is_distrusted, version, event, expected) in [
            (false, 11, Some(record(2)), Trusted),
            (true, 11, Some(record(2)), Unconfirmed),
            (true, 10, Some(record(1)), Trusted),
            (true, 10, Some(record(5)), Contradicted),
            (true, 9, Some(record(5)), Trusted),
            (true, 11, None, Unconfirmed),
        ] {
            let trust = opened(is_distrusted).evaluate_event(at(2), (version, event.as_ref()), (10, Some(&known)));
            assert_eq!(trust, expected, "{is_distrusted} {version}");
        }
        // The send time of the read, what the read found, whether the read agrees, and the trust in the next event.
        for (sent_at, read, agrees, next) in [
            (at(1), Some(found(2, 11)), true, Unconfirmed),
            (at(3), Some(found(2, 11)), true, Trusted),
            (at(3), Some(found(5, 11)), false, Unconfirmed),
            (at(3), Some(found(1, 10)), false, Unconfirmed),
            (at(3), Some(found(3, 12)), true, Unconfirmed),
            (at(3), None, true, Unconfirmed),
        ] {
            let mut watch = opened(true);
            watch.evaluate_event(at(2), (11, Some(&record(2))), (10, Some(&known)));
            assert_eq!(reads(&mut watch, sent_at, read.as_ref()), agrees, "{read:?}");
            let trust = watch.evaluate_event(at(4), (20, Some(&record(7))), (12, Some(&known)));
            assert_eq!(trust, next, "{sent_at:?} {read:?}");
        }
    }

    #[test]
    fn tolerated_silence_follows_the_gaps_and_ends_before_the_lease() {
        let mut observed = observed();
        observed.see(found(2, 11), at(2), Holder::Other);
        let silent_after = |longest_gap: u64, least: u64| {
            let mut watch = opened(false);
            watch.confirmed_at = Some(at(2));
            watch.open.as_mut().unwrap().longest_gap = Duration::from_secs(longest_gap);
            watch
                .silent_at(&observed, OTHERWISE, Duration::from_secs(least))
                .map(|silent_at| silent_at.since(at(2)).as_millis())
        };
        // The longest gap and the least tolerated silence in seconds, and the tolerated silence in milliseconds.
        for (longest_gap, least, expected) in [(1, 0, 5_000), (4, 0, 8_000), (1, 7, 7_000), (1, 20, 13_500)] {
            assert_eq!(silent_after(longest_gap, least), Some(expected), "{longest_gap} {least}");
        }
        // After the expiry, silence is normal.
        let mut watch = opened(false);
        watch.confirmed_at = Some(at(13));
        assert_eq!(watch.silent_at(&observed, OTHERWISE, Duration::ZERO), None);
    }
}
