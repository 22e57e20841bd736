//! The signals that the supervisor handles.

use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use super::command::by_signal;

/// A received signal.
#[derive(Debug, Clone, Copy)]
pub struct Caught {
    pub signal: i32,
    /// `true` if the kernel sent the signal to the process group, for example after Ctrl-C.
    pub is_of_terminal: bool,
}

impl Caught {
    /// Returns `true` if the signal ends this process while no command runs.
    pub fn ends_us(self) -> bool {
        matches!(self.signal, SIGTERM | SIGINT | SIGHUP | SIGQUIT)
    }
}

/// Waits for `pause` and calls `reap` at each SIGCHLD.
///
/// Returns the exit code if a signal ends this process.
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

/// The signal mask that the parent process has set for this process and its commands.
pub struct ParentMask(SigSet);

impl ParentMask {
    /// Unblocks the handled signals for the calling thread, and returns the former mask.
    ///
    /// The handlers must be installed before, because a blocked signal may already be pending.
    pub fn unblock() -> io::Result<Self> {
        let handled: SigSet = TAKEN.into_iter().chain([SIGCHLD]).filter_map(|it| Signal::try_from(it).ok()).collect();
        Ok(Self(handled.thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?))
    }

    /// Starts a command with this mask, without the signals that it must receive.
    ///
    /// These signals are those that `leasehold run` sends or passes on.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let mut mask = self.0;
        TAKEN.into_iter().chain([SIGCONT]).filter_map(|it| Signal::try_from(it).ok()).for_each(|it| mask.remove(it));
        // A process inherits the mask of the thread that starts the process.
        let ours = mask.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let child = command.spawn();
        ours.thread_set_mask()?;
        child
    }
}

/// Returns the signals in `signals` that are not ignored.
///
/// A signal that was ignored at the start, for example by nohup(1), must stay ignored for the command. If this process
/// had a handler for the signal, the command would no longer ignore the signal.
pub fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// Installs handlers for the signals that end this process or are passed on to the command.
///
/// Only the thread of the handlers unblocks the signals, so every process that this process starts has the mask of the
/// parent process.
pub fn take() -> io::Result<Receiver<Caught>> {
    let taken = not_ignored(&TAKEN).into_iter().chain([SIGCHLD]);
    let mut signals = SignalsInfo::<WithOrigin>::new(taken)?;
    let (sender, receiver) = unbounded();
    thread::Builder::new().name("signals".into()).spawn(move || {
        // The call fails only for an invalid argument.
        let _ = ParentMask::unblock();
        for origin in signals.forever() {
            let caught = Caught { signal: origin.signal, is_of_terminal: origin.cause == Cause::Kernel };
            if sender.send(caught).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Parses the mask of ignored signals from the status of a process.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_do_not_extend_a_pause() {
        let (sender, signals) = unbounded();
        let orphans = thread::spawn(move || {
            let child_ended = Caught { signal: SIGCHLD, is_of_terminal: false };
            (0..500)
                .take_while(|_| sender.send(child_ended).is_ok())
                .for_each(|_| thread::sleep(Duration::from_millis(20)));
        });
        assert_eq!(ended_by(&signals, Duration::from_millis(200), || ()), None);
        drop(signals);
        orphans.join().expect("no panic");
    }

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
