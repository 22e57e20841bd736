//! The state of a watch: its events, and how far they are trusted.

use std::time::Duration;

use super::messages::ReadContext;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::clock::Moment;

/// The state of the current watch and of earlier watches.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    pub(super) open: Option<Open>,
    /// The time of the last sign that the watch delivers all changes.
    ///
    /// A sign is an event that is not outdated, or a read that finds no undelivered change. A resumed watch keeps this
    /// time, because the silence of the previous watch continues.
    pub(super) heard_at: Option<Moment>,
    /// `true` once an event or a read has confirmed the state that was known before the watch.
    ///
    /// A watch from scratch delivers an existing record, but does not report that a record no longer exists.
    pub(super) synced: bool,
    /// The record that was found when a restore of the store was detected.
    ///
    /// An API server that was not restarted still delivers events from before the restore. The old and the restored
    /// state are equal up to an unknown version. Only a later write distinguishes both states.
    pub(super) restored: Option<LeaderElectionRecord>,
}

/// An open watch: one uninterrupted stream of events.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) opened_at: Moment,
    /// The newest delivered version. A resumed watch starts with the newest known version.
    pub(super) told: u64,
    /// The last delivered change of the record, and its time.
    pub(super) change: Option<(Moment, LeaderElectionRecord)>,
    /// The longest time between two delivered changes of the current term.
    pub(super) longest_gap: Duration,
    /// An undelivered version that a read found, and the latest time for its event.
    pub(super) owed: Option<(u64, Moment)>,
    /// `true` if the events are known to be from the current state of the store.
    pub(super) verified: bool,
    /// The event that a read must confirm: its version, its record and its time.
    pub(super) to_confirm: Option<(u64, Option<LeaderElectionRecord>, Moment)>,
}

/// The trust in an event of a watch.
#[derive(PartialEq)]
pub(super) enum WatchTrust {
    /// The election applies the event.
    Believed,
    /// A read must confirm the event.
    Unconfirmed,
    /// The event is from before a restore of the store.
    Contradicted,
}

impl WatchState {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns `true` if a restore of the store was detected.
    pub(super) fn is_doubtful(&self) -> bool {
        self.restored.is_some()
    }

    /// Closes the watch, and distrusts all events until reads confirm them.
    pub(super) fn doubt(&mut self, restored: LeaderElectionRecord) {
        self.restored = Some(restored);
        self.open = None;
    }

    /// Evaluates an event with `version`.
    ///
    /// `newest` is the newest known version, and `known` is its record.
    pub(super) fn tells(
        &mut self,
        at: Moment,
        (version, record): (u64, Option<&LeaderElectionRecord>),
        (newest, known): (u64, Option<&LeaderElectionRecord>),
    ) -> WatchTrust {
        // No watch is open, so the event is a late event of an ended watch.
        let Some(open) = &mut self.open else {
            return if self.restored.is_some() { WatchTrust::Unconfirmed } else { WatchTrust::Believed };
        };
        if version > open.told {
            open.told = version;
            open.note_change(at, record);
            if version >= newest {
                self.heard_at = Some(at);
            }
        }
        if open.owed.is_some_and(|(owed, _)| owed <= version) {
            open.owed = None;
        }
        // After a restore, an event older than `newest` does not verify the watch, because the old state may contain the
        // same event.
        if version > newest && !open.verified {
            open.to_confirm = Some((version, record.cloned(), at));
        } else if version == newest && known.is_some() && record.is_some() && !open.verified {
            if record != known {
                return WatchTrust::Contradicted;
            }
            open.verified = record != self.restored.as_ref();
        }
        self.synced |= record.is_some() && version >= newest && open.to_confirm.is_none();
        if open.to_confirm.is_none() { WatchTrust::Believed } else { WatchTrust::Unconfirmed }
    }

    /// Compares the result of a read with the events.
    ///
    /// Returns `false` if the events are not from the current state of the store.
    pub(super) fn agrees_with_read(
        &mut self,
        context: ReadContext,
        found: Option<&VersionedRecord>,
        told_by: Moment,
    ) -> bool {
        let Some(open) = &mut self.open else {
            self.heard_at = self.heard_at.max(Some(context.sent_at));
            return true;
        };
        // The read was sent before the watch opened, so the read shows nothing about the watch.
        if context.sent_at < open.opened_at {
            return true;
        }
        self.synced = true;
        let owed = match found {
            Some(found) => (found.version > open.told).then_some(found.version),
            // The read finds no record, but the last event shows a record. The event of the deletion is missing.
            None => open.change.as_ref().map(|_| open.told + 1),
        };
        open.owed = owed.map(|owed| (owed, open.owed.map_or(told_by, |(_, by)| by)));
        if owed.is_none() {
            self.heard_at = self.heard_at.max(Some(context.sent_at));
        }
        match (&open.to_confirm, found) {
            (Some((told, _, at)), Some(found)) if context.sent_at >= *at => {
                let reaches = found.version >= *told;
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
            Some((told, record, _)) if *told == found.version => {
                let agrees = record.as_ref() == Some(&found.record);
                open.verified |= agrees && *record != self.restored;
                open.to_confirm = None;
                agrees
            }
            // The read found a newer version than the event, so the read cannot confirm the event.
            Some((told, ..)) if *told < found.version => {
                open.to_confirm = None;
                true
            }
            _ => true,
        }
    }
}

impl Open {
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
