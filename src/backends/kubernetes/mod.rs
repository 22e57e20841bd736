//! Records in objects of a Kubernetes API server.

pub(crate) mod annotation;
pub mod client;
pub(crate) mod configmap;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod lease;
pub(crate) mod metadata;
pub(crate) mod multi_lock;
mod notes;
pub(crate) mod object;
pub(crate) mod resource_lock;
