//! What drives an election: the thread that sends its requests, and the one that reads its watch.

pub mod candidacy;
pub(crate) mod dedicated;
pub(crate) mod failure_log;
pub(crate) mod failures;
pub mod fitness;
pub(crate) mod lines;
pub(crate) mod notice;
pub(crate) mod observing;
pub mod pair;
pub(crate) mod probing;
pub mod session;
pub(crate) mod state;
pub mod watch_plan;
pub(crate) mod watcher;

#[cfg(test)]
pub(crate) mod tests;
