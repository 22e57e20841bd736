//! The configuration of an election, and its rules.

use std::time::Duration;

use humantime::format_duration as show;

use crate::util::config_error::{ConfigError, random_seed, require};

/// The longest retry delay as a multiple of `retry_period`, as in client-go (`JitterFactor`).
pub(crate) const JITTER_FACTOR: f64 = 1.2;

/// The time resolution of client-go, which may miss a renewal within the same second.
const CLIENT_GO_GRANULARITY: Duration = Duration::from_secs(1);

const SHORTEST: Duration = Duration::from_millis(1);

/// The limit of every duration: 68 years, the largest value of `leaseDurationSeconds`.
///
/// A sum of such durations does not overflow a clock.
const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

/// The longest identity and the longest address in bytes. The limit keeps log lines short.
const LONGEST_TEXT: usize = 1024;

/// The unchecked configuration.
///
/// A value that is `None` is derived from the other values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    pub(crate) identity: Option<String>,
    pub(crate) lease_duration: Option<Duration>,
    pub(crate) renew_deadline: Option<Duration>,
    pub(crate) retry_period: Option<Duration>,
    pub(crate) renew_interval: Option<Duration>,
    pub(crate) release_timeout: Option<Duration>,
    pub(crate) progress_timeout: Option<Duration>,
    pub(crate) probe_timeout: Option<Duration>,
    pub(crate) drain_timeout: Option<Duration>,
    pub(crate) hold_back: Duration,
    pub(crate) address: Option<String>,
    pub(crate) accepts_requests: bool,
    pub(crate) shards: Option<u32>,
    /// The largest number of shards of one member, if the record is a slot of a group with such a limit.
    pub(crate) max_shards: Option<u32>,
    pub(crate) is_probed: bool,
    pub(crate) has_fitness: bool,
    pub(crate) reclaim_own_identity: bool,
    pub(crate) no_client_go_peers: bool,
}

/// The checked settings of an election, including all defaults.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::LeaderElector;
///
/// let settings = LeaderElector::builder("jobs").renew_deadline(Duration::from_secs(20)).validate()?;
/// assert_eq!(settings.lease_duration, Duration::from_secs(30));
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The identity of this candidate.
    pub identity: String,
    /// The lease duration in the record, in whole seconds.
    pub lease_duration: Duration,
    /// The validity of a term, counted from the moment before its last successful write was sent.
    pub renew_deadline: Duration,
    /// The delay between retries, and between polls.
    pub retry_period: Duration,
    /// The interval of renewals.
    pub renew_interval: Duration,
    /// The longest time that the drop of a guard waits for the release.
    pub release_timeout: Duration,
    /// The longest time without progress of the work. `None` for no limit.
    pub progress_timeout: Option<Duration>,
    /// The time after the last `true` of the probe at which the candidate becomes unfit.
    pub probe_timeout: Duration,
    /// The longest time for which the lease of an ended term is renewed while its guard exists.
    ///
    /// If `None`, the limit is the renew deadline after a request, after the candidate became unfit, or after its work
    /// panicked. After a call of `step_down`, `None` means no limit.
    pub drain_timeout: Option<Duration>,
    /// The time that this candidate leaves a free or expired lease to other candidates.
    pub hold_back: Duration,
    /// The address that this candidate advertises while it holds the lease.
    pub address: Option<String>,
    /// `true` if this candidate accepts requests to step down.
    pub accepts_requests: bool,
    /// The number of shards of the group, if the record is a slot of a group.
    pub(crate) shards: Option<u32>,
    /// The largest number of shards of one member, if the record is a slot of a group with such a limit.
    pub(crate) max_shards: Option<u32>,
    /// `true` if a probe reports whether this candidate is fit.
    pub(crate) is_probed: bool,
    /// `true` if the program reports whether this candidate is fit.
    pub(crate) has_fitness: bool,
    /// `true` if the elector may reclaim a record with its own identity before the expiry.
    pub reclaim_own_identity: bool,
    /// `true` if a release keeps the lease duration in the record.
    pub(crate) release_keeps_duration: bool,
}

impl Config {
    /// Returns an error if a duration is too short or too long by itself.
    fn require_valid_durations(&self) -> Result<(), ConfigError> {
        let optional = [
            ("lease_duration", self.lease_duration, SHORTEST),
            ("renew_deadline", self.renew_deadline, SHORTEST),
            ("retry_period", self.retry_period, SHORTEST),
            ("renew_interval", self.renew_interval, SHORTEST),
            ("release_timeout", self.release_timeout, SHORTEST),
            ("progress_timeout", self.progress_timeout, SHORTEST),
            ("probe_timeout", self.probe_timeout, SHORTEST),
            ("drain_timeout", self.drain_timeout, Duration::ZERO),
        ];
        for (field, chosen, shortest) in optional {
            let Some(value) = chosen else { continue };
            require(value >= shortest, field, show(value), "must be at least 1ms")?;
            require(value <= LONGEST, field, show(value), "must fit in 31 bits of seconds")?;
        }
        Ok(())
    }

    /// Checks every rule and returns the settings with all defaults.
    pub(crate) fn validate(&self) -> Result<Settings, ConfigError> {
        self.require_valid_durations()?;
        let [lease_duration, renew_deadline, retry_period] = self.durations()?;
        let renew_interval = self.renew_interval.unwrap_or(retry_period.min(renew_deadline / 2).max(SHORTEST));
        let release_timeout = self.release_timeout.unwrap_or(retry_period);
        let shown = |value: Duration, chosen: Option<Duration>| {
            let origin = if chosen.is_some() { "" } else { ", derived from the other settings" };
            format!("{}{origin}", show(value))
        };
        let deadline = shown(renew_deadline, self.renew_deadline);
        let retry = format!("retry_period ({})", shown(retry_period, self.retry_period));
        let lease = shown(lease_duration, self.lease_duration);
        let rule = format_args!("must be less than lease_duration ({lease})");
        require(renew_deadline < lease_duration, "renew_deadline", &deadline, rule)?;
        let rule = format_args!("must be greater than {JITTER_FACTOR} times {retry}");
        require(renew_deadline > retry_period.mul_f64(JITTER_FACTOR), "renew_deadline", &deadline, rule)?;
        let rule = format_args!(
            "must be at most half of renew_deadline ({deadline}), so that a failed renewal can be retried"
        );
        require(renew_interval <= renew_deadline / 2, "renew_interval", show(renew_interval), rule)?;
        if let Some(within) = self.progress_timeout {
            let rule = format_args!("must be at least {retry}");
            require(within >= retry_period, "progress_timeout", show(within), rule)?;
        }
        if let Some(timeout) = self.probe_timeout {
            let rule = format_args!("must be greater than {retry}, the interval of the probe");
            require(timeout > retry_period, "probe_timeout", show(timeout), rule)?;
        }
        let lease_duration = whole_seconds(lease_duration);
        let lease = shown(lease_duration, self.lease_duration);
        let rule = format_args!(
            "must be at most half of lease_duration ({lease}), so that a request to step down moves the lease"
        );
        require(self.hold_back <= lease_duration / 2, "hold_back", show(self.hold_back), rule)?;
        let rule = format_args!(
            "must be at least 1s less than the published lease_duration ({lease}), because client-go compares records in \
             whole seconds; if no candidate runs client-go, no_client_go_peers(true) removes this rule"
        );
        let suits_client_go = renew_deadline + CLIENT_GO_GRANULARITY <= lease_duration;
        require(self.no_client_go_peers || suits_client_go, "renew_deadline", &deadline, rule)?;
        let identity = self.identity.clone().unwrap_or_else(default_identity);
        require_text("identity", &identity)?;
        self.address.as_ref().map_or(Ok(()), |address| require_text("advertise", address))?;
        Ok(Settings {
            identity,
            lease_duration,
            renew_deadline,
            retry_period,
            renew_interval,
            release_timeout,
            progress_timeout: self.progress_timeout,
            probe_timeout: self.probe_timeout.unwrap_or(renew_deadline),
            drain_timeout: self.drain_timeout,
            hold_back: self.hold_back,
            address: self.address.clone(),
            accepts_requests: self.accepts_requests,
            shards: self.shards,
            max_shards: self.max_shards,
            is_probed: self.is_probed,
            has_fitness: self.has_fitness,
            reclaim_own_identity: self.reclaim_own_identity,
            release_keeps_duration: false,
        })
    }

    /// Returns the lease duration, the renew deadline and the retry period.
    ///
    /// Missing values are derived from the other values in client-go's proportions of 15 : 10 : 2. The derived values
    /// keep the distance of one second that client-go needs.
    fn durations(&self) -> Result<[Duration; 3], ConfigError> {
        let spare = if self.no_client_go_peers { Duration::ZERO } else { CLIENT_GO_GRANULARITY };
        let deadline_of = |lease: Duration| (lease * 2 / 3).min(whole_seconds(lease).saturating_sub(spare));
        let lease_of = |deadline: Duration| (deadline * 3 / 2).max(deadline + spare).min(LONGEST);
        let (lease_duration, renew_deadline) = match (self.lease_duration, self.renew_deadline, self.retry_period) {
            (Some(lease), Some(deadline), _) => (lease, deadline),
            (Some(lease), None, _) => {
                let rule = "must be greater than 1s, because client-go compares records in whole seconds; \
                            if no candidate runs client-go, no_client_go_peers(true) removes this rule";
                require(whole_seconds(lease) > spare, "lease_duration", show(lease), rule)?;
                (lease, deadline_of(lease))
            }
            (None, Some(deadline), _) => (lease_of(deadline), deadline),
            (None, None, Some(retry)) => {
                let deadline = retry * 5;
                (lease_of(deadline), deadline)
            }
            (None, None, None) => (Duration::from_secs(15), Duration::from_secs(10)),
        };
        let retry_period = self.retry_period.unwrap_or((renew_deadline / 5).max(SHORTEST));
        Ok([lease_duration, renew_deadline, retry_period])
    }
}

/// Checks a text that other candidates and operators read.
fn require_text(field: &'static str, text: &str) -> Result<(), ConfigError> {
    require(!text.trim().is_empty(), field, format_args!("{text:?}"), "must not be blank")?;
    require(
        text.len() <= LONGEST_TEXT && !text.contains(char::is_control),
        field,
        format_args!("{:?} ({} bytes)", text.chars().take(64).collect::<String>(), text.len()),
        format_args!("must have at most {LONGEST_TEXT} bytes and no control characters such as line breaks"),
    )
}

/// Returns a duration rounded up to whole seconds, as published in the record and its notes.
///
/// Standbys wait for the published lease duration, so rounding down could end their wait too early.
pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).min(LONGEST)
}

impl Settings {
    /// Returns `true` if a probe or the program reports whether the candidate is fit.
    pub(crate) fn has_fitness_source(&self) -> bool {
        self.is_probed || self.has_fitness
    }

    /// Returns the value of `leaseDurationSeconds`.
    pub(crate) fn published_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}

/// Returns the host name with random bits. In a pod, the host name is the name of the pod.
///
/// The random bits are needed because two processes must not share an identity.
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
    fn each_rule_holds_up_to_its_limit() {
        type Field<'a> = (&'a str, fn(&mut Config, Duration), &'a [(Duration, Duration)]);
        const NANO: Duration = Duration::from_nanos(1);
        // Each field, its setter, and pairs of the last accepted and the first refused value. The other durations are
        // the defaults of 15 s, 10 s and 2 s, unless the setter changes them.
        let fields: [Field<'_>; 9] = [
            ("lease_duration", |it, value| it.lease_duration = Some(value), &[(LONGEST, LONGEST + NANO)]),
            (
                "renew_deadline",
                |it, value| (it.renew_deadline, it.lease_duration) = (Some(value), Some(secs(15))),
                &[(secs(14), secs(14) + NANO)],
            ),
            (
                "renew_deadline",
                |it, value| (it.renew_deadline, it.retry_period) = (Some(value), Some(Duration::from_millis(2_500))),
                &[(secs(3) + NANO, secs(3))],
            ),
            (
                "renew_interval",
                |it, value| it.renew_interval = Some(value),
                &[(SHORTEST, Duration::ZERO), (secs(5), secs(5) + NANO)],
            ),
            (
                "release_timeout",
                |it, value| it.release_timeout = Some(value),
                &[(SHORTEST, SHORTEST - NANO), (LONGEST, LONGEST + NANO)],
            ),
            (
                "progress_timeout",
                |it, value| it.progress_timeout = Some(value),
                &[(secs(2), secs(2) - NANO), (LONGEST, Duration::MAX)],
            ),
            (
                "probe_timeout",
                |it, value| it.probe_timeout = Some(value),
                &[(secs(2) + NANO, secs(2)), (LONGEST, LONGEST + NANO)],
            ),
            (
                "hold_back",
                |it, value| it.hold_back = value,
                &[(Duration::from_millis(7_500), Duration::from_millis(7_500) + NANO)],
            ),
            ("drain_timeout", |it, value| it.drain_timeout = Some(value), &[(LONGEST, LONGEST + NANO)]),
        ];
        for (field, set, limits) in fields {
            for (accepted, refused) in limits {
                let with = |value| {
                    let mut config = Config::default();
                    set(&mut config, value);
                    config.validate()
                };
                assert!(with(*accepted).is_ok(), "{field} {accepted:?}");
                let error = with(*refused).expect_err(field).to_string();
                assert!(error.starts_with(&format!("{field} is ")), "{error}");
            }
        }
        let seldom = Config { retry_period: Some(secs(8)), renew_deadline: Some(secs(10)), ..Config::default() };
        assert_eq!(seldom.validate().unwrap().renew_interval, secs(5));
    }

    #[test]
    fn unset_durations_follow_in_client_go_proportions() {
        let derived = |lease: Option<u64>, deadline: Option<u64>, retry: Option<u64>| {
            let config = Config {
                lease_duration: lease.map(Duration::from_millis),
                renew_deadline: deadline.map(Duration::from_millis),
                retry_period: retry.map(Duration::from_millis),
                ..Config::default()
            };
            let Settings { lease_duration, renew_deadline, retry_period, .. } = config.validate().unwrap();
            (lease_duration.as_millis(), renew_deadline.as_millis(), retry_period.as_millis())
        };
        assert_eq!(derived(Some(30_000), None, None), (30_000, 20_000, 4_000));
        assert_eq!(derived(Some(5_000), None, None), (5_000, 3_333, 666));
        assert_eq!(derived(None, Some(20_000), None), (30_000, 20_000, 4_000));
        assert_eq!(derived(None, None, Some(1_000)), (8_000, 5_000, 1_000), "7.5 s, published as 8");
        assert_eq!(derived(Some(30_000), None, Some(1_000)), (30_000, 20_000, 1_000));
        assert_eq!(derived(Some(60_000), Some(50_000), None), (60_000, 50_000, 10_000));
        assert_eq!(derived(None, Some(3_000), Some(100)), (5_000, 3_000, 100));
        // If the proportions leave less than one second, the derived values keep the second that client-go needs.
        assert_eq!(derived(Some(2_000), None, None), (2_000, 1_000, 200));
        assert_eq!(derived(None, Some(1_500), None), (3_000, 1_500, 300));
        assert_eq!(derived(None, Some(1_200), None), (3_000, 1_200, 240));
        assert!(rule(|config| config.lease_duration = Some(secs(1))).starts_with("lease_duration is 1s: "));
        let alone = Config { lease_duration: Some(secs(1)), no_client_go_peers: true, ..Config::default() };
        assert_eq!(alone.validate().unwrap().renew_deadline.as_millis(), 666);
    }

    #[test]
    fn each_violated_rule_names_the_field_the_value_and_the_rule() {
        let [lease_15, deadline_15, deadline_10, retry_9] = [15, 15, 10, 9].map(|seconds| Some(secs(seconds)));
        for (lease_duration, renew_deadline, retry_period, expected) in [
            (lease_15, deadline_15, None, "15s: must be less than lease_duration (15s)"),
            (None, deadline_10, retry_9, "10s: must be greater than 1.2 times retry_period (9s)"),
            (
                lease_15,
                None,
                retry_9,
                "10s, derived from the other settings: must be greater than 1.2 times retry_period (9s)",
            ),
        ] {
            let config = Config { lease_duration, renew_deadline, retry_period, ..Config::default() };
            assert_eq!(config.validate().unwrap_err().to_string(), format!("renew_deadline is {expected}"));
        }
        assert!(rule(|config| config.lease_duration = Some(secs(1 << 31))).contains("31 bits"));
        assert!(rule(|config| config.renew_interval = Some(secs(6))).contains("at most half of renew_deadline (10s"));
        assert_eq!(rule(|config| config.identity = Some("".into())), r#"identity is "": must not be blank"#);
        let identity = |identity: &str| Config { identity: Some(identity.to_owned()), ..Config::default() }.validate();
        for odd in ["two\nlines", "a\tb", "\u{7f}", "\u{9b}", &"x".repeat(1_025), &"ä".repeat(513)] {
            let error = identity(odd).expect_err(odd).to_string();
            let rule = ": must have at most 1024 bytes and no control characters such as line breaks";
            assert!(error.starts_with("identity is \"") && error.ends_with(rule) && error.len() < 400, "{error}");
        }
        assert!(identity("日本 🙂 pod-7@10.0.3.7:9000").is_ok() && identity(&"ä".repeat(512)).is_ok());
    }

    #[test]
    fn client_go_peers_need_a_second_between_deadline_and_duration() {
        let tight = |config: &mut Config| {
            config.lease_duration = Some(secs(3));
            config.renew_deadline = Some(Duration::from_millis(2500));
            config.retry_period = Some(Duration::from_millis(500));
        };
        assert!(rule(tight).contains("no_client_go_peers(true)"));
        let mut alone = Config { no_client_go_peers: true, ..Config::default() };
        tight(&mut alone);
        assert!(alone.validate().is_ok());
    }

    #[test]
    fn published_duration_is_rounded_up_from_the_last_nanosecond() {
        for (lease, published_seconds) in [
            (Duration::from_millis(2100), 3),
            (Duration::from_micros(2_000_999), 3),
            (Duration::from_nanos(2_000_000_001), 3),
            (secs(2), 2),
        ] {
            let config = Config {
                lease_duration: Some(lease),
                renew_deadline: Some(Duration::from_nanos(1_999_999_999)),
                retry_period: Some(Duration::from_millis(200)),
                no_client_go_peers: true,
                ..Config::default()
            };
            let settings = config.validate().unwrap();
            assert_eq!(settings.lease_duration, secs(published_seconds));
            assert_eq!(settings.published_seconds(), published_seconds as i32);
        }
    }

    /// Every configuration is either refused or gives settings that keep all rules.
    #[test]
    fn accepted_settings_keep_every_rule_to_the_nanosecond() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut accepted = 0;
        for _ in 0..200_000 {
            let scale = 10_u64.pow(random.u32(6..12));
            let mut any = || match random.u8(..40) {
                0 => Some(Duration::MAX),
                1 => Some(LONGEST),
                2 => Some(LONGEST - Duration::from_nanos(1)),
                3 => Some(SHORTEST),
                4 => Some(Duration::ZERO),
                5..=9 => None,
                // Durations close to two seconds test the rounding to whole seconds.
                10..=19 => Some(secs(2) + Duration::from_nanos(random.u64(..2_000)) - Duration::from_nanos(1_000)),
                _ => Some(Duration::from_nanos(random.u64(..scale * 10))),
            };
            let (lease_duration, renew_deadline, retry_period) = (any(), any(), any());
            let (renew_interval, release_timeout) = (any(), any());
            let config = Config {
                lease_duration,
                renew_deadline,
                retry_period,
                renew_interval,
                release_timeout,
                no_client_go_peers: random.bool(),
                ..Config::default()
            };
            let Ok(settings) = config.validate() else { continue };
            accepted += 1;
            assert_eq!(settings.lease_duration.subsec_nanos(), 0, "{config:?}");
            assert_eq!(u64::from(settings.published_seconds().unsigned_abs()), settings.lease_duration.as_secs());
            assert!(settings.renew_deadline < settings.lease_duration, "{config:?}");
            assert!(
                config.no_client_go_peers || settings.renew_deadline + CLIENT_GO_GRANULARITY <= settings.lease_duration,
                "{config:?}"
            );
            assert!(settings.retry_period.mul_f64(JITTER_FACTOR) < settings.renew_deadline, "{config:?}");
            assert!(settings.renew_interval <= settings.renew_deadline / 2, "{config:?}");
            for (chosen, used) in [
                (renew_deadline, settings.renew_deadline),
                (retry_period, settings.retry_period),
                (renew_interval, settings.renew_interval),
                (release_timeout, settings.release_timeout),
            ] {
                assert!(chosen.is_none_or(|chosen| chosen == used), "{config:?}");
                assert!((SHORTEST..=LONGEST).contains(&used), "{config:?}");
            }
        }
        assert!(accepted > 1_000, "{accepted}");
    }

    #[test]
    fn default_identities_differ() {
        assert_ne!(default_identity(), default_identity());
    }
}
