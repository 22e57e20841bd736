//! The thread that follows one lease, or all: it watches, and begins anew for ever.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use leasehold::{
    CallContext, CancelToken, Cursor, LeaderElectionRecord, Store, StoreError, StoreErrorKind, VersionedRecord,
    WatchEvent, WatchScope,
};
use parking_lot::Mutex;

use super::leases::Update;
use crate::backoff::Backoff;
use crate::clock::Now;

/// How often a store that cannot watch is read, and how long a watch lasts that works.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// How long a read may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What the thread tells.
pub enum FollowMessage {
    Update(Update, Now),
    Trouble(Trouble),
    /// What cannot mend by itself.
    Failed(String),
}

/// Why the store cannot be followed for now, or that it can be again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    Begins(String),
    Ends(String),
}

/// The watch that stands, and when it began.
#[derive(Clone, Default)]
pub struct CurrentWatch(Arc<Mutex<Option<(CancelToken, Instant)>>>);

impl CurrentWatch {
    /// Has another take its place, which begins with a read: one whose connection was cut in silence tells nothing for long.
    pub fn restart(&self) {
        let current = self.0.lock().clone();
        // One that has just begun has been read, and many leases may run out at once.
        if let Some((cancel, _)) = current.filter(|(_, began)| began.elapsed() >= SHORTEST_LEASE) {
            cancel.cancel();
        }
    }
}

/// Nobody hears it any more.
struct Gone;

/// Why a watch is to end.
enum Stop {
    Gone,
    Unread(StoreError),
}

/// How a watch has ended.
enum WatchEnd {
    InOrder,
    ForAnother,
    Failed(StoreError),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

pub struct FollowThread {
    store: Arc<dyn Store>,
    /// `None`: all.
    key: Option<Box<str>>,
    tell: Sender<FollowMessage>,
    current: CurrentWatch,
    /// Where the next watch begins.
    from: Option<Cursor>,
    /// It has worked once: what does not later may do so again.
    has_worked: bool,
    /// The watch that stands, or the last one, has told something.
    has_told: bool,
    /// What kept it from working, and was told.
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

    /// Until nobody hears it any more.
    pub fn run(mut self) {
        let _: Result<(), Gone> = self.follow();
    }

    fn follow(&mut self) -> Result<(), Gone> {
        loop {
            let began = Instant::now();
            let ended = self.watch()?;
            if self.has_told && began.elapsed() > RETRY_PERIOD {
                self.backoff.reset();
            }
            let pause = match ended {
                WatchEnd::ForAnother => Duration::ZERO,
                WatchEnd::InOrder if began.elapsed() > RETRY_PERIOD => Duration::ZERO,
                WatchEnd::InOrder => self.back_off(),
                WatchEnd::Failed(error) if error.kind() == StoreErrorKind::Unsupported => {
                    return match self.key.clone() {
                        Some(key) => self.poll(&key),
                        None => self.send(FollowMessage::Failed(cannot_watch(&*self.store, &error))),
                    };
                }
                WatchEnd::Failed(error) => self.failed(&error)?,
            };
            sleep(pause);
        }
    }

    /// One watch, until it ends.
    fn watch(&mut self) -> Result<WatchEnd, Gone> {
        let (store, key, from) = (Arc::clone(&self.store), self.key.clone(), self.from.clone());
        let scope = key.as_deref().map_or(WatchScope::All, WatchScope::Key);
        let cancel = CancelToken::new();
        *self.current.0.lock() = Some((cancel.clone(), Instant::now()));
        self.has_told = false;
        let mut stop = None;
        let ended = store.watch(scope, from.as_ref(), &cancel, &mut |event| {
            if stop.is_none()
                && let Err(why) = self.hear(event, from.is_none(), &cancel)
            {
                stop = Some(why);
                cancel.cancel();
            }
        });
        match (stop, ended) {
            (Some(Stop::Gone), _) => Err(Gone),
            (Some(Stop::Unread(error)), _) if error.kind() != StoreErrorKind::Interrupted => {
                Ok(WatchEnd::Failed(error))
            }
            _ if cancel.is_cancelled() => Ok(WatchEnd::ForAnother),
            (_, Ok(())) => Ok(WatchEnd::InOrder),
            (_, Err(error)) => Ok(WatchEnd::Failed(error)),
        }
    }

    /// Passes on what a watch says.
    fn hear(&mut self, event: WatchEvent, from_scratch: bool, cancel: &CancelToken) -> Result<(), Stop> {
        match event {
            WatchEvent::Opened => {
                let key = self.key.clone();
                self.update(Update::Opened { key: key.clone(), from_scratch })?;
                // Of a record that is not there a watch tells nothing, and from now on nothing is missed.
                if let Some(key) = key {
                    let call = CallContext::new(READ_TIMEOUT, cancel.clone());
                    let found = self.store.get(&key, &call).map_err(Stop::Unread)?.map(parts);
                    self.tell(Update::Read { key, found })?;
                }
                self.has_worked = true;
            }
            WatchEvent::Changed { key, observed } => {
                let (record, version) = parts(observed);
                self.tell(Update::Changed { key, record, version })?;
            }
            WatchEvent::Deleted { key, version } => self.tell(Update::Deleted { key, version })?,
            WatchEvent::Bookmark(cursor) => {
                self.from = Some(cursor);
                self.tell(Update::ToldAll { key: self.key.clone() })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// For a store that cannot watch.
    fn poll(&mut self, key: &str) -> Result<(), Gone> {
        loop {
            let call = CallContext::new(READ_TIMEOUT, CancelToken::new());
            let pause = match self.store.get(key, &call) {
                Ok(found) => {
                    self.has_worked = true;
                    self.backoff.reset();
                    self.tell(Update::Read { key: key.into(), found: found.map(parts) })?;
                    RETRY_PERIOD
                }
                Err(error) => self.failed(&error)?,
            };
            sleep(pause);
        }
    }

    /// It works: one that opens and tells nothing does not.
    fn tell(&mut self, update: Update) -> Result<(), Gone> {
        self.has_told = true;
        if self.trouble.take().is_some() {
            let what = match &self.key {
                Some(key) => self.store.describe(key),
                None => self.store.location().unwrap_or_else(|| "the store".to_owned()),
            };
            self.send(FollowMessage::Trouble(Trouble::Ends(format!("{what} is followed again"))))?;
        }
        self.update(update)
    }

    fn update(&self, update: Update) -> Result<(), Gone> {
        self.send(FollowMessage::Update(update, Now::read()))
    }

    fn send(&self, message: FollowMessage) -> Result<(), Gone> {
        self.tell.send(message).map_err(|_| Gone)
    }

    /// How long to wait after that.
    fn failed(&mut self, error: &StoreError) -> Result<Duration, Gone> {
        if error.kind() == StoreErrorKind::Expired {
            self.from = None;
            return Ok(self.back_off());
        }
        let why = error.to_string();
        if !self.has_worked && !error.is_transient() {
            self.send(FollowMessage::Failed(why))?;
            return Err(Gone);
        }
        if self.trouble.as_ref() != Some(&why) {
            self.trouble = Some(why.clone());
            self.send(FollowMessage::Trouble(Trouble::Begins(format!("{why}; trying again until it works"))))?;
        }
        Ok(self.back_off().max(error.retry_after().unwrap_or_default()))
    }

    /// Longer each time, up to half a minute.
    fn back_off(&mut self) -> Duration {
        let pause = self.backoff.pause(Duration::from_secs(1), LONGEST_PAUSE);
        // Those who lost one server must not come back together.
        pause.mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

fn cannot_watch(store: &dyn Store, error: &StoreError) -> String {
    let place = store.location().map_or_else(String::new, |location| format!(" in {location}"));
    format!("all leases{place} cannot be followed at once: {error}; name the leases")
}

/// Without the rest of the object, which may be large.
fn parts(observed: VersionedRecord) -> (LeaderElectionRecord, u64) {
    (observed.record, observed.version)
}

#[cfg(test)]
mod tests;
