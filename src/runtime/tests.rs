//! What tests of both threads need.

use std::time::Duration;

use crate::config::ConfigError;
use crate::handle::{Command, Link};
use crate::log_fields::LogFields;
use crate::record::{LeaderElectionRecord, Observed};
use crate::store::entry::Entry;
use crate::store::{Call, Store, StoreError};
use crate::sync::Arc;
use crate::sync::channel::{self, Receiver};

/// One that nobody asks.
pub(crate) fn entry() -> Entry {
    Entry::new(Arc::new(NoStore), "jobs")
}

/// What it is told is found in the other end.
pub(crate) fn link() -> (Arc<Link>, Receiver<Command>) {
    let (sender, commands) = channel::unbounded();
    (Arc::new(Link::new(sender, Duration::ZERO, fields())), commands)
}

pub(crate) fn fields() -> LogFields {
    LogFields::new(&entry(), "me")
}

struct NoStore;

impl Store for NoStore {
    fn get(&self, _: &str, _: &Call) -> Result<Option<Observed>, StoreError> {
        unreachable!("nobody asks")
    }
    fn create(&self, _: &str, _: &LeaderElectionRecord, _: &Call) -> Result<Observed, StoreError> {
        unreachable!("nobody asks")
    }
    fn update(&self, _: &str, _: &Observed, _: &LeaderElectionRecord, _: &Call) -> Result<Observed, StoreError> {
        unreachable!("nobody asks")
    }
    fn check_key(&self, _: &str) -> Result<(), ConfigError> {
        Ok(())
    }
    fn describe(&self, key: &str) -> String {
        key.to_owned()
    }
}
