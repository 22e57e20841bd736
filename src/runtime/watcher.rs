//! The watch thread, which keeps a watch open and sends its events to the elector.

use std::io;
use std::time::Duration;

use crate::election::Change;
use crate::election::candidate::watch_plan::{Ended, WatchPlan};
use crate::election::settings::Settings;
use crate::leadership::handle::{Command, Link, as_runtime};
use crate::observe::observations::Observations;
use crate::runtime::{STACK_SIZE, cancel_aside};
use crate::store::entry::Entry;
use crate::store::{StoreError, WatchEvent};
use crate::util::cancel::CancelToken;
use crate::util::clock;
use crate::util::config_error::random_seed;
use crate::util::log_fields::LogFields;
use crate::util::sync::channel::{self, Receiver, RecvTimeoutError, Sender};
use crate::util::sync::{Arc, Instant, Mutex, thread};

/// The elector's handle to a watch thread. Dropping the handle ends the thread, but does not wait for the end.
pub(crate) struct Watcher {
    /// Dropping the sender ends the thread. A message makes the next watch start with the current state of the record.
    wake: Option<Sender<()>>,
    current: Arc<Mutex<CancelToken>>,
}

struct WatchThread {
    entry: Entry,
    link: Arc<Link>,
    wake: Receiver<()>,
    current: Arc<Mutex<CancelToken>>,
    plan: WatchPlan,
    observations: Arc<Observations>,
    fields: LogFields,
}

impl Watcher {
    pub(crate) fn spawn(
        entry: Entry,
        link: Arc<Link>,
        observations: Arc<Observations>,
        settings: &Settings,
    ) -> io::Result<Self> {
        let (wake, woken) = channel::bounded(1);
        let fields = LogFields::new(entry.describe(), &settings.identity);
        let current = Arc::new(Mutex::new(CancelToken::new()));
        let watching = WatchThread {
            entry,
            link,
            wake: woken,
            current: Arc::clone(&current),
            plan: WatchPlan::new(settings.retry_period, settings.lease_duration, random_seed()),
            observations,
            fields,
        };
        thread::Builder::new().name("leasehold-watch".into()).stack_size(STACK_SIZE).spawn(move || watching.run())?;
        Ok(Self { wake: Some(wake), current })
    }

    /// Ends the current watch. The next watch starts with the current state of the record, after the watch plan's
    /// pause.
    pub(crate) fn restart(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
        self.cancel_current();
    }

    /// Cancels the current watch on another thread, because a hook of the store may wait for the watch thread.
    fn cancel_current(&self) {
        cancel_aside(self.current.lock().clone());
    }
}

impl Drop for WatchThread {
    /// Reports the loss of the watch if the store panicked.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.link.send(Command::WatchLost);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The sender is dropped first. A watch that starts now then detects either the dropped sender or the
        // cancellation.
        self.wake = None;
        self.cancel_current();
    }
}

impl WatchThread {
    fn run(self) {
        let _as_runtime = as_runtime();
        // Dropped before the mark of this thread, because the store may drop a guard.
        let mut watching = self;
        watching.watch_until_the_end();
    }

    fn watch_until_the_end(&mut self) {
        let mut pause = Duration::ZERO;
        loop {
            if !self.pause(pause) {
                return;
            }
            let stop = CancelToken::new();
            *self.current.lock() = stop.clone();
            // A restart after the pause canceled only the previous watch, so its message must be read now.
            if !self.pause(Duration::ZERO) {
                return;
            }
            let ended = self.watch(&stop);
            let Ended { pause: next, notice } = self.plan.ended(clock::now(), ended.as_ref().copied());
            // Reported even without a pause, so that the elector polls until the next watch opens.
            self.link.send(Command::WatchLost);
            let Some(next) = next else { return };
            if let Some(notice) = notice {
                notice.log(&self.fields);
            }
            pause = next;
        }
    }

    /// Waits for `pause`. Returns `false` if the elector has ended.
    fn pause(&mut self, pause: Duration) -> bool {
        let began = Instant::now();
        loop {
            match self.wake.recv_timeout(pause.saturating_sub(began.elapsed())) {
                Ok(()) => self.plan.restart(),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn watch(&mut self, stop: &CancelToken) -> Result<(), StoreError> {
        let Self { entry, link, plan, observations, fields, .. } = self;
        let begin = plan.begin(clock::now());
        entry.watch(begin.as_ref(), stop, &mut |event| {
            let received_at = clock::now();
            observations.contact();
            if let WatchEvent::Opened = event {
                plan.opened();
                let from_scratch = begin.is_none();
                return link.send_and_wait(|handled| Command::WatchOpened { from_scratch, handled });
            }
            let notice = plan.delivered();
            let tell = |change| {
                link.send_and_wait(|handled| Command::Watched { received_at, change, handled });
            };
            match event {
                WatchEvent::Changed { observed, .. } => tell(Change::Written(observed)),
                WatchEvent::Deleted { version, .. } => tell(Change::Deleted { version }),
                WatchEvent::Bookmark(cursor) => plan.bookmark(cursor),
                WatchEvent::Opened | WatchEvent::Synced | WatchEvent::Unreadable { .. } => {}
            }
            // Logged after the event was sent, because a logger may hang.
            if let Some(notice) = notice {
                notice.log(fields);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;
    use crate::leadership::handle::tests::{fields, link};
    use crate::runtime::tests::entry;
    use crate::store::Cursor;

    #[test]
    fn a_restart_changes_where_the_next_watch_begins_and_not_when() {
        let (wake, woken) = channel::bounded(1);
        let mut watching = WatchThread {
            entry: entry(),
            link: link().0,
            wake: woken,
            current: Arc::default(),
            plan: WatchPlan::new(Duration::from_secs(2), Duration::from_secs(15), 1),
            observations: Arc::new(Observations::new(Config::default().validate().unwrap().into())),
            fields: fields(),
        };
        watching.plan.bookmark(Cursor::new(7_u64));
        wake.send(()).unwrap();
        let began = Instant::now();
        assert!(watching.pause(Duration::from_millis(100)));
        assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
        assert!(watching.plan.begin(clock::now()).is_none());
        drop(wake);
        assert!(!watching.pause(Duration::from_secs(3_600)));
    }
}
