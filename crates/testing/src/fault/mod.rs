//! Faults, and the requests that they hit.

pub(crate) mod kind;
pub(crate) mod rules;

pub use kind::Fault;
pub use rules::FaultHandle;
