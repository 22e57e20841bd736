//! The leader election protocol as state machines without I/O, threads or a clock.
//!
//! A driver gets the next [`Step`] from a [`Candidate`](candidate::Candidate), performs the step, and reports the outcome
//! with the current time. In production, the driver is a thread with a real store and clock. Simulations drive thousands
//! of candidates on virtual time. A candidate owns a claim, which observes and writes the record. Comments cite rules by
//! their numbers and names in `docs/internals/PROTOCOL.md`.

pub mod candidate;
mod claim;
pub mod deadline;
pub mod drain;
pub mod group;
mod messages;
pub mod progress;
pub(crate) mod settings;
pub(crate) mod stop_reason;
#[cfg(test)]
mod tests;
pub mod timer;

#[cfg(any(test, feature = "_internals"))]
pub use messages::ReadContext;
pub use messages::{Change, LeaderInfo, Operation, Step, StoreRequest, StoreResponse};
