//! Tests of processes: the examples, `leasehold observe` and `wait`, and other clients.
//!
//! Processes are killed and stopped, on clusters, on databases and on a file.

mod alternation;
mod client_go_interop;
mod deploy;
mod examples;
mod fleets;
mod groups;
mod leader_election;
mod programs;
mod python_interop;
mod real_stores;
mod signals;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod tutorial;
