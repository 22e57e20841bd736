//! A latch: an event that happens once, for threads that wait.

use std::convert::Infallible;

use crate::util::sync::Mutex;
use crate::util::sync::channel::{self, Receiver, Sender, TryRecvError};

/// An event that happens at most once. Its channel delivers no message, and disconnects at the event.
pub(crate) struct Latch {
    /// Dropped at the event.
    sender: Mutex<Option<Sender<Infallible>>>,
    receiver: Receiver<Infallible>,
}

impl Latch {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel::bounded(0);
        Self { sender: Mutex::new(Some(sender)), receiver }
    }

    /// Makes the event happen, and wakes all waiters.
    pub(crate) fn set(&self) {
        *self.sender.lock() = None;
    }

    /// Returns `true` after the event.
    pub(crate) fn is_set(&self) -> bool {
        self.receiver.try_recv() == Err(TryRecvError::Disconnected)
    }

    pub(crate) fn receiver(&self) -> &Receiver<Infallible> {
        &self.receiver
    }
}
