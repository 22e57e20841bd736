//! What can go wrong for a caller.

use std::fmt;
use std::time::Duration;

use crate::store::StoreError;
use crate::util::config_error::ConfigError;

/// Why an elector could not be started, a term not be had, or a lease not be released.
///
/// # Examples
///
/// ```
/// use leasehold::{Error, LeaderElector};
///
/// let started = LeaderElector::builder("Not_A_Name").start();
/// assert!(matches!(started, Err(Error::Config(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A rule of the configuration is violated.
    Config(ConfigError),
    /// The cluster was not found, or its description cannot be used. Contains a `kubernetes::ClientError`.
    Cluster(Box<dyn std::error::Error + Send + Sync>),
    /// The store refuses in a way that no waiting changes, such as a missing permission.
    Store(StoreError),
    /// The elector has a campaign or an undropped guard already.
    Busy,
    /// The elector was stopped or dropped.
    Stopped,
    /// The campaign was withdrawn.
    Withdrawn,
    /// This process is a child that was forked from the elector's: its threads, and the lease, are its parent's.
    Forked,
    /// This candidate is not fit to lead, or became so again only a while ago: see
    /// [`fit_while`](crate::LeaderElectorBuilder::fit_while) and [`fitness`](crate::LeaderElectorBuilder::fitness). [`try_acquire`](crate::LeaderElector::try_acquire)
    /// and [`block_until_leader_timeout`](crate::LeaderElector::block_until_leader_timeout) fail by it; a campaign waits.
    Unfit,
    /// The release was not confirmed within the release timeout. It may still happen; if not, others take over when
    /// the lease runs out.
    ReleaseTimeout {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The system did not give a thread.
    Thread(std::io::Error),
}

impl Error {
    /// A number for callers in other languages. It never changes, and none is given twice; zero is none of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Error;
    ///
    /// assert_eq!((Error::Busy.code(), Error::Stopped.code()), (4, 5));
    /// ```
    pub fn code(&self) -> i32 {
        match self {
            Self::Config(_) => 1,
            Self::Cluster(_) => 2,
            Self::Store(_) => 3,
            Self::Busy => 4,
            Self::Stopped => 5,
            Self::ReleaseTimeout { .. } => 6,
            Self::Thread(_) => 7,
            Self::Withdrawn => 8,
            Self::Forked => 9,
            Self::Unfit => 10,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "invalid configuration: {error}"),
            Self::Cluster(error) => write!(f, "cannot use the cluster: {error}"),
            Self::Store(error) => error.fmt(f),
            Self::Busy => f.write_str(
                "this elector has a campaign or a guard already: drop that first, or use an elector for each",
            ),
            Self::Stopped => f.write_str("this elector was stopped"),
            Self::Withdrawn => f.write_str("this campaign was withdrawn"),
            Self::Forked => f.write_str(
                "this process was forked after the elector was started, which belongs to its parent: start one of its own here",
            ),
            Self::Unfit => f.write_str(
                "this candidate is not fit to lead, as its probe or its Fitness (which is to be set) says, or has not been so for long enough: \
                 campaign without a limit, which waits for that",
            ),
            Self::ReleaseTimeout { waited } => write!(
                f,
                "the release of the lease was not confirmed within {}: others may have to wait until it runs out",
                humantime::format_duration(*waited)
            ),
            Self::Thread(error) => write!(f, "cannot start the elector's thread: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Cluster(error) => Some(&**error),
            Self::Store(error) => std::error::Error::source(error),
            Self::Thread(error) => Some(error),
            Self::Busy | Self::Stopped | Self::Withdrawn | Self::Forked | Self::Unfit | Self::ReleaseTimeout { .. } => {
                None
            }
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
    fn each_error_has_its_number_its_text_and_its_source() {
        let config = || ConfigError::new("field", "value", "rule");
        let store = || StoreError::new(StoreErrorKind::Forbidden, "no right");
        for (error, code, text, has_source) in [
            (Error::from(config()), 1, "invalid configuration: ", true),
            (Error::from(store()), 3, "no right", false),
            (Error::from(store().with_source(config())), 3, "no right", true),
            (Error::Busy, 4, "a campaign or a guard already", false),
            (Error::Stopped, 5, "was stopped", false),
            (Error::ReleaseTimeout { waited: Duration::from_secs(2) }, 6, "not confirmed within 2s", false),
            (Error::Thread(std::io::ErrorKind::OutOfMemory.into()), 7, "cannot start the elector's thread: ", true),
            (Error::Withdrawn, 8, "was withdrawn", false),
            (Error::Forked, 9, "was forked", false),
            (Error::Unfit, 10, "not fit to lead", false),
        ] {
            assert_eq!((error.code(), error.source().is_some()), (code, has_source), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
