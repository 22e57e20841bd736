//! The network of the operating system: name lookups and connection attempts.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::net::interrupt::Shutdown;

/// The network of a dialer. Tests use a network that is slow or has unreachable addresses.
pub(crate) trait Network: Send + Sync + 'static {
    /// Returns the addresses of `host`.
    ///
    /// `host` is a name, or an IP address, which may have a zone (`fe80::1%eth0`).
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Connects to an address.
    ///
    /// Returns an error after `timeout`, or soon after `cancelled` is set.
    fn connect(&self, address: SocketAddr, timeout: Duration, cancelled: &Cancelled) -> io::Result<TcpStream>;

    /// Returns `true` if `connect` returns within milliseconds after `cancelled` is set.
    ///
    /// The dialer may then call `connect` on the thread of the caller.
    fn is_cancellable(&self) -> bool {
        false
    }
}

/// A flag that cancels connection attempts. Clones share the flag.
#[derive(Clone, Default)]
pub(crate) struct Cancelled(Arc<AtomicBool>);

impl Shutdown for Cancelled {
    fn shutdown(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Cancelled {
    #[cfg(any(target_os = "linux", target_os = "android", test))]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) struct System;

impl Network for System {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        // `getaddrinfo` accepts an IPv6 zone as the name or the number of an interface.
        Ok((host, port).to_socket_addrs()?.collect())
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn connect(&self, address: SocketAddr, timeout: Duration, cancelled: &Cancelled) -> io::Result<TcpStream> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::io::Errno;
        use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

        /// The longest time from the cancellation until the attempt ends.
        const GLANCE: Duration = Duration::from_millis(10);

        let began = std::time::Instant::now();
        let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &address) {
            Ok(()) => {}
            // If a signal interrupts the system call, the kernel continues the connection attempt.
            Err(Errno::INPROGRESS | Errno::INTR) => loop {
                if cancelled.is_cancelled() {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "connection attempt canceled"));
                }
                let left = timeout.saturating_sub(began.elapsed());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let wait = Timespec::try_from(left.min(GLANCE)).map_err(io::Error::other)?;
                match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&wait)) {
                    Ok(0) | Err(Errno::INTR) => {}
                    Ok(_) => {
                        sockopt::socket_error(&socket)??;
                        break;
                    }
                    Err(e) => return Err(e.into()),
                }
            },
            Err(e) => return Err(e.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// On systems other than Linux and Android, a canceled attempt lasts until its timeout.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn connect(&self, address: SocketAddr, timeout: Duration, _: &Cancelled) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&address, timeout)
    }

    fn is_cancellable(&self) -> bool {
        cfg!(any(target_os = "linux", target_os = "android"))
    }
}
