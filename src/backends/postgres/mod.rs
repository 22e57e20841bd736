//! Stores records in a table of PostgreSQL.
//!
//! The client is small and blocking. Its protocol messages come from the crate `postgres-protocol`.

mod abandoned;
mod changes;
mod channel_binding;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod error;
mod login;
pub(crate) mod settings;
pub(crate) mod store;
mod table;
mod url;
pub(crate) mod wire;
