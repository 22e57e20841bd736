//! Stores records in a table of one SQLite file.

mod database;
mod file;
mod signal;
pub(crate) mod store;
