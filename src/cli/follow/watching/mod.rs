//! The thread that follows one lease, or all: it watches, and begins anew for ever.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use leasehold::{
    CallContext, CancelToken, Cursor, LeaderElectionRecord, Store, StoreError, StoreErrorKind, VersionedRecord,
    WatchEvent, WatchScope,
};
use log::Level;
use parking_lot::Mutex;

use super::leases::Update;
use leasehold::util::backoff::Backoff;
use leasehold::util::clock::Now;

/// A watch that works lasts longer than this.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// How long a read may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What the thread tells.
pub enum FollowMessage {
    Update(Update, Now),
    /// A level of the log, and a line: the store cannot be followed for now, or is followed again.
    Trouble(Level, String),
    /// What cannot mend by itself.
    Failed(String),
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

/// The reason why the thread ends, or a watch.
enum Stop {
    /// Nobody receives the messages.
    Gone,
    Failed(StoreError),
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
        while let Ok(pause) = self.follow() {
            sleep(pause);
        }
    }

    /// Follows one watch until it ends. Returns the pause before the next one.
    fn follow(&mut self) -> Result<Duration, Stop> {
        let began = Instant::now();
        let ended = self.watch();
        let has_lasted = began.elapsed() > RETRY_PERIOD;
        if self.has_told && has_lasted {
            self.backoff.reset();
        }
        match ended {
            Ok(is_replaced) if is_replaced || has_lasted => Ok(Duration::ZERO),
            Ok(_) => Ok(self.back_off()),
            Err(Stop::Failed(error)) => self.failed(&error),
            Err(Stop::Gone) => Err(Stop::Gone),
        }
    }

    /// Watches until the watch ends. Returns `true` if another watch takes its place at once.
    fn watch(&mut self) -> Result<bool, Stop> {
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
        match stop {
            Some(Stop::Failed(error)) if error.kind() == StoreErrorKind::Interrupted => Ok(true),
            Some(stop) => Err(stop),
            None if cancel.is_cancelled() => Ok(true),
            None => ended.map(|()| false).map_err(Stop::Failed),
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
                    let found = self.store.get(&key, &call).map_err(Stop::Failed)?.map(parts);
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

    /// It works: one that opens and tells nothing does not.
    fn tell(&mut self, update: Update) -> Result<(), Stop> {
        self.has_told = true;
        if self.trouble.take().is_some() {
            let what = match &self.key {
                Some(key) => self.store.describe(key),
                None => self.store.location().unwrap_or_else(|| "the store".to_owned()),
            };
            self.send(FollowMessage::Trouble(Level::Info, format!("{what} is followed again")))?;
        }
        self.update(update)
    }

    fn update(&self, update: Update) -> Result<(), Stop> {
        self.send(FollowMessage::Update(update, Now::read()))
    }

    fn send(&self, message: FollowMessage) -> Result<(), Stop> {
        self.tell.send(message).map_err(|_| Stop::Gone)
    }

    /// How long to wait after that.
    fn failed(&mut self, error: &StoreError) -> Result<Duration, Stop> {
        if error.kind() == StoreErrorKind::Expired {
            self.from = None;
            return Ok(self.back_off());
        }
        let why = error.to_string();
        if !self.has_worked && !error.is_transient() {
            self.send(FollowMessage::Failed(why))?;
            return Err(Stop::Gone);
        }
        if self.trouble.as_ref() != Some(&why) {
            self.trouble = Some(why.clone());
            self.send(FollowMessage::Trouble(Level::Warn, format!("{why}; trying again until it works")))?;
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

/// Without the rest of the object, which may be large.
fn parts(observed: VersionedRecord) -> (LeaderElectionRecord, u64) {
    (observed.record, observed.version)
}

#[cfg(test)]
mod tests;
