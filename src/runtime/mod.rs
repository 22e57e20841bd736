//! The threads of an elector, which send requests, watch, probe, observe and log.

pub(crate) mod dedicated;
pub(crate) mod lines;
pub(crate) mod observing;
pub(crate) mod probing;
pub(crate) mod state;
pub(crate) mod watcher;

#[cfg(test)]
pub(crate) mod tests;
