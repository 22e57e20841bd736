//! The stored objects and their history.

pub(crate) mod history;
pub(crate) mod table;

pub use table::Snapshot;
