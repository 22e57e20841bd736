//! API servers, which deliver the watches.
//!
//! Each server has a cache. The cache may lag behind the store, or may still show the state from before a restore.
//!
//! Reads and writes reach the store through any server, as they do without `resourceVersion`.

use crate::clock::{MILLI, Nanos, SECOND};
use crate::store::Former;
use crate::trace::trace;
use crate::world::World;

#[derive(Debug, Default)]
pub struct Server {
    /// The delay after which the server learns of a change in the store.
    pub lag: Nanos,
    /// The history that a server still shows because it was not restarted after a restore.
    pub former: Option<Former>,
}

impl World {
    /// Makes an API server lag behind the store for some time.
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

    /// Makes some servers keep the state from before a restore of the store.
    pub fn freeze_servers(&mut self, former: &Former) {
        for index in 0..self.servers.len() {
            // A server that already shows a former state keeps that state.
            if self.servers[index].former.is_none() && self.random.u8(..3) == 0 {
                trace!(self, "server {index} goes on showing what was before");
                self.count.fault("servers of a former life");
                self.servers[index].former = Some(former.clone());
            }
        }
    }

    /// Restarts all servers, except those with a former state if the plan forgets them.
    pub fn restart_servers(&mut self) {
        for server in &mut self.servers {
            server.lag = 0;
            if !self.plan.forgotten_servers {
                server.former = None;
            }
        }
    }
}
