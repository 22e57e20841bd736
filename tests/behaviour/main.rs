//! Tests of candidates, stores and the in-memory API server.
//!
//! The tests run on that server, on a real API server, and on stores in memory.
//!
//! Tests that need their own logger, allocator or processes are separate programs in this directory.

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
mod fences;
mod groups;
mod guard_api;
mod jobs;
mod lease_store;
mod many_electors;
mod metrics;
mod monitoring;
mod mysql;
mod notes;
mod places;
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
