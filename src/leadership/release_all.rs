//! The release of many guards at the same time.

use std::time::Duration;

use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::{ReleaseSender, finish};
use crate::util::sync::{Instant, channel};

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
/// use leasehold::store::MemoryStore;
/// use leasehold::{release_all, LeaderElector};
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
    // An iterator may panic or campaign, so the guards are complete before any of them is released.
    let guards: Vec<_> = guards.into_iter().collect();
    let began = Instant::now();
    let (mut links, (acks, progress)) = (Vec::new(), channel::unbounded());
    let start = |(number, guard): (usize, LeaderGuard)| {
        let started = guard.start_release(ReleaseSender { number, acks: acks.clone() });
        started.map(|link| links.push(link)).err().map(Err)
    };
    let mut results: Vec<_> = guards.into_iter().enumerate().map(start).collect();
    // From here on, the channel disconnects when the last release is logged.
    drop(acks);
    finish(&mut results, &progress, began, timeout);
    links.iter().for_each(|link| link.clear_busy());
    results.into_iter().flatten().collect()
}
