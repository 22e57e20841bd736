//! What goes wrong, and for which requests.

pub(crate) mod kind;
pub(crate) mod rules;

pub use kind::Fault;
pub use rules::FaultHandle;
