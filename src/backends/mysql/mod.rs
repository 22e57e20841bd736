//! Stores records in a table of MySQL or MariaDB.
//!
//! The blocking client is small and uses the text protocol. Each statement has one result. Sources: "MySQL Internals:
//! Client/Server Protocol" and MariaDB's "Clients & Utilities: Protocol".
//!
//! The client does not support prepared statements, multiple statements or results, compression, or files. If a server
//! starts one of these, the client closes the connection.

mod auth;
pub(crate) mod client;
pub(crate) mod config;
mod connection;
pub(crate) mod error;
mod handshake;
mod packet;
mod session;
pub(crate) mod store;
mod table;
mod undurable_writes;
