//! A TCP proxy between a candidate and a server that can cause network faults, or delay every byte.
//!
//! TLS passes unchanged.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold::kubernetes::ClientConfig;
use parking_lot::{Condvar, Mutex};

use super::client_config::config_of;

/// The behavior of the proxy.
#[derive(Clone, Copy, PartialEq)]
pub enum Faults {
    Fair,
    /// The proxy closes all open connections and all new connections.
    Cut,
    /// Open and new connections lose all bytes, as if the server had forgotten the connections.
    ///
    /// These connections stay open on the candidate's side, but lose all bytes even after the fault ends.
    BlackHole,
    /// The proxy delivers requests only after the fault ends.
    ///
    /// The candidate may no longer wait for a response then.
    RequestsHeldBack,
    /// The server handles requests, but the proxy delivers responses only after the fault ends.
    AnswersHeldBack,
    /// The proxy delivers requests and responses only after the fault ends.
    ///
    /// Connections stay open.
    HeldBack,
    /// Each answer arrives late by this time. TLS handshakes are not delayed.
    AnswersLate(Duration),
}

/// A proxy with unlimited bandwidth. Dropping the proxy ends its connections and its threads.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
    listens: Option<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    /// Half a round trip, after which each byte arrives.
    delay: Duration,
    /// The computing time of a TLS handshake on each side.
    handshake: Duration,
    /// The times until which the processors of the server and of the clients are reserved.
    processors: [Mutex<Instant>; 2],
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    faults: Faults,
    over: bool,
    opened: usize,
    /// If this is *n*, one in *n* new connections loses all bytes.
    dead: Option<usize>,
    links: Vec<Weak<Link>>,
}

/// A connection of the candidate.
struct Link {
    client: TcpStream,
    /// `None` if the connection was opened during [`Faults::BlackHole`].
    server: Option<TcpStream>,
    /// `true` after [`Faults::BlackHole`]. The connection then loses all bytes forever.
    forgotten: AtomicBool,
    used_at: Mutex<Instant>,
    /// `true` after the client's second message, which ends the handshake of TLS 1.3.
    is_established: AtomicBool,
}

#[derive(Clone, Copy)]
enum Direction {
    Requests,
    Answers,
}

impl Proxy {
    /// Creates a proxy to the server of a kubeconfig.
    ///
    /// Writes a copy of the kubeconfig with the proxy's address.
    pub fn by_kubeconfig(original: &Path, copy: &Path) -> Proxy {
        let text = std::fs::read_to_string(original).expect("a kubeconfig");
        let (proxy, text) = Proxy::to_server_of(&text, Duration::ZERO, Duration::ZERO);
        std::fs::write(copy, text).expect("a kubeconfig");
        proxy
    }

    /// Creates a proxy as if the server of a kubeconfig were far away, and the configuration of a client.
    ///
    /// Opening a connection takes one round trip.
    pub fn far_from(kubeconfig: &str, round_trip: Duration) -> (Proxy, ClientConfig) {
        let (proxy, text) = Proxy::to_server_of(kubeconfig, round_trip / 2, Duration::ZERO);
        let config = config_of(&text);
        (proxy, config.expect("a configuration"))
    }

    /// Creates a proxy as if each side needed `handshake` of computing time for a TLS handshake, and the configuration of
    /// a client.
    ///
    /// Each side has one processor, and shares the processor among all handshakes. A client that gives up costs the
    /// server the same time.
    pub fn computing(kubeconfig: &str, handshake: Duration) -> (Proxy, ClientConfig) {
        let (proxy, text) = Proxy::to_server_of(kubeconfig, Duration::ZERO, handshake);
        let config = config_of(&text);
        (proxy, config.expect("a configuration"))
    }

    /// Lets one in `n` new connections lose all bytes.
    pub fn lose_one_in(&self, n: usize) {
        self.shared.state.lock().dead = Some(n);
    }

    /// Returns a proxy to the server of a kubeconfig, and the kubeconfig with the proxy's address.
    fn to_server_of(kubeconfig: &str, delay: Duration, handshake: Duration) -> (Proxy, String) {
        let mut words = kubeconfig.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let server = words.find_map(|word| word.strip_prefix("https://")).expect("a server");
        let proxy = Proxy::with(server.parse().expect("an address and a port"), delay, handshake);
        let text = kubeconfig.replace(server, &format!("127.0.0.1:{}", proxy.port));
        (proxy, text)
    }

    /// Creates a proxy to the server with this port and URL. Returns the proxy, and the URL with the proxy's port.
    pub fn by_url(port: u16, url: &str) -> (Proxy, String) {
        let proxy = Proxy::to(([127, 0, 0, 1], port).into());
        let url = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
        (proxy, url)
    }

    pub fn to(server: SocketAddr) -> Proxy {
        Proxy::with(server, Duration::ZERO, Duration::ZERO)
    }

    fn with(server: SocketAddr, delay: Duration, handshake: Duration) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let state = State { faults: Faults::Fair, over: false, opened: 0, dead: None, links: Vec::new() };
        let (processors, changed) = ([(); 2].map(|()| Mutex::new(Instant::now())), Condvar::new());
        let shared = Arc::new(Shared { server, delay, handshake, processors, state: Mutex::new(state), changed });
        let listens = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.listen(&listener)
        });
        Proxy { port, shared, listens: Some(listens) }
    }

    pub fn set(&self, faults: Faults) {
        let mut state = self.shared.state.lock();
        state.faults = faults;
        for link in state.links.iter().filter_map(Weak::upgrade) {
            match faults {
                Faults::Cut => link.close(),
                Faults::BlackHole => link.forget(),
                Faults::Fair
                | Faults::RequestsHeldBack
                | Faults::AnswersHeldBack
                | Faults::HeldBack
                | Faults::AnswersLate(_) => {}
            }
        }
        self.shared.changed.notify_all();
    }

    /// Returns the number of connections that were opened so far.
    pub fn connections(&self) -> usize {
        self.shared.state.lock().opened
    }

    /// Forgets the connections that have been idle for this time, as a firewall does. Returns their number.
    ///
    /// Such connections stay open on the candidate's side, but lose all bytes. New connections work.
    pub fn forget_idle(&self, time: Duration) -> usize {
        let links = self.shared.state.lock().links.iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        let idle = links.iter().filter(|link| link.used_at.lock().elapsed() >= time);
        idle.map(|link| link.forget()).count()
    }

    /// Closes every connection on the server's side.
    ///
    /// The clients receive the close half a round trip later.
    pub fn close_connections(&self) {
        let links = self.shared.state.lock().links.iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        for server in links.iter().filter_map(|link| link.server.as_ref()) {
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.over = true;
        state.links.iter().filter_map(Weak::upgrade).for_each(|link| link.close());
        drop(state);
        self.shared.changed.notify_all();
        // This connection wakes the listener thread, which then reads `over` and ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = self.listens.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn listen(self: &Arc<Shared>, listener: &TcpListener) {
        for client in listener.incoming().map_while(Result::ok) {
            let mut state = self.state.lock();
            if state.over {
                return;
            }
            let server = match state.faults {
                Faults::Cut => continue,
                Faults::BlackHole => None,
                _ if state.dead.is_some_and(|n| state.opened.is_multiple_of(n)) => None,
                // The server is on this machine, so the system accepts a connection immediately, even for a stopped
                // process.
                _ => match TcpStream::connect(self.server) {
                    Ok(server) => Some(server),
                    Err(_) => continue,
                },
            };
            for stream in [Some(&client), server.as_ref()].into_iter().flatten() {
                let _ = stream.set_nodelay(true);
            }
            let forgotten = AtomicBool::new(server.is_none());
            let (used_at, is_established) = (Mutex::new(Instant::now()), AtomicBool::new(false));
            let link = Arc::new(Link { client, server, forgotten, used_at, is_established });
            state.opened += 1;
            state.links.retain(|link| link.strong_count() > 0);
            state.links.push(Arc::downgrade(&link));
            drop(state);
            for direction in [Direction::Requests, Direction::Answers] {
                let (shared, link) = (Arc::clone(self), Arc::clone(&link));
                thread::spawn(move || shared.carry(&link, direction));
            }
        }
    }

    fn carry(&self, link: &Link, direction: Direction) {
        let (from, to) = match direction {
            Direction::Requests => (Some(&link.client), link.server.as_ref()),
            Direction::Answers => (link.server.as_ref(), Some(&link.client)),
        };
        let Some(mut from) = from else { return };
        if let Direction::Requests = direction {
            // A connection to this proxy opens at once. A client of a distant server can send its first byte only after
            // a round trip.
            thread::sleep(2 * self.delay);
        }
        let (pieces, under_way) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || self.deliver(link, direction, to, &under_way));
            let mut buffer = [0; 16 * 1024];
            for count in 1.. {
                let read = from.read(&mut buffer).unwrap_or(0);
                if matches!(direction, Direction::Requests) && count == 2 {
                    link.is_established.store(true, Ordering::SeqCst);
                }
                let late = self.lateness(link, direction);
                let piece = (Instant::now() + self.delay + late, buffer[..read].to_vec());
                if pieces.send(piece).is_err() || read == 0 {
                    return;
                }
            }
        });
    }

    fn lateness(&self, link: &Link, direction: Direction) -> Duration {
        match (direction, self.state.lock().faults) {
            (Direction::Answers, Faults::AnswersLate(late)) if link.is_established.load(Ordering::SeqCst) => late,
            _ => Duration::ZERO,
        }
    }

    /// Delivers pieces of a stream at their times. An empty piece is the end of the stream.
    fn deliver(
        &self,
        link: &Link,
        direction: Direction,
        to: Option<&TcpStream>,
        under_way: &Receiver<(Instant, Vec<u8>)>,
    ) {
        let mut is_first = true;
        for (arrives_at, bytes) in under_way {
            thread::sleep(arrives_at.saturating_duration_since(Instant::now()));
            let mut to = to.filter(|_| self.passes(link, direction));
            if std::mem::take(&mut is_first) {
                self.compute(direction);
            }
            if bytes.is_empty() {
                let _ = to.map(|to| to.shutdown(Shutdown::Write));
                return;
            }
            *link.used_at.lock() = Instant::now();
            if to.as_mut().is_some_and(|to| to.write_all(&bytes).is_err()) {
                thread::sleep(self.delay);
                return link.close();
            }
        }
    }

    /// Waits until the receiver of a first piece has computed its part of a handshake.
    fn compute(&self, direction: Direction) {
        /// The longest time for which one handshake has the processor.
        const SLICE: Duration = Duration::from_millis(1);

        let mut left = self.handshake;
        while !left.is_zero() {
            let until = {
                let mut reserved = self.processors[direction as usize].lock();
                *reserved = (*reserved).max(Instant::now()) + left.min(SLICE);
                *reserved
            };
            thread::sleep(until.saturating_duration_since(Instant::now()));
            left = left.saturating_sub(SLICE);
        }
    }

    /// Waits while bytes and the end of the stream are held back.
    ///
    /// Returns `false` if the bytes are lost.
    fn passes(&self, link: &Link, direction: Direction) -> bool {
        let mut state = self.state.lock();
        loop {
            let held_back = match direction {
                Direction::Requests => matches!(state.faults, Faults::RequestsHeldBack | Faults::HeldBack),
                Direction::Answers => matches!(state.faults, Faults::AnswersHeldBack | Faults::HeldBack),
            };
            if !held_back || state.over {
                return !link.forgotten.load(Ordering::SeqCst);
            }
            self.changed.wait(&mut state);
        }
    }
}

impl Link {
    fn close(&self) {
        for stream in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn forget(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
        if let Some(server) = &self.server {
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}
