//! The error of a configuration, and what checks one.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A rule of the configuration that is violated: which field, its value, and the rule.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Error, LeaderElector};
///
/// let seconds = Duration::from_secs;
/// let refused = LeaderElector::builder("jobs").lease_duration(seconds(15)).renew_deadline(seconds(20)).validate();
/// let error = refused.unwrap_err();
/// assert_eq!(error.field(), "renew_deadline");
/// assert!(error.to_string().contains("less than lease_duration (15s)"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    value: String,
    rule: String,
}

impl ConfigError {
    /// For a [`Store`](crate::Store) that refuses a key: `field`, `value` and `rule` make the text `field is value: rule`.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::ConfigError;
    ///
    /// let error = ConfigError::new("name", "a/b", "a key of this store has no slash");
    /// assert_eq!(error.to_string(), "name is a/b: a key of this store has no slash");
    /// ```
    pub fn new(field: &'static str, value: impl fmt::Display, rule: impl fmt::Display) -> Self {
        Self { field, value: value.to_string(), rule: rule.to_string() }
    }

    /// What is wrong: by the name of its setter in the builder, or as it is called in a file or a flag.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// The rule that is violated.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.field, self.value, self.rule)
    }
}

impl std::error::Error for ConfigError {}

pub(crate) fn require(
    holds: bool,
    field: &'static str,
    value: impl fmt::Display,
    rule: impl fmt::Display,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(field, value, rule)) }
}

/// 64 bits that no other process has: the standard library keys its hash maps from the system's random source.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
