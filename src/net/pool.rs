//! Connections that no call has.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Servers close idle connections after 90 s and load balancers after 60 s or more. Staying well below makes it rare that a
/// write goes out on a connection that is just being closed.
pub(crate) const MAX_IDLE: Duration = Duration::from_secs(30);

/// The same for a server that is reached directly: it keeps its connections. The system finds out by itself where one leads to
/// nowhere by now, and its probes are traffic to what forgets connections that have none: see [`super::dial`].
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres"))]
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const MAX_IDLE_DIRECT: Duration = Duration::MAX;

#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres"))]
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const MAX_IDLE_DIRECT: Duration = MAX_IDLE;

/// Connections that no call has, and how many are kept for the calls to come.
pub(crate) struct Pool<T> {
    most: usize,
    max_idle: Duration,
    idle: Mutex<Vec<Idle<T>>>,
}

struct Idle<T> {
    connection: T,
    since: Instant,
}

impl<T> Pool<T> {
    pub(crate) fn new(most: usize, max_idle: Duration) -> Self {
        Self { most, max_idle, idle: Mutex::default() }
    }

    /// The connection that was used last: the others are the likelier to be closed by the server. Those that are too old, or of
    /// no use any more, are closed.
    pub(crate) fn take(&self, is_of_use: impl Fn(&T) -> bool) -> Option<T> {
        let mut idle = self.idle.lock();
        idle.retain(|it| is_of_use(&it.connection) && it.since.elapsed() < self.max_idle);
        idle.pop().map(|it| it.connection)
    }

    /// After a clean answer.
    pub(crate) fn put_back(&self, connection: T) {
        let mut idle = self.idle.lock();
        if idle.len() < self.most {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }

    /// What a call that began then was cancelled for waiting for may have befallen all that were open: whoever comes next has a
    /// new connection, or one that has answered meanwhile.
    pub(crate) fn forget_idle_since(&self, began: Instant) {
        self.idle.lock().retain(|it| it.since > began);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_is_taken_first_and_what_is_of_no_use_is_closed() {
        let pool = Pool::new(3, MAX_IDLE);
        for connection in 1..=4 {
            pool.put_back(connection);
        }
        assert_eq!(pool.take(|it| *it != 2), Some(3), "the fourth was one too many");
        assert_eq!(pool.take(|_| true), Some(1), "the second was closed");
        assert_eq!(pool.take(|_| true), None);
    }

    #[test]
    fn what_was_idle_when_a_call_began_is_forgotten() {
        let pool = Pool::new(3, MAX_IDLE);
        pool.put_back(1);
        let began = Instant::now();
        while Instant::now() == began {}
        pool.put_back(2);
        pool.forget_idle_since(began);
        assert_eq!((pool.take(|_| true), pool.take(|_| true)), (Some(2), None));
    }
}
