//! What a watch has told, and how far it is believed.

use std::time::Duration;

use super::messages::ReadContext;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::clock::Moment;

/// What is known of the watch.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    pub(super) open: Option<Open>,
    /// When a watch last told anything that was not known to be past, or a read found that there was nothing to tell. One that
    /// goes on where another ended begins with the silence of that.
    pub(super) heard_at: Option<Moment>,
    /// Whether what was seen before it opened is known to be there still. A watch that begins from scratch tells what is there,
    /// but cannot tell what is not there any more.
    pub(super) synced: bool,
    /// What was there when the store was found to be restored. A server in front of it that was not restarted goes on showing
    /// what was before, and up to a version that nobody knows both tell the same; only what was written since tells them apart.
    pub(super) restored: Option<LeaderElectionRecord>,
}

/// A watch that is open: one stream of events without a break.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) opened_at: Moment,
    /// The newest version that it has told, or that was known when it went on where another had ended.
    pub(super) told: u64,
    /// The last change of the record that it has told, and when it did.
    pub(super) change: Option<(Moment, LeaderElectionRecord)>,
    /// The longest time between two changes that it has told of the present term.
    pub(super) longest_gap: Duration,
    /// A version that a read found, and by when it is to be told at last.
    pub(super) owed: Option<(u64, Moment)>,
    /// Whether what it tells is of this store.
    pub(super) verified: bool,
    /// What a read is to find before what is told is believed: a version, the record at it, and when that was told.
    pub(super) to_confirm: Option<(u64, Option<LeaderElectionRecord>, Moment)>,
}

/// What to make of what a watch tells.
#[derive(PartialEq)]
pub(super) enum WatchTrust {
    Believed,
    /// Not before a read has found it.
    Unconfirmed,
    /// It is of another life of the store.
    Contradicted,
}

impl WatchState {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the store was found to be restored.
    pub(super) fn is_doubtful(&self) -> bool {
        self.restored.is_some()
    }

    /// From now on nothing is believed that a read has not found.
    pub(super) fn doubt(&mut self, restored: LeaderElectionRecord) {
        self.restored = Some(restored);
        self.open = None;
    }

    /// It told of `version`, where `newest` is known, and what stands at that.
    pub(super) fn tells(
        &mut self,
        at: Moment,
        (version, record): (u64, Option<&LeaderElectionRecord>),
        (newest, known): (u64, Option<&LeaderElectionRecord>),
    ) -> WatchTrust {
        // What is left of a stream that was given up.
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
        // Below what is known a server that goes on with what was before tells nothing else than any other.
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

    /// A read that was answered found `version`, or nothing. False if what the watch has told is not of this store.
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
        // It says nothing of a watch that has opened since.
        if context.sent_at < open.opened_at {
            return true;
        }
        self.synced = true;
        let owed = match found {
            Some(found) => (found.version > open.told).then_some(found.version),
            // It has yet to tell that what it has told of was deleted.
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
            // What was told of may have been deleted since.
            (Some((_, _, at)), None) if context.sent_at >= *at => {
                open.to_confirm = None;
                true
            }
            _ => true,
        }
    }

    /// Whether what an answer shows agrees with what the watch has told: versions that were used again have other records.
    pub(super) fn agrees(&mut self, found: &VersionedRecord) -> bool {
        let Some(open) = &mut self.open else { return true };
        match &open.to_confirm {
            Some((told, record, _)) if *told == found.version => {
                let agrees = record.as_ref() == Some(&found.record);
                open.verified |= agrees && *record != self.restored;
                open.to_confirm = None;
                agrees
            }
            // It lags behind, and has yet to tell this.
            Some((told, ..)) if *told < found.version => {
                open.to_confirm = None;
                true
            }
            _ => true,
        }
    }
}

impl Open {
    /// Notes how long the holder lets its record stand.
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
