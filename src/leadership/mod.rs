//! What a caller holds: a campaign, a guard and its views, and the handle by which they reach the elector.

pub(crate) mod campaign;
pub(crate) mod error;
pub(crate) mod fitness;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod progress;
pub(crate) mod term;
