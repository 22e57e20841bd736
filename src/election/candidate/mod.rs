//! A candidate without I/O or threads.

pub mod candidacy;
pub(crate) mod failure_log;
pub(crate) mod failures;
pub mod fitness;
pub(crate) mod notice;
pub mod session;
pub mod watch_plan;
