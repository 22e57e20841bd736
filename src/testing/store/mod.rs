//! Where objects and their history are.

pub(crate) mod history;
pub(crate) mod table;

pub use table::Snapshot;
