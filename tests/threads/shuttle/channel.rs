//! A replacement for the parts of `crossbeam_channel` that the library uses.
//!
//! Each operation is one step under one lock, which gives the same guarantees as crossbeam.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use crossbeam_channel::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use crate::sync::{Condvar, Mutex};
use crate::time::{self, Instant, Sleeper};

pub struct Sender<T>(Arc<Channel<T>>);

pub struct Receiver<T>(Arc<Channel<T>>);

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver")
    }
}

struct Channel<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    messages: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receivers: usize,
}

pub fn unbounded<T: 'static>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

pub fn bounded<T: 'static>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { messages: VecDeque::new(), capacity, senders: 1, receivers: 1 };
    let channel = Arc::new(Channel { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

pub fn never<T: 'static>() -> Receiver<T> {
    let (sender, receiver) = bounded(0);
    std::mem::forget(sender);
    receiver
}

impl<T> Sender<T> {
    /// Sends `message`, and panics if the channel is full.
    ///
    /// No sender of the library blocks, so the library uses this function only for unbounded channels.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.try_send(message).map_err(|refused| match refused {
            TrySendError::Disconnected(message) => SendError(message),
            TrySendError::Full(_) => panic!("a send that would block"),
        })
    }

    #[expect(clippy::len_without_is_empty, reason = "nobody asks a sender that")]
    pub fn len(&self) -> usize {
        self.0.state.lock().messages.len()
    }

    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut state = self.0.state.lock();
        if state.receivers == 0 {
            return Err(TrySendError::Disconnected(message));
        }
        if state.messages.len() >= state.capacity {
            return Err(TrySendError::Full(message));
        }
        state.messages.push_back(message);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl<T: 'static> Receiver<T> {
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receive(None).map_err(|_| RecvError)
    }

    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.receive(Some(Instant::now() + timeout))
    }

    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.receive(Some(deadline))
    }

    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.state.lock().take()
    }

    pub fn is_empty(&self) -> bool {
        self.0.state.lock().messages.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    fn receive(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut state = self.0.state.lock();
        let _alarm = deadline
            .filter(|deadline| *deadline > Instant::now() && state.is_waited_for())
            .map(|deadline| time::wake_at(deadline, Arc::clone(&self.0) as Arc<dyn Sleeper>));
        loop {
            match state.take() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(RecvTimeoutError::Timeout);
            }
            state = self.0.changed.wait(state);
        }
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Result<T, TryRecvError> {
        match self.messages.pop_front() {
            Some(message) => Ok(message),
            None if self.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    fn is_waited_for(&self) -> bool {
        self.messages.is_empty() && self.senders > 0
    }
}

impl<T> Sleeper for Channel<T> {
    fn wake(&self) {
        let _held = self.state.lock();
        self.changed.notify_all();
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().receivers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.0.changed.notify_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.receivers -= 1;
        if state.receivers == 0 {
            // As in crossbeam, messages that no receiver can take are dropped at once. A message may own an end of
            // another channel, so the lock is released first.
            let messages = std::mem::take(&mut state.messages);
            drop(state);
            drop(messages);
        }
    }
}
