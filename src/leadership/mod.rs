//! Campaigns, guards and views of a term, and their handle to the elector.

pub(crate) mod campaign;
pub(crate) mod error;
pub(crate) mod fitness;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod job;
pub(crate) mod progress;
pub(crate) mod release_all;
pub(crate) mod stop;
pub(crate) mod term;
