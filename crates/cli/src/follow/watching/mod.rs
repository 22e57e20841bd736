//! The thread that follows one lease or all leases.
//!
//! When a watch ends, the thread opens another watch, forever.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use leasehold::store::{
    CallContext, CancelToken, Cursor, Store, StoreData, StoreError, StoreErrorKind, VersionedRecord, WatchEvent,
    WatchScope,
};
use log::Level;
use parking_lot::Mutex;

use super::leases::Update;
use crate::backoff::{Backoff, requested_pause};
use crate::clock::Now;

/// The time after which a watch counts as working.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The longest pause that a store may ask a command for, which has no lease duration.
pub const LONGEST_REQUESTED_PAUSE: Duration = Duration::from_secs(15);

const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// The time limit of a read that no flag limits.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A message of the thread that follows a lease.
pub enum FollowMessage {
    Update(Update, Now),
    /// A log line and its level.
    ///
    /// The line reports that the store has failed, or that the store works again.
    Trouble(Level, String),
    /// The pause that the store requested, and the error.
    Paused(Duration, String),
    /// A permanent error.
    Failed(String),
}

/// The cancel token and the start time of the open watch. Clones share the watch.
#[derive(Clone, Default)]
pub struct CurrentWatch(Arc<Mutex<Option<(CancelToken, Instant)>>>);

impl CurrentWatch {
    /// Ends the watch, so that the thread opens a new watch that starts with a read.
    ///
    /// Called when a lease expires, because a silently broken connection would deliver no event for a long time.
    pub fn restart(&self) {
        let current = self.0.lock().clone();
        // Many leases may expire at once. A watch that has just started has read the records and is not restarted.
        if let Some((cancel, _)) = current.filter(|(_, began)| began.elapsed() >= SHORTEST_LEASE) {
            cancel.cancel();
        }
    }
}

pub struct FollowThread {
    store: Arc<dyn Store>,
    /// `None` for all leases.
    key: Option<Box<str>>,
    tell: Sender<FollowMessage>,
    current: CurrentWatch,
    /// The start position of the next watch.
    from: Option<Cursor>,
    /// `true` after a watch has worked once. From then on, the thread retries after every error.
    has_worked: bool,
    /// `true` if the current or last watch has delivered an event.
    has_told: bool,
    /// The last reported error, until the store works again.
    trouble: Option<String>,
    backoff: Backoff,
}

impl FollowThread {
    pub fn new(store: Arc<dyn Store>, key: Option<&str>, current: CurrentWatch, tell: Sender<FollowMessage>) -> Self {
        Self {
            store,
            key: key.map(Box::from),
            tell,
            current,
            from: None,
            has_worked: false,
            has_told: false,
            trouble: None,
            backoff: Backoff::default(),
        }
    }

    /// Runs until a permanent error or the end of the process.
    pub fn run(mut self) {
        while let Some(pause) = self.follow() {
            sleep(pause);
        }
    }

    /// Runs one watch until it ends. Returns the pause before the next watch, or `None` after a permanent error.
    fn follow(&mut self) -> Option<Duration> {
        let began = Instant::now();
        let ended = self.watch();
        let has_lasted = began.elapsed() > RETRY_PERIOD;
        if self.has_told && has_lasted {
            self.backoff.reset();
        }
        match ended {
            Ok(is_replaced) if is_replaced || has_lasted => Some(Duration::ZERO),
            Ok(_) => Some(self.back_off()),
            Err(error) => self.failed(&error),
        }
    }

    /// Watches until the watch ends. Returns `true` if the next watch must start at once.
    fn watch(&mut self) -> Result<bool, StoreError> {
        let (store, key, from) = (Arc::clone(&self.store), self.key.clone(), self.from.clone());
        let scope = key.as_deref().map_or(WatchScope::All, WatchScope::Key);
        let cancel = CancelToken::new();
        *self.current.0.lock() = Some((cancel.clone(), Instant::now()));
        self.has_told = false;
        let mut failed = None;
        let ended = store.watch(scope, from.as_ref(), &cancel, &mut |event| {
            if failed.is_none()
                && let Err(error) = self.hear(event, from.is_none(), &cancel)
            {
                failed = Some(error);
                cancel.cancel();
            }
        });
        match failed {
            Some(error) if error.kind() == StoreErrorKind::Interrupted => Ok(true),
            Some(error) => Err(error),
            None if cancel.is_cancelled() => Ok(true),
            None => ended.map(|()| false),
        }
    }

    /// Sends an event of a watch to the receiver of the messages.
    ///
    /// # Errors
    ///
    /// Returns the error of the read after the start of the watch.
    fn hear(&mut self, event: WatchEvent, from_scratch: bool, cancel: &CancelToken) -> Result<(), StoreError> {
        match event {
            WatchEvent::Opened => {
                let key = self.key.clone();
                self.update(Update::Opened { key: key.clone(), from_scratch });
                // The watch delivers every change from here on, but nothing for an absent record. A read finds the
                // absence.
                if let Some(key) = key {
                    let call = CallContext::new(READ_TIMEOUT, cancel.clone());
                    let found = self.store.get(&key, &call)?.map(without_data);
                    self.tell(Update::Record { key, found, version: None });
                }
                self.has_worked = true;
            }
            WatchEvent::Changed { key, observed } => {
                let version = Some(observed.version);
                self.tell(Update::Record { key, found: Some(without_data(observed)), version });
            }
            WatchEvent::Deleted { key, version } => {
                self.tell(Update::Record { key, found: None, version: Some(version) });
            }
            WatchEvent::Bookmark(cursor) => {
                self.from = Some(cursor);
                self.tell(Update::ToldAll { key: self.key.clone() });
            }
            // A bookmark follows `Synced`.
            _ => {}
        }
        Ok(())
    }

    /// Sends an update. If an error was reported before, reports the recovery first.
    ///
    /// The recovery is reported only with an update, because an open watch without events proves nothing.
    fn tell(&mut self, update: Update) {
        self.has_told = true;
        if self.trouble.take().is_some() {
            let what = match &self.key {
                Some(key) => self.store.describe(key),
                None => self.store.location().unwrap_or_else(|| "the store".to_owned()),
            };
            self.send(FollowMessage::Trouble(Level::Info, format!("following {what} again")));
        }
        self.update(update);
    }

    fn update(&self, update: Update) {
        self.send(FollowMessage::Update(update, Now::read()));
    }

    fn send(&self, message: FollowMessage) {
        // The receiver is gone only while the process exits.
        let _ = self.tell.send(message);
    }

    /// Reports an error of a watch. Returns the pause before the next watch, or `None` if the error is permanent.
    fn failed(&mut self, error: &StoreError) -> Option<Duration> {
        if error.kind() == StoreErrorKind::Expired {
            self.from = None;
            return Some(self.back_off());
        }
        let why = error.to_string();
        if !self.has_worked && !error.is_transient() {
            self.send(FollowMessage::Failed(why));
            return None;
        }
        let requested = requested_pause(error.retry_after(), LONGEST_REQUESTED_PAUSE, fastrand::f64());
        if !requested.is_zero() {
            self.send(FollowMessage::Paused(requested, why.clone()));
        }
        if self.trouble.as_ref() != Some(&why) {
            self.send(FollowMessage::Trouble(Level::Warn, format!("{why}; retrying")));
            self.trouble = Some(why);
        }
        Some(self.back_off().max(requested))
    }

    /// Returns the next pause. The pauses double, up to half a minute.
    fn back_off(&mut self) -> Duration {
        let pause = self.backoff.pause(Duration::from_secs(1), LONGEST_PAUSE);
        // The pause is random, so that clients that lost the same server do not reconnect at the same time.
        pause.mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

/// Drops the data of the store, which may be large.
fn without_data(mut observed: VersionedRecord) -> VersionedRecord {
    observed.data = StoreData::none();
    observed
}

#[cfg(test)]
mod tests;
