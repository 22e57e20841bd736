//! A small blocking client for MySQL and MariaDB: one statement, one answer, in the text protocol. It knows SQL, not records.
//!
//! By "MySQL Internals: Client/Server Protocol" and MariaDB's "Clients & Utilities: Protocol". No prepared statements, no
//! multiple statements or results, no compression, no files: a server that begins one of these is left.

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
