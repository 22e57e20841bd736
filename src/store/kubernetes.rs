//! Records in objects of a Kubernetes API server.

pub(crate) mod lease;
pub(crate) mod object;
