//! What a user chooses, and the rules it must keep.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use humantime::format_duration as show;

/// How much later than `retry_period` a retry may come, as in client-go (`JitterFactor`).
pub(crate) const JITTER_FACTOR: f64 = 1.2;

/// Candidates that compare times in whole seconds may miss renewals within one (client-go does).
const CLIENT_GO_GRANULARITY: Duration = Duration::from_secs(1);

const SHORTEST: Duration = Duration::from_millis(1);

/// What a user chose, unchecked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) identity: Option<String>,
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    pub(crate) renew_interval: Option<Duration>,
    pub(crate) release_timeout: Option<Duration>,
    pub(crate) reclaim_own_identity: bool,
    pub(crate) only_leasehold: bool,
}

/// What an election runs by: checked, with every default filled in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Who we are in the record.
    pub identity: String,
    /// What we publish, in whole seconds.
    pub lease_duration: Duration,
    /// How long after it was sent a write keeps a term valid.
    pub renew_deadline: Duration,
    /// The pace of retries and of polling.
    pub retry_period: Duration,
    /// The pace of renewals.
    pub renew_interval: Duration,
    /// How long a guard's end may wait for its release.
    pub release_timeout: Duration,
    /// Whether a record with our identity is ours even if we did not write it.
    pub reclaim_own_identity: bool,
}

/// A rule of the configuration that is violated: which field, its value, and the rule.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Error, LeaderElector};
///
/// let refused = LeaderElector::builder("jobs").renew_deadline(Duration::from_secs(20)).settings();
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

impl Default for Config {
    fn default() -> Self {
        Self {
            identity: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            renew_interval: None,
            release_timeout: None,
            reclaim_own_identity: false,
            only_leasehold: false,
        }
    }
}

impl Config {
    /// Checks every rule and fills in every default.
    pub(crate) fn validate(&self) -> Result<Settings, ConfigError> {
        let &Self { lease_duration, renew_deadline, retry_period, .. } = self;
        let renew_interval = self.renew_interval.unwrap_or(retry_period.min(renew_deadline / 2));
        let release_timeout = self.release_timeout.unwrap_or(retry_period);
        for (field, value) in [
            ("lease_duration", lease_duration),
            ("renew_deadline", renew_deadline),
            ("retry_period", retry_period),
            ("renew_interval", renew_interval),
            ("release_timeout", release_timeout),
        ] {
            require(value >= SHORTEST, field, show(value), "it must be at least 1ms")?;
        }
        let longest = Duration::from_secs(i32::MAX as u64);
        require(
            lease_duration <= longest,
            "lease_duration",
            show(lease_duration),
            "it must fit in 31 bits of seconds",
        )?;
        require(
            renew_deadline < lease_duration,
            "renew_deadline",
            show(renew_deadline),
            format_args!("it must be less than lease_duration ({})", show(lease_duration)),
        )?;
        require(
            renew_deadline > retry_period.mul_f64(JITTER_FACTOR),
            "renew_deadline",
            show(renew_deadline),
            format_args!("it must be greater than {JITTER_FACTOR} times retry_period ({})", show(retry_period)),
        )?;
        require(
            renew_interval <= renew_deadline / 2,
            "renew_interval",
            show(renew_interval),
            format_args!(
                "it must be at most half of renew_deadline ({}), so that a failed renewal can be tried again",
                show(renew_deadline)
            ),
        )?;
        let lease_duration = Duration::from_secs(lease_duration.as_millis().div_ceil(1000) as u64);
        require(
            self.only_leasehold || renew_deadline + CLIENT_GO_GRANULARITY <= lease_duration,
            "renew_deadline",
            show(renew_deadline),
            format_args!(
                "it must be at least 1s less than the published lease_duration ({}), because client-go compares \
                 records in whole seconds; only_leasehold(true) lifts this where no candidate runs client-go",
                show(lease_duration)
            ),
        )?;
        let identity = self.identity.clone().unwrap_or_else(default_identity);
        require(!identity.is_empty(), "identity", format_args!("{identity:?}"), "it must not be empty")?;
        Ok(Settings {
            identity,
            lease_duration,
            renew_deadline,
            retry_period,
            renew_interval,
            release_timeout,
            reclaim_own_identity: self.reclaim_own_identity,
        })
    }
}

impl Settings {
    /// What goes into `leaseDurationSeconds`.
    pub(crate) fn published_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, value: impl fmt::Display, rule: impl fmt::Display) -> Self {
        Self { field, value: value.to_string(), rule: rule.to_string() }
    }

    /// The field, by the name of its setter.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.field, self.value, self.rule)
    }
}

impl std::error::Error for ConfigError {}

fn require(
    holds: bool,
    field: &'static str,
    value: impl fmt::Display,
    rule: impl fmt::Display,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(field, value, rule)) }
}

/// Checks the name of a Lease: a DNS-1123 subdomain, as the API server takes it.
pub(crate) fn check_name(name: &str) -> Result<(), ConfigError> {
    let valid = name.len() <= 253 && name.split('.').all(is_dns_label_of_any_length);
    require(
        valid,
        "name",
        format_args!("{name:?}"),
        "a Lease's name must be a DNS-1123 subdomain: at most 253 lower case letters, digits, '-' and '.', \
         each part beginning and ending with a letter or digit",
    )
}

/// Checks a namespace: a DNS-1123 label, as the API server takes it.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), ConfigError> {
    require(
        namespace.len() <= 63 && is_dns_label_of_any_length(namespace),
        "namespace",
        format_args!("{namespace:?}"),
        "a namespace must be a DNS-1123 label: at most 63 lower case letters, digits and '-', \
         beginning and ending with a letter or digit",
    )
}

fn is_dns_label_of_any_length(label: &str) -> bool {
    let bytes = label.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

/// The host's name, which in a pod is the pod's, and random bits: two processes must never share an identity.
fn default_identity() -> String {
    format!("{}_{:016x}", host_name(), random_seed())
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".into())
}

/// 64 bits that no other process has: the standard library keys its hash maps from the system's random source.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.validate().expect_err("a violated rule").to_string()
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_defaults_are_those_of_client_go() {
        let settings = Config::default().validate().unwrap();
        assert_eq!(settings.lease_duration, secs(15));
        assert_eq!(settings.renew_deadline, secs(10));
        assert_eq!(settings.retry_period, secs(2));
        assert_eq!(settings.renew_interval, secs(2));
        assert_eq!(settings.release_timeout, secs(2));
    }

    #[test]
    fn each_violated_rule_names_the_field_the_value_and_the_rule() {
        assert_eq!(
            rule(|config| config.renew_deadline = secs(15)),
            "renew_deadline is 15s: it must be less than lease_duration (15s)"
        );
        assert_eq!(
            rule(|config| config.retry_period = secs(9)),
            "renew_deadline is 10s: it must be greater than 1.2 times retry_period (9s)"
        );
        assert!(rule(|config| config.lease_duration = Duration::ZERO).starts_with("lease_duration is 0s: "));
        assert!(rule(|config| config.renew_deadline = Duration::ZERO).starts_with("renew_deadline is 0s: "));
        assert!(rule(|config| config.retry_period = Duration::ZERO).starts_with("retry_period is 0s: "));
        assert!(rule(|config| config.release_timeout = Some(Duration::ZERO)).starts_with("release_timeout is 0s: "));
        assert!(rule(|config| config.lease_duration = secs(1 << 31)).contains("31 bits"));
        assert!(rule(|config| config.renew_interval = Some(secs(6))).contains("at most half of renew_deadline (10s)"));
        assert_eq!(rule(|config| config.identity = Some("".into())), r#"identity is "": it must not be empty"#);
    }

    #[test]
    fn client_go_beside_us_needs_a_second_between_deadline_and_duration() {
        let tight = |config: &mut Config| {
            config.lease_duration = secs(3);
            config.renew_deadline = Duration::from_millis(2500);
            config.retry_period = Duration::from_millis(500);
        };
        assert!(rule(tight).contains("only_leasehold(true)"));
        let mut alone = Config { only_leasehold: true, ..Config::default() };
        tight(&mut alone);
        assert!(alone.validate().is_ok());
    }

    #[test]
    fn the_published_duration_is_rounded_up() {
        let config = Config {
            lease_duration: Duration::from_millis(2100),
            renew_deadline: secs(2),
            retry_period: Duration::from_millis(200),
            ..Config::default()
        };
        let settings = config.validate().unwrap();
        assert_eq!(settings.lease_duration, secs(3));
        assert_eq!(settings.published_seconds(), 3);
    }

    #[test]
    fn names_are_what_the_api_server_takes() {
        for good in ["a", "my-controller", "a.b-c.d", "0", &"x".repeat(253)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "ä", "a b", &"x".repeat(254)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_namespace(&"x".repeat(63)).is_ok());
        for bad in ["", "a.b", &"x".repeat(64)] {
            assert!(check_namespace(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn default_identities_differ() {
        assert_ne!(default_identity(), default_identity());
    }
}
