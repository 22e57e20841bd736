//! Processes: the examples as users run them, killed, stopped and beside candidates of client-go.

mod client_go_interop;
mod examples;
mod leader_election;
#[path = "../support/mod.rs"]
mod support;
