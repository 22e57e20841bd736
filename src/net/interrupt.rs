//! Ending I/O that other threads are blocked in.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use parking_lot::Mutex;
use ureq::Agent;

use super::error::{Error, ErrorKind};
use crate::cancel::{Cancel, Hook};

/// Ends the I/O of one call, once and for good; clones are the same one.
#[derive(Clone)]
pub(crate) struct Interrupter {
    inner: Arc<Inner>,
}

struct Inner {
    /// Disconnects when the trigger goes, which wakes every `select!` there is on it.
    signal: Receiver<Infallible>,
    state: Mutex<State>,
}

struct State {
    trigger: Option<Sender<Infallible>>,
    handles: Vec<Weak<AgentHandle>>,
}

/// An HTTP agent with its one connection: what is shut down together. One call has it at a time.
pub(crate) struct AgentHandle {
    pub(crate) agent: Agent,
    /// The call that has it.
    pub(crate) call: CurrentCall,
}

/// The call that an agent is used for, as its connector has to know it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentCall(Arc<Mutex<Interrupter>>);

impl CurrentCall {
    pub(crate) fn interrupter(&self) -> Interrupter {
        self.0.lock().clone()
    }
}

impl Interrupter {
    /// One that has not been used yet.
    pub(crate) fn new() -> Self {
        let (trigger, signal) = bounded(0);
        Interrupter {
            inner: Arc::new(Inner { signal, state: Mutex::new(State { trigger: Some(trigger), handles: Vec::new() }) }),
        }
    }

    /// One that `cancel` uses, for as long as the hook is kept.
    pub(crate) fn hooked(cancel: &Cancel) -> (Self, Hook) {
        let interrupter = Self::new();
        let hook = cancel.on_cancel({
            let interrupter = interrupter.clone();
            move || interrupter.interrupt()
        });
        (interrupter, hook)
    }

    /// Ends all I/O that goes with this, now and in future. Never blocks on the network.
    pub(crate) fn interrupt(&self) {
        let handles = {
            let mut state = self.inner.state.lock();
            state.trigger = None;
            std::mem::take(&mut state.handles)
        };
        // Outside the lock: shutting down closes sockets, and a request that ends takes the lock.
        for handle in handles.iter().filter_map(Weak::upgrade) {
            handle.agent.clone().shutdown();
        }
    }

    /// Whether [`interrupt`](Interrupter::interrupt) has been called.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.inner.signal.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// For `select!`: never yields, disconnects on the interrupt.
    pub(crate) fn signal(&self) -> &Receiver<Infallible> {
        &self.inner.signal
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.is_interrupted() {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }

    /// Uses the agent for this call: it is shut down on the interrupt. An error if that has come already.
    pub(crate) fn register(&self, handle: &Arc<AgentHandle>) -> Result<(), Error> {
        *handle.call.0.lock() = self.clone();
        let mut state = self.inner.state.lock();
        if state.trigger.is_none() {
            return Err(interrupted());
        }
        state.handles.retain(|w| w.strong_count() > 0);
        state.handles.push(Arc::downgrade(handle));
        Ok(())
    }
}

pub(crate) fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted by this program")
}

impl Default for Interrupter {
    fn default() -> Self {
        Interrupter::new()
    }
}

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").field("interrupted", &self.is_interrupted()).finish()
    }
}
