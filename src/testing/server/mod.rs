//! From a connection to an answer. Each stands on those before it: what all threads share, a connection, the stream of a
//! watch and the handlers, serving, the listener, the API server as its users have it.

pub(crate) mod shared;

pub(crate) mod kubeconfig;
pub(crate) mod log;
pub(crate) mod route;
pub(crate) mod users;

pub(crate) mod connection;
pub(crate) mod handlers;
pub(crate) mod stream;

pub(crate) mod listener;
pub(crate) mod serving;

pub(crate) mod api_server;
pub(crate) mod builder;
pub(crate) mod operator;

pub use api_server::ApiServer;
pub use builder::ApiServerBuilder;
pub use log::RequestLog;
pub use shared::ExpiredWatch;
pub use users::User;
