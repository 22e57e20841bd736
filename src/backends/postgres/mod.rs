//! A small blocking client for PostgreSQL: the protocol's messages are `postgres-protocol`'s, connections and their time are ours.

mod abandoned;
mod changes;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod error;
mod login;
pub(crate) mod settings;
pub(crate) mod store;
mod table;
pub(crate) mod wire;
