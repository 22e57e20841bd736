//! Interruptible name lookups and connection attempts.
//!
//! The addresses of a host are tried by RFC 8305: each attempt starts a little after the previous attempt, all
//! attempts run in parallel, and the first connection is used.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use crossbeam_channel::{Sender, bounded, select};

use super::error::{Error, NetErrorKind};
use super::interrupt::{Interrupter, Shutdown, interrupted};
use crate::util::debug_fields::debug_fields;
use crate::util::on_drop::OnDrop;

mod network;
mod route;

pub(crate) use network::{Cancelled, Network, System};
pub(crate) use route::Route;

use route::Remembered;

/// The largest number of lookup and connection threads at a time.
///
/// A resolver that blocks for minutes must not fill the process with threads.
const MAX_PENDING: usize = 64;

/// The delay before the next address is tried.
///
/// This is the Connection Attempt Delay of RFC 8305, section 5.
const STAGGER: Duration = Duration::from_millis(250);

/// Opens connections, and runs lookups and parallel connection attempts on separate threads.
///
/// `getaddrinfo` cannot be canceled, so an interrupted call leaves its lookup thread, which ends by itself. A canceled
/// connection attempt ends within milliseconds and closes its socket.
#[derive(Clone)]
pub(crate) struct Dialer {
    network: Arc<dyn Network>,
    /// The number of running threads.
    pending: Arc<AtomicUsize>,
    remembered: Remembered,
}

/// The target, the deadline and the interrupter of a connection attempt.
struct DialCall<'a> {
    host: &'a str,
    port: u16,
    deadline: Instant,
    interrupter: &'a Interrupter,
}

impl Dialer {
    pub(crate) fn new(network: impl Network) -> Self {
        Dialer { network: Arc::new(network), pending: Arc::default(), remembered: Remembered::default() }
    }

    /// Connects to `host`: a name, or an IP address, which may have a zone (`fe80::1%eth0`).
    pub(crate) fn dial(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
        interrupter: &Interrupter,
    ) -> Result<(TcpStream, Route), Error> {
        interrupter.check()?;
        let call = DialCall { host, port, deadline, interrupter };
        // An IP address needs no lookup, unless the address has a zone, which only the system can resolve.
        let addresses = match host.parse() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.remembered.order(self.look_up(&call)?),
        };
        let (address, stream) = match addresses[..] {
            [address] if self.network.is_cancellable() => (address, self.connect_here(&call, address)?),
            _ => self.connect(&call, &addresses)?,
        };
        Ok((stream, self.remembered.route(address, interrupter)))
    }

    fn look_up(&self, call: &DialCall<'_>) -> Result<Vec<SocketAddr>, Error> {
        let left = call.left().ok_or_else(|| call.late(0, None))?;
        let (done, result) = bounded(1);
        let (name, port) = (call.host.to_owned(), call.port);
        self.spawn(done, move |network| network.look_up(&name, port))?;
        let failed = |cause: Option<io::Error>| {
            Error::new(NetErrorKind::Dns, format!("lookup of {} failed", call.host)).caused_by(cause)
        };
        let addresses = select! {
            // A lookup thread that panics drops its sender.
            recv(result) -> answer => answer.map_err(|_| failed(None))?.map_err(|e| failed(Some(e)))?,
            recv(call.interrupter.signal) -> _ => return Err(interrupted()),
            default(left) => return Err(call.late(0, None)),
        };
        match addresses.is_empty() {
            true => Err(Error::new(NetErrorKind::Dns, format!("lookup of {} returned no address", call.host))),
            false => Ok(addresses),
        }
    }

    /// Connects on the calling thread.
    ///
    /// Starting a thread takes longer than connecting within a data center. A standby that has waited for a long time
    /// must connect before it takes over, so a slow connection delays the takeover.
    fn connect_here(&self, call: &DialCall<'_>, address: SocketAddr) -> Result<TcpStream, Error> {
        let left = call.left().ok_or_else(|| call.late(0, None))?;
        let wanted = Arc::new(Cancelled::default());
        call.interrupter.register(&wanted)?;
        let stream = self.network.connect(address, left, &wanted).and_then(set_up);
        call.interrupter.check()?;
        stream.map_err(|e| call.failed(1, Some(e)))
    }

    fn connect(&self, call: &DialCall<'_>, addresses: &[SocketAddr]) -> Result<(SocketAddr, TcpStream), Error> {
        // The channel has room for all results, so that no thread blocks on sending its result.
        let (done, results) = bounded(addresses.len());
        let cancelled = Cancelled::default();
        // When this function returns, the remaining attempts are canceled.
        let _called_off = OnDrop(|| cancelled.shutdown());
        let (mut tried, mut failed) = (0, 0);
        let mut failure = None;
        let mut next_start = Instant::now();
        while failed < addresses.len() {
            let Some(left) = call.left() else { return Err(call.late(tried, failure)) };
            if tried < addresses.len() && Instant::now() >= next_start {
                next_start = Instant::now() + STAGGER;
                let (address, cancelled) = (addresses[tried], cancelled.clone());
                let attempt =
                    move |network: &dyn Network| (address, network.connect(address, left, &cancelled).and_then(set_up));
                match self.spawn(done.clone(), attempt) {
                    Ok(()) => tried += 1,
                    // If no thread can be started, the call fails, unless an earlier attempt is still running and may
                    // succeed.
                    Err(e) if tried == failed => return Err(e),
                    Err(_) => {}
                }
            }
            let wait = match tried < addresses.len() {
                true => left.min(next_start.saturating_duration_since(Instant::now())),
                false => left,
            };
            select! {
                recv(results) -> result => match result {
                    Ok((address, Ok(stream))) => return Ok((address, stream)),
                    Ok((_, Err(e))) => {
                        failed += 1;
                        failure.get_or_insert(e);
                        next_start = Instant::now();
                    }
                    // Unreachable, because `done` is a sender of this channel.
                    Err(_) => break,
                },
                recv(call.interrupter.signal) -> _ => return Err(interrupted()),
                default(wait) => {}
            }
        }
        Err(call.failed(tried, failure))
    }

    fn spawn<T: Send + 'static>(
        &self,
        done: Sender<T>,
        work: impl FnOnce(&dyn Network) -> T + Send + 'static,
    ) -> Result<(), Error> {
        let more = |pending| (pending < MAX_PENDING).then_some(pending + 1);
        if self.pending.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            let what = format!("too many pending name lookups and connection attempts ({MAX_PENDING})");
            return Err(Error::new(NetErrorKind::Connect, what));
        }
        let (network, pending) = (Arc::clone(&self.network), Arc::clone(&self.pending));
        let ended = OnDrop(move || _ = pending.fetch_sub(1, Ordering::AcqRel));
        thread::Builder::new()
            .name("leasehold-dial".to_owned())
            .spawn(move || {
                let _ended = ended;
                // If the call has already ended, sending fails, and a new stream is closed here.
                let _ = done.send(work(&*network));
            })
            .map_err(|e| Error::new(NetErrorKind::Connect, "cannot start a thread for the connection").caused_by(e))?;
        Ok(())
    }
}

impl DialCall<'_> {
    /// Returns the remaining time, or `None` if the deadline has passed.
    fn left(&self) -> Option<Duration> {
        Some(self.deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    fn late(&self, tried: usize, failure: Option<io::Error>) -> Error {
        let what = format!("connecting to {} port {} timed out", self.host, self.port);
        Error::new(NetErrorKind::Timeout, what + &addresses(tried)).caused_by(failure)
    }

    fn failed(&self, tried: usize, failure: Option<io::Error>) -> Error {
        use io::ErrorKind::{TimedOut, WouldBlock};
        if failure.as_ref().is_some_and(|e| matches!(e.kind(), TimedOut | WouldBlock)) {
            return self.late(tried, failure);
        }
        let what = format!("connecting to {} port {} failed", self.host, self.port);
        Error::new(NetErrorKind::Connect, what + &addresses(tried)).caused_by(failure)
    }
}

/// Disables Nagle's algorithm, which would delay small requests, and enables keep-alive.
fn set_up(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = keep_alive(&stream) {
        crate::util::panics::log_line!(debug, target: crate::util::log_fields::CLIENT, "cannot enable keep-alive on a connection: {error}");
    }
    Ok(stream)
}

/// Makes the kernel close a connection whose peer has not answered for half a minute.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    use rustix::net::sockopt;

    sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_socket_keepalive(stream, true)
}

fn addresses(tried: usize) -> String {
    match tried {
        0 => String::new(),
        1 => " (1 address tried)".to_owned(),
        _ => format!(" ({tried} addresses tried)"),
    }
}

debug_fields!(impl Debug for Dialer { self => .. });

#[cfg(test)]
mod tests;
