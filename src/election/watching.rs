//! The use of watch events, which report changes without polling.
//!
//! Safety does not depend on a watch.
//!
//! The watch thread reports when a watch opens and when a watch ends. Only this module decides whether an open watch
//! delivers all changes. The decision compares the events with the results of reads.

use std::time::Duration;

use super::messages::{Change, ElectionEvent};
use super::watch::EventTrust;
use super::{Election, Phase};
use crate::util::clock::Moment;

/// The time in which a new watch must deliver the current record. After this time, the election reads.
pub(super) const MENTIONED_WITHIN: Duration = Duration::from_secs(1);

/// The time that a leader waits for the watch event of a conflicting write. After this time, the leader reads.
pub(super) const TOLD_WITHIN: Duration = Duration::from_millis(250);

impl Election {
    /// Handles an event of the watch, which was received at `received_at`.
    pub fn on_change(&mut self, now: Moment, received_at: Moment, change: Change) {
        let told = match &change {
            Change::Written(observed) => (observed.version, Some(&observed.record)),
            Change::Deleted { version } => (*version, None),
        };
        let known = self.observed.record().map(|known| &known.record);
        match (self.watch.tells(received_at, told, (self.observed.newest(), known)), change) {
            (EventTrust::Believed, Change::Written(observed)) => self.learn_told(now, received_at, observed),
            (EventTrust::Believed, Change::Deleted { version }) => self.learn_deletion(now, version),
            (EventTrust::Unconfirmed, _) => self.confirm(now),
            (EventTrust::Contradicted, _) => self.give_up_watch(now),
        }
        self.confirm_release();
    }

    /// Schedules a read that confirms an event of the watch.
    fn confirm(&mut self, now: Moment) {
        if self.watch.is_open() {
            self.read_within(now, Duration::ZERO);
        }
    }

    /// Notes that a watch is open.
    ///
    /// If `from_scratch` is `true`, the watch starts with the current record. Otherwise, the watch continues the
    /// previous watch.
    pub fn watch_opened(&mut self, now: Moment, from_scratch: bool) {
        self.watch.opened(now, from_scratch, self.observed.newest());
        if from_scratch && self.observed.record().is_some() {
            let pause = self.pace.retry_delay(now, self.urgency(now)).min(MENTIONED_WITHIN);
            self.read_within(now, pause);
        }
    }

    /// Notes that the watch has ended or was refused.
    ///
    /// The store is polled until another watch is open.
    pub fn watch_lost(&mut self, now: Moment) {
        self.watch.ended();
        // The pause is random, because many candidates may lose their watches at the same time.
        let pause = self.pace.part_of_a_retry();
        self.read_within(now, pause);
    }

    pub(super) fn read_within(&mut self, now: Moment, pause: Duration) {
        self.pace.read_by(now + pause, self.observed.is_unknown());
    }

    /// Returns `true` if the watch delivers every change, so that no polling is needed.
    pub(super) fn watch_delivers_all(&self, is_due: impl FnOnce(Moment) -> bool) -> bool {
        let least = match self.phase {
            Phase::Leading(_) => self.settings.renew_interval * 2,
            _ => Duration::ZERO,
        };
        let silent_at = self.watch.silent_at(&self.observed, self.settings.lease_duration, least);
        self.watch.delivers_all(&self.observed, silent_at, is_due)
    }

    pub(super) fn give_up_watch(&mut self, now: Moment) {
        self.watch_lost(now);
        self.events.push_back(ElectionEvent::WatchStale);
    }
}
