//! A small blocking client for the Kubernetes API.

pub(crate) mod auth;
pub(crate) mod config;
mod counters;
mod error;
mod http_client;
mod request;
mod request_log;
mod response;
pub(crate) mod status;
pub(crate) mod stream;

#[cfg(test)]
mod tests;

pub use crate::backends::kubernetes::client::http_client::Client;
#[cfg(feature = "kubeconfig")]
pub use auth::ExecStderr;
pub use config::ClientConfig;
pub use error::{ClientError, ErrorKind};
pub(crate) use request::{Method, Request};
pub(crate) use response::Response;
pub use status::ApiStatus;
