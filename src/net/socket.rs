//! A connection with or without TLS, with deadlines, that another thread can shut down.

use std::io::{self, Read, Write};
use std::net::{Shutdown as How, TcpStream};
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "_http")]
use std::sync::Weak;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
#[cfg(feature = "_http")]
use ureq::unversioned::transport::ShutdownHandle;

use super::error::{Error, NetErrorKind};
use super::interrupt::{Interrupter, Shutdown};
use super::tls::{TlsParts, tls_error};

/// A connection that only one call uses at a time.
pub(crate) struct Socket {
    stream: Arc<SocketStream>,
    /// The TLS sessions from the outside to the inside.
    ///
    /// The session with a proxy precedes the session with the server.
    sessions: Vec<ClientConnection>,
}

/// The stream that an interrupt shuts down.
///
/// The `TcpStream` may hold a Unix socket, because the system calls used here work on every stream socket.
#[derive(Debug)]
pub(crate) struct SocketStream(TcpStream);

/// A socket with its TLS sessions, whose reads and writes end at a deadline, even if bytes keep arriving slowly.
pub(crate) struct TimedSocket<'a> {
    sessions: &'a mut [ClientConnection],
    stream: &'a SocketStream,
    deadline: Instant,
}

impl Socket {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        Self { stream: Arc::new(SocketStream(stream)), sessions: Vec::new() }
    }

    /// Connects to a Unix socket.
    ///
    /// On Linux and Android, returns an error instead of waiting if the queue of the server is full.
    pub(crate) fn unix(path: &Path) -> Result<Self, Error> {
        connect_unix(path).map(Self::tcp).map_err(|e| {
            Error::new(NetErrorKind::Connect, format!("connecting to socket {} failed", path.display())).caused_by(e)
        })
    }

    /// Registers the socket with `interrupter`, which shuts the socket down on an interrupt.
    ///
    /// Returns an error if the interrupt has already happened.
    pub(crate) fn use_for(&self, interrupter: &Interrupter) -> Result<(), Error> {
        interrupter.register(&self.stream)
    }

    /// Returns a handle that shuts the socket down from another thread.
    #[cfg(feature = "_http")]
    pub(crate) fn shutdown_handle(&self) -> Weak<dyn ShutdownHandle> {
        self.stream()
    }

    #[cfg(feature = "_http")]
    pub(crate) fn stream(&self) -> Weak<SocketStream> {
        Arc::downgrade(&self.stream)
    }

    /// Starts TLS. All later bytes are encrypted.
    pub(crate) fn start_tls(&mut self, parts: &TlsParts, deadline: Instant) -> Result<(), Error> {
        self.handshake(parts, deadline).map_err(explain)
    }

    /// Starts TLS like [`start_tls`](Self::start_tls), but returns the unconverted I/O error.
    ///
    /// [`failure`] finds a TLS error inside the I/O error.
    pub(crate) fn handshake(&mut self, parts: &TlsParts, deadline: Instant) -> io::Result<()> {
        let session = ClientConnection::new(Arc::clone(&parts.config), parts.name.clone());
        let mut session = session.map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut self.until(deadline))?;
        }
        self.sessions.reserve_exact(1);
        self.sessions.push(session);
        Ok(())
    }

    pub(crate) fn is_tls(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// Returns the server's certificate if the connection is encrypted.
    #[cfg(feature = "postgres")]
    pub(crate) fn server_certificate(&self) -> Option<&[u8]> {
        let certificate = self.sessions.last()?.peer_certificates()?.first()?;
        Some(certificate.as_ref())
    }

    pub(crate) fn until(&mut self, deadline: Instant) -> TimedSocket<'_> {
        TimedSocket { sessions: &mut self.sessions, stream: &self.stream, deadline }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let mut stream = self.until(deadline);
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Waits for bytes and reads them. Returns zero at the end of the stream.
    pub(crate) fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.until(deadline).read(buffer)
    }

    /// Returns `true` if neither an unread byte nor the end of the stream has arrived, also within a TLS session.
    ///
    /// If either arrives between two calls, the connection must not be used again.
    pub(crate) fn is_quiet(&mut self) -> bool {
        // A session may hold bytes that the server sent after its answer. The next request would read these bytes as
        // its own answer.
        let is_empty = |session: &mut ClientConnection| {
            session
                .process_new_packets()
                .is_ok_and(|state| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed())
        };
        self.sessions.iter_mut().all(is_empty) && self.stream.is_quiet()
    }
}

impl SocketStream {
    /// Returns `true` if neither a byte nor the end of the stream has arrived.
    pub(crate) fn is_quiet(&self) -> bool {
        let stream = &self.0;
        let probe = || -> io::Result<bool> {
            stream.set_nonblocking(true)?;
            let quiet = matches!(stream.peek(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
            stream.set_nonblocking(false)?;
            Ok(quiet)
        };
        probe().unwrap_or(false)
    }
}

#[cfg(feature = "_http")]
impl ShutdownHandle for SocketStream {
    fn shutdown(&self) {
        Shutdown::shutdown(self);
    }
}

impl Shutdown for SocketStream {
    fn shutdown(&self) {
        let _ = self.0.shutdown(How::Both);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn connect_unix(path: &Path) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(not(unix))]
fn connect_unix(_: &Path) -> io::Result<TcpStream> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "the system has no Unix sockets"))
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn connect_unix(path: &Path) -> io::Result<TcpStream> {
    std::os::unix::net::UnixStream::connect(path).map(|stream| TcpStream::from(std::os::fd::OwnedFd::from(stream)))
}

impl TimedSocket<'_> {
    /// Returns the innermost TLS session, and the socket without this session.
    fn session(&mut self) -> Option<(&mut ClientConnection, TimedSocket<'_>)> {
        let (session, sessions) = self.sessions.split_last_mut()?;
        Some((session, TimedSocket { sessions, stream: self.stream, deadline: self.deadline }))
    }

    /// Repeats a system call with the remaining time as its timeout until the deadline.
    ///
    /// A signal or the timeout of the socket may end a system call early.
    fn repeat(&self, mut run: impl FnMut(&TcpStream, Option<Duration>) -> io::Result<usize>) -> io::Result<usize> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TimedOut.into());
            }
            match run(&self.stream.0, Some(left)) {
                Err(e) if matches!(e.kind(), Interrupted | WouldBlock | TimedOut) => {}
                other => return other,
            }
        }
    }
}

impl Read for TimedSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((session, mut below)) = self.session() {
            return rustls::Stream::new(session, &mut below).read(buffer);
        }
        self.repeat(|mut stream, left| stream.set_read_timeout(left).and_then(|()| stream.read(buffer)))
    }
}

impl Write for TimedSocket<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some((session, mut below)) = self.session() {
            return rustls::Stream::new(session, &mut below).write(buffer);
        }
        self.repeat(|mut stream, left| stream.set_write_timeout(left).and_then(|()| stream.write(buffer)))
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.session() {
            Some((session, mut below)) => rustls::Stream::new(session, &mut below).flush(),
            None => Ok(()),
        }
    }
}

/// Converts an I/O error of a connection to a server.
pub(crate) fn explain(e: io::Error) -> Error {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        return Error::new(NetErrorKind::Io, "the server closed the connection before its response");
    }
    failure(e, "the server did not respond in time", NetErrorKind::Io, "the connection broke")
}

/// Converts an I/O error.
///
/// Returns the TLS error inside `e`, or a timeout with the text `late`, or else an error of `kind` with the text
/// `broken`.
pub(crate) fn failure(e: io::Error, late: &str, kind: NetErrorKind, broken: &str) -> Error {
    match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(tls) => tls_error(tls),
        None if e.kind() == io::ErrorKind::TimedOut => Error::new(NetErrorKind::Timeout, late),
        None => Error::new(kind, broken).caused_by(e),
    }
}
