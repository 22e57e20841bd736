//! API servers, of which watches are: each has a cache that may lag behind the store, or be of another life of it.
//!
//! Reads and writes go through to the store whichever server they are sent to, as they do without `resourceVersion`.

use crate::clock::{MILLI, Nanos, SECOND};
use crate::store::Former;
use crate::trace::trace;
use crate::world::World;

#[derive(Debug, Default)]
pub struct Server {
    /// How much later than the store it comes to know what changes.
    pub lag: Nanos,
    /// What it goes on showing, for it was not restarted when its store was restored.
    pub former: Option<Former>,
}

impl World {
    /// An API server falls behind, for a while.
    pub fn fall_behind(&mut self) {
        let index = self.random.usize(..self.servers.len());
        let longest = self.plan.longest;
        let lag = match self.random.u8(..3) {
            0 => self.random.u64(MILLI..SECOND),
            1 => self.random.u64(..longest / 2),
            _ => self.random.u64(..2 * longest),
        };
        trace!(self, "server {index} is {lag} ns behind");
        self.count.fault("servers behind");
        self.servers[index].lag = lag;
        let until = self.truth + self.random.u64(..2 * longest);
        self.queue.push(until.min(self.plan.heal_at), None, crate::queue::What::Lag(index));
    }

    pub fn catch_up(&mut self, index: usize) {
        self.servers[index].lag = 0;
    }

    /// The store goes back, and some of the servers do not notice.
    pub fn freeze_servers(&mut self, former: &Former) {
        for index in 0..self.servers.len() {
            // One that is of a former life already stays there.
            if self.servers[index].former.is_none() && self.random.u8(..3) == 0 {
                trace!(self, "server {index} goes on showing what was before");
                self.count.fault("servers of a former life");
                self.servers[index].former = Some(former.clone());
            }
        }
    }

    /// Whoever restored the store restarts them all at last, unless they are forgotten.
    pub fn restart_servers(&mut self) {
        for server in &mut self.servers {
            server.lag = 0;
            if !self.plan.forgotten_servers {
                server.former = None;
            }
        }
    }
}
