//! Looking up names and connecting, so that a caller can be let go at any moment.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, select};

use super::error::{Error, ErrorKind};
use super::interrupt::{Interrupter, interrupted};

/// More look-ups and connects than this are never left hanging; a resolver that blocks for minutes must not fill the
/// process with threads.
const MAX_PENDING: usize = 64;

/// No name of an API server has more addresses worth trying.
const MAX_ADDRESSES: usize = 16;

/// What the operating system does for us; tests put something slow in its place.
pub(super) trait Network: Send + Sync + 'static {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
    fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream>;
}

pub(super) struct System;

impl Network for System {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.take(MAX_ADDRESSES).collect())
    }

    fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&address, timeout)
    }
}

/// Opens connections on threads of their own.
///
/// Neither `getaddrinfo` nor `connect` can be called off, so whoever is interrupted leaves them behind: the thread
/// ends by itself and closes what it has opened.
#[derive(Clone)]
pub(super) struct Dialer {
    network: Arc<dyn Network>,
    /// Every thread holds a clone, so the count says how many there are.
    pending: Arc<()>,
}

impl Dialer {
    pub(super) fn new(network: impl Network) -> Self {
        Dialer { network: Arc::new(network), pending: Arc::new(()) }
    }

    pub(super) fn dial(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
        interrupter: &Interrupter,
    ) -> Result<TcpStream, Error> {
        interrupter.check()?;
        let late = || Error::new(ErrorKind::Timeout, format!("no connection to {host} port {port} in the given time"));
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        let guard = Arc::clone(&self.pending);
        if Arc::strong_count(&guard) > MAX_PENDING + 2 {
            return Err(Error::new(
                ErrorKind::Connect,
                format!("{MAX_PENDING} earlier name look-ups or connects still hang; not starting another"),
            ));
        }
        let (done, result) = bounded(1);
        let network = Arc::clone(&self.network);
        let name = host.to_owned();
        thread::Builder::new()
            .name("leasehold-dial".to_owned())
            .spawn(move || {
                let _guard = guard;
                // Nobody may be waiting any more; the stream then closes here.
                let _ = done.send(open(&*network, &name, port, deadline));
            })
            .map_err(|e| Error::new(ErrorKind::Connect, "no thread to connect on").caused_by(e))?;
        select! {
            recv(result) -> answer => match answer {
                Ok(opened) => opened,
                // The thread panicked; the standard library's look-up has no reason to.
                Err(_) => Err(Error::new(ErrorKind::Connect, format!("connecting to {host} failed"))),
            },
            recv(interrupter.signal()) -> _ => Err(interrupted()),
            default(left) => Err(late()),
        }
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

fn open(network: &dyn Network, host: &str, port: u16, deadline: Instant) -> Result<TcpStream, Error> {
    let addresses = network
        .look_up(host, port)
        .map_err(|e| Error::new(ErrorKind::Dns, format!("the name {host} was not found")).caused_by(e))?;
    let mut last = None;
    for (i, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        // An address that swallows packets must leave time for the ones after it.
        let share = left / u32::try_from(addresses.len() - i).unwrap_or(u32::MAX);
        if share.is_zero() {
            break;
        }
        match network.connect(*address, share) {
            Ok(stream) => {
                // Requests are small and wait for answers: Nagle's algorithm only delays them.
                if let Err(e) = stream.set_nodelay(true) {
                    last = Some(e);
                    continue;
                }
                return Ok(stream);
            }
            Err(e) => last = Some(e),
        }
    }
    match last {
        None if addresses.is_empty() => Err(Error::new(ErrorKind::Dns, format!("the name {host} has no address"))),
        None => Err(Error::new(ErrorKind::Timeout, format!("no time left to connect to {host} port {port}"))),
        Some(e) if matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            Err(Error::new(ErrorKind::Timeout, format!("{host} port {port} did not take the connection in time"))
                .caused_by(e))
        }
        Some(e) => Err(Error::new(
            ErrorKind::Connect,
            format!("no connection to {host} port {port} ({} addresses tried)", addresses.len()),
        )
        .caused_by(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Blocks where it is told to until the test lets go of the sender.
    struct Slow {
        in_look_up: bool,
        hold: crossbeam_channel::Receiver<()>,
    }

    impl Network for Slow {
        fn look_up(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            if self.in_look_up {
                let _ = self.hold.recv();
            }
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
        }

        fn connect(&self, _: SocketAddr, _: Duration) -> io::Result<TcpStream> {
            let _ = self.hold.recv();
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn an_interrupt_leaves_a_hanging_look_up_or_connect_behind() {
        for in_look_up in [true, false] {
            let (hold_open, hold) = bounded(0);
            let dialer = Dialer::new(Slow { in_look_up, hold });
            let interrupter = Interrupter::new();
            thread::scope(|scope| {
                let waiting = scope.spawn(|| dialer.dial("a", 1, far(), &interrupter).unwrap_err());
                thread::sleep(Duration::from_millis(50));
                interrupter.interrupt();
                assert_eq!(waiting.join().unwrap().kind(), &ErrorKind::Interrupted);
            });
            drop(hold_open);
        }
    }

    #[test]
    fn a_hanging_look_up_ends_with_the_time_and_few_are_left_behind() {
        let (hold_open, hold) = bounded(0);
        let dialer = Dialer::new(Slow { in_look_up: true, hold });
        let soon = || Instant::now() + Duration::from_millis(5);
        let kinds: Vec<_> = (0..MAX_PENDING + 4)
            .map(|_| dialer.dial("a", 1, soon(), &Interrupter::new()).unwrap_err().kind().clone())
            .collect();
        assert_eq!(kinds[0], ErrorKind::Timeout);
        assert_eq!(kinds[MAX_PENDING + 3], ErrorKind::Connect);
        drop(hold_open);
    }

    #[test]
    fn every_address_is_tried() {
        struct Two(SocketAddr, SocketAddr);
        impl Network for Two {
            fn look_up(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
                Ok(vec![self.0, self.1])
            }
            fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
                System.connect(address, timeout)
            }
        }
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let dialer = Dialer::new(Two(closed, open.local_addr().unwrap()));
        let stream = dialer.dial("a", 1, far(), &Interrupter::new()).unwrap();
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn refusal_and_unknown_names_are_told_apart() {
        struct Nothing;
        impl Network for Nothing {
            fn look_up(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
                Ok(Vec::new())
            }
            fn connect(&self, _: SocketAddr, _: Duration) -> io::Result<TcpStream> {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
        }
        let error = Dialer::new(Nothing).dial("a", 1, far(), &Interrupter::new()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Dns);
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Dialer::new(System).dial("127.0.0.1", closed.port(), far(), &Interrupter::new()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Connect);
        assert!(!error.maybe_sent());
    }
}
