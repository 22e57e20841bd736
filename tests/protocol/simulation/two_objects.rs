//! Candidates on two objects at once, beside those on either of them alone and beside some that act as client-go's MultiLock does.
//!
//! They live in the world of one object. Its outages, users and checks are others.

pub mod checks;
mod client_go;
pub mod multi_lock;
mod plan;
mod users;
