//! Candidates on two objects, beside candidates on one object and client-go's MultiLock.
//!
//! The simulated world is the same as for one object, but outages, users and checks are different.

pub mod candidate;
pub mod checks;
mod client_go;
pub mod multi_lock;
mod plan;
mod users;
