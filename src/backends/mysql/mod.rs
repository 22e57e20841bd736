//! Stores records in a table of MySQL or MariaDB.
//!
//! The module has its own small blocking client. The client uses the text protocol, with one result for each statement.
//! The protocol is documented in "MySQL Internals: Client/Server Protocol" and in MariaDB's "Clients & Utilities:
//! Protocol".
//!
//! The client does not support prepared statements, multiple statements or results, compression, or files. If a server
//! starts to use such a feature, the client closes the connection.

mod acquisition;
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
mod url;
