//! What a watch adds: changes are heard of at once instead of looked for. Correctness never rests on it.
//!
//! The watcher says when a watch opens and when it ends. Whether an open one tells what it should is inferred here, and
//! nowhere else: from what it tells, and from what reads find that it has not told.

use std::time::Duration;

use super::messages::{Event, Look};
use super::{Election, Phase, Seen, Whose};
use crate::clock::Moment;
use crate::lock::WatchEvent;
use crate::record::LeaderElectionRecord;

/// A watch that begins afresh mentions at once what is there. What it has not mentioned by then is looked for.
pub(super) const MENTIONED_WITHIN: Duration = Duration::from_secs(1);

/// How long a leader whose write met a conflict waits to be told why. Mostly it has been told before.
pub(super) const TOLD_WITHIN: Duration = Duration::from_millis(250);

/// What is known of the watch.
#[derive(Debug, Default)]
pub(super) struct Watch {
    open: Option<Open>,
    /// Whether what was seen before it opened is known to be there still. A watch that begins afresh tells what is there,
    /// but cannot tell what is not there any more.
    synced: bool,
    /// The store was restored once: a server in front of it that was not restarted goes on showing what was before.
    doubtful: bool,
}

/// A watch that is open: one stream of events without a break.
#[derive(Debug)]
struct Open {
    opened_at: Moment,
    /// The newest version that it has told, or that was known when it went on where another had ended.
    told: u64,
    /// When it last told anything new, or a read found that there was nothing to tell.
    heard_at: Moment,
    /// The last change of the record that it has told, and when it did.
    change: Option<(Moment, LeaderElectionRecord)>,
    /// The longest time between two changes that it has told of the present term.
    longest_gap: Duration,
    /// A version that a read found, and by when it is to be told at last.
    owed: Option<(u64, Moment)>,
    /// Whether what it tells is of this store.
    verified: bool,
    /// The version that a read is to reach before what was told of it is believed, and when it was told.
    to_confirm: Option<(u64, Moment)>,
}

impl Watch {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// From now on nothing is believed that a read has not reached.
    pub(super) fn doubt(&mut self) {
        self.doubtful = true;
        self.open = None;
    }

    /// It told of `version`. False if that is not to be believed before a read has reached it.
    fn tells(&mut self, at: Moment, version: u64, record: Option<&LeaderElectionRecord>, newest: u64) -> bool {
        // What is left of a stream that was given up.
        let Some(open) = &mut self.open else { return !self.doubtful };
        if version > open.told {
            open.told = version;
            open.heard_at = at;
            open.note_change(at, record);
        }
        if open.owed.is_some_and(|(owed, _)| owed <= version) {
            open.owed = None;
        }
        if version <= newest {
            open.verified = true;
        } else if !open.verified {
            open.to_confirm = Some((version, at));
        }
        self.synced |= record.is_some() && open.to_confirm.is_none();
        open.to_confirm.is_none()
    }

    /// A read that was answered found `version`, or nothing. False if what the watch has told is not of this store.
    pub(super) fn is_borne_out(&mut self, look: Look, version: Option<u64>, told_by: Moment) -> bool {
        // It says nothing of a watch that has opened since.
        let Some(open) = self.open.as_mut().filter(|open| look.sent_at >= open.opened_at) else { return true };
        self.synced = true;
        let owed = match version {
            Some(version) => (version > open.told).then_some(version),
            // It has yet to tell that what it has told of was deleted.
            None => open.change.as_ref().map(|_| open.told + 1),
        };
        open.owed = owed.map(|owed| (owed, open.owed.map_or(told_by, |(_, by)| by)));
        if owed.is_none() {
            open.heard_at = open.heard_at.max(look.sent_at);
        }
        match (open.to_confirm, version) {
            (Some((told, at)), Some(version)) if look.sent_at >= at => {
                self.reached(version);
                version >= told
            }
            // What was told of may have been deleted since.
            (Some((_, at)), None) if look.sent_at >= at => {
                open.to_confirm = None;
                true
            }
            _ => true,
        }
    }

    /// The store is known to have come to `version`.
    pub(super) fn reached(&mut self, version: u64) {
        if let Some(open) = &mut self.open
            && open.to_confirm.is_some_and(|(told, _)| told <= version)
        {
            open.to_confirm = None;
            open.verified = true;
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
        match event {
            WatchEvent::Changed(observed) => {
                match self.watch.tells(received_at, observed.version, Some(&observed.record), self.newest) {
                    true => self.learn_told(now, received_at, observed),
                    false => self.confirm(now),
                }
            }
            WatchEvent::Deleted { version } => match self.watch.tells(received_at, version, None, self.newest) {
                true => self.learn_deletion(now, version),
                false => self.confirm(now),
            },
            // The driver says that with `watch_opened`, for it knows where the watch began. And a bookmark tells where a
            // watch may go on, which is the watcher's affair, and nothing of the lease.
            WatchEvent::Opened | WatchEvent::Bookmark { .. } => {}
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
            heard_at: now,
            change: None,
            longest_gap: Duration::ZERO,
            owed: None,
            verified: !self.watch.doubtful,
            to_confirm: None,
        });
        if afresh {
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
        let at = open.heard_at + patience.min(published * 9 / 10);
        (at < known.changed_at + published).then_some(at)
    }
}
