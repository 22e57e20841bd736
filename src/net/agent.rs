//! The HTTP library's agent, as every client here wants it: with one connection, and with nothing from the environment.

use std::time::Duration;

use ureq::Agent;

use super::interrupt::AgentHandle;
use super::transport::{HttpConnector, NoResolver};

/// API servers close idle connections after 90 s and load balancers after 60 s or more. Staying well below makes it
/// rare that a write goes out on a connection that is just being closed.
pub(crate) const MAX_IDLE: Duration = Duration::from_secs(30);

/// An agent whose connections come from `connector`.
pub(crate) fn new_agent(connector: HttpConnector, user_agent: &str) -> AgentHandle {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // None of the servers redirects. Whoever does must not be given the credentials.
        .max_redirects(0)
        .max_redirects_will_error(false)
        // The connector sees to proxies; ureq would take one from the environment by other rules than Go's.
        .proxy(None)
        .user_agent(user_agent)
        .accept("application/json")
        .accept_encoding("identity")
        .max_idle_age(MAX_IDLE)
        .max_idle_connections(1)
        .max_response_header_size(31 * 1024)
        .input_buffer_size(32 * 1024)
        // For TLS on its way to the socket; what is written to it or to a socket is not buffered.
        .output_buffer_size(16 * 1024)
        .build();
    let call = connector.call.clone();
    AgentHandle { agent: Agent::with_parts(config, connector, NoResolver), call }
}
