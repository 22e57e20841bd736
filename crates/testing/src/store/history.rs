//! The history of changes, and their delivery to watches.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::Value;

use crate::object::key::{Filter, ObjectKey};
use crate::object::status::StatusObject;

/// The number of unread messages at which a watcher is dropped, so that a stalled client uses bounded memory.
const MAILBOX_LIMIT: usize = 10_000;

/// A write, in the form in which watches deliver the write.
#[derive(Debug)]
pub(crate) struct ObjectChange {
    pub revision: u64,
    /// The type of the watch event: `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: &'static str,
    pub key: ObjectKey,
    pub object: Arc<Value>,
}

/// A message from the store to a watch.
#[derive(Clone, Debug)]
pub(crate) enum WatchMessage {
    Change(Arc<ObjectChange>),
    /// All changes up to this revision have been sent.
    Bookmark(u64),
    /// The watch must evaluate the faults again.
    Wake,
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub id: u64,
    /// The objects that existed at the start.
    pub backlog: Vec<Arc<ObjectChange>>,
    /// Disconnects when the watch must end.
    pub messages: Receiver<WatchMessage>,
}

struct Subscriber {
    id: u64,
    filter: Filter,
    /// Only changes after this revision are sent. The revision may be in the future.
    after: u64,
    mailbox: Sender<WatchMessage>,
}

/// The latest changes, and the watches that receive the next changes.
pub(crate) struct History {
    changes: VecDeque<Arc<ObjectChange>>,
    limit: usize,
    /// Changes up to this revision are no longer in the history.
    compacted: u64,
    watchers: Vec<Subscriber>,
    next_watcher: u64,
}

impl History {
    /// Creates a history of at most `limit` changes that starts after `revision`.
    pub fn new(revision: u64, limit: usize) -> History {
        History { changes: VecDeque::new(), limit, compacted: revision, watchers: Vec::new(), next_watcher: 0 }
    }

    /// Appends a change, and sends it to the matching watches.
    pub fn publish(&mut self, change: Arc<ObjectChange>) {
        self.watchers.retain(|watcher| {
            if watcher.after >= change.revision || !watcher.filter.matches(&change.key) {
                return true;
            }
            watcher.mailbox.len() < MAILBOX_LIMIT && watcher.mailbox.send(WatchMessage::Change(change.clone())).is_ok()
        });
        self.changes.push_back(change);
        while self.changes.len() > self.limit {
            if let Some(oldest) = self.changes.pop_front() {
                self.compacted = oldest.revision;
            }
        }
    }

    /// Returns the changes after a revision, or an error if the history begins later.
    pub fn since(&self, revision: u64, filter: &Filter) -> Result<Vec<Arc<ObjectChange>>, StatusObject> {
        if revision < self.compacted {
            let message = format!("too old resource version: {revision} ({})", self.compacted);
            return Err(StatusObject::new(410, "Expired", message));
        }
        let later = self.changes.iter().filter(|change| change.revision > revision && filter.matches(&change.key));
        Ok(later.cloned().collect())
    }

    /// Opens a watch, which receives every change after the revision `after`.
    pub fn subscribe(&mut self, filter: Filter, after: u64, backlog: Vec<Arc<ObjectChange>>) -> Subscription {
        let (mailbox, messages) = unbounded();
        let id = self.next_watcher;
        self.next_watcher += 1;
        self.watchers.push(Subscriber { id, filter, after, mailbox });
        Subscription { id, backlog, messages }
    }

    pub fn unsubscribe(&mut self, id: u64) {
        self.watchers.retain(|watcher| watcher.id != id);
    }

    /// Ends every watch.
    pub fn unsubscribe_all(&mut self) {
        self.watchers.clear();
    }

    /// Sends a bookmark to the watch `id`, or to all watches.
    pub fn bookmark(&self, id: Option<u64>, revision: u64) {
        for watcher in &self.watchers {
            if id.is_none_or(|id| id == watcher.id) && watcher.after <= revision {
                // The receiver was dropped if the watch is ending.
                let _ = watcher.mailbox.send(WatchMessage::Bookmark(revision));
            }
        }
    }

    pub fn wake(&self) {
        for watcher in &self.watchers {
            let _ = watcher.mailbox.send(WatchMessage::Wake);
        }
    }

    /// Forgets all changes up to `revision`.
    pub fn compact(&mut self, revision: u64) {
        self.changes.clear();
        self.compacted = revision;
    }
}
