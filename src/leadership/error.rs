//! The error type of the public API.

use std::fmt;
use std::time::Duration;

use crate::leadership::job::NotDue;
use crate::store::StoreError;
use crate::util::config_error::ConfigError;
use crate::util::debug_fields::debug_as_display;
use crate::util::sync::Arc;

/// The error of electors, campaigns and releases.
///
/// [`Display`](fmt::Display) names the object, the cause and, if there is one, the remedy. [`Debug`](fmt::Debug) writes the
/// same text, because a `main` that returns an error prints it with `Debug`. The text includes the cause, so
/// [`source`](std::error::Error::source) returns only the cause of that cause.
///
/// # Examples
///
/// ```
/// use leasehold::{Error, LeaderElector};
///
/// let started = LeaderElector::builder("Not_A_Name").start();
/// assert!(matches!(started, Err(Error::Config(_))));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// A setting that breaks a rule of the configuration.
    Config(ConfigError),
    /// A cluster that was not found, or whose description is unusable.
    ///
    /// Contains a `kubernetes::ClientError`.
    Cluster(Arc<dyn std::error::Error + Send + Sync>),
    /// An error of the store that a retry cannot fix, such as a missing permission.
    Store(StoreError),
    /// A second campaign while the elector has a campaign or a guard that is not dropped.
    Busy,
    /// An elector that was dropped, or whose thread panicked.
    Stopped,
    /// A campaign that was withdrawn.
    Withdrawn,
    /// A call in a forked child, whose parent owns the elector's threads and the lease.
    Forked,
    /// A candidate that is unfit, or that recovered only recently.
    ///
    /// [`fit_while`](crate::LeaderElectorBuilder::fit_while) and [`fitness`](crate::LeaderElectorBuilder::fitness)
    /// decide about fitness. [`try_acquire`](crate::LeaderElector::try_acquire) and
    /// [`block_until_leader_timeout`](crate::LeaderElector::block_until_leader_timeout) return this error. A campaign
    /// waits instead.
    Unfit,
    /// A job of which no attempt may start in this period.
    NotDue(NotDue),
    /// A job whose result is not known to be in the record. The job may run again.
    ResultNotRecorded,
    /// A release that the store did not confirm within the release timeout.
    ///
    /// The release may still succeed. If the release fails, another candidate takes over when the lease expires.
    ReleaseTimeout {
        /// The time that the caller waited.
        waited: Duration,
    },
    /// A thread that the operating system could not start.
    Thread(Arc<std::io::Error>),
    /// Signals that the process already handles, or whose handlers the operating system refused.
    Signals(Arc<std::io::Error>),
    /// An error of the work of [`run_until`](crate::LeaderElector::run_until), after which a stop was requested.
    Work(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    pub(crate) fn thread(error: std::io::Error) -> Self {
        Self::Thread(Arc::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "invalid configuration: {error}"),
            Self::Cluster(error) => write!(f, "cannot use the cluster: {error}"),
            Self::Store(error) => error.fmt(f),
            Self::Busy => f.write_str(
                "cannot start a campaign: the elector already has a campaign or a guard; drop the campaign or guard, \
                 or use another elector",
            ),
            Self::Stopped => f.write_str("the elector was stopped"),
            Self::Withdrawn => f.write_str("the campaign was withdrawn"),
            Self::Forked => f.write_str(
                "cannot use the elector in a forked child: the elector belongs to the parent process; start a new elector",
            ),
            Self::Unfit => f.write_str(
                "cannot acquire the lease: the candidate is unfit, or recovered too recently; set the Fitness flag, check the probe, \
                 or call block_until_leader, which waits",
            ),
            Self::NotDue(reason) => reason.fmt(f),
            Self::ResultNotRecorded => f.write_str(
                "cannot record the result of the job: the store confirmed no write during the term, or the term has no job; the job may run again",
            ),
            Self::ReleaseTimeout { waited } => write!(
                f,
                "release of the lease not confirmed within {}; standbys may have to wait until the lease expires",
                humantime::format_duration(*waited)
            ),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Signals(error) => write!(f, "cannot handle SIGTERM and SIGINT: {error}"),
            Self::Work(error) => write!(f, "the work failed: {error}"),
        }
    }
}

debug_as_display!(Error);

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => error.source(),
            Self::Cluster(error) | Self::Work(error) => error.source(),
            Self::Store(error) => error.source(),
            Self::Thread(error) | Self::Signals(error) => error.source(),
            Self::Busy
            | Self::Stopped
            | Self::Withdrawn
            | Self::Forked
            | Self::Unfit
            | Self::NotDue(_)
            | Self::ResultNotRecorded
            | Self::ReleaseTimeout { .. } => None,
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::store::StoreErrorKind;

    #[test]
    fn each_error_has_its_text_and_its_source() {
        let config = || ConfigError::new("field", "value", "rule");
        let store = || StoreError::new(StoreErrorKind::Forbidden, "no right");
        for (error, text, has_source) in [
            (Error::from(config()), "invalid configuration: ", false),
            (Error::from(store()), "no right", false),
            (Error::from(store().with_source(config())), "no right", true),
            (Error::Busy, "already has a campaign or a guard", false),
            (Error::Stopped, "was stopped", false),
            (Error::ReleaseTimeout { waited: Duration::from_secs(2) }, "not confirmed within 2s", false),
            (Error::thread(std::io::ErrorKind::OutOfMemory.into()), "cannot start a thread: ", false),
            (Error::Withdrawn, "was withdrawn", false),
            (Error::Forked, "forked child", false),
            (Error::Unfit, "is unfit", false),
            (Error::Signals(Arc::new(std::io::ErrorKind::Other.into())), "SIGTERM", false),
            (Error::Work(Arc::new(store().with_source(config()))), "the work failed: no right", true),
        ] {
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(format!("{error:?}"), error.to_string());
        }
    }
}
