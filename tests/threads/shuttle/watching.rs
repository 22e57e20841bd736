//! A watcher by itself.

use std::sync::Arc;
use std::time::Duration;

use crate::channel::{self, Receiver};
use crate::election::InterruptAfter;
use crate::handle::{Command, InFlight, InterruptDelays};
use crate::runtime::watcher::Watcher;
use crate::store::entry::Entry;
use crate::{LeaderElector, Store};

/// A watcher, and what it tells.
pub struct Watched {
    watcher: Watcher,
    told: Receiver<Command>,
}

impl Watched {
    pub fn spawn(store: Arc<dyn Store>) -> Self {
        let (tell, told) = channel::unbounded();
        let settings = LeaderElector::builder("jobs").settings().expect("the defaults are good");
        let after = InterruptAfter { release: Duration::from_millis(50), news: Duration::from_millis(250) };
        let timeout = Arc::new(InterruptDelays::new(after));
        let watcher =
            Watcher::spawn(Entry::new(store, "jobs"), tell, &settings, timeout, Arc::new(InFlight::default()))
                .expect("threads cost nothing here");
        Self { watcher, told }
    }

    pub fn restart(&self) {
        self.watcher.restart();
    }

    /// Waits until a watch stands that begins with what is there.
    pub fn wait_for_one_from_scratch(&self) {
        while !matches!(self.told.recv(), Ok(Command::WatchOpened { from_scratch: true })) {}
    }
}
