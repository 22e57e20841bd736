//! Backends: stores that keep their records on a server or in a file.
//!
//! No backend depends on another backend.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "json")]
pub(crate) mod notes;
#[cfg(feature = "_server")]
pub mod password;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(any(feature = "etcd", feature = "kubernetes"))]
pub(crate) mod record_fields;
#[cfg(feature = "_sql")]
mod sql;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

#[cfg(all(test, feature = "_server"))]
mod tests;
