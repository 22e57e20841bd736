use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::never;
use parking_lot::Mutex;

use super::*;
use crate::net::tests::{Slow, wait_until};

/// A timeout that no test reaches.
const LONG: Duration = Duration::from_secs(60);

fn far() -> Instant {
    Instant::now() + Duration::from_secs(600)
}

/// A host with several addresses.
///
/// Each address accepts connections, refuses connections, or is silent.
#[derive(Clone, Default)]
struct Addresses {
    all: Vec<SocketAddr>,
    taken_by: HashMap<SocketAddr, SocketAddr>,
    refused: Vec<SocketAddr>,
    /// The address and the start time of each attempt.
    attempts: Arc<Mutex<Vec<(SocketAddr, Instant)>>>,
    went_on: Arc<AtomicBool>,
}

impl Addresses {
    fn new(all: &[&str]) -> Self {
        let all = all.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 1)).collect();
        Addresses { all, ..Addresses::default() }
    }

    fn listening(mut self, at: usize, listener: &TcpListener) -> Self {
        self.taken_by.insert(self.all[at], listener.local_addr().unwrap());
        self
    }

    fn refusing(mut self, at: usize) -> Self {
        self.refused.push(self.all[at]);
        self
    }

    fn dialer(&self) -> Dialer {
        Dialer::new(self.clone())
    }

    /// Returns the addresses that were tried since the last call.
    fn tried(&self) -> Vec<SocketAddr> {
        std::mem::take(&mut *self.attempts.lock()).into_iter().map(|(address, _)| address).collect()
    }
}

impl Network for Addresses {
    fn look_up(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(self.all.clone())
    }

    fn connect(&self, address: SocketAddr, timeout: Duration, cancelled: &Cancelled) -> io::Result<TcpStream> {
        self.attempts.lock().push((address, Instant::now()));
        match self.taken_by.get(&address) {
            Some(listener) => return System.connect(*listener, timeout, cancelled),
            _ if self.refused.contains(&address) => return Err(io::ErrorKind::ConnectionRefused.into()),
            _ => {}
        }
        let began = Instant::now();
        while !cancelled.is_cancelled() {
            if began.elapsed() >= timeout {
                self.went_on.store(true, Ordering::Release);
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

fn dial(dialer: &Dialer, deadline: Instant) -> Result<(TcpStream, Route), Error> {
    dialer.dial("a", 1, deadline, &Interrupter::default())
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn an_interrupt_leaves_a_hanging_look_up_or_connect_behind() {
    for in_look_up in [true, false] {
        let (hold_open, hold) = bounded(0);
        let dialer = Dialer::new(Slow { in_look_up, hold });
        let interrupter = Interrupter::default();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| dialer.dial("a", 1, far(), &interrupter).unwrap_err());
            thread::sleep(Duration::from_millis(50));
            interrupter.interrupt();
            assert_eq!(waiting.join().unwrap().kind(), &NetErrorKind::Interrupted);
        });
        drop(hold_open);
    }
}

#[test]
fn a_hanging_look_up_ends_with_the_time_and_few_are_left_behind() {
    let (hold_open, hold) = bounded(0);
    let dialer = Dialer::new(Slow { in_look_up: true, hold });
    // All clones of a dialer share one limit.
    let users: Vec<_> = (0..10 * MAX_PENDING).map(|_| dialer.clone()).collect();
    let mut users = users.iter();
    // On a busy machine, a call may time out before its lookup starts.
    while dialer.pending.load(Ordering::Acquire) < MAX_PENDING {
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(dial(users.next().unwrap(), soon).unwrap_err().kind, NetErrorKind::Timeout);
    }
    for user in users.take(2) {
        assert_eq!(dial(user, far()).unwrap_err().kind, NetErrorKind::Connect);
    }
    drop(hold_open);
    wait_until("the threads have ended", || dialer.pending.load(Ordering::Acquire) == 0);
}

#[test]
fn an_address_that_is_silent_does_not_keep_the_next_one_waiting() {
    let listener = listener();
    let addresses = Addresses::new(&["192.0.2.1", "192.0.2.2"]).listening(1, &listener);
    let dialer = addresses.dialer();
    let began = Instant::now();
    let (stream, _) = dial(&dialer, Instant::now() + LONG / 3).unwrap();
    assert!(stream.nodelay().unwrap());
    // On a busy machine, the thread of an earlier attempt may run last.
    let tried = |address| addresses.attempts.lock().iter().find(|it| it.0 == address).map(|it| it.1);
    wait_until("each is tried", || addresses.all.iter().all(|address| tried(*address).is_some()));
    let delay = tried(addresses.all[1]).unwrap() - began;
    assert!(delay >= STAGGER && delay < LONG / 3, "the second one began after {delay:?}");
    // The successful connection cancels the attempt on the silent address before the timeout of that attempt.
    wait_until("the threads have ended", || dialer.pending.load(Ordering::Acquire) == 0);
    assert!(!addresses.went_on.load(Ordering::Acquire));
}

#[test]
fn a_dead_family_does_not_keep_the_other_one_waiting() {
    let listener = listener();
    let dead: Vec<_> = (1..=12).map(|number| format!("::{number}")).collect();
    let all: Vec<_> = dead.iter().map(String::as_str).chain(["192.0.2.1"]).collect();
    let addresses = Addresses::new(&all).listening(12, &listener);
    // If the dialer tried all twelve dead addresses first, it would need three seconds, longer than the deadline.
    dial(&addresses.dialer(), Instant::now() + 8 * STAGGER).unwrap();
}

#[test]
fn after_a_refusal_the_next_address_is_tried_at_once() {
    let listener = listener();
    let names: Vec<_> = (1..=16).map(|i| format!("192.0.2.{i}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let addresses = (0..15).fold(Addresses::new(&names), Addresses::refusing).listening(15, &listener);
    // If the dialer waited for one `STAGGER` after each of the 15 refusals, it would miss the deadline.
    let within = 14 * STAGGER;
    dial(&addresses.dialer(), Instant::now() + within).unwrap();
    // On a busy machine, the thread of an earlier attempt may run last.
    wait_until("each is tried", || addresses.attempts.lock().len() >= addresses.all.len());
    let mut tried = addresses.tried();
    tried.sort();
    assert_eq!(tried, addresses.all);
}

#[test]
fn address_that_answered_is_tried_before_all_others() {
    let listener = listener();
    let alone = Addresses::new(&["192.0.2.17"]).listening(0, &listener).dialer();
    dial(&alone, far()).unwrap().1.answered();
    // If the dialer tried the sixteen silent addresses first, it would need four seconds, longer than the deadline.
    let all: Vec<_> = (1..=17).map(|number| format!("192.0.2.{number}")).collect();
    let all = Addresses::new(&all.iter().map(String::as_str).collect::<Vec<_>>()).listening(16, &listener);
    let among_others = Dialer { remembered: alone.remembered.clone(), ..all.dialer() };
    assert_eq!(dial(&among_others, Instant::now() + 12 * STAGGER).unwrap().1.address, all.all[16]);
}

#[test]
fn an_interrupt_or_the_deadline_ends_all_attempts() {
    let addresses = Addresses::new(&["192.0.2.1", "::1", "192.0.2.2"]).refusing(2);
    let dialer = addresses.dialer();
    let error = dial(&dialer, Instant::now() + 4 * STAGGER).unwrap_err();
    assert_eq!(error.kind(), &NetErrorKind::Timeout);
    assert!(error.to_string().contains("connecting to a port 1 timed out"), "{error}");
    let interrupter = Interrupter::default();
    addresses.tried();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| dialer.dial("a", 1, far(), &interrupter).unwrap_err());
        wait_until("two are under way", || addresses.attempts.lock().len() >= 2);
        interrupter.interrupt();
        assert_eq!(waiting.join().unwrap().kind(), &NetErrorKind::Interrupted);
    });
    wait_until("the threads have ended", || dialer.pending.load(Ordering::Acquire) == 0);
}

#[test]
fn attempts_count_towards_the_limit_of_pending_dials() {
    let (hold_open, hold) = bounded(0);
    let dialer = Dialer::new(Slow { in_look_up: false, hold });
    wait_until("it refuses to start another", || {
        let interrupter = Interrupter::default();
        let soon = Instant::now() + Duration::from_millis(5);
        let error = dialer.dial("a", 1, soon, &interrupter).unwrap_err();
        assert!(dialer.pending.load(Ordering::Acquire) <= MAX_PENDING);
        error.kind() == &NetErrorKind::Connect
    });
    drop(hold_open);
    wait_until("the threads have ended", || dialer.pending.load(Ordering::Acquire) == 0);
}

/// Returns a listener that accepts no connection.
///
/// When the queue of the listener is full, each connection attempt waits.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn deaf_listener() -> (std::os::fd::OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    (listener, address)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn a_connect_that_is_no_longer_wanted_ends() {
    let (_listener, address) = deaf_listener();
    let mut queue = Vec::new();
    let cancelled = Cancelled::default();
    let connect = |timeout| System.connect(address, timeout, &cancelled);
    while let Ok(waiting) = connect(Duration::from_millis(200)) {
        queue.push(waiting);
    }
    let error = connect(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connect(LONG / 3).unwrap_err());
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        let began = Instant::now();
        cancelled.shutdown();
        waiting.join().unwrap();
        assert!(began.elapsed() < LONG / 6, "after {:?}", began.elapsed());
    });
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn connect_to_an_address_ends_with_the_interrupt_on_no_thread() {
    let (_listener, address) = deaf_listener();
    let dialer = Dialer::new(System);
    let dial = |within, interrupter: &Interrupter| {
        dialer.dial("127.0.0.1", address.port(), Instant::now() + within, interrupter)
    };
    let mut queue = Vec::new();
    let late = loop {
        match dial(Duration::from_millis(200), &Interrupter::default()) {
            Ok(waiting) => queue.push(waiting),
            Err(error) => break error,
        }
    };
    assert_eq!(late.kind(), &NetErrorKind::Timeout);
    let interrupter = Interrupter::default();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| dial(LONG / 3, &interrupter).unwrap_err());
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished() && dialer.pending.load(Ordering::Acquire) == 0);
        let began = Instant::now();
        interrupter.interrupt();
        assert_eq!(waiting.join().unwrap().kind(), &NetErrorKind::Interrupted);
        assert!(began.elapsed() < LONG / 6, "after {:?}", began.elapsed());
    });
}

#[test]
fn refused_connection_differs_from_an_unknown_name() {
    let error = dial(&Addresses::new(&[]).dialer(), far()).unwrap_err();
    assert_eq!(error.kind(), &NetErrorKind::Dns);
    let closed = listener().local_addr().unwrap();
    let error = Dialer::new(System).dial("127.0.0.1", closed.port(), far(), &Interrupter::default()).unwrap_err();
    assert_eq!(error.kind(), &NetErrorKind::Connect);
    assert!(!error.maybe_sent);
    let error = dial(&Dialer::new(Slow { in_look_up: false, hold: never() }), Instant::now()).unwrap_err();
    assert_eq!(error.kind(), &NetErrorKind::Timeout, "there is no time at all");
}

#[cfg(target_os = "linux")]
#[test]
fn the_zone_of_an_address_is_looked_up_by_name_and_by_number() {
    // On Linux, the loopback interface `lo` has the number 1.
    for host in ["fe80::1%lo", "fe80::1%1"] {
        let found = System.look_up(host, 6443).unwrap();
        assert!(!found.is_empty());
        for address in found {
            let SocketAddr::V6(address) = address else { panic!("{address}") };
            assert_eq!((address.scope_id(), address.port()), (1, 6443), "{host}");
        }
    }
    assert!(System.look_up("fe80::1%no-such", 1).is_err());
}

#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn system_reports_if_an_idle_connection_is_still_open() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        let (stream, _) = Dialer::new(System).dial(host, port, far(), &Interrupter::default()).unwrap();
        assert!(rustix::net::sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(rustix::net::sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(15));
        assert!(stream.nodelay().unwrap());
    }
}
