//! The release of many guards at the same time.

use std::time::Duration;

use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::{Cancellation, LOGGED_WITHIN, Link, ReleaseAck};
use crate::util::clock;
use crate::util::sync::channel::{Receiver, RecvTimeoutError};
use crate::util::sync::{Arc, Instant};

/// The longest time for which a wait for one release leaves the progress of the others unread.
const STEP: Duration = Duration::from_millis(10);

/// Releases the leases of many guards at the same time.
///
/// A process that drops many guards one after another waits for each release. This function starts all releases before
/// it waits for any. The results are in the order of the guards, and show whether the store confirmed each release.
///
/// Blocks at most for `timeout`, which replaces the
/// [release timeouts](crate::LeaderElectorBuilder::release_timeout) of the electors.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use leasehold::{LeaderElector, MemoryStore, release_all};
///
/// let store = Arc::new(MemoryStore::new());
/// let mail = LeaderElector::builder("mail").start_on(Arc::clone(&store))?;
/// let reports = LeaderElector::builder("reports").start_on(store)?;
/// let guards = [mail.block_until_leader()?, reports.block_until_leader()?];
/// for released in release_all(guards, Duration::from_secs(5)) {
///     if let Err(error) = released {
///         eprintln!("{error}");
///     }
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// # Errors
///
/// Each result has the errors of [`LeaderGuard::release`]. After [`Error::ReleaseTimeout`], the release may still
/// succeed.
pub fn release_all(guards: impl IntoIterator<Item = LeaderGuard>, timeout: Duration) -> Vec<Result<(), Error>> {
    let began = Instant::now();
    let left = || timeout.saturating_sub(began.elapsed());
    let mut releases: Vec<_> = guards.into_iter().map(StartedRelease::new).collect();
    loop {
        let mut pause = STEP.min(left());
        let is_last = pause.is_zero();
        let mut unfinished = releases.iter_mut().flatten().filter(|release| release.result.is_none()).peekable();
        if unfinished.peek().is_none() {
            break;
        }
        // Only the wait for the first unfinished release blocks.
        unfinished.for_each(|release| release.step(std::mem::take(&mut pause)));
        if is_last {
            break;
        }
    }
    let (finished, logged_within) = (Instant::now(), left().min(LOGGED_WITHIN));
    let result = |release: Result<StartedRelease, Error>| {
        let mut release = release?;
        release.result.take().unwrap_or(Err(Error::ReleaseTimeout { waited: timeout }))?;
        let _ = release.progress.recv_timeout(logged_within.saturating_sub(finished.elapsed()));
        Ok(())
    };
    releases.into_iter().map(result).collect()
}

struct StartedRelease {
    link: Arc<Link>,
    progress: Receiver<ReleaseAck>,
    /// The request in flight that delays the release.
    delayed_by: Option<Cancellation>,
    result: Option<Result<(), Error>>,
}

impl StartedRelease {
    fn new(guard: LeaderGuard) -> Result<Self, Error> {
        let (link, progress) = guard.start_release()?;
        Ok(Self { link, progress, delayed_by: None, result: None })
    }

    /// Reads the progress of the release, and waits for it for at most `pause`.
    fn step(&mut self, pause: Duration) {
        match self.progress.recv_timeout(pause) {
            Ok(ReleaseAck::Behind(cancellation)) => self.delayed_by = Some(cancellation),
            Ok(ReleaseAck::Released) => self.result = Some(Ok(())),
            Err(RecvTimeoutError::Disconnected) => self.result = Some(Err(Error::Stopped)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(cancellation) = self.delayed_by.take_if(|it| it.at <= clock::now()) {
            cancellation.carry_out(Duration::ZERO);
        }
    }
}

impl Drop for StartedRelease {
    fn drop(&mut self) {
        self.link.free_seat();
    }
}
