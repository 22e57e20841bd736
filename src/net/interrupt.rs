//! Interruption of I/O that blocks other threads.

use std::convert::Infallible;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use parking_lot::Mutex;

use super::error::{Error, NetErrorKind};
use crate::util::cancel::{CancelHook, CancelToken};
use crate::util::debug_fields::debug_fields;

/// Ends the I/O of one call. An interrupt is final. Clones share the state.
#[derive(Clone)]
pub(crate) struct Interrupter {
    /// A channel that disconnects when the trigger is dropped.
    ///
    /// The disconnection wakes every `select!` on the channel.
    pub(crate) signal: Receiver<Infallible>,
    state: Arc<Mutex<InterruptState>>,
}

struct InterruptState {
    trigger: Option<Sender<Infallible>>,
    connections: Vec<Weak<dyn Shutdown>>,
}

/// A connection that can be ended from another thread.
pub(crate) trait Shutdown: Send + Sync + 'static {
    /// Ends all blocked I/O and all later I/O of the connection. Never blocks on the network.
    fn shutdown(&self);
}

impl Interrupter {
    /// Creates an interrupter that `cancel` triggers until the returned hook is dropped.
    pub(crate) fn hooked(cancel: &CancelToken) -> (Self, CancelHook) {
        let interrupter = Self::default();
        let hook = cancel.on_cancel({
            let interrupter = interrupter.clone();
            move || interrupter.interrupt()
        });
        (interrupter, hook)
    }

    /// Ends all current and later I/O of the registered connections. Never blocks on the network.
    pub(crate) fn interrupt(&self) {
        let connections = {
            let mut state = self.state.lock();
            state.trigger = None;
            std::mem::take(&mut state.connections)
        };
        // The connections are shut down without the lock, because a request that ends takes the lock.
        for connection in connections.iter().filter_map(Weak::upgrade) {
            connection.shutdown();
        }
    }

    /// Returns `true` if [`interrupt`](Interrupter::interrupt) was called.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.signal.try_recv() == Err(TryRecvError::Disconnected)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.is_interrupted() {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }

    /// Registers `connection`, which an interrupt shuts down.
    ///
    /// Returns an error if the interrupt has already happened.
    pub(crate) fn register<T: Shutdown>(&self, connection: &Arc<T>) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.trigger.is_none() {
            return Err(interrupted());
        }
        state.connections.retain(|connection| connection.strong_count() > 0);
        let connection: Weak<T> = Arc::downgrade(connection);
        state.connections.push(connection);
        Ok(())
    }
}

pub(crate) fn interrupted() -> Error {
    Error::new(NetErrorKind::Interrupted, "interrupted by the program")
}

impl Default for Interrupter {
    /// Creates an interrupter that is not interrupted.
    fn default() -> Self {
        let (trigger, signal) = bounded(0);
        let state = InterruptState { trigger: Some(trigger), connections: Vec::new() };
        Interrupter { signal, state: Arc::new(Mutex::new(state)) }
    }
}

debug_fields!(impl Debug for Interrupter { self => interrupted: self.is_interrupted() });

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    impl Shutdown for AtomicUsize {
        fn shutdown(&self) {
            self.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A call may be canceled just before its connection is open.
    #[test]
    fn connection_registered_after_an_interrupt_is_refused() {
        let (interrupter, [early, late]) = (Interrupter::default(), [(); 2].map(|()| Arc::<AtomicUsize>::default()));
        interrupter.register(&early).unwrap();
        (0..2).for_each(|_| interrupter.clone().interrupt());
        assert_eq!(interrupter.register(&late).unwrap_err().kind, NetErrorKind::Interrupted);
        assert_eq!([early, late].map(|shutdowns| shutdowns.load(Ordering::SeqCst)), [1, 0]);
    }
}
