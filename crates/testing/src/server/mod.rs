//! The server, from the connection to the response.
//!
//! Each module depends only on modules that precede it in this list: shared state, connection, stream of a watch and
//! handlers, serving, listener, the public API server.

pub(crate) mod shared;

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
