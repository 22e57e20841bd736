//! The local clock, which is monotonic and counts the time in suspend.
//!
//! A lease expires in real time. `CLOCK_MONOTONIC` on Linux, which `std::time::Instant` reads, stops in suspend. With
//! `CLOCK_MONOTONIC`, a leader could wake up with a valid term although another candidate has taken over.

use std::time::{Duration, SystemTime};

/// A point on the local clock, in nanoseconds.
///
/// The origin is arbitrary and stays fixed until the machine reboots.
///
/// Moments of different machines, or from before and after a reboot, cannot be compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Returns the time from `earlier` to this moment, or zero if `earlier` is later.
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Moment;

    /// Adds a duration. Saturates five centuries after the origin.
    fn add(self, duration: Duration) -> Moment {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(nanos))
    }
}

/// A reading of both clocks at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The local clock, on which all decisions are based.
    pub local: Moment,
    /// The wall clock, which is written into the record for people.
    pub wall: SystemTime,
}

impl Now {
    /// Reads the local clock, then the wall clock.
    ///
    /// The local clock is read first, because a later reading would extend the validity of a term.
    pub fn read() -> Self {
        let local = now();
        Self { local, wall: SystemTime::now() }
    }
}

/// Reads the local clock. On Linux, this is one vDSO call, as cheap as `Instant::now()`.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "openbsd"))]
pub fn now() -> Moment {
    read(rustix::time::ClockId::Boottime)
}

/// Reads the local clock.
///
/// On Apple's systems, `CLOCK_MONOTONIC` counts sleep and `Instant` does not.
#[cfg(target_vendor = "apple")]
pub fn now() -> Moment {
    read(rustix::time::ClockId::Monotonic)
}

#[cfg(not(windows))]
fn read(clock: rustix::time::ClockId) -> Moment {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Reads the local clock.
///
/// On Windows, the performance counter that `Instant` reads counts suspend.
#[cfg(windows)]
pub fn now() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    // The clock starts at one second, because a deadline of zero means that the term has ended.
    Moment(1_000_000_000) + ORIGIN.get_or_init(Instant::now).elapsed()
}
