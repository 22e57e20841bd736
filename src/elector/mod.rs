//! The entry points: builder, elector, callbacks, store URLs and Kubernetes-style settings.

pub(crate) mod builder;
pub(crate) mod callbacks;
#[cfg(feature = "kubernetes")]
mod go_duration;
#[cfg(feature = "kubernetes")]
pub(crate) mod leader_election_config;
pub(crate) mod leader_elector;
pub(crate) mod open_store;
mod run_once_per;
mod run_until;
