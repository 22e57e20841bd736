//! The listening socket, and a thread per connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::server::connection::ServedConnection;
use crate::server::shared::ServerState;
use crate::util::OnDrop;
use crate::wire::transport::Transport;

/// The stack size of a thread, enough for a TLS handshake in a debug build. Unused pages cost no memory.
const STACK: usize = 512 * 1024;
/// The longest time that a stop waits for the threads, after it has woken all of them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The threads of a server that runs.
pub(crate) struct RunningServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    acceptor: JoinHandle<()>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// A loopback port that no other socket can get, even while the server is stopped.
///
/// The system assigns a port to a new socket or connection only if no socket is bound to the port. A bound socket that
/// never listens therefore reserves the port. The server's listening sockets can still use the port.
pub struct Reserved {
    #[cfg(target_os = "linux")]
    _socket: std::os::fd::OwnedFd,
    pub port: u16,
}

impl Reserved {
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<Self> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // `TcpListener` sets the same option, so that both sockets can be bound to the port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let port = SocketAddr::try_from(getsockname(&socket)?)?.port();
        Ok(Self { _socket: socket, port })
    }

    /// Returns a port, which another socket may take while the server is stopped.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<Self> {
        Ok(Self { port: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port() })
    }
}

impl RunningServer {
    /// Listens on a port of the loopback interface.
    pub fn start(server: &Arc<ServerState>, port: u16) -> io::Result<RunningServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let threads = Arc::default();
        let acceptor = thread::Builder::new().name("leasehold-testing".into()).stack_size(STACK).spawn({
            let (server, stopping) = (server.clone(), stopping.clone());
            let threads = Arc::clone(&threads);
            move || accept(&server, &listener, &stopping, &threads)
        })?;
        Ok(RunningServer { address, stopping, acceptor, threads })
    }

    /// Ends all threads. Waits for them at most for [`TIMEOUT`].
    pub fn stop(self, server: &ServerState) {
        self.stopping.store(true, Ordering::SeqCst);
        // A new connection wakes the thread in `accept`, which the standard library cannot interrupt.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(500));
        let deadline = Instant::now() + TIMEOUT;
        join(self.acceptor, deadline);
        server.disconnect_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            join(thread, deadline);
        }
    }
}

fn accept(
    server: &Arc<ServerState>,
    listener: &TcpListener,
    stopping: &Arc<AtomicBool>,
    threads: &Mutex<Vec<JoinHandle<()>>>,
) {
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::SeqCst) {
            // A child process may have a copy of this socket, so closing the socket is not enough.
            #[cfg(target_os = "linux")]
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
            return;
        }
        let spawned = accepted.and_then(|(socket, _)| spawn(server, socket, stopping));
        let mut threads = threads.lock();
        threads.retain(|thread| !thread.is_finished());
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                log::warn!("testing server: cannot accept a connection: {error}");
                drop(threads);
                // The likely cause is a lack of file descriptors or threads, which other connections must free first.
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn spawn(server: &Arc<ServerState>, socket: TcpStream, stopping: &Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    // Without this option, a small event would wait for the acknowledgement of the previous event.
    socket.set_nodelay(true)?;
    let second = socket.try_clone()?;
    let number = server.connections.fetch_add(1, Ordering::Relaxed) + 1;
    server.sockets.lock().insert(number, second);
    let registered = OnDrop({
        let server = server.clone();
        move || drop(server.sockets.lock().remove(&number))
    });
    let (server, stopping) = (server.clone(), stopping.clone());
    thread::Builder::new().name(format!("leasehold-testing-{number}")).stack_size(STACK).spawn(move || {
        if let Ok(transport) = Transport::new(socket, server.tls.as_ref()) {
            ServedConnection { server, transport, number, stopping }.run();
        }
        drop(registered);
    })
}

fn join(thread: JoinHandle<()>, deadline: Instant) {
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            log::warn!("testing server: a thread did not end in time");
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    if thread.join().is_err() {
        log::error!("testing server: a thread panicked");
    }
}
