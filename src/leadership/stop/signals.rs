//! Stops at the signals that end a program.

use std::io;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, exit};

use super::Stop;
use crate::leadership::error::Error;
use crate::util::panics::log_line;
use crate::util::sync::{Arc, AtomicBool, Ordering, channel, thread};

/// The signals that request a stop.
const HANDLED: [i32; 2] = [SIGTERM, SIGINT];

static IS_HANDLED: AtomicBool = AtomicBool::new(false);

impl Stop {
    /// Creates a request that SIGTERM and SIGINT make.
    ///
    /// Kubernetes and systemd send SIGTERM, and Ctrl-C sends SIGINT. The second of these signals ends the process
    /// immediately, as the signal does without a handler, or with exit code 128 + signal if the process has the id 1. A
    /// signal that was ignored at the start of the process stays ignored (Linux), as nohup(1) needs. Both signals are
    /// unblocked, even if the parent process has blocked them.
    ///
    /// On Windows, call [`stop`](Self::stop) in a handler of the crate `ctrlc`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{LeaderElector, Stop};
    ///
    /// let stop = Stop::on_signals()?;
    /// let elector = LeaderElector::builder("my-controller").start()?;
    /// elector.run_until(&stop, |guard| {
    ///     while guard.wait(std::time::Duration::from_secs(1)) { /* one unit of work */ }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// After an error, the process does not handle the signals.
    ///
    /// - Returns [`Error::Signals`] if a former call of `on_signals` or
    ///   [`on_signals_within`](Self::on_signals_within) has succeeded, or if the system refuses the handlers.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    pub fn on_signals() -> Result<Self, Error> {
        stop_at_signals(None)
    }

    /// Creates a request that SIGTERM and SIGINT make, and limits the time of the stop.
    ///
    /// The request is that of [`on_signals`](Self::on_signals).
    ///
    /// If the process still runs `limit` after the first signal, this library logs an error and ends the process with
    /// exit code 1. Destructors do not run, and a lease that is still held expires. Set `limit` to more than
    /// the drain timeout, and to less than the time after which the platform kills the process, which is 30 s in
    /// Kubernetes by default.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`on_signals`](Self::on_signals).
    pub fn on_signals_within(limit: Duration) -> Result<Self, Error> {
        stop_at_signals(Some(limit))
    }
}

fn stop_at_signals(limit: Option<Duration>) -> Result<Stop, Error> {
    let refused = |error| Error::Signals(Arc::new(error));
    if IS_HANDLED.swap(true, Ordering::SeqCst) {
        return Err(refused(io::Error::new(io::ErrorKind::AlreadyExists, "the process handles them already")));
    }
    let stop = Stop::new();
    let stopped = stop.clone();
    let (handlers, installed) = channel::bounded::<Signals>(1);
    let handle = move || {
        let Ok(mut signals) = installed.recv() else { return };
        // The call fails only for an invalid argument. A thread that accepts a signal is enough.
        let handled: SigSet = HANDLED.into_iter().filter_map(|signal| Signal::try_from(signal).ok()).collect();
        let _ = handled.thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
        let mut received = signals.forever();
        let _ = received.next();
        stopped.stop();
        if let Some(limit) = limit {
            end_process_after(limit);
        }
        if let Some(signal) = received.next() {
            // The kernel ignores the default action of a signal for the first process of a container.
            if std::process::id() == 1 {
                exit(128 + signal);
            }
            let _ = emulate_default_handler(signal);
        }
    };
    let thread = thread::Builder::new().name("leasehold-signals".into()).spawn(handle).map_err(Error::thread);
    // The thread starts first. Without it, a handler would make the process deaf to its signal.
    let started = thread.and_then(|_| Signals::new(not_ignored()).map_err(refused));
    let started = started.map(|signals| handlers.send(signals));
    IS_HANDLED.store(started.is_ok(), Ordering::SeqCst);
    started.map(|_| stop)
}

/// Ends the process after `limit`, even if no thread can start.
fn end_process_after(limit: Duration) {
    let end = move || {
        thread::sleep(limit);
        let limit = humantime::format_duration(limit);
        log_line!(error, "process still runs {limit} after the signal: ending the process with exit code 1");
        std::process::exit(1);
    };
    if let Err(error) = thread::Builder::new().name("leasehold-limit".into()).spawn(end) {
        log_line!(error, "cannot limit the time of the stop: cannot start a thread: {error}");
    }
}

/// Returns the handled signals that are not ignored.
#[cfg(target_os = "linux")]
fn not_ignored() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    HANDLED.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

#[cfg(not(target_os = "linux"))]
fn not_ignored() -> Vec<i32> {
    HANDLED.to_vec()
}

/// Parses the mask of ignored signals from the status of a process.
#[cfg(target_os = "linux")]
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn mask_of_ignored_signals_is_read_from_the_status() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000004001\nSigCgt:\t0000000000000000\n"), 0x4001);
        for status in ["", "SigIgn:\tx\n", "SigIgn:\n"] {
            assert_eq!(ignored(status), 0, "{status}");
        }
    }
}
