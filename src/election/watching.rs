//! What a watch adds: changes are heard of at once instead of looked for. Correctness never rests on it.
//!
//! The watcher says when a watch opens and when it ends. Whether an open one tells what it should is inferred here, and
//! nowhere else: from what it tells, and from what reads find that it has not told.

use std::time::Duration;

use super::messages::{Change, ElectionEvent};
use super::watch::{Open, WatchTrust};
use super::{Election, Holder, ObservedState, Phase};
use crate::util::clock::Moment;

/// A watch that begins from scratch mentions at once what is there. What it has not mentioned by then is looked for.
pub(super) const MENTIONED_WITHIN: Duration = Duration::from_secs(1);

/// How long a leader whose write met a conflict waits to be told why. Mostly it has been told before.
pub(super) const TOLD_WITHIN: Duration = Duration::from_millis(250);

impl Election {
    /// What a watch told of, and when that was received.
    pub fn on_change(&mut self, now: Moment, received_at: Moment, change: Change) {
        let told = match &change {
            Change::Written(observed) => (observed.version, Some(&observed.record)),
            Change::Deleted { version } => (*version, None),
        };
        let known = self.observed.known().map(|known| &known.observed.record);
        match (self.watch.tells(received_at, told, (self.newest, known)), change) {
            (WatchTrust::Believed, Change::Written(observed)) => self.learn_told(now, received_at, observed),
            (WatchTrust::Believed, Change::Deleted { version }) => self.learn_deletion(now, version),
            (WatchTrust::Unconfirmed, _) => self.confirm(now),
            (WatchTrust::Contradicted, _) => self.give_up_watch(now),
        }
        self.confirm_release();
    }

    /// What a watch told is not to be believed before a read has come to it: so that read is not put off.
    fn confirm(&mut self, now: Moment) {
        if self.watch.is_open() {
            self.read_within(now, Duration::ZERO);
        }
    }

    /// A watch is open: it goes on where the last one ended, or begins from scratch with what is there.
    pub fn watch_opened(&mut self, now: Moment, from_scratch: bool) {
        self.watch.open = Some(Open {
            opened_at: now,
            told: if from_scratch { 0 } else { self.newest },
            change: None,
            longest_gap: Duration::ZERO,
            owed: None,
            verified: !self.watch.is_doubtful(),
            to_confirm: None,
        });
        if from_scratch {
            self.watch.heard_at = Some(now);
            self.watch.synced = false;
            if let ObservedState::Record(_) = self.observed {
                let pause = self.retry_delay(now).min(MENTIONED_WITHIN);
                self.read_within(now, pause);
            }
        }
    }

    /// The watch ended, or was refused: until another is open, the store is polled.
    pub fn watch_lost(&mut self, now: Moment) {
        self.watch.open = None;
        // Those that lost it together must not all ask at once.
        let pause = self.settings.retry_period.mul_f64(self.random.f64());
        self.read_within(now, pause);
    }

    pub(super) fn read_within(&mut self, now: Moment, pause: Duration) {
        // A look that is owed anyway, because a write was refused or there was none yet, is not put off.
        let owed = (self.schedule.must_read || matches!(self.observed, ObservedState::Nothing))
            .then_some(self.schedule.read_at);
        self.schedule.read_at = owed.map_or(now + pause, |owed| owed.min(now + pause));
    }

    /// Whether the watch tells every change, so that nothing has to be looked for.
    pub(super) fn watch_tells(&self, now: Moment) -> bool {
        let Some(open) = &self.watch.open else { return false };
        let knows = self.watch.synced || matches!(self.observed, ObservedState::Absent { .. });
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
        self.events.push_back(ElectionEvent::WatchStale);
    }

    pub(super) fn owed_by(&self) -> Option<Moment> {
        self.watch.open.as_ref()?.owed.map(|(_, by)| by)
    }

    /// When an open watch has been silent for so long about a lease that is held that a read is to find out why: it may
    /// have been cut without a word.
    pub(super) fn silent_at(&self) -> Option<Moment> {
        let (Some(open), ObservedState::Record(known)) = (&self.watch.open, &self.observed) else { return None };
        if known.holder == Holder::Nobody {
            return None;
        }
        let published = known.observed.record.lease_duration_or(self.settings.lease_duration);
        let mut tolerance = (published / 3).max(open.longest_gap * 2);
        if let Phase::Leading(_) = self.phase {
            tolerance = tolerance.max(self.settings.renew_interval * 2);
        }
        // Always in time to hear of a renewal before the lease runs out. Of one that has run out nobody is to tell anything.
        let at = self.watch.heard_at.unwrap_or(open.opened_at) + tolerance.min(published * 9 / 10);
        (at < known.changed_at + published).then_some(at)
    }
}
