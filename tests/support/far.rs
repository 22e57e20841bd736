//! A TCP proxy that delays every byte, as if the server were far away. TLS passes unchanged.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold::kubernetes::{ClientConfig, Kubeconfig};
use parking_lot::Mutex;

/// A proxy with delay and unlimited bandwidth.
///
/// Bytes arrive in order, half a round trip after they were sent. Opening a connection takes one round trip. Dropping
/// the proxy ends its connections and its threads.
pub struct Far {
    port: u16,
    shared: Arc<Shared>,
    listens: Option<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    round_trip: Duration,
    over: AtomicBool,
    opened: AtomicUsize,
    links: Mutex<Vec<Weak<Link>>>,
}

/// One connection.
struct Link {
    client: TcpStream,
    server: TcpStream,
}

#[derive(Clone, Copy)]
enum End {
    Client,
    Server,
}

/// Bytes or an event on the way to one end of a connection.
struct Piece {
    arrives_at: Instant,
    link: Arc<Link>,
    to: End,
    what: What,
}

enum What {
    Bytes(Vec<u8>),
    /// The other end has sent its last byte.
    Last,
    /// The other end no longer accepts bytes.
    Reset,
}

impl Far {
    /// Creates a proxy to the server of `kubeconfig`, and the configuration of a client that uses the proxy.
    pub fn to_server_of(kubeconfig: &str, round_trip: Duration) -> (Far, ClientConfig) {
        let config = |text: &str| {
            let kubeconfig = Kubeconfig::from_text(text, ".").expect("a kubeconfig");
            kubeconfig.client_config(None).expect("a configuration")
        };
        let url = config(kubeconfig).server();
        let here = url.trim_start_matches("https://");
        let server: SocketAddr = here.parse().expect("the address of a server on this machine");
        assert!(kubeconfig.contains(here), "the kubeconfig names the server as {here}");
        let far = Far::to(server, round_trip);
        let config = config(&kubeconfig.replace(here, &format!("{}:{}", server.ip(), far.port)));
        (far, config)
    }

    /// Creates a proxy on a local port, with a delay as if `server` were `round_trip` away.
    fn to(server: SocketAddr, round_trip: Duration) -> Far {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let shared = Arc::new(Shared {
            server,
            round_trip,
            over: AtomicBool::new(false),
            opened: AtomicUsize::new(0),
            links: Mutex::new(Vec::new()),
        });
        let (pieces, under_way) = mpsc::channel();
        let (delivers, answers) = (Arc::clone(&shared), pieces.clone());
        thread::spawn(move || delivers.deliver(&under_way, &answers));
        let listens = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.listen(&listener, &pieces)
        });
        Far { port, shared, listens: Some(listens) }
    }

    /// Returns the number of connections that were opened so far.
    pub fn connections(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// Closes every connection on the server's side.
    ///
    /// The clients receive the close half a round trip later.
    pub fn close_connections(&self) {
        for link in self.shared.links() {
            let _ = link.server.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // This connection wakes the listener thread, which then reads `over` and ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = self.listens.take().map(JoinHandle::join);
        for link in self.shared.links() {
            for stream in [&link.client, &link.server] {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Shared {
    fn links(&self) -> Vec<Arc<Link>> {
        self.links.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn listen(self: &Arc<Shared>, listener: &TcpListener, pieces: &Sender<Piece>) {
        for client in listener.incoming().map_while(Result::ok) {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let Ok(server) = TcpStream::connect(self.server) else { continue };
            for stream in [&client, &server] {
                let _ = stream.set_nodelay(true);
            }
            self.opened.fetch_add(1, Ordering::SeqCst);
            let link = Arc::new(Link { client, server });
            {
                let mut links = self.links.lock();
                links.retain(|link| link.strong_count() > 0);
                links.push(Arc::downgrade(&link));
            }
            for from in [End::Client, End::Server] {
                let (shared, link, pieces) = (Arc::clone(self), Arc::clone(&link), pieces.clone());
                thread::spawn(move || shared.take(&link, from, &pieces));
            }
        }
    }

    /// Reads the bytes that one end sends, and queues the bytes for the other end.
    fn take(&self, link: &Arc<Link>, from: End, pieces: &Sender<Piece>) {
        let (mut stream, to) = match from {
            End::Client => (&link.client, End::Server),
            End::Server => (&link.server, End::Client),
        };
        if let End::Client = from {
            // A connection to this proxy opens at once. A client of a distant server can send its first byte only after
            // a round trip.
            thread::sleep(self.round_trip);
        }
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = stream.read(&mut buffer).unwrap_or(0);
            let what = if read == 0 { What::Last } else { What::Bytes(buffer[..read].to_vec()) };
            if pieces.send(self.piece(link, to, what)).is_err() || read == 0 {
                return;
            }
        }
    }

    fn piece(&self, link: &Arc<Link>, to: End, what: What) -> Piece {
        Piece { arrives_at: Instant::now() + self.round_trip / 2, link: Arc::clone(link), to, what }
    }

    /// Delivers the bytes of all connections, in the order of sending.
    ///
    /// One thread is enough, because all bytes have the same delay.
    fn deliver(&self, under_way: &Receiver<Piece>, answers: &Sender<Piece>) {
        // The channel never disconnects, because this function holds a sender.
        while !self.over.load(Ordering::SeqCst) {
            let Ok(Piece { arrives_at, link, to, what }) = under_way.recv_timeout(Duration::from_millis(100)) else {
                continue;
            };
            thread::sleep(arrives_at.saturating_duration_since(Instant::now()));
            let (mut stream, sender) = match to {
                End::Client => (&link.client, End::Server),
                End::Server => (&link.server, End::Client),
            };
            match what {
                What::Bytes(bytes) => {
                    if stream.write_all(&bytes).is_err() {
                        let _ = answers.send(self.piece(&link, sender, What::Reset));
                    }
                }
                What::Last => {
                    let _ = stream.shutdown(Shutdown::Write);
                }
                What::Reset => {
                    let _ = stream.shutdown(Shutdown::Both);
                }
            }
        }
    }
}
