//! The progress of a command: changes of a file, or messages to a systemd watchdog.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io, thread};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::messages::Environment;

/// The source of progress.
#[derive(Debug, Clone)]
pub enum ProgressSource {
    /// A file. Each observed change of its modification time, inode number or size is progress.
    ///
    /// The modification time may have any value, for example a time in the future.
    File(PathBuf),
    /// Messages as in sd_notify(3). `WATCHDOG=1` and `READY=1` are progress.
    Notify,
}

impl From<String> for ProgressSource {
    fn from(text: String) -> Self {
        if text == "notify" { Self::Notify } else { Self::File(text.into()) }
    }
}

/// Watches the progress of one run of a command, until dropped.
pub struct Watchdog {
    /// The time of the last progress, or `None` if the command reported a stall.
    last: Arc<Mutex<Option<Instant>>>,
    within: Duration,
    /// The log text for missing progress.
    missing: String,
    /// `true` if progress was overdue at the previous check.
    was_overdue: bool,
    /// The additions to the command's environment.
    pub environment: Environment,
    _stop: Sender<()>,
}

impl Watchdog {
    /// Starts the watchdog. The command must make progress once in every `within`.
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
                // An abstract socket needs no writable directory and leaves no file behind.
                let name = format!("leasehold-{:016x}", fastrand::u64(..));
                let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
                socket.set_read_timeout(Some(pause(within)))?;
                environment.push(("NOTIFY_SOCKET".to_owned(), Some(format!("@{name}"))));
                environment.push(("WATCHDOG_USEC".to_owned(), Some(within.as_micros().to_string())));
                // An inherited `WATCHDOG_PID` may name this process, and the command would then send no messages.
                environment.push(("WATCHDOG_PID".to_owned(), None));
                watcher.spawn(move || hear(&socket, &stopped, progress))?;
                "no WATCHDOG=1 received".to_owned()
            }
        };
        Ok(Self { last, within, missing, was_overdue: false, environment, _stop: stop })
    }

    /// Returns the log text if progress is overdue at this check and the previous check.
    ///
    /// After this process was stopped, the first check may be wrong, because the watching thread has not yet run.
    pub fn missed(&mut self) -> Option<String> {
        let Some(last) = *self.last.lock() else { return Some("the command sent WATCHDOG=trigger".to_owned()) };
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
        // A new file is progress, but a deleted file is not.
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

/// Receives messages in the format of sd_notify(3), and records progress.
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
    use crossbeam_channel::{Sender, unbounded};

    use super::*;

    /// A time that is longer than every step of a test.
    const LONG: Duration = Duration::from_secs(60);

    /// Watches a file on another thread until the sender is dropped.
    fn watching(path: PathBuf) -> (Sender<()>, Receiver<bool>) {
        let ((reports, progress), (stop, stopped)) = (unbounded(), bounded(0));
        thread::spawn(move || {
            watch_file(&path, Duration::from_millis(5), &stopped, move |is_made| _ = reports.send(is_made));
        });
        (stop, progress)
    }

    #[test]
    fn changing_file_is_progress_at_any_timestamp() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let in_a_year = SystemTime::now() + Duration::from_secs(31_536_000);
        file.as_file().set_modified(in_a_year).expect("its time");
        let (stop, progress) = watching(file.path().to_owned());
        thread::sleep(Duration::from_millis(200));
        assert_eq!(progress.try_iter().count(), 0, "no change");
        let mut text = String::new();
        for _ in 0..3 {
            while progress.recv_timeout(Duration::from_millis(10)).is_err() {
                text.push(' ');
                fs::write(file.path(), &text).expect("written");
            }
        }
        drop(stop);
        progress.iter().for_each(drop);
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
    fn notifications_to_systemd_are_progress() {
        let ((reports, progress), (_stop, stopped)) = (unbounded(), bounded(0));
        let (socket, command) = UnixDatagram::pair().expect("sockets");
        for text in ["STATUS=busy\nWATCHDOG=1", "READY=1", "STATUS=WATCHDOG=1", "WATCHDOG=trigger"] {
            command.send(text.as_bytes()).expect("sent");
        }
        hear(&socket, &stopped, move |is_made| reports.send(is_made).expect("a test"));
        assert_eq!(progress.iter().collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn missed_progress_is_reported_at_two_looks_until_there_is_some() {
        let mut watchdog = Watchdog::start(&ProgressSource::Notify, LONG).expect("a socket");
        let [(_, Some(name)), (_, Some(micros)), (_, None)] = &watchdog.environment[..] else {
            panic!("{:?}", watchdog.environment)
        };
        assert_eq!(micros, "60000000");
        let there = SocketAddr::from_abstract_name(name.strip_prefix('@').expect("abstract")).expect("a name");
        let command = UnixDatagram::unbound().expect("a socket");
        let wait_for = |watchdog: &mut Watchdog, text: &str, is_over: fn(Option<String>) -> bool| {
            command.send_to_addr(text.as_bytes(), &there).expect("sent");
            let began = Instant::now();
            while !is_over(watchdog.missed()) {
                assert!(began.elapsed() < LONG, "{text} has no effect");
                thread::sleep(Duration::from_millis(5));
            }
        };
        assert_eq!(watchdog.missed(), None);
        *watchdog.last.lock() = Instant::now().checked_sub(2 * LONG);
        assert!(watchdog.missed().is_none() && watchdog.missed().is_some_and(|it| it.contains("WATCHDOG=1")));
        wait_for(&mut watchdog, "WATCHDOG=1", |missed| missed.is_none());
        wait_for(&mut watchdog, "WATCHDOG=trigger", |missed| missed.is_some_and(|it| it.contains("WATCHDOG=trigger")));
    }

    #[test]
    fn deleted_file_is_no_progress_but_its_return_is() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let [path, away] = ["file", "away"].map(|name| scratch.path().join(name));
        fs::write(&path, "text").expect("written");
        let (_stop, progress) = watching(path.clone());
        thread::sleep(Duration::from_millis(200));
        fs::rename(&path, &away).expect("renamed");
        thread::sleep(Duration::from_secs(1));
        assert_eq!(progress.try_iter().count(), 0, "a deletion");
        fs::rename(&away, &path).expect("renamed");
        assert_eq!(progress.recv_timeout(LONG), Ok(true), "the same file as before");
    }
}
