//! Processes: the examples as users run them, killed, stopped and beside candidates of client-go and of Python's client.

mod alternation;
mod client_go_interop;
mod deploy;
mod examples;
mod leader_election;
mod python_interop;
#[path = "../support/mod.rs"]
mod support;
