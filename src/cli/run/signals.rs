//! The signals that the supervisor takes.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use super::command::by_signal;

/// A signal that has come.
#[derive(Debug, Clone, Copy)]
pub struct Caught {
    pub signal: i32,
    /// The kernel sent it, to all of the process group: a key was pressed, or the terminal has gone.
    pub is_of_terminal: bool,
}

impl Caught {
    /// Whether it ends us while no command runs that it is passed on to.
    pub fn ends_us(self) -> bool {
        matches!(self.signal, SIGTERM | SIGINT | SIGHUP | SIGQUIT)
    }
}

/// Waits, and has children reaped meanwhile, unless a signal comes that ends us: the code to exit with then.
pub fn ended_by(signals: &Receiver<Caught>, pause: Duration, reap: impl Fn()) -> Option<u8> {
    let until = Instant::now() + pause;
    loop {
        match signals.recv_deadline(until) {
            Ok(caught) if caught.ends_us() => return Some(by_signal(caught.signal)),
            Ok(Caught { signal: SIGCHLD, .. }) => reap(),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => return Some(by_signal(SIGTERM)),
        }
    }
}

const TAKEN: [i32; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH];

/// Those of `signals` that are not ignored. Whoever started us with one ignored, such as nohup(1), wants it so for the command too,
/// which would not find it ignored any more if one of ours took it.
pub fn not_ignored(signals: &[i32]) -> io::Result<Vec<i32>> {
    let ignored = ignored(&fs::read_to_string("/proc/self/status")?);
    Ok(signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect())
}

/// Takes those that are for us or for the command.
pub fn take() -> io::Result<Receiver<Caught>> {
    let taken = not_ignored(&TAKEN)?.into_iter().chain([SIGCHLD]);
    let mut signals = SignalsInfo::<WithOrigin>::new(taken)?;
    let (sender, receiver) = unbounded();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for origin in signals.forever() {
            let caught = Caught { signal: origin.signal, is_of_terminal: origin.cause == Cause::Kernel };
            if sender.send(caught).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The mask of the signals that a process ignores, of what the system says of it.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"), 1 << (SIGHUP - 1) | 1 << 12);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn pause_ends_by_a_signal_and_reaps_children() {
        let (sender, signals) = unbounded();
        let caught = [SIGCHLD, SIGWINCH, SIGQUIT].map(|signal| Caught { signal, is_of_terminal: false });
        caught.into_iter().for_each(|caught| sender.send(caught).unwrap());
        let reaped = std::cell::Cell::new(0);
        let ended_by = |pause| ended_by(&signals, pause, || reaped.set(reaped.get() + 1));
        assert_eq!((ended_by(Duration::from_secs(3_600)), reaped.get()), (Some(128 + 3), 1));
        assert_eq!(ended_by(Duration::ZERO), None);
        drop(sender);
        assert_eq!(ended_by(Duration::from_secs(3_600)), Some(128 + 15));
    }
}
