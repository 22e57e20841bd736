//! What a watch adds: changes are heard of at once instead of looked for. Correctness never rests on it.

use std::time::Duration;

use super::messages::Event;
use super::{Election, Known, Phase, Seen, Whose};
use crate::clock::Moment;
use crate::lock::WatchEvent;
use crate::record::LeaderElectionRecord;

/// A watch that begins afresh mentions at once what is there. What it has not mentioned by then is looked for.
const MENTIONED_WITHIN: Duration = Duration::from_secs(1);

/// How long a leader whose write met a conflict waits to be told why. Mostly it has been told before.
pub(super) const TOLD_WITHIN: Duration = Duration::from_millis(250);

/// What is known of the watch.
#[derive(Debug)]
pub(super) struct Watch {
    /// Whether it tells every change. Else the store is polled.
    pub(super) stands: bool,
    /// Whether what was seen before it stood is known to be there still. A watch that begins afresh tells what is there,
    /// but cannot tell what is not there any more.
    pub(super) checked: bool,
    heard_at: Moment,
    /// The longest time between two changes by the present holder.
    longest_gap: Duration,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { stands: false, checked: false, heard_at: Moment::from_nanos(0), longest_gap: Duration::ZERO }
    }

    /// Notes how long a holder lets its record stand.
    pub(super) fn note_change(&mut self, before: Option<&Known>, after: &LeaderElectionRecord, at: Moment) {
        let same_term = |known: &&Known| {
            let before = &known.observed.record;
            before.holder_identity == after.holder_identity && before.acquire_time == after.acquire_time
        };
        self.longest_gap = match before.filter(same_term) {
            Some(known) => self.longest_gap.max(at.since(known.changed_at)),
            None => Duration::ZERO,
        };
    }
}

impl Election {
    /// What a watch told, and when that was received.
    pub fn heard(&mut self, now: Moment, received_at: Moment, event: WatchEvent) {
        match event {
            // The driver says that with `watch_opened`, for it knows where the watch began.
            WatchEvent::Opened => {}
            WatchEvent::Changed(observed) => {
                self.watch.heard_at = received_at;
                self.watch.checked = true;
                self.learn(now, received_at, observed);
            }
            WatchEvent::Deleted { version } => {
                self.watch.heard_at = received_at;
                self.learn_deletion(now, version);
            }
            // It tells where a watch may go on, which is the watcher's affair, and nothing of the lease.
            WatchEvent::Bookmark { .. } => {}
        }
        self.settle();
    }

    /// A watch stands: it goes on where the last one ended, or begins afresh with what is there.
    pub fn watch_opened(&mut self, now: Moment, afresh: bool) {
        self.watch.stands = true;
        self.watch.heard_at = now;
        if afresh {
            self.watch.checked = false;
            if let Seen::Record(_) = self.seen {
                let pause = self.patience(now).min(MENTIONED_WITHIN);
                self.look_within(now, pause);
            }
        }
    }

    /// The watch ended, or was refused: until another stands, the store is polled.
    pub fn watch_lost(&mut self, now: Moment) {
        self.watch.stands = false;
        // Those that lost it together must not all ask at once.
        let pause = self.settings.retry_period.mul_f64(self.random.f64());
        self.look_within(now, pause);
    }

    fn look_within(&mut self, now: Moment, pause: Duration) {
        // A look that is owed anyway, because a write was refused, is not put off.
        let owed = self.pace.unsettled.then_some(self.pace.look_at);
        self.pace.look_at = owed.map_or(now + pause, |owed| owed.min(now + pause));
    }

    /// A watch that does not tell of renewals when they are due may have been cut without a word.
    pub(super) fn notice_silence(&mut self, now: Moment) {
        if self.silent_at().is_some_and(|at| now >= at) {
            self.watch_lost(now);
            self.events.push_back(Event::WatchStale);
        }
    }

    /// When a watch that stands has been silent for too long about a lease that is held.
    pub(super) fn silent_at(&self) -> Option<Moment> {
        let Seen::Record(known) = &self.seen else { return None };
        if !self.watch.stands || known.whose == Whose::Nobodys {
            return None;
        }
        let published = known.observed.record.lease_duration_or(self.settings.lease_duration);
        let mut patience = (published / 3).max(self.watch.longest_gap * 2);
        if let Phase::Leading(_) = self.phase {
            patience = patience.max(self.settings.renew_interval * 2);
        }
        Some(self.watch.heard_at + patience)
    }
}
