//! What befalls a server, whichever it is.

use super::candidates::{Candidates, Fault, LEASE};

/// A store's server, of which a test can dispose.
pub trait Server {
    fn port(&self) -> u16;

    /// For a candidate that reaches it at this port of this machine.
    fn url(&self, port: u16) -> String;

    fn kill(&mut self);

    /// On its data; returns when it answers.
    fn start_again(&mut self);

    /// Connections stay open, and nothing answers.
    fn pause(&self);

    fn resume(&self);
}

pub fn faults<S: Server>() -> Vec<Fault<S>> {
    vec![("server killed and started again", kill_and_start_again), ("server paused", pause)]
}

fn kill_and_start_again<S: Server>(candidates: &mut Candidates<S>, leader: usize) {
    candidates.store.kill();
    candidates.pass(leader, LEASE / 40..LEASE);
    candidates.store.start_again();
}

fn pause<S: Server>(candidates: &mut Candidates<S>, leader: usize) {
    candidates.store.pause();
    candidates.pass(leader, LEASE / 40..LEASE * 3 / 2);
    candidates.store.resume();
}
