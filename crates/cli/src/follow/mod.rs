//! Follows the records of a store.
//!
//! One thread for each named lease, or one thread for all leases, watches until the process ends.

pub mod leases;
mod place;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use leasehold::store::Store;
use log::Level;

use crate::clock::{self, Now};
use crate::one_line::OneLine;
use leases::{LeaseEvent, Leases, Update, Which};
use watching::{CurrentWatch, FollowMessage, FollowThread};

pub use place::{FollowArgs, LeaseArgs, check_name};
pub use watching::{LONGEST_REQUESTED_PAUSE, READ_TIMEOUT};

/// The largest number of queued updates.
///
/// While the queue is full, the threads do not read from the store.
const BEHIND: usize = 64;

/// The state of the followed leases, and the queue of updates.
pub struct Follower {
    updates: Receiver<FollowMessage>,
    pub leases: Leases,
    /// The current watch of each lease. The key `None` stands for all leases.
    watches: BTreeMap<Option<Box<str>>, CurrentWatch>,
    /// The location of the records, for messages.
    pub location: String,
    /// `true` after the store has answered a read, or has sent an event of a record.
    pub has_answered: bool,
}

/// Returns the location of the records, for messages.
pub fn location(store: &dyn Store) -> String {
    store.location().unwrap_or_else(|| "this store".to_owned())
}

/// The result of waiting for an update.
pub enum Heard {
    Events(Vec<LeaseEvent>),
    /// A log line and its level.
    Trouble(Level, String),
    /// The pause that the store requested, and the error.
    Paused(Duration, String),
}

impl Follower {
    /// Follows the leases of these names, or all leases if there are no names.
    ///
    /// # Errors
    ///
    /// Returns an error if a name cannot be the name of a lease.
    pub fn start(store: Arc<dyn Store>, names: &[String], which_of_all: Which) -> Result<Self, String> {
        for name in names {
            check_name(&*store, name)?;
        }
        let location = location(&*store);
        let all = names.is_empty().then_some(None);
        let keys = names.iter().map(|name| Some(Box::from(&**name))).chain(all);
        // A repeated name is followed once.
        let watches: BTreeMap<_, _> = keys.map(|key| (key, CurrentWatch::default())).collect();
        let (tell, updates) = bounded(BEHIND);
        for (key, current) in &watches {
            let watching = FollowThread::new(Arc::clone(&store), key.as_deref(), current.clone(), tell.clone());
            let thread = thread::Builder::new().name("leasehold-watch".into());
            thread.spawn(move || watching.run()).map_err(|error| format!("cannot start a thread: {error}"))?;
        }
        let which = if names.is_empty() { which_of_all } else { Which::Named };
        Ok(Self { updates, leases: Leases::new(which), watches, location, has_answered: false })
    }

    /// Waits for an update, at most for `patience`.
    ///
    /// # Errors
    ///
    /// Returns an error that a retry cannot repair.
    pub fn next(&mut self, patience: Duration) -> Result<Heard, String> {
        let expiry = self.leases.next_expiry().map_or(Duration::MAX, |expiry| expiry.since(clock::now()));
        let events = match self.updates.recv_timeout(patience.min(expiry)) {
            Ok(FollowMessage::Update(update, at)) => {
                self.has_answered |= matches!(update, Update::Record { .. });
                self.leases.apply(update, at)
            }
            Ok(FollowMessage::Trouble(level, trouble)) => return Ok(Heard::Trouble(level, trouble)),
            Ok(FollowMessage::Paused(pause, why)) => return Ok(Heard::Paused(pause, OneLine(&why).to_string())),
            Ok(FollowMessage::Failed(why)) => return Err(OneLine(&why).to_string()),
            // `expire` reads the clock after the queue was empty, so an update that arrived in time is applied first.
            Err(RecvTimeoutError::Timeout) => self.expire(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err("all watches have ended unexpectedly; report this as a bug in leasehold".to_owned());
            }
        };
        Ok(Heard::Events(events))
    }

    fn expire(&mut self) -> Vec<LeaseEvent> {
        let events = self.leases.expire(Now::read());
        for event in &events {
            let watch = self.watches.get(&Some(event.key.clone())).or_else(|| self.watches.get(&None));
            watch.into_iter().for_each(CurrentWatch::restart);
        }
        events
    }
}
