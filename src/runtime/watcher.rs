//! The second thread: keeps a watch open, and passes on to the elector's thread what it tells.

use std::io;
use std::time::Duration;

use log::Level;

use crate::cancel::Cancel;
use crate::clock;
use crate::config::Settings;
use crate::election::Change;
use crate::handle::{Command, InFlight, InterruptDelays};
use crate::log_fields::{LogFields, log_with};
use crate::runtime::failure_log::FailureLog;
use crate::store::entry::Entry;
use crate::store::{Cursor, StoreError, StoreErrorKind, WatchEvent};
use crate::sync::channel::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use crate::sync::{Arc, Instant, Mutex, thread};

/// It needs little: the deepest stack is a TLS handshake.
const STACK_SIZE: usize = 256 * 1024;

/// A watch that is refused is asked for again now and then: rights can be granted later.
const REFUSED: Duration = Duration::from_secs(300);

const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The elector's hand on the watch. Dropping it ends the thread, without waiting for it.
pub(crate) struct Watcher {
    /// Dropped to end the thread, sent to so that the next watch begins with what is there.
    wake: Option<Sender<()>>,
    current: Arc<Mutex<Cancel>>,
}

struct Watching {
    entry: Entry,
    tell: Sender<Command>,
    wake: Receiver<()>,
    current: Arc<Mutex<Cancel>>,
    delays: Arc<InterruptDelays>,
    /// Of the elector's thread: what others did to the record is not kept waiting behind it.
    in_flight: Arc<InFlight>,
    retry_period: Duration,
    /// Where the next watch begins.
    from: Option<Cursor>,
    /// Whether the present watch, or the last one, has told anything.
    told: bool,
    /// How many watches have failed, or were given up without having told anything.
    failures: u32,
    log: FailureLog,
    fields: LogFields,
}

#[derive(PartialEq)]
enum Rested {
    ForLongEnough,
    ElectorGone,
}

impl Watcher {
    pub(crate) fn spawn(
        entry: Entry,
        tell: Sender<Command>,
        settings: &Settings,
        delays: Arc<InterruptDelays>,
        in_flight: Arc<InFlight>,
    ) -> io::Result<Self> {
        let (wake, woken) = channel::bounded(1);
        let fields = LogFields::new(&entry, &settings.identity);
        let current = Arc::new(Mutex::new(Cancel::new()));
        let watching = Watching {
            entry,
            tell,
            wake: woken,
            current: Arc::clone(&current),
            delays,
            in_flight,
            retry_period: settings.retry_period,
            from: None,
            told: false,
            failures: 0,
            log: FailureLog::default(),
            fields,
        };
        thread::Builder::new().name("leasehold-watch".into()).stack_size(STACK_SIZE).spawn(move || watching.run())?;
        Ok(Self { wake: Some(wake), current })
    }

    /// Gives up the present watch for a new one that begins with what is there, as soon as one is to be opened.
    pub(crate) fn restart(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
        self.current.lock().cancel();
    }
}

impl Drop for Watching {
    /// A panic in a store ends the watch too.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.tell.send(Command::WatchLost);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // In this order: a watch that begins meanwhile sees either the one or the other.
        self.wake = None;
        self.current.lock().cancel();
    }
}

impl Watching {
    fn run(mut self) {
        let mut pause = Duration::ZERO;
        loop {
            if self.rest(pause) == Rested::ElectorGone {
                return;
            }
            let stop = Cancel::new();
            *self.current.lock() = stop.clone();
            // What came since the wait has stopped the watch before this one.
            loop {
                match self.wake.try_recv() {
                    Ok(()) => self.from = None,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let began = clock::now();
            self.told = false;
            let ended = self.watch(&stop);
            if let Err(error) = &ended
                && error.kind() == StoreErrorKind::Unsupported
            {
                return;
            }
            // Polling begins at once, and ends with the next watch, however soon that is.
            let _ = self.tell.send(Command::WatchLost);
            let lasted = clock::now().since(began);
            pause = match ended {
                Ok(()) => self.pause_after_end(lasted),
                Err(error) => self.pause_after(error, lasted),
            };
        }
    }

    fn rest(&mut self, pause: Duration) -> Rested {
        let began = Instant::now();
        loop {
            match self.wake.recv_timeout(pause.saturating_sub(began.elapsed())) {
                // That changes where the next watch begins, and not when: one that is given up again and again would
                // else never be spared, nor a server that asked to be left alone.
                Ok(()) => self.from = None,
                Err(RecvTimeoutError::Timeout) => return Rested::ForLongEnough,
                Err(RecvTimeoutError::Disconnected) => return Rested::ElectorGone,
            }
        }
    }

    fn watch(&mut self, stop: &Cancel) -> Result<(), StoreError> {
        let Self { entry, in_flight, tell, delays, from, told, log, fields, .. } = self;
        let begin = from.clone();
        entry.watch(begin.as_ref(), stop, &mut |event| {
            let received_at = clock::now();
            if let WatchEvent::Opened = event {
                let _ = tell.send(Command::WatchOpened { from_scratch: begin.is_none() });
                return;
            }
            *told = true;
            // One that opens and tells nothing does not work.
            if let Some(level) = log.works() {
                log_with!(level, fields; "watch works again");
            }
            let change = match event {
                WatchEvent::Changed { observed, .. } => Change::Written(observed),
                WatchEvent::Deleted { version, .. } => Change::Deleted { version },
                WatchEvent::Progress(cursor) => {
                    *from = Some(cursor);
                    return;
                }
                WatchEvent::Opened => return,
            };
            let (taken, is_taken) = channel::bounded(0);
            let _taken = is_of_others(&change, &fields.identity).then_some(taken);
            let _ = tell.send(Command::Watched { received_at, change, _taken });
            if is_taken.recv_timeout(delays.for_news()) == Err(RecvTimeoutError::Timeout) {
                in_flight.cancel();
            }
        })
    }

    /// The server ended the watch in good order: the next one goes on where it ended, at once unless it was brief.
    fn pause_after_end(&mut self, lasted: Duration) -> Duration {
        if lasted <= self.retry_period {
            if let Some(level) = self.log.failed(clock::now(), StoreErrorKind::ConnectionClosed) {
                log_with!(level, self.fields; "polling between watches: the server ends them within {lasted:.1?}");
            }
            return self.back_off();
        }
        self.failures = 0;
        Duration::ZERO
    }

    fn pause_after(&mut self, error: StoreError, lasted: Duration) -> Duration {
        let given_up = error.kind() == StoreErrorKind::Interrupted;
        // One that lasted, and told something, has made up for those that failed before it. What is given up because it
        // did not tell all that it should would do so the next time, unless it has been good for long.
        if self.told && lasted > if given_up { LONGEST_PAUSE } else { self.retry_period } {
            self.failures = 0;
        }
        let fails = match error.kind() {
            StoreErrorKind::Expired => None,
            // Given up once, a watch may just have been cut; given up again and again it tells nothing.
            StoreErrorKind::Interrupted if self.failures == 0 => None,
            kind => self.log.failed(clock::now(), kind),
        };
        let reason = error.to_string();
        let pause = match error.kind() {
            StoreErrorKind::Interrupted => {
                if let Some(level) = fails {
                    log_with!(level, self.fields; "polling: watches open and do not tell what reads find");
                }
                self.again_at_once_the_first_time()
            }
            StoreErrorKind::Expired => {
                self.from = None;
                log_with!(Level::Debug, self.fields, reason = reason.as_str(); "watch begins anew: {error}");
                self.again_at_once_the_first_time()
            }
            StoreErrorKind::Forbidden | StoreErrorKind::Unauthorized => {
                if let Some(level) = fails {
                    let what = "polling, which delays take-overs and costs requests";
                    log_with!(level, self.fields, reason = reason.as_str(); "{what}: {error}");
                }
                jittered(REFUSED)
            }
            _ => {
                if let Some(level) = fails {
                    log_with!(level, self.fields, reason = reason.as_str(); "polling until the watch works again: {error}");
                }
                self.back_off()
            }
        };
        pause.max(error.retry_after().unwrap_or_default())
    }

    fn again_at_once_the_first_time(&mut self) -> Duration {
        if self.failures == 0 { self.count(Duration::ZERO) } else { self.back_off() }
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

/// Whether a change may end a term or let one begin: what we did ourselves does neither.
fn is_of_others(change: &Change, identity: &str) -> bool {
    match change {
        Change::Written(observed) => observed.record.holder() != Some(identity),
        Change::Deleted { .. } => true,
    }
}

/// Up to a fifth longer, at random: watchers that lost one server must not come back together.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(1.0 + 0.2 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::InterruptAfter;
    use crate::runtime::tests::entry;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// One that has not watched yet, and the hand that wakes it.
    fn watching(retry_period: Duration) -> (Watching, Sender<()>) {
        let (tell, _) = channel::unbounded();
        let (wake, woken) = channel::bounded(1);
        let delays = InterruptDelays::new(InterruptAfter { release: Duration::ZERO, news: Duration::ZERO });
        let watching = Watching {
            entry: entry(),
            tell,
            wake: woken,
            current: Arc::default(),
            in_flight: Arc::default(),
            delays: Arc::new(delays),
            retry_period,
            from: Some(Cursor::new(7_u64)),
            told: false,
            failures: 0,
            log: FailureLog::default(),
            fields: LogFields::new(&entry(), "me"),
        };
        (watching, wake)
    }

    fn error(kind: StoreErrorKind) -> StoreError {
        StoreError::new(kind, "made up")
    }

    /// A pause of this length, and up to a fifth more.
    fn assert_about(pause: Duration, expected: Duration) {
        assert!(pause >= expected && pause <= expected.mul_f64(1.2), "{pause:?} instead of {expected:?}");
    }

    type End = fn(&mut Watching) -> Duration;

    #[test]
    fn pauses_grow_from_the_retry_period_to_a_minute_until_a_watch_has_lasted() {
        let refused: End = |watching| watching.pause_after(error(StoreErrorKind::Unavailable), secs(10));
        let brief: End = |watching| watching.pause_after_end(secs(2));
        for end in [refused, brief] {
            let (mut watching, _wake) = watching(secs(2));
            for expected in [2, 4, 8, 16, 32, 60, 60, 60] {
                assert_about(end(&mut watching), secs(expected));
            }
            assert_eq!(watching.pause_after_end(secs(3)), Duration::ZERO);
            assert_about(end(&mut watching), secs(2));
        }
        let (mut watching, _wake) = watching(secs(100));
        assert_about(brief(&mut watching), secs(100));
    }

    #[test]
    fn what_is_given_up_or_expired_is_opened_at_once_and_then_with_pauses_that_grow() {
        for kind in [StoreErrorKind::Interrupted, StoreErrorKind::Expired] {
            let (mut watching, _wake) = watching(secs(2));
            assert_eq!(watching.pause_after(error(kind), secs(10)), Duration::ZERO, "{kind:?}");
            for expected in [4, 8, 16, 32, 60, 60] {
                assert_about(watching.pause_after(error(kind), secs(10)), secs(expected));
            }
        }
    }

    #[test]
    fn a_watch_that_lasted_and_told_makes_up_for_those_before_it() {
        let (mut watching, _wake) = watching(secs(2));
        for _ in 0..9 {
            watching.pause_after(error(StoreErrorKind::Unavailable), Duration::ZERO);
        }
        watching.told = true;
        assert_about(watching.pause_after(error(StoreErrorKind::Unavailable), secs(3)), secs(2));
        // What is given up is not good enough for that before it has been good for long.
        assert_about(watching.pause_after(error(StoreErrorKind::Interrupted), secs(3)), secs(4));
        assert_eq!(watching.pause_after(error(StoreErrorKind::Interrupted), secs(61)), Duration::ZERO);
    }

    #[test]
    fn a_pause_that_was_asked_for_is_never_shortened() {
        use StoreErrorKind::{Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable};
        for kind in [Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable] {
            let (mut watching, _wake) = watching(secs(2));
            for _ in 0..9 {
                let asked = error(kind).with_retry_after(Some(secs(500)));
                assert_eq!(watching.pause_after(asked, secs(1)), secs(500), "{kind:?}");
            }
        }
    }

    #[test]
    fn an_expired_watch_begins_anew_and_every_other_goes_on() {
        let (mut watching, _wake) = watching(secs(2));
        watching.pause_after_end(secs(9));
        watching.pause_after(error(StoreErrorKind::Unavailable), secs(9));
        watching.pause_after(error(StoreErrorKind::Interrupted), secs(9));
        assert!(watching.from.is_some());
        watching.pause_after(error(StoreErrorKind::Expired), secs(9));
        assert!(watching.from.is_none());
    }

    #[test]
    fn a_restart_changes_where_the_next_watch_begins_and_not_when() {
        let (mut watching, wake) = watching(secs(2));
        wake.send(()).unwrap();
        let began = Instant::now();
        assert!(watching.rest(Duration::from_millis(100)) == Rested::ForLongEnough);
        assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
        assert!(watching.from.is_none());
        drop(wake);
        assert!(watching.rest(secs(3_600)) == Rested::ElectorGone);
    }
}
