//! A connection, and methods that wait on the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::server::shared::ServerState;
use crate::wire::transport::{Disconnected, Transport};

/// The interval at which a waiting thread checks that its client is still connected.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct ServedConnection {
    pub server: Arc<ServerState>,
    pub transport: Transport,
    pub number: u64,
    pub stopping: Arc<AtomicBool>,
}

impl ServedConnection {
    /// Waits until `deadline`, or until `done` returns `true`.
    ///
    /// Code that changes the result of `done` must notify the server's signal. The wait continues if the client
    /// disconnects, because a real server also applies a write in its queue.
    pub fn hold(&self, deadline: Option<Instant>, done: impl Fn() -> bool) -> Result<(), Disconnected> {
        let stopping = || self.stopping.load(Ordering::SeqCst);
        self.server.signal.wait(deadline, || done() || stopping());
        match stopping() {
            true => Err(Disconnected),
            false => Ok(()),
        }
    }

    /// Waits like `hold`, but fails if the client disconnects.
    ///
    /// A wait before a response needs the client, unlike a wait before a write.
    pub fn hold_client(&mut self, deadline: Option<Instant>, done: impl Fn() -> bool) -> Result<(), Disconnected> {
        loop {
            self.check()?;
            let now = Instant::now();
            if done() || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(());
            }
            let look = now + LOOK_AGAIN;
            let wake = deadline.map_or(look, |deadline| deadline.min(look));
            self.hold(Some(wake), &done)?;
        }
    }

    pub fn wait_while_paused(&self) -> Result<(), Disconnected> {
        self.hold(None, || !self.server.paused.load(Ordering::SeqCst))
    }

    /// Returns an error if the connection must end.
    pub fn check(&mut self) -> Result<(), Disconnected> {
        match self.stopping.load(Ordering::SeqCst) || self.transport.is_gone() {
            true => Err(Disconnected),
            false => Ok(()),
        }
    }
}
