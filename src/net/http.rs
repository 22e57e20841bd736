//! HTTP agents that have one [`Socket`] each and read no proxy from the environment.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use ureq::Agent;
use ureq::http::{self, Uri, header};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

use super::MAX_WAIT;
use super::dial::{Dialer, Route};
use super::endpoint::Endpoint;
use super::error::{Error, NetErrorKind};
use super::interrupt::{Interrupter, Shutdown, interrupted};
use super::pool::{CallConnection, Versions};
use super::proxy::Proxy;
use super::redact::add_hidden;
use super::socket::{Socket, SocketStream, explain, failure};
use super::text::clean;
use super::tls::{TlsParts, tls_error};
use crate::util::debug_fields::debug_fields;

/// The largest body in bytes. A larger body is an error.
pub(crate) const MAX_BODY: u64 = 4 * 1024 * 1024;

/// The largest number of characters that an error quotes from the HTTP library.
const MAX_TEXT: usize = 300;

/// The size of the buffer in which ureq writes a request head in one piece, and a body in pieces.
///
/// A head has at most [`MAX_TARGET`](super::endpoint::MAX_TARGET) bytes of a path, and 16 KiB of other parts.
const OUTPUT: usize = 32 * 1024;

/// An HTTP agent and its one connection, which are shut down together.
///
/// Only one call uses the agent at a time.
pub(crate) struct AgentHandle {
    pub(crate) agent: Agent,
    /// The versions of the client certificate and the certificate files of the connection.
    pub(crate) versions: Versions,
    pub(crate) call: Arc<Mutex<CurrentCall>>,
}

/// The interrupter of the call that currently uses an agent, and the agent's open connection.
///
/// The agent shares the value with its connector, which needs the interrupter to dial.
#[derive(Debug, Default)]
pub(crate) struct CurrentCall {
    interrupter: Interrupter,
    /// `true` once the agent has opened its connection.
    is_connected: bool,
    /// The time in which the connection opened.
    opened_in: Duration,
    has_answered: Arc<AtomicBool>,
    stream: Weak<SocketStream>,
    /// The `Date` of the last answer.
    date: Option<SystemTime>,
}

/// Opens the connections of one agent.
#[derive(Debug)]
pub(crate) struct HttpConnector {
    pub(crate) target: Endpoint,
    pub(crate) proxy: Option<Proxy>,
    /// The TLS configuration of an `https` proxy.
    pub(crate) proxy_tls: Option<TlsParts>,
    pub(crate) tls: Option<TlsParts>,
    pub(crate) dialer: Dialer,
    pub(crate) call: Arc<Mutex<CurrentCall>>,
    pub(crate) opening: Opening,
}

/// The deadline for the start of a streamed answer, or `None` for no deadline.
///
/// ureq's overall timeout includes the body, but the body of a watch has no end. The transport therefore enforces this
/// deadline until the answer has started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening(Arc<Mutex<Option<Instant>>>);

/// A resolver that returns a placeholder address without a lookup.
///
/// ureq resolves a name before every request, even if a pooled connection exists. The connector instead looks up the
/// name when it dials, and an interrupt ends the lookup.
#[derive(Debug)]
pub(crate) struct NoResolver;

/// The transport of ureq, which inserts the credentials just before bytes are sent.
///
/// A load balancer or an API server may close an idle connection at any time, even while a request is being sent. The
/// client cannot know then if the request arrived. Such a failure is [`NetErrorKind::ConnectionClosed`], because it
/// does not mean that the server is in trouble.
pub(crate) struct HttpTransport {
    socket: Socket,
    buffers: LazyBuffers,
    route: Option<Route>,
    opening: Opening,
    has_answered: Arc<AtomicBool>,
    /// `true` if no byte has arrived since a request was sent.
    awaits_answer: bool,
}

/// Creates an agent that opens connections with `connector`.
pub(crate) fn new_agent(
    connector: HttpConnector,
    versions: Versions,
    user_agent: &str,
    interrupter: &Interrupter,
) -> Result<Arc<AgentHandle>, Error> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // No supported server redirects, and the target of a redirect must not receive the credentials.
        .max_redirects(0)
        .max_redirects_will_error(false)
        // The connector handles proxies. ureq would read a proxy from the environment, by rules that differ from Go's.
        .proxy(None)
        .user_agent(user_agent)
        .accept("application/json")
        .accept_encoding("identity")
        // A pool of agents closes idle connections.
        .max_idle_age(Duration::MAX)
        .max_idle_connections(1)
        .max_response_header_size(31 * 1024)
        .input_buffer_size(32 * 1024)
        .build();
    let call = Arc::clone(&connector.call);
    let agent = Agent::with_parts(config, connector, NoResolver);
    let mut handle = Arc::new(AgentHandle { agent, versions, call });
    handle.use_for(interrupter)?;
    Ok(handle)
}

impl AgentHandle {
    /// Returns `true` if a byte has arrived on the connection.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "only the client for etcd needs it"))]
    pub(crate) fn has_answered(&self) -> bool {
        self.call.lock().has_answered.load(Ordering::Relaxed)
    }

    /// Notes the `Date` of an answer, even of a refusal.
    pub(crate) fn note_date(&self, answer: &http::Response<ureq::Body>) {
        let date = answer.headers().get(header::DATE).and_then(|text| text.to_str().ok());
        self.call.lock().date = date.and_then(parse_date);
    }

    /// Reads the body of a response to the current call.
    pub(crate) fn read_body(&self, answer: http::Response<ureq::Body>) -> Result<Vec<u8>, Error> {
        let is_framed = is_framed(answer.headers());
        let body = read_body(answer.into_body()).map_err(|error| error.sent(true))?;
        // An interrupt closes the connection. A body without a declared length then ends early, without an error.
        match !is_framed && self.call.lock().interrupter.is_interrupted() {
            true => Err(interrupted().sent(true)),
            false => Ok(body),
        }
    }
}

impl CallConnection for Arc<AgentHandle> {
    const OPENS_IN_RUN: bool = true;

    fn versions(&self) -> Versions {
        self.versions
    }

    /// Returns `true` if the socket of the agent is quiet.
    fn is_quiet(&mut self) -> bool {
        self.call.lock().stream.upgrade().is_some_and(|stream| stream.is_quiet())
    }

    fn opened_in(&self) -> Duration {
        self.call.lock().opened_in
    }

    fn server_time(&self) -> Option<SystemTime> {
        self.call.lock().date
    }

    fn use_for(&mut self, interrupter: &Interrupter) -> Result<(), Error> {
        self.call.lock().interrupter = interrupter.clone();
        interrupter.register(self)
    }
}

/// Parses a `Date` header in the only form that senders may use (RFC 9110, section 5.6.7).
fn parse_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.split(' ').skip(1);
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    humantime::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}

impl Shutdown for AgentHandle {
    fn shutdown(&self) {
        self.agent.clone().shutdown();
    }
}

impl Opening {
    pub(crate) fn until(deadline: Instant) -> Self {
        Opening(Arc::new(Mutex::new(Some(deadline))))
    }

    pub(crate) fn finish(&self) {
        *self.0.lock() = None;
    }

    /// Returns the deadline of one read or write.
    fn deadline(&self, timeout: NextTimeout) -> Instant {
        let deadline = Instant::now() + (*timeout.after).min(MAX_WAIT);
        self.0.lock().map_or(deadline, |opening| deadline.min(opening))
    }
}

impl Resolver for NoResolver {
    fn resolve(&self, _: &Uri, _: &ureq::config::Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        // ureq requires at least one address. The connector ignores the address.
        let mut addresses = self.empty();
        addresses.push(([0, 0, 0, 0], 0).into());
        Ok(addresses)
    }
}

impl Connector<()> for HttpConnector {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Self::Out>, ureq::Error> {
        let (began, deadline) = (Instant::now(), self.opening.deadline(details.timeout));
        let interrupter = match &*self.call.lock() {
            // ureq asks for a second connection if the server has closed the first one since the pool tested it. Only
            // the pool may open another one.
            call if call.is_connected => {
                return Err(wrap(Error::new(NetErrorKind::ConnectionClosed, "connection closed before the request")));
            }
            call => call.interrupter.clone(),
        };
        let first_hop = self.proxy.as_ref().map_or(&self.target, |proxy| &proxy.endpoint);
        // The proxy is the place of an error that happened before the tunnel was open.
        let at_first_hop = |error: Error| match &self.proxy {
            Some(proxy) => wrap(error.at(proxy.place())),
            None => wrap(error),
        };
        let dialed = self.dialer.dial(&first_hop.host_in_zone(), first_hop.port, deadline, &interrupter);
        let (stream, route) = dialed.map_err(at_first_hop)?;
        let mut socket = Socket::tcp(stream);
        // The socket is registered before the first byte, so that an interrupt also ends the setup of a tunnel or of
        // TLS.
        (details.register_shutdown)(socket.shutdown_handle())?;
        if let Some(proxy) = &self.proxy {
            if let Some(parts) = &self.proxy_tls {
                set_up_tls(&mut socket, parts, deadline).map_err(at_first_hop)?;
            }
            proxy.open_tunnel(&mut socket, &self.target, deadline).map_err(wrap)?;
        }
        if let Some(parts) = &self.tls {
            set_up_tls(&mut socket, parts, deadline).map_err(wrap)?;
        }
        let (opened_in, stream) = (began.elapsed(), socket.stream());
        let buffer = details.config.input_buffer_size();
        let transport = HttpTransport::new(socket, buffer, Some(route), self.opening.clone());
        let has_answered = Arc::clone(&transport.has_answered);
        *self.call.lock() =
            CurrentCall { interrupter, is_connected: true, opened_in, has_answered, stream, date: None };
        Ok(Some(Box::new(transport)))
    }
}

/// Sets up TLS. Its errors do not count as sent, because no byte of the request was sent.
fn set_up_tls(socket: &mut Socket, parts: &TlsParts, deadline: Instant) -> Result<(), Error> {
    socket.handshake(parts, deadline).map_err(|e| {
        let late = "the TLS handshake timed out";
        let broken = "the connection broke during the TLS handshake";
        failure(e, late, NetErrorKind::Connect, broken)
    })
}

impl HttpTransport {
    pub(crate) fn new(socket: Socket, buffer: usize, route: Option<Route>, opening: Opening) -> Self {
        let buffers = LazyBuffers::new(buffer, OUTPUT);
        Self { socket, buffers, route, opening, has_answered: Arc::default(), awaits_answer: false }
    }

    /// Returns `true` if no byte answers a request that was sent on a used connection.
    fn is_reused(&self) -> bool {
        self.awaits_answer && self.has_answered.load(Ordering::Relaxed)
    }

    fn explain(&self, error: io::Error, timeout: NextTimeout) -> ureq::Error {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof, WriteZero,
        };
        match error.kind() {
            TimedOut => ureq::Error::Timeout(timeout.reason),
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof | WriteZero
                if self.is_reused() =>
            {
                closed()
            }
            _ => error.into(),
        }
    }
}

impl Transport for HttpTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.awaits_answer = true;
        let timeout = timeout.for_write();
        let bytes = add_hidden(&self.buffers.output()[..amount]).map_err(wrap)?;
        let sent = self.socket.write_all(&bytes, self.opening.deadline(timeout));
        drop(bytes);
        sent.map_err(|error| self.explain(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        let deadline = self.opening.deadline(timeout);
        match self.socket.read(self.buffers.input_append_buf(), deadline) {
            Ok(0) if self.is_reused() => Err(closed()),
            Ok(0) => Ok(false),
            Ok(amount) => {
                self.buffers.input_appended(amount);
                self.awaits_answer = false;
                self.has_answered.store(true, Ordering::Relaxed);
                if let Some(route) = &mut self.route {
                    route.answered();
                }
                Ok(true)
            }
            // rustls returns `UnexpectedEof` if the peer closes the connection without a close_notify. ureq would treat
            // `UnexpectedEof` as the end of a body without a length. An attacker on the network could thus truncate a
            // body.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let what = "the peer closed the connection without ending the TLS session";
                Err(self.explain(io::Error::new(io::ErrorKind::BrokenPipe, what), timeout))
            }
            Err(error) => Err(self.explain(error, timeout)),
        }
    }

    fn is_open(&mut self) -> bool {
        self.socket.is_quiet()
    }

    fn is_tls(&self) -> bool {
        self.socket.is_tls()
    }
}

debug_fields!(impl Debug for HttpTransport { self => .. });

/// Wraps an error of this crate in an error of ureq, from which [`from_ureq`] extracts it.
fn wrap(error: Error) -> ureq::Error {
    ureq::Error::Other(Box::new(error))
}

fn closed() -> ureq::Error {
    let what = "reused connection closed before any response";
    wrap(Error::new(NetErrorKind::ConnectionClosed, what).sent(true))
}

fn is_framed(headers: &http::HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING)
}

/// Returns `true` if the body is compressed although the request forbids compression.
pub(crate) fn is_compressed(headers: &http::HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding.as_bytes() != b"identity")
}

pub(crate) fn read_body(body: ureq::Body) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut reader = body.into_reader().take(MAX_BODY + 1);
    reader.read_to_end(&mut bytes).map_err(|e| from_ureq(e.into()))?;
    match bytes.len() as u64 > MAX_BODY {
        true => Err(Error::new(NetErrorKind::BodyTooLarge, "the answer is larger than 4 MiB")),
        false => {
            // The vector grew by doubling, so up to half of its memory is unused.
            bytes.shrink_to_fit();
            Ok(bytes)
        }
    }
}

/// Converts an error of ureq, and returns a wrapped error of this crate unchanged.
///
/// All other errors count as sent, because they happened after the request was started.
pub(crate) fn from_ureq(error: ureq::Error) -> Error {
    let error = match error {
        ureq::Error::Other(other) => match other.downcast::<Error>() {
            Ok(ours) => return *ours,
            Err(other) => Error::new(NetErrorKind::Io, clean(&other.to_string(), MAX_TEXT)),
        },
        ureq::Error::Timeout(_) => explain(io::ErrorKind::TimedOut.into()),
        ureq::Error::Rustls(e) => tls_error(&e),
        ureq::Error::Io(e) => explain(e),
        other => Error::new(
            NetErrorKind::Malformed,
            format!("invalid HTTP response: {}", clean(&other.to_string(), MAX_TEXT)),
        ),
    };
    error.sent(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_of_the_rfc_is_parsed() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(parse_date("Sun, 06 Nov 1994 08:49:37 GMT"), at(784_111_777));
        assert_eq!(parse_date("Thu, 01 Jan 1970 00:00:00 GMT"), at(0));
        for text in [
            "",
            "now",
            "Sun, 06 November 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }
}
