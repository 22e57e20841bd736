//! Faults of a server, the same for each store.

use std::ops::DerefMut;

use super::candidates::{Candidates, Fault, LEASE};
use crate::support::server::Server;

/// A store whose server a test kills and pauses.
pub trait HasServer: DerefMut<Target = Server> {}

impl<S: DerefMut<Target = Server>> HasServer for S {}

pub fn faults<S: HasServer>() -> Vec<Fault<S>> {
    vec![("server killed and started again", kill_and_start_again), ("server paused", pause)]
}

fn kill_and_start_again<S: HasServer>(candidates: &mut Candidates<S>, leader: usize) {
    candidates.store.kill();
    candidates.pass(leader, LEASE / 40..LEASE);
    candidates.store.start_again();
}

fn pause<S: HasServer>(candidates: &mut Candidates<S>, leader: usize) {
    candidates.store.pause();
    candidates.pass(leader, LEASE / 40..LEASE * 3 / 2);
    candidates.store.resume();
}
