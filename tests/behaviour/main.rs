//! What a candidate, a store and the in-memory API server do: on that server, on a real one, and on stores in memory.
//!
//! Tests with a logger, an allocator or processes of their own stand beside this, each a program.

mod access;
mod annotations;
mod both;
mod conformance;
mod credentials;
mod elections;
mod elector;
mod etcd;
mod events;
mod far;
mod faults;
mod guard_api;
mod lease_store;
mod metrics;
mod monitoring;
mod mysql;
mod postgres;
mod real_stores;
mod servers;
mod sqlite;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod testing;
mod watching;
