//! One accepted socket, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustls::{ServerConnection, StreamOwned};

use crate::wire::tls::Tls;

pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// The error of a connection that has ended or must end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disconnected;

impl From<io::Error> for Disconnected {
    fn from(error: io::Error) -> Disconnected {
        log::debug!("testing server: connection ends: {error}");
        Disconnected
    }
}

impl Transport {
    /// Wraps a socket. The first read performs the TLS handshake.
    pub fn new(socket: TcpStream, tls: Option<&Tls>) -> Result<Transport, Disconnected> {
        let Some(tls) = tls else { return Ok(Transport::Plain(socket)) };
        let session = ServerConnection::new(tls.config.clone()).map_err(io::Error::other)?;
        Ok(Transport::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// Reads bytes into `buffer`. Returns zero at the end of the stream.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Disconnected> {
        loop {
            let read = match self {
                Transport::Plain(socket) => socket.read(buffer),
                Transport::Tls(stream) => stream.read(buffer),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return Ok(read?),
            }
        }
    }

    /// Writes all of `bytes` to the socket.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Disconnected> {
        match self {
            Transport::Plain(socket) => socket.write_all(bytes)?,
            Transport::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()?;
            }
        }
        Ok(())
    }

    /// Returns `true` if the client has disconnected. Neither waits nor loses data.
    pub fn is_gone(&mut self) -> bool {
        match self {
            Transport::Plain(socket) => without_waiting(socket, |socket| Ok(socket.peek(&mut [0])? == 0)),
            Transport::Tls(stream) => {
                let StreamOwned { conn, sock } = stream.as_mut();
                without_waiting(sock, |sock| {
                    // A TLS close alert is data on the socket, so a peek cannot detect that the client has closed.
                    let read = conn.read_tls(sock)?;
                    let state = conn.process_new_packets().map_err(io::Error::other)?;
                    Ok(read == 0 || state.peer_has_closed())
                })
            }
        }
    }

    /// Returns the client's certificate in DER, if the client has sent one.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(stream) => Some(stream.conn.peer_certificates()?.first()?.as_ref()),
        }
    }

    /// Closes the connection.
    ///
    /// Under TLS, a close alert is sent first, so that the client can distinguish an end from a cut.
    pub fn close(&mut self) {
        if let Transport::Tls(stream) = self {
            stream.conn.send_close_notify();
            // The flush fails if the client has disconnected.
            let _ = stream.flush();
        }
        self.cut();
    }

    /// Closes the connection after a response to a request that was not read in full.
    ///
    /// Reads the rest of the request for about a second, because closing a socket with unread data would destroy the
    /// response.
    pub fn close_early(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        let socket = self.socket();
        let _ = socket.shutdown(Shutdown::Write);
        let _ = socket.set_read_timeout(Some(Duration::from_millis(100)));
        let mut waste = [0; 8192];
        while Instant::now() < deadline && socket.read(&mut waste).is_ok_and(|read| read > 0) {}
        self.cut();
    }

    /// Cuts the connection.
    ///
    /// A drop of the socket is not enough, because the server has a second handle to each socket.
    pub fn cut(&mut self) {
        let _ = self.socket().shutdown(Shutdown::Both);
    }

    fn socket(&mut self) -> &mut TcpStream {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => &mut stream.sock,
        }
    }
}

fn without_waiting(socket: &mut TcpStream, look: impl FnOnce(&mut TcpStream) -> io::Result<bool>) -> bool {
    if socket.set_nonblocking(true).is_err() {
        return true;
    }
    let gone = match look(socket) {
        Ok(gone) => gone,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    };
    socket.set_nonblocking(false).is_err() || gone
}
