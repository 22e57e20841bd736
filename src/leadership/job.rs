//! The job of a campaign that acquires the lease once per period, and its outcome.

use std::fmt;
use std::time::Duration;

use crate::election::candidate::job::JobPlan;
use crate::store::notes::JobNotes;
use crate::util::config_error::{ConfigError, require};

/// A job that succeeds once per period, on any of several processes.
///
/// A period starts with the start of the run that succeeded. A job of 5 hours with a period of 20 hours therefore runs
/// every night.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::job::OncePer;
///
/// let nightly = OncePer::new(Duration::from_secs(20 * 3600)).max_attempts(5);
/// ```
#[derive(Debug, Clone)]
#[must_use = "the job has no effect until a campaign starts for the job"]
pub struct OncePer {
    period: Duration,
    max_attempts: u32,
    is_forced: bool,
}

/// The outcome of [`run_once_per`](crate::LeaderElector::run_once_per).
///
/// # Examples
///
/// ```
/// # use leasehold::job::RunOnce;
/// # fn example(outcome: RunOnce) {
/// match outcome {
///     RunOnce::Succeeded => println!("done"),
///     RunOnce::NotDue(reason) => println!("{reason}"),
///     _ => println!("stopped"),
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOnce {
    /// This call has run the job, and the record contains its success.
    Succeeded,
    /// No attempt may start in this period.
    NotDue(NotDue),
    /// A requested stop. An attempt that was stopped is no success.
    Stopped,
}

/// The reason why no attempt of a job may start, with the history of the job.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotDue {
    /// A run of this period has succeeded.
    Succeeded(Box<JobNotes>),
    /// All attempts of this period have failed.
    Exhausted(Box<JobNotes>),
}

impl OncePer {
    /// Creates a job with this period, in whole seconds, and at most three attempts per period.
    pub fn new(period: Duration) -> Self {
        Self { period, max_attempts: 3, is_forced: false }
    }

    /// Sets the largest number of attempts in a period, on all processes together.
    ///
    /// An attempt counts when it starts, even if its process is killed.
    ///
    /// Defaults to 3.
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: attempts, ..self }
    }

    /// Starts one attempt in spite of the history, and sets the period of the record.
    ///
    /// Defaults to `false`.
    pub fn force(self, is_forced: bool) -> Self {
        Self { is_forced, ..self }
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.is_forced
    }

    /// Returns the plan of the candidate.
    pub(crate) fn plan(&self) -> Result<JobPlan, ConfigError> {
        let Self { period, max_attempts, is_forced } = *self;
        let is_valid = period.subsec_nanos() == 0 && (1..=u64::from(u32::MAX)).contains(&period.as_secs());
        let rule = "must be a whole number of seconds, from 1s to 136 years";
        require(is_valid, "once_per", humantime::format_duration(period), rule)?;
        require(max_attempts > 0, "max_attempts", max_attempts, "must be at least 1")?;
        Ok(JobPlan { period, max_attempts, is_forced })
    }
}

impl From<Duration> for OncePer {
    fn from(period: Duration) -> Self {
        Self::new(period)
    }
}

impl NotDue {
    /// Returns the history of the job.
    pub fn history(&self) -> &JobNotes {
        match self {
            Self::Succeeded(history) | Self::Exhausted(history) => history,
        }
    }
}

impl fmt::Display for NotDue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn text(value: &Option<impl fmt::Display>) -> String {
            value.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string)
        }
        match self {
            Self::Succeeded(job) => {
                let (host, start, end) =
                    (text(&job.last_success_host), text(&job.last_success_start), text(&job.last_success_end));
                write!(f, "the job has succeeded in this period: on {host}, from {start} to {end}")
            }
            Self::Exhausted(job) => {
                let (attempts, first) = (text(&job.attempts), text(&job.first_attempt_start));
                let host = text(&job.last_attempt_host);
                write!(
                    f,
                    "all attempts of this period have failed ({attempts} since {first}); the last one on {host}, "
                )?;
                match job.last_attempt_exit_code {
                    Some(code) => write!(f, "exit code {code}"),
                    None => f.write_str("without a result"),
                }
            }
        }
    }
}

crate::util::debug_fields::debug_as_display!(NotDue);
