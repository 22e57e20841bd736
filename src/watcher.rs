//! The second thread: keeps a watch open, and passes on to the elector's thread what it tells.

use std::io;
use std::time::Duration;

use crate::clock::{self, Moment};
use crate::config::Settings;
use crate::link::Command;
use crate::lock::{Lock, LockError, LockErrorKind, WatchEvent, WatchStop};
use crate::sync::channel::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use crate::sync::{Arc, Mutex, thread};

/// It needs little: the deepest stack is a TLS handshake.
const STACK_SIZE: usize = 256 * 1024;

/// A watch that is refused is asked for again now and then: rights can be granted later.
const REFUSED: Duration = Duration::from_secs(300);

const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long what others did to the record may wait behind a request of the elector's own. Longer than a busy server
/// takes for one: whatever is interrupted costs a connection.
const MAY_WAIT: Duration = Duration::from_millis(250);

/// The elector's hand on the watch. Dropping it ends the thread, without waiting for it.
pub(crate) struct Watcher {
    /// Dropped to end the thread, sent to to end its pause.
    wake: Option<Sender<()>>,
    current: Arc<Mutex<WatchStop>>,
}

struct Watching {
    lock: Arc<dyn Lock>,
    tell: Sender<Command>,
    wake: Receiver<()>,
    current: Arc<Mutex<WatchStop>>,
    identity: String,
    retry_period: Duration,
    /// Where the next watch begins.
    after: Option<u64>,
    failures: u32,
    logged: Option<LockErrorKind>,
}

impl Watcher {
    pub(crate) fn spawn(lock: Arc<dyn Lock>, tell: Sender<Command>, settings: &Settings) -> io::Result<Self> {
        let (wake, woken) = channel::bounded(1);
        let current = Arc::new(Mutex::new(WatchStop::new()));
        let watching = Watching {
            lock,
            tell,
            wake: woken,
            current: Arc::clone(&current),
            identity: settings.identity.clone(),
            retry_period: settings.retry_period,
            after: None,
            failures: 0,
            logged: None,
        };
        thread::Builder::new().name("leasehold-watch".into()).stack_size(STACK_SIZE).spawn(move || watching.run())?;
        Ok(Self { wake: Some(wake), current })
    }

    /// Gives up the present watch for a new one that begins with what is there.
    pub(crate) fn restart(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
        self.current.lock().stop();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // In this order: a watch that begins meanwhile sees either the one or the other.
        self.wake = None;
        self.current.lock().stop();
    }
}

impl Watching {
    fn run(mut self) {
        let mut pause = Duration::ZERO;
        loop {
            match self.wake.recv_timeout(pause) {
                Ok(()) => self.after = None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let stop = WatchStop::new();
            *self.current.lock() = stop.clone();
            // What came since the wait has stopped the watch before this one.
            loop {
                match self.wake.try_recv() {
                    Ok(()) => self.after = None,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let began = clock::now();
            let ended = self.watch(&stop);
            // One that lasted has made up for those that failed before it.
            if clock::now().since(began) > self.retry_period {
                self.failures = 0;
            }
            pause = match ended {
                Ok(()) => self.pause_after_end(began),
                Err(error) if error.kind() == LockErrorKind::Unsupported => return,
                Err(error) => self.pause_after(error),
            };
        }
    }

    fn watch(&mut self, stop: &WatchStop) -> Result<(), LockError> {
        let Self { lock, tell, identity, after, logged, .. } = self;
        let begin = *after;
        lock.watch(begin, stop, &mut |event| {
            let received_at = clock::now();
            let version = match &event {
                WatchEvent::Opened => {
                    if logged.take().is_some() {
                        log::info!("{}: watch works again", lock.describe());
                    }
                    let _ = tell.send(Command::WatchOpened { afresh: begin.is_none() });
                    return;
                }
                WatchEvent::Changed(observed) => observed.version,
                WatchEvent::Deleted { version } | WatchEvent::Bookmark { version } => *version,
            };
            *after = (*after).max(Some(version));
            let (taken, is_taken) = channel::bounded(0);
            let _taken = is_of_others(&event, identity).then_some(taken);
            let _ = tell.send(Command::Heard { received_at, event, _taken });
            if is_taken.recv_timeout(MAY_WAIT) == Err(RecvTimeoutError::Timeout) {
                lock.interrupt();
            }
        })
    }

    /// The server ended the watch in good order: the next one goes on where it ended, at once unless it was brief.
    fn pause_after_end(&mut self, began: Moment) -> Duration {
        if clock::now().since(began) > self.retry_period { Duration::ZERO } else { self.back_off() }
    }

    fn pause_after(&mut self, error: LockError) -> Duration {
        let _ = self.tell.send(Command::WatchLost);
        let lease = self.lock.describe();
        let first = self.logged.replace(error.kind()) != Some(error.kind());
        match error.kind() {
            LockErrorKind::Interrupted => Duration::ZERO,
            LockErrorKind::Expired => {
                self.after = None;
                log::debug!("{lease}: watch begins anew: {error}");
                if self.failures == 0 { self.count(Duration::ZERO) } else { self.back_off() }
            }
            LockErrorKind::Forbidden | LockErrorKind::Unauthorized => {
                if first {
                    log::warn!("{lease}: polling, which delays take-overs and costs requests: {error}");
                }
                jittered(REFUSED)
            }
            _ => {
                if first {
                    log::warn!("{lease}: polling until the watch works again: {error}");
                }
                self.back_off().max(error.retry_after().unwrap_or_default().min(LONGEST_PAUSE))
            }
        }
    }

    fn back_off(&mut self) -> Duration {
        let pause = self.retry_period.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.count(jittered(pause.max(self.retry_period)))
    }

    fn count(&mut self, pause: Duration) -> Duration {
        self.failures = self.failures.saturating_add(1);
        pause
    }
}

/// Whether an event may end a term or let one begin: what we did ourselves does neither.
fn is_of_others(event: &WatchEvent, identity: &str) -> bool {
    match event {
        WatchEvent::Changed(observed) => observed.record.holder() != Some(identity),
        WatchEvent::Deleted { .. } => true,
        WatchEvent::Opened | WatchEvent::Bookmark { .. } => false,
    }
}

/// Up to a fifth longer, at random: watchers that lost one server must not come back together.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(1.0 + 0.2 * fastrand::f64())
}
