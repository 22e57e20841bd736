//! Helpers for tests of connections.

pub(crate) mod certificates;
#[cfg(feature = "_http")]
mod failures;
#[cfg(feature = "_server")]
pub(crate) mod parameters;
#[cfg(feature = "_http")]
pub(crate) mod stand_in;
#[path = "../../../tests/support/version_1.rs"]
pub(crate) mod version_1;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use tempfile::TempDir;

use crate::net::dial::{Cancelled, Network};

/// A temporary directory of a test.
///
/// The name is random, because a killed test leaves its directory behind.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Scratch(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns the number of lines of a file that may be absent.
    #[cfg(feature = "kubeconfig")]
    pub(crate) fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default().lines().count()
    }
}

/// Waits until `holds` returns `true`. Panics after a minute.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A host with two addresses, whose connection attempts block until `hold` disconnects.
///
/// If `in_look_up` is `true`, lookups block too. A cancellation does not end the blocking.
pub(crate) struct Slow {
    pub(crate) in_look_up: bool,
    pub(crate) hold: Receiver<()>,
}

impl Network for Slow {
    fn look_up(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if self.in_look_up {
            let _ = self.hold.recv();
        }
        Ok(["192.0.2.1", "192.0.2.2"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).to_vec())
    }

    fn connect(&self, _: SocketAddr, _: Duration, _: &Cancelled) -> io::Result<TcpStream> {
        let _ = self.hold.recv();
        Err(io::ErrorKind::TimedOut.into())
    }
}
