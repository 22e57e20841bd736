//! Whether a command makes progress: by a file that it changes, or by what it says as a service of systemd.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::messages::Environment;

/// What says that a command makes progress.
#[derive(Debug, Clone)]
pub enum ProgressSource {
    /// A file: each change of it that is observed, by its time, number or size. What the time is does not count.
    File(PathBuf),
    /// The protocol of sd_notify(3): `WATCHDOG=1`, and `READY=1`.
    Notify,
}

impl From<String> for ProgressSource {
    fn from(text: String) -> Self {
        if text == "notify" { Self::Notify } else { Self::File(text.into()) }
    }
}

/// Watches one run of a command, until this is dropped.
pub struct Watchdog {
    /// When there was progress last. `None`: the command says itself that there is none.
    last: Arc<Mutex<Option<Instant>>>,
    within: Duration,
    /// What has not come, when there was no progress.
    missing: String,
    /// At the look before this one.
    was_overdue: bool,
    /// What the command is to know.
    pub environment: Environment,
    _stop: Sender<()>,
}

impl Watchdog {
    /// From now on the command has to make progress `within` each such time.
    pub fn start(source: &ProgressSource, within: Duration) -> io::Result<Self> {
        let last = Arc::new(Mutex::new(Some(Instant::now())));
        let (stop, stopped) = bounded(0);
        let mut environment = Vec::new();
        let progress = {
            let last = Arc::clone(&last);
            move |is_made: bool| *last.lock() = is_made.then(Instant::now)
        };
        let watcher = thread::Builder::new().name("progress".into());
        let missing = match source {
            ProgressSource::File(path) => {
                let missing = format!("{} has not changed", path.display());
                let path = path.clone();
                watcher.spawn(move || watch_file(&path, pause(within), &stopped, progress))?;
                missing
            }
            ProgressSource::Notify => {
                // In no directory: there may be none that can be written, and nothing is left behind.
                let name = format!("leasehold-{:016x}", fastrand::u64(..));
                let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
                socket.set_read_timeout(Some(pause(within)))?;
                environment.push(("NOTIFY_SOCKET".to_owned(), Some(format!("@{name}"))));
                environment.push(("WATCHDOG_USEC".to_owned(), Some(within.as_micros().to_string())));
                // It would be ours, where a service manager watches us.
                environment.push(("WATCHDOG_PID".to_owned(), None));
                watcher.spawn(move || hear(&socket, &stopped, progress))?;
                "no WATCHDOG=1 has come".to_owned()
            }
        };
        Ok(Self { last, within, missing, was_overdue: false, environment, _stop: stop })
    }

    /// What was missed for too long, at this look and the one before: this process may have been stopped meanwhile, and what watches
    /// has to run first.
    pub fn missed(&mut self) -> Option<String> {
        let Some(last) = *self.last.lock() else {
            return Some("it has said so itself, by WATCHDOG=trigger".to_owned());
        };
        let is_overdue = last.elapsed() > self.within;
        let was_overdue = std::mem::replace(&mut self.was_overdue, is_overdue);
        (was_overdue && is_overdue).then(|| format!("{} for {}", self.missing, humantime::format_duration(self.within)))
    }
}

fn pause(within: Duration) -> Duration {
    (within / 10).clamp(Duration::from_millis(5), Duration::from_secs(1))
}

fn watch_file(path: &Path, pause: Duration, stopped: &Receiver<()>, progress: impl Fn(bool)) {
    let mut before = state(path);
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let now = state(path);
        // A file that goes is not progress; one that comes is.
        if now.is_some() && now != before {
            progress(true);
        }
        before = now;
    }
}

fn state(path: &Path) -> Option<(SystemTime, u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.ino(), metadata.size()))
}

/// Source of the words: sd_notify(3).
fn hear(socket: &UnixDatagram, stopped: &Receiver<()>, progress: impl Fn(bool)) {
    let mut buffer = [0; 4096];
    while stopped.try_recv() == Err(crossbeam_channel::TryRecvError::Empty) {
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        for line in buffer[..length].split(|&byte| byte == b'\n') {
            match line {
                b"WATCHDOG=1" | b"READY=1" => progress(true),
                b"WATCHDOG=trigger" => return progress(false),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(200);

    /// Looks as often as a supervisor does, until it is overdue.
    fn overdue_after(watchdog: &mut Watchdog, mut each: impl FnMut(usize)) -> usize {
        for look in 0..600 {
            each(look);
            if watchdog.missed().is_some() {
                return look;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("never overdue")
    }

    #[test]
    fn a_file_that_changes_is_progress_and_one_that_stays_is_none_whatever_its_time() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let in_a_year = SystemTime::now() + Duration::from_secs(31_536_000);
        file.as_file().set_modified(in_a_year).expect("its time");
        let mut watchdog = Watchdog::start(&ProgressSource::File(file.path().to_owned()), WITHIN).expect("a thread");
        let looks = overdue_after(&mut watchdog, |look| {
            if look < 30 {
                fs::write(file.path(), format!("{look:>look$}")).expect("written");
            }
        });
        assert!(looks > 30, "{looks}");
    }

    #[test]
    fn file_of_another_size_or_another_file_has_changed() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let states = [("one", "a"), ("two", "a"), ("two", "ab")].map(|(name, text)| {
            fs::write(scratch.path().join(name), text).expect("written");
            let file = fs::File::open(scratch.path().join(name)).expect("a file");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("its time");
            state(&scratch.path().join(name)).expect("a state")
        });
        assert!(states[0] != states[1] && states[1] != states[2], "{states:?}");
    }

    #[test]
    fn what_is_said_as_to_systemd_is_progress() {
        let mut watchdog = Watchdog::start(&ProgressSource::Notify, WITHIN).expect("a socket");
        let [(_, Some(name)), (_, Some(micros)), (_, None)] = &watchdog.environment[..] else {
            panic!("{:?}", watchdog.environment)
        };
        assert_eq!(micros, "200000");
        let there = SocketAddr::from_abstract_name(name.strip_prefix('@').expect("abstract")).expect("a name");
        let socket = UnixDatagram::unbound().expect("a socket");
        let looks = overdue_after(&mut watchdog, |look| {
            let said = ["STATUS=busy\nWATCHDOG=1", "READY=1", "STATUS=WATCHDOG=1"][(look / 15).min(2)];
            socket.send_to_addr(said.as_bytes(), &there).expect("sent");
        });
        assert!(looks > 30, "{looks}");
        let mut watchdog = Watchdog::start(&ProgressSource::Notify, Duration::MAX).expect("a socket");
        let name = watchdog.environment[0].1.clone().expect("a name");
        let there = SocketAddr::from_abstract_name(name.strip_prefix('@').expect("abstract")).expect("a name");
        assert_eq!(watchdog.missed(), None);
        let mut late = Watchdog::start(&ProgressSource::Notify, Duration::ZERO).expect("a socket");
        assert!(late.missed().is_none() && late.missed().is_some(), "at two looks");
        socket.send_to_addr(b"WATCHDOG=trigger", &there).expect("sent");
        overdue_after(&mut watchdog, |_| ());
        assert!(watchdog.missed().is_some_and(|missed| missed.contains("WATCHDOG=trigger")));
    }
}
