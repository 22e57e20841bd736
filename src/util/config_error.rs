//! The error of an invalid configuration, and the check that returns the error.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::util::debug_fields::debug_as_display;

/// A violated rule of the configuration: the field, its value, and the rule.
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
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    value: String,
    rule: String,
}

impl ConfigError {
    /// Creates an error with the text `field is value: rule`.
    ///
    /// A [`Store`](crate::store::Store) returns such an error for an invalid key.
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

    /// Returns the field: the name of the setter in the builder, or the name in a file or a flag.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns the violated rule.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.field, self.value, self.rule)
    }
}

debug_as_display!(ConfigError);

impl std::error::Error for ConfigError {}

pub(crate) fn require(
    holds: bool,
    field: &'static str,
    value: impl fmt::Display,
    rule: impl fmt::Display,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(field, value, rule)) }
}

/// Returns 64 random bits. The standard library seeds its hash maps from the system's random source.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
