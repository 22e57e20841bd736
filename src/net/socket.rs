//! A connection as a stream of bytes, in TLS or not, which keeps to deadlines and can be shut down from another thread.

use std::io::{self, Read, Write};
use std::net::{Shutdown as How, TcpStream};
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "_http")]
use std::sync::Weak;
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;
#[cfg(feature = "_http")]
use ureq::unversioned::transport::ShutdownHandle;

use super::error::{Error, NetErrorKind};
use super::interrupt::{Interrupter, Shutdown};
use super::tls::{TlsParts, tls_error};

/// A connection that one call has at a time.
pub(crate) struct Socket {
    stream: Arc<SocketStream>,
    /// The TLS sessions, from the outermost one: with a proxy, and within it with the server.
    sessions: Vec<ClientConnection>,
}

/// The stream that an interrupt shuts down.
///
/// A `TcpStream` holds a Unix socket too, because its calls that are used here are calls of any stream socket.
struct SocketStream(TcpStream);

/// A stream that keeps to a deadline, however its bytes trickle.
#[derive(Clone, Copy)]
struct Timed<'a> {
    stream: &'a SocketStream,
    deadline: Instant,
}

/// A socket as a stream of bytes until a deadline.
pub(crate) struct TimedSocket<'a> {
    sessions: &'a mut [ClientConnection],
    below: Timed<'a>,
}

impl Socket {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        Self { stream: Arc::new(SocketStream(stream)), sessions: Vec::new() }
    }

    /// A connection to a socket of this machine's file system. It never waits: a server whose queue is full is one that cannot
    /// be reached.
    pub(crate) fn unix(path: &Path) -> Result<Self, Error> {
        connect_unix(path).map(Self::tcp).map_err(|e| {
            Error::new(NetErrorKind::Connect, format!("no connection to the socket {}", path.display())).caused_by(e)
        })
    }

    /// Uses it for this call: it is shut down on the interrupt. An error if that has come already.
    pub(crate) fn use_for(&self, interrupter: &Interrupter) -> Result<(), Error> {
        interrupter.register(&self.stream)
    }

    /// Shuts the socket down from another thread.
    #[cfg(feature = "_http")]
    pub(crate) fn shutdown_handle(&self) -> Weak<dyn ShutdownHandle> {
        let weak: Weak<SocketStream> = Arc::downgrade(&self.stream);
        weak
    }

    /// Encrypts everything from now on.
    pub(crate) fn start_tls(&mut self, parts: &TlsParts, deadline: Instant) -> Result<(), Error> {
        self.handshake(parts, deadline).map_err(explain)
    }

    /// As [`start_tls`](Self::start_tls). An error of TLS is within the returned one.
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

    pub(crate) fn until(&mut self, deadline: Instant) -> TimedSocket<'_> {
        TimedSocket { sessions: &mut self.sessions, below: Timed { stream: &self.stream, deadline } }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let mut stream = self.until(deadline);
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Reads what has come, and waits if that is nothing. Zero is the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.until(deadline).read(buffer)
    }

    /// Returns `true` if nothing has come, not even within a TLS session.
    #[cfg(feature = "_http")]
    pub(crate) fn has_nothing_to_read(&mut self) -> bool {
        // Bytes that the server sent beyond its answer may also wait in a session; read later, they would pass for the answer to
        // the next request.
        let is_empty = |session: &mut ClientConnection| {
            session
                .process_new_packets()
                .is_ok_and(|state| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed())
        };
        self.sessions.iter_mut().all(is_empty) && self.is_quiet()
    }

    /// Whether nothing has come. Between two calls the end of the connection and unasked-for bytes both are a reason not to
    /// use it again.
    #[cfg(unix)]
    pub(crate) fn is_quiet(&self) -> bool {
        let at_once = Timespec::default();
        poll(&mut [PollFd::new(&self.stream.0, PollFlags::IN)], Some(&at_once)) == Ok(0)
    }

    #[cfg(not(unix))]
    pub(crate) fn is_quiet(&self) -> bool {
        let stream = &self.stream.0;
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
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has none of that kind"))
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn connect_unix(path: &Path) -> io::Result<TcpStream> {
    std::os::unix::net::UnixStream::connect(path).map(|stream| TcpStream::from(std::os::fd::OwnedFd::from(stream)))
}

impl Read for TimedSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { sessions, below } = self;
        match sessions.split_last_mut() {
            None => below.read(buffer),
            Some((session, sessions)) => {
                rustls::Stream::new(session, &mut TimedSocket { sessions, below: *below }).read(buffer)
            }
        }
    }
}

impl Write for TimedSocket<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Self { sessions, below } = self;
        match sessions.split_last_mut() {
            None => below.write(buffer),
            Some((session, sessions)) => {
                rustls::Stream::new(session, &mut TimedSocket { sessions, below: *below }).write(buffer)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { sessions, below } = self;
        match sessions.split_last_mut() {
            None => below.flush(),
            Some((session, sessions)) => {
                rustls::Stream::new(session, &mut TimedSocket { sessions, below: *below }).flush()
            }
        }
    }
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

/// Whether to go on with the time that is left: a signal ends a call early, and so may the socket's own time-out.
fn is_unfinished(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.left()?;
            let mut stream = &self.stream.0;
            match stream.set_read_timeout(left).and_then(|()| stream.read(buffer)) {
                Err(e) if is_unfinished(&e) => {}
                other => return other,
            }
        }
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        loop {
            let left = self.left()?;
            let mut stream = &self.stream.0;
            match stream.set_write_timeout(left).and_then(|()| stream.write(buffer)) {
                Err(e) if is_unfinished(&e) => {}
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a failure on the connection means.
pub(crate) fn explain(e: io::Error) -> Error {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        return Error::new(NetErrorKind::Io, "the server closed the connection before it had answered");
    }
    failure(e, "the server did not answer in the given time", NetErrorKind::Io, "the connection broke")
}

/// Returns the error of TLS in `e`, a timeout described by `late`, or else an error of `kind` that `e` has caused.
pub(crate) fn failure(e: io::Error, late: &str, kind: NetErrorKind, broken: &str) -> Error {
    match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(tls) => tls_error(tls),
        None if e.kind() == io::ErrorKind::TimedOut => Error::new(NetErrorKind::Timeout, late),
        None => Error::new(kind, broken).caused_by(e),
    }
}
