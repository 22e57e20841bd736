//! A candidate without I/O or threads: one session, or a pair of sessions with one term.

pub mod candidacy;
pub(crate) mod failure_log;
pub(crate) mod failures;
pub mod fitness;
pub(crate) mod notice;
pub mod pair;
pub mod session;
pub mod side;
pub mod watch_plan;
