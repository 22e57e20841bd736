//! Ending I/O that other threads are blocked in.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use parking_lot::Mutex;
use ureq::Agent;

use super::error::{Error, ErrorKind};

/// Ends what is registered with it, once and for good; clones are the same one.
///
/// Given to [`Client::stream`](crate::kube::Client::stream), it ends that stream from any thread, also while the stream is
/// still being opened.
///
/// ```
/// use leasehold::kube::Interrupter;
///
/// let interrupter = Interrupter::new();
/// let elsewhere = interrupter.clone();
/// std::thread::spawn(move || elsewhere.interrupt()).join().unwrap();
/// assert!(interrupter.is_interrupted());
/// ```
#[derive(Clone)]
pub struct Interrupter {
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

/// An HTTP agent with its pool of connections: what is shut down together.
pub(crate) struct AgentHandle {
    pub(crate) agent: Agent,
    pub(crate) interrupter: Interrupter,
}

impl Interrupter {
    /// One that has not been used yet.
    pub fn new() -> Self {
        let (trigger, signal) = bounded(0);
        Interrupter {
            inner: Arc::new(Inner { signal, state: Mutex::new(State { trigger: Some(trigger), handles: Vec::new() }) }),
        }
    }

    /// Ends all I/O that goes with this, now and in future. Never blocks on the network.
    pub fn interrupt(&self) {
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
    pub fn is_interrupted(&self) -> bool {
        self.inner.signal.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Whether both are clones of one.
    pub(crate) fn is(&self, other: &Interrupter) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
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

    /// Has the agent shut down on the interrupt; an error if that has come already.
    pub(crate) fn register(&self, handle: &Arc<AgentHandle>) -> Result<(), Error> {
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
