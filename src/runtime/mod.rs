//! What drives an election: the thread that sends its requests, and the one that reads its watch.
pub(crate) mod dedicated;
pub(crate) mod lines;
pub(crate) mod observing;
pub(crate) mod probing;
pub(crate) mod state;
pub(crate) mod watcher;

#[cfg(test)]
pub(crate) mod tests;
