//! A watcher without an elector.

use std::sync::Arc;

use crate::channel::{self, Receiver};
use crate::leadership::handle::{Command, Link};
use crate::observe::observations::Observations;
use crate::runtime::watcher::Watcher;
use crate::store::entry::Entry;
use crate::util::log_fields::LogFields;
use crate::{LeaderElector, Store};

/// A watcher, and the commands that it sends.
pub struct Watched {
    watcher: Watcher,
    told: Receiver<Command>,
}

impl Watched {
    pub fn spawn(store: Arc<dyn Store>) -> Self {
        let (tell, told) = channel::unbounded();
        let settings = LeaderElector::builder("jobs").validate().expect("the defaults are good");
        let entry = Entry::new(store, "jobs");
        let fields = LogFields::new(entry.describe(), "me");
        let link = Arc::new(Link::new(tell, settings.release_timeout, fields));
        let observations = Arc::new(Observations::new(Arc::new(settings.clone())));
        let watcher = Watcher::spawn(entry, link, observations, &settings).expect("threads cost nothing here");
        Self { watcher, told }
    }

    pub fn restart(&self) {
        self.watcher.restart();
    }

    /// Waits until a watch is open that began from scratch.
    pub fn wait_for_one_from_scratch(&self) {
        while !matches!(self.told.recv(), Ok(Command::WatchOpened { from_scratch: true, .. })) {}
    }
}
