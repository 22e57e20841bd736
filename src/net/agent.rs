//! The HTTP library's agent, as every client here wants it: with one connection, and with nothing from the environment.

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;

use super::error::Error;
use super::interrupt::{Interrupter, Shutdown};
use super::transport::{CurrentCall, HttpConnector, NoResolver};

/// An HTTP agent with its one connection: what is shut down together. One call has it at a time.
pub(crate) struct AgentHandle {
    pub(crate) agent: Agent,
    /// The call that has it.
    pub(crate) call: CurrentCall,
}

impl AgentHandle {
    /// Uses the agent for this call: it is shut down on the interrupt. An error if that has come already.
    pub(crate) fn use_for(self: &Arc<Self>, interrupter: &Interrupter) -> Result<(), Error> {
        self.call.set(interrupter);
        interrupter.register(self)
    }
}

impl Shutdown for AgentHandle {
    fn shutdown(&self) {
        self.agent.clone().shutdown();
    }
}

/// An agent whose connections come from `connector`, and are used again after at most `max_idle`.
pub(crate) fn new_agent(connector: HttpConnector, user_agent: &str, max_idle: Duration) -> AgentHandle {
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
        .max_idle_age(max_idle)
        .max_idle_connections(1)
        .max_response_header_size(31 * 1024)
        .input_buffer_size(32 * 1024)
        // For TLS on its way to the socket; what is written to it or to a socket is not buffered.
        .output_buffer_size(16 * 1024)
        .build();
    let call = connector.call.clone();
    AgentHandle { agent: Agent::with_parts(config, connector, NoResolver), call }
}
