//! Requests to stop a program.

use std::convert::Infallible;
use std::time::Duration;

use crate::util::debug_fields::debug_fields;
use crate::util::latch::Latch;
use crate::util::sync::channel::{Receiver, RecvTimeoutError};
use crate::util::sync::{Arc, thread};

#[cfg(all(feature = "signals", unix))]
mod signals;

/// A request to stop, which any thread can make and any thread can wait for.
///
/// All clones share one request, which is final. [`LeaderElector::run_until`](crate::LeaderElector::run_until) and
/// [`LeaseGroup::run_until`](crate::group::LeaseGroup::run_until) return at the request. All methods may be called from
/// any thread at any time. Dropping a `Stop` requests nothing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::Stop;
///
/// let stop = Stop::new();
/// let loops = stop.clone();
/// let worker = std::thread::spawn(move || {
///     while loops.wait(Duration::from_millis(10)) {
///         // one unit of work
///     }
/// });
/// stop.stop();
/// worker.join().expect("the loop ends");
/// assert!(stop.is_stopped());
/// ```
#[derive(Clone)]
pub struct Stop(Arc<Latch>);

impl Stop {
    /// Creates a request that a program makes with [`stop`](Self::stop).
    pub fn new() -> Self {
        Self(Arc::new(Latch::new()))
    }

    /// Requests the stop. A second request has no effect.
    pub fn stop(&self) {
        self.0.set();
    }

    /// Returns `true` once the stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.is_set()
    }

    /// Sleeps for `duration`, at most until the stop. Returns `true` if no stop was requested.
    ///
    /// So `while stop.wait(interval)` runs a body once per interval until the stop.
    pub fn wait(&self, duration: Duration) -> bool {
        self.receiver().recv_timeout(duration) == Err(RecvTimeoutError::Timeout)
    }

    /// Returns a channel that disconnects at the stop.
    ///
    /// The channel never delivers a message. Use the channel in a `select!`.
    pub fn receiver(&self) -> &Receiver<Infallible> {
        self.0.receiver()
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

/// Stops when `receiver` receives a message or disconnects.
///
/// A thread waits for the receiver. Messages that other clones of the receiver take are lost for this `Stop`.
///
/// # Panics
///
/// Panics if the operating system cannot start a thread.
impl<T: Send + 'static> From<Receiver<T>> for Stop {
    fn from(receiver: Receiver<T>) -> Self {
        let stop = Self::new();
        let stopped = stop.clone();
        let wait = move || {
            let _ = receiver.recv();
            stopped.stop();
        };
        thread::Builder::new().name("leasehold-stop".into()).spawn(wait).expect("the system starts a thread");
        stop
    }
}

debug_fields!(impl Debug for Stop { self => is_stopped: self.is_stopped() });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::sync::channel;

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn stop_ends_each_wait_of_each_clone() {
        let stop = Stop::new();
        assert!(!stop.is_stopped() && stop.wait(Duration::ZERO) && stop.wait(Duration::from_millis(1)));
        let waiters: Vec<_> = (0..3).map(|_| stop.clone()).map(|stop| thread::spawn(move || stop.wait(LONG))).collect();
        stop.stop();
        stop.stop();
        assert!(waiters.into_iter().all(|waiter| !waiter.join().unwrap()));
        assert!(stop.is_stopped() && !stop.wait(Duration::ZERO) && stop.receiver().recv().is_err());
    }

    #[test]
    fn message_or_end_of_a_channel_stops() {
        let (sender, receiver) = channel::bounded(1);
        let stop = Stop::from(receiver);
        assert!(!stop.is_stopped());
        sender.send("now").unwrap();
        assert!(!stop.wait(LONG));
        let (sender, receiver) = channel::bounded::<u8>(1);
        let stop = Stop::from(receiver);
        drop(sender);
        assert!(!stop.wait(LONG));
    }

    #[test]
    fn dropped_clones_request_nothing() {
        let stop = Stop::new();
        drop(stop.clone());
        assert!(!stop.is_stopped());
    }
}
