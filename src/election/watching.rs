//! What a watch adds: changes are heard of at once instead of looked for. Correctness never rests on it.
//!
//! The watcher says when a watch opens and when it ends. Whether an open one tells what it should is inferred here, and
//! nowhere else: from what it tells, and from what reads find that it has not told.

use std::time::Duration;

use super::messages::{Event, Look};
use super::{Election, Phase, Seen, Whose};
use crate::clock::Moment;
use crate::lock::WatchEvent;
use crate::record::{LeaderElectionRecord, Observed};

/// A watch that begins afresh mentions at once what is there. What it has not mentioned by then is looked for.
pub(super) const MENTIONED_WITHIN: Duration = Duration::from_secs(1);

/// How long a leader whose write met a conflict waits to be told why. Mostly it has been told before.
pub(super) const TOLD_WITHIN: Duration = Duration::from_millis(250);

/// What is known of the watch.
#[derive(Debug, Default)]
pub(super) struct Watch {
    open: Option<Open>,
    /// When a watch last told anything that was not known to be past, or a read found that there was nothing to tell. One that
    /// goes on where another ended begins with the silence of that.
    heard_at: Option<Moment>,
    /// Whether what was seen before it opened is known to be there still. A watch that begins afresh tells what is there,
    /// but cannot tell what is not there any more.
    synced: bool,
    /// What was there when the store was found to be restored. A server in front of it that was not restarted goes on showing
    /// what was before, and up to a version that nobody knows both tell the same; only what was written since tells them apart.
    restored: Option<LeaderElectionRecord>,
}

/// A watch that is open: one stream of events without a break.
#[derive(Debug)]
struct Open {
    opened_at: Moment,
    /// The newest version that it has told, or that was known when it went on where another had ended.
    told: u64,
    /// The last change of the record that it has told, and when it did.
    change: Option<(Moment, LeaderElectionRecord)>,
    /// The longest time between two changes that it has told of the present term.
    longest_gap: Duration,
    /// A version that a read found, and by when it is to be told at last.
    owed: Option<(u64, Moment)>,
    /// Whether what it tells is of this store.
    verified: bool,
    /// What a read is to find before what is told is believed: a version, the record at it, and when that was told.
    to_confirm: Option<(u64, Option<LeaderElectionRecord>, Moment)>,
}

/// What to make of what a watch tells.
#[derive(PartialEq)]
enum Told {
    Believed,
    /// Not before a read has found it.
    Unconfirmed,
    /// It is of another life of the store.
    Contradicted,
}

impl Watch {
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
    fn tells(
        &mut self,
        at: Moment,
        (version, record): (u64, Option<&LeaderElectionRecord>),
        (newest, known): (u64, Option<&LeaderElectionRecord>),
    ) -> Told {
        // What is left of a stream that was given up.
        let Some(open) = &mut self.open else {
            return if self.restored.is_some() { Told::Unconfirmed } else { Told::Believed };
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
                return Told::Contradicted;
            }
            open.verified = record != self.restored.as_ref();
        }
        self.synced |= record.is_some() && version >= newest && open.to_confirm.is_none();
        if open.to_confirm.is_none() { Told::Believed } else { Told::Unconfirmed }
    }

    /// A read that was answered found `version`, or nothing. False if what the watch has told is not of this store.
    pub(super) fn is_borne_out(&mut self, look: Look, found: Option<&Observed>, told_by: Moment) -> bool {
        let Some(open) = &mut self.open else {
            self.heard_at = self.heard_at.max(Some(look.sent_at));
            return true;
        };
        // It says nothing of a watch that has opened since.
        if look.sent_at < open.opened_at {
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
            self.heard_at = self.heard_at.max(Some(look.sent_at));
        }
        match (&open.to_confirm, found) {
            (Some((told, _, at)), Some(found)) if look.sent_at >= *at => {
                let reaches = found.version >= *told;
                self.agrees(found) && reaches
            }
            // What was told of may have been deleted since.
            (Some((_, _, at)), None) if look.sent_at >= *at => {
                open.to_confirm = None;
                true
            }
            _ => true,
        }
    }

    /// Whether what an answer shows agrees with what the watch has told: versions that were used again have other records.
    pub(super) fn agrees(&mut self, found: &Observed) -> bool {
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

impl Election {
    /// What a watch told, and when that was received.
    pub fn heard(&mut self, now: Moment, received_at: Moment, event: WatchEvent) {
        let told = match &event {
            WatchEvent::Changed(observed) => (observed.version, Some(&observed.record)),
            WatchEvent::Deleted { version } => (*version, None),
            // The driver says that with `watch_opened`, for it knows where the watch began. And a bookmark tells where a
            // watch may go on, which is the watcher's affair, and nothing of the lease.
            WatchEvent::Opened | WatchEvent::Bookmark { .. } => return,
        };
        let known = match &self.seen {
            Seen::Record(known) => Some(&known.observed.record),
            _ => None,
        };
        match (self.watch.tells(received_at, told, (self.newest, known)), event) {
            (Told::Believed, WatchEvent::Changed(observed)) => self.learn_told(now, received_at, observed),
            (Told::Believed, WatchEvent::Deleted { version }) => self.learn_deletion(now, version),
            (Told::Believed, _) => {}
            (Told::Unconfirmed, _) => self.confirm(now),
            (Told::Contradicted, _) => self.give_up_watch(now),
        }
        self.settle();
    }

    /// What a watch told is not to be believed before a read has come to it: so that read is not put off.
    fn confirm(&mut self, now: Moment) {
        if self.watch.is_open() {
            self.look_within(now, Duration::ZERO);
        }
    }

    /// A watch is open: it goes on where the last one ended, or begins afresh with what is there.
    pub fn watch_opened(&mut self, now: Moment, afresh: bool) {
        self.watch.open = Some(Open {
            opened_at: now,
            told: if afresh { 0 } else { self.newest },
            change: None,
            longest_gap: Duration::ZERO,
            owed: None,
            verified: !self.watch.is_doubtful(),
            to_confirm: None,
        });
        if afresh {
            self.watch.heard_at = Some(now);
            self.watch.synced = false;
            if let Seen::Record(_) = self.seen {
                let pause = self.patience(now).min(MENTIONED_WITHIN);
                self.look_within(now, pause);
            }
        }
    }

    /// The watch ended, or was refused: until another is open, the store is polled.
    pub fn watch_lost(&mut self, now: Moment) {
        self.watch.open = None;
        // Those that lost it together must not all ask at once.
        let pause = self.settings.retry_period.mul_f64(self.random.f64());
        self.look_within(now, pause);
    }

    pub(super) fn look_within(&mut self, now: Moment, pause: Duration) {
        // A look that is owed anyway, because a write was refused or there was none yet, is not put off.
        let owed = (self.pace.unsettled || matches!(self.seen, Seen::Nothing)).then_some(self.pace.look_at);
        self.pace.look_at = owed.map_or(now + pause, |owed| owed.min(now + pause));
    }

    /// Whether the watch tells every change, so that nothing has to be looked for.
    pub(super) fn watch_tells(&self, now: Moment) -> bool {
        let Some(open) = &self.watch.open else { return false };
        let knows = self.watch.synced || matches!(self.seen, Seen::Absent { .. });
        knows && open.owed.is_none() && open.to_confirm.is_none() && self.silent_at().is_none_or(|at| now < at)
    }

    /// Gives up a watch that has not told what a read has found, although it had time to.
    pub(super) fn notice_what_is_owed(&mut self, now: Moment) {
        if self.owed_by().is_some_and(|by| now >= by) {
            self.give_up_watch(now);
        }
    }

    pub(super) fn give_up_watch(&mut self, now: Moment) {
        self.watch_lost(now);
        self.events.push_back(Event::WatchStale);
    }

    pub(super) fn owed_by(&self) -> Option<Moment> {
        self.watch.open.as_ref()?.owed.map(|(_, by)| by)
    }

    /// When an open watch has been silent for so long about a lease that is held that a read is to find out why: it may
    /// have been cut without a word.
    pub(super) fn silent_at(&self) -> Option<Moment> {
        let (Some(open), Seen::Record(known)) = (&self.watch.open, &self.seen) else { return None };
        if known.whose == Whose::Nobodys {
            return None;
        }
        let published = known.observed.record.lease_duration_or(self.settings.lease_duration);
        let mut patience = (published / 3).max(open.longest_gap * 2);
        if let Phase::Leading(_) = self.phase {
            patience = patience.max(self.settings.renew_interval * 2);
        }
        // Always in time to hear of a renewal before the lease runs out. Of one that has run out nobody is to tell anything.
        let at = self.watch.heard_at.unwrap_or(open.opened_at) + patience.min(published * 9 / 10);
        (at < known.changed_at + published).then_some(at)
    }
}
