//! How ureq gets its connections: dialled by us, tunnelled by us, with TLS set up by us.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::{ClientConnection, StreamOwned};
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Duration as UreqDuration;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, ShutdownHandle, Transport, TransportAdapter,
};

use super::dial::Dialer;
use super::endpoint::Endpoint;
use super::error::{Error, ErrorKind};
use super::interrupt::Interrupter;
use super::outgoing::{Channel, Outgoing};
use super::proxy::Proxy;
use super::reused::Reused;
use super::tls::{TlsParts, tls_error};
use crate::net::MAX_WAIT;

/// Opens the connections of one agent.
#[derive(Debug)]
pub(crate) struct HttpConnector {
    pub(crate) target: Endpoint,
    pub(crate) proxy: Option<Proxy>,
    /// For a proxy that is spoken to in TLS.
    pub(crate) proxy_tls: Option<TlsParts>,
    pub(crate) tls: Option<TlsParts>,
    pub(crate) dialer: Dialer,
    pub(crate) call: CurrentCall,
    pub(crate) opening: Opening,
}

/// The call that an agent is used for, as its connector has to know it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentCall(Arc<Mutex<Interrupter>>);

impl CurrentCall {
    pub(crate) fn set(&self, interrupter: &Interrupter) {
        *self.0.lock() = interrupter.clone();
    }

    pub(crate) fn interrupter(&self) -> Interrupter {
        self.0.lock().clone()
    }
}

/// A resolver that does not resolve.
///
/// ureq asks for addresses before every request, also when it then takes a pooled connection. The connector looks
/// names up itself, only when it dials, and in a way that can be interrupted.
#[derive(Debug)]
pub(crate) struct NoResolver;

/// The moment by which a stream must have answered.
///
/// ureq's overall time-out also covers the body, which for a watch has no end; so the time to open one is enforced
/// down here, and lifted when the answer is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening(Arc<Mutex<Option<Instant>>>);

/// A TCP connection that can be shut down from another thread.
#[derive(Debug)]
struct Socket {
    /// Shared with ureq, which shuts it down on an interrupt.
    stream: Arc<TcpStream>,
    buffers: LazyBuffers,
    opening: Opening,
}

/// A TLS session over a [`Socket`], or over another session: that with the proxy.
struct TlsSocket {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter<Connection>>,
}

/// Whatever HTTP, or another session, goes over.
#[derive(Debug)]
enum Connection {
    Plain(Socket),
    Tls(Box<TlsSocket>),
}

impl Resolver for NoResolver {
    fn resolve(&self, _: &Uri, _: &ureq::config::Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        // The trait asks for one address at least; nobody connects to this one.
        let mut addresses = self.empty();
        addresses.push(([0, 0, 0, 0], 0).into());
        Ok(addresses)
    }
}

impl Connector<()> for HttpConnector {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Self::Out>, ureq::Error> {
        let limit = self.opening.cap(details.timeout);
        let deadline = Instant::now() + (*limit.after).min(MAX_WAIT);
        let first_hop = self.proxy.as_ref().map_or(&self.target, Proxy::endpoint);
        let dialed = self.dialer.dial(&first_hop.host_in_zone(), first_hop.port(), deadline, &self.call.interrupter());
        let (stream, route) = dialed.map_err(|e| wrap(self.at_proxy(e)))?;
        let stream = Arc::new(stream);
        let weak: Weak<TcpStream> = Arc::downgrade(&stream);
        // Before a single byte is exchanged, or a tunnel and a handshake could not be interrupted.
        (details.register_shutdown)(weak as Weak<dyn ShutdownHandle>)?;
        let socket = Socket { stream, buffers: buffers(details), opening: self.opening.clone() };
        let mut connection = Connection::Plain(socket);
        if let Some(proxy) = &self.proxy {
            if let Some(parts) = &self.proxy_tls {
                let output = details.config.output_buffer_size();
                let tls = TlsSocket::handshake(parts, connection, output, details, deadline);
                connection = Connection::Tls(Box::new(tls.map_err(|e| wrap(self.at_proxy(e)))?));
            }
            let mut stream = adapter(connection, details, deadline);
            proxy.open_tunnel(&mut stream, &self.target).map_err(wrap)?;
            connection = stream.into_inner();
        }
        if let Some(parts) = &self.tls {
            // What goes out is not buffered here; none at all is not allowed.
            let tls = TlsSocket::handshake(parts, connection, 1, details, deadline).map_err(wrap)?;
            connection = Connection::Tls(Box::new(tls));
        }
        Ok(Some(Box::new(Reused::new(Outgoing::new(connection), route))))
    }
}

impl HttpConnector {
    /// Until the tunnel is there, it is the proxy that fails.
    fn at_proxy(&self, error: Error) -> Error {
        match &self.proxy {
            Some(proxy) => error.at(proxy.place()),
            None => error,
        }
    }
}

impl Opening {
    pub(crate) fn until(deadline: Instant) -> Self {
        Opening(Arc::new(Mutex::new(Some(deadline))))
    }

    pub(crate) fn finish(&self) {
        *self.0.lock() = None;
    }

    fn cap(&self, mut timeout: NextTimeout) -> NextTimeout {
        if let Some(deadline) = *self.0.lock() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left < *timeout.after {
                timeout.after = UreqDuration::Exact(left);
            }
        }
        timeout
    }
}

impl Socket {
    /// The time left of `timeout` since `start`; an error when it has run out, for a socket takes no zero.
    fn left(timeout: NextTimeout, start: Instant) -> Result<Option<Duration>, ureq::Error> {
        if timeout.after.is_not_happening() {
            return Ok(None);
        }
        match timeout.after.saturating_sub(start.elapsed()) {
            Duration::ZERO => Err(ureq::Error::Timeout(timeout.reason)),
            left => Ok(Some(left)),
        }
    }
}

/// What a system call that ended without result means: `None` to try again with the time that is left.
fn unfinished(e: io::Error) -> Option<io::Error> {
    match e.kind() {
        // A signal ends a call early, and so does the socket's own time-out, which may round down.
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => None,
        _ => Some(e),
    }
}

fn write_all(mut stream: &TcpStream, mut output: &[u8], timeout: NextTimeout) -> Result<(), ureq::Error> {
    let start = Instant::now();
    while !output.is_empty() {
        stream.set_write_timeout(Socket::left(timeout, start)?)?;
        match stream.write(output) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(n) => output = &output[n..],
            Err(e) => match unfinished(e) {
                Some(e) => return Err(e.into()),
                None => continue,
            },
        }
    }
    Ok(())
}

impl Socket {
    fn send(&mut self, bytes: &[u8], timeout: NextTimeout) -> Result<(), ureq::Error> {
        write_all(&self.stream, bytes, self.opening.cap(timeout.for_write()))
    }

    fn receive(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = self.opening.cap(timeout.for_read());
        let start = Instant::now();
        loop {
            self.stream.set_read_timeout(Self::left(timeout, start)?)?;
            match (&*self.stream).read(self.buffers.input_append_buf()) {
                Ok(n) => {
                    self.buffers.input_appended(n);
                    return Ok(n > 0);
                }
                Err(e) => match unfinished(e) {
                    Some(e) => return Err(e.into()),
                    None => continue,
                },
            }
        }
    }

    fn is_quiet(&mut self) -> bool {
        // Between requests there is nothing to read. The end of the connection and unasked-for bytes both are a
        // reason not to use it again.
        let probe = || -> io::Result<bool> {
            self.stream.set_nonblocking(true)?;
            let silent = matches!(self.stream.peek(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
            self.stream.set_nonblocking(false)?;
            Ok(silent)
        };
        probe().unwrap_or(false)
    }
}

impl TlsSocket {
    fn handshake(
        parts: &TlsParts,
        connection: Connection,
        output: usize,
        details: &ConnectionDetails,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let conn = ClientConnection::new(Arc::clone(&parts.config), parts.name.clone()).map_err(|e| tls_error(&e))?;
        let mut stream = StreamOwned::new(conn, adapter(connection, details, deadline));
        while stream.conn.is_handshaking() {
            if let Err(e) = stream.conn.complete_io(&mut stream.sock) {
                return Err(handshake_error(e));
            }
        }
        Ok(TlsSocket { buffers: LazyBuffers::new(details.config.input_buffer_size(), output), stream })
    }

    fn send(&mut self, bytes: &[u8], timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(bytes)?;
        self.stream.flush()?;
        Ok(())
    }

    fn receive(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        match self.stream.read(self.buffers.input_append_buf()) {
            Ok(n) => {
                self.buffers.input_appended(n);
                Ok(n > 0)
            }
            // rustls says so when the peer vanishes without a close_notify. ureq would take it for the end of a body
            // that has no length, so anybody on the way could cut one short; here it is a failure.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(ureq::Error::Io(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the peer closed the connection without ending the TLS session",
            ))),
            Err(e) => Err(e.into()),
        }
    }

    fn is_quiet(&mut self) -> bool {
        // What the server sent beyond its answer may also wait in the session or in front of it; read later, it would
        // pass for the answer to the next request.
        let session_is_quiet = self
            .stream
            .conn
            .process_new_packets()
            .is_ok_and(|state| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed());
        let below = self.stream.sock.get_mut();
        session_is_quiet && below.buffers().input().is_empty() && below.is_open()
    }
}

/// For HTTP right on top of it.
impl Channel for Connection {
    fn is_tls(&self) -> bool {
        matches!(self, Connection::Tls(_))
    }

    fn received(&self) -> &LazyBuffers {
        match self {
            Connection::Plain(socket) => &socket.buffers,
            Connection::Tls(session) => &session.buffers,
        }
    }

    fn received_mut(&mut self) -> &mut LazyBuffers {
        match self {
            Connection::Plain(socket) => &mut socket.buffers,
            Connection::Tls(session) => &mut session.buffers,
        }
    }

    fn send(&mut self, bytes: &[u8], timeout: NextTimeout) -> Result<(), ureq::Error> {
        match self {
            Connection::Plain(socket) => socket.send(bytes, timeout),
            Connection::Tls(session) => session.send(bytes, timeout),
        }
    }

    fn receive(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        match self {
            Connection::Plain(socket) => socket.receive(timeout),
            Connection::Tls(session) => session.receive(timeout),
        }
    }

    fn is_quiet(&mut self) -> bool {
        match self {
            Connection::Plain(socket) => socket.is_quiet(),
            Connection::Tls(session) => session.is_quiet(),
        }
    }
}

/// For a tunnel, or a TLS session on top of it.
impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.received_mut()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        match self {
            Connection::Plain(socket) => {
                write_all(&socket.stream, &socket.buffers.output()[..amount], socket.opening.cap(timeout.for_write()))
            }
            Connection::Tls(session) => {
                let TlsSocket { buffers, stream } = &mut **session;
                stream.sock.set_timeout(timeout);
                stream.write_all(&buffers.output()[..amount])?;
                stream.flush()?;
                Ok(())
            }
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.receive(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.is_quiet()
    }

    fn is_tls(&self) -> bool {
        Channel::is_tls(self)
    }
}

impl fmt::Debug for TlsSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSocket").field("below", self.stream.sock.inner()).finish()
    }
}

fn buffers(details: &ConnectionDetails) -> LazyBuffers {
    LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size())
}

/// A connection as a stream of bytes, until the deadline.
fn adapter(connection: Connection, details: &ConnectionDetails, deadline: Instant) -> TransportAdapter<Connection> {
    let mut adapter = TransportAdapter::new(connection, details.current_time.clone());
    adapter.set_timeout(NextTimeout {
        after: UreqDuration::Exact(deadline.saturating_duration_since(Instant::now())),
        ..details.timeout
    });
    adapter
}

/// Our own errors travel through ureq unchanged.
fn wrap(error: Error) -> ureq::Error {
    ureq::Error::Other(Box::new(error))
}

/// A handshake that fails is told apart from a connection that breaks later: nothing of the request was sent.
fn handshake_error(e: io::Error) -> Error {
    if let Some(tls) = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        return tls_error(tls);
    }
    let broke = "the connection broke while TLS was being set up";
    match ureq::Error::from(e) {
        ureq::Error::Io(e) => Error::new(ErrorKind::Connect, broke).caused_by(e),
        ureq::Error::Timeout(_) => Error::new(ErrorKind::Timeout, "TLS could not be set up in the given time"),
        _ => Error::new(ErrorKind::Connect, broke),
    }
}
