//! Reports about an elector: status, health, observers, transitions and metrics.

pub(crate) mod health;
#[cfg(feature = "metrics")]
pub(crate) mod metrics_observer;
pub(crate) mod observations;
pub(crate) mod observer;
#[cfg(feature = "serde")]
mod serialize;
pub(crate) mod status;
pub(crate) mod transition;
