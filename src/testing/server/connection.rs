//! A connection, and waiting on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::testing::server::shared::ServerState;
use crate::testing::wire::transport::{Disconnected, Transport};

/// How often a waiting thread looks whether its client is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct ServedConnection {
    pub server: Arc<ServerState>,
    pub transport: Transport,
    pub number: u64,
    stopping: Arc<AtomicBool>,
}

impl ServedConnection {
    pub fn new(
        server: Arc<ServerState>,
        transport: Transport,
        number: u64,
        stopping: Arc<AtomicBool>,
    ) -> ServedConnection {
        ServedConnection { server, transport, number, stopping }
    }

    /// Waits until `deadline`, or until `done` (which needs the server's signal), also when
    /// the client has left: a write that waits in a real server's queue lands all the same.
    pub fn hold(&self, deadline: Option<Instant>, done: impl Fn() -> bool) -> Result<(), Disconnected> {
        let stopping = || self.stopping.load(Ordering::SeqCst);
        let timeout = match deadline {
            None => Duration::MAX,
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        };
        self.server.signal.wait(timeout, || done() || stopping());
        match stopping() {
            true => Err(Disconnected),
            false => Ok(()),
        }
    }

    /// [`hold`](ServedConnection::hold), as long as the client is there: for when only the answer is
    /// waited for.
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

    /// Whether the connection may live on.
    pub fn check(&mut self) -> Result<(), Disconnected> {
        match self.stopping.load(Ordering::SeqCst) || self.transport.is_gone() {
            true => Err(Disconnected),
            false => Ok(()),
        }
    }
}
