//! Leader election settings in the form of Kubernetes components: a file section and flags.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::backends::kubernetes::resource_lock::ResourceLock;
use crate::elector::builder::LeaderElectorBuilder;
use crate::elector::go_duration;
use crate::elector::leader_elector::LeaderElector;
use crate::util::config_error::ConfigError;

/// The leader election section of a Kubernetes component's configuration.
///
/// The fields have the names, defaults and duration syntax (`15s`, `1m30s`) of Kubernetes'
/// [`LeaderElectionConfiguration`].
///
/// Serde reads the type from any format, such as YAML or JSON. An unknown field is an error. A duration that is absent
/// or zero has its default; unlike in [`LeaderElectorBuilder`], the default does not follow from the other durations.
/// The name of the object has no default.
///
/// [`set`](Self::set) applies a flag and overrides the file. [`builder`](Self::builder) creates a builder, whose
/// [`validate`](LeaderElectorBuilder::validate) checks the configuration without starting an elector.
///
/// [`LeaderElectionConfiguration`]: https://pkg.go.dev/k8s.io/component-base/config/v1alpha1#LeaderElectionConfiguration
///
/// # Examples
///
/// In a configuration file of the program:
///
/// ```
/// use leasehold::client_go::LeaderElectionConfig;
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Config {
///     leader_election: LeaderElectionConfig,
/// }
///
/// let text = r#"{ "leaderElection": { "resourceName": "jobs", "leaseDuration": "30s", "renewDeadline": "20s" } }"#;
/// let config: Config = serde_json::from_str(text)?;
/// assert_eq!(config.leader_election.retry_period.as_secs(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// With flags, from any argument parser:
///
/// ```
/// use leasehold::client_go::LeaderElectionConfig;
///
/// let mut config = LeaderElectionConfig::default();
/// for argument in ["--leader-elect-resource-name=jobs", "--leader-elect-lease-duration=1m"] {
///     let (flag, value) = argument.trim_start_matches("--").split_once('=').expect("a flag with a value");
///     config.set(flag, value)?;
/// }
/// assert_eq!(config.lease_duration.as_secs(), 60);
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LeaderElectionConfig {
    /// `true` to elect a leader before work begins. Defaults to `true`.
    ///
    /// If the field is `false`, the program must start its work without an election.
    #[serde(deserialize_with = "true_if_null")]
    pub leader_elect: bool,
    /// The [lease duration](LeaderElectorBuilder::lease_duration). Defaults to 15 s.
    #[serde(deserialize_with = "duration")]
    pub lease_duration: Duration,
    /// The [renew deadline](LeaderElectorBuilder::renew_deadline). Defaults to 10 s.
    #[serde(deserialize_with = "duration")]
    pub renew_deadline: Duration,
    /// The [retry period](LeaderElectorBuilder::retry_period). Defaults to 2 s.
    #[serde(deserialize_with = "duration")]
    pub retry_period: Duration,
    /// The [delay](LeaderElectorBuilder::hold_back) of a takeover. Defaults to 0.
    ///
    /// Kubernetes components have no such field.
    #[serde(deserialize_with = "duration")]
    pub hold_back: Duration,
    /// The kind of object that holds the record. Defaults to Leases.
    #[serde(deserialize_with = "default_if_null")]
    pub resource_lock: ResourceLock,
    /// The name of the object.
    #[serde(deserialize_with = "default_if_null")]
    pub resource_name: String,
    /// The namespace of the object. If empty, the namespace of the client applies.
    #[serde(deserialize_with = "default_if_null")]
    pub resource_namespace: String,
}

/// A command-line flag of [`LeaderElectionConfig::FLAGS`].
///
/// # Examples
///
/// ```
/// use leasehold::client_go::LeaderElectionConfig;
///
/// let [flag, ..] = LeaderElectionConfig::FLAGS;
/// assert_eq!((flag.name, flag.value), ("leader-elect", "BOOL"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderElectionFlag {
    /// The name, without the two dashes.
    pub name: &'static str,
    /// The placeholder of the value, such as `DURATION`.
    pub value: &'static str,
    /// The help text, in one line.
    pub help: &'static str,
}

impl Default for LeaderElectionConfig {
    fn default() -> Self {
        Self {
            leader_elect: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            hold_back: Duration::ZERO,
            resource_lock: ResourceLock::default(),
            resource_name: String::new(),
            resource_namespace: String::new(),
        }
    }
}

impl LeaderElectionConfig {
    /// The flags of Kubernetes components, for use with an argument parser.
    ///
    /// [`set`](Self::set) applies the value of a flag.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::client_go::LeaderElectionConfig;
    ///
    /// for flag in LeaderElectionConfig::FLAGS {
    ///     println!("--{} {}    {}", flag.name, flag.value, flag.help);
    /// }
    /// ```
    pub const FLAGS: [LeaderElectionFlag; 8] = [
        flag("leader-elect", "BOOL", "Elect a leader before work begins [default: true]"),
        time("leader-elect-lease-duration", "Time after the last renewal until a standby takes over [default: 15s]"),
        time("leader-elect-renew-deadline", "Time without a renewal until the leader stops leading [default: 10s]"),
        time("leader-elect-retry-period", "Time between attempts to acquire or to renew [default: 2s]"),
        time("leader-elect-hold-back", "Time to leave a free lease to other candidates [default: 0s]"),
        flag(
            "leader-elect-resource-lock",
            "KIND",
            "leases|configmaps|endpoints|configmapsleases|endpointsleases [default: leases]",
        ),
        flag("leader-elect-resource-name", "NAME", "Name of the object"),
        flag(
            "leader-elect-resource-namespace",
            "NAMESPACE",
            "Namespace of the object [default: from the cluster's configuration]",
        ),
    ];

    /// Sets a field from the value of a flag, whose name has no leading dashes.
    ///
    /// Underscores in the name count as dashes.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::client_go::LeaderElectionConfig;
    ///
    /// let mut config = LeaderElectionConfig::default();
    /// config.set("leader-elect-retry-period", "3s")?;
    /// assert_eq!(config.retry_period.as_secs(), 3);
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`ConfigError`] with the name of the flag if the flag is unknown, or if the value is invalid for the
    ///   flag.
    pub fn set(&mut self, flag: &str, value: &str) -> Result<(), ConfigError> {
        // Kubernetes components accept dashes and underscores.
        let flag = flag.replace('_', "-");
        let Some(LeaderElectionFlag { name, .. }) = Self::FLAGS.iter().find(|known| known.name == flag) else {
            return Err(ConfigError::new("flag", format_args!("--{flag}"), "unknown flag of leader election"));
        };
        let refuse = |rule: &str| ConfigError::new(name, format_args!("{value:?}"), rule);
        let duration = || go_duration::parse(value).map_err(refuse);
        match *name {
            "leader-elect" => self.leader_elect = truth(value).ok_or_else(|| refuse("must be true or false"))?,
            "leader-elect-lease-duration" => self.lease_duration = duration()?,
            "leader-elect-renew-deadline" => self.renew_deadline = duration()?,
            "leader-elect-retry-period" => self.retry_period = duration()?,
            "leader-elect-hold-back" => self.hold_back = duration()?,
            "leader-elect-resource-lock" => {
                self.resource_lock = value.parse().map_err(|error: ConfigError| refuse(error.rule()))?
            }
            "leader-elect-resource-name" => value.clone_into(&mut self.resource_name),
            _ => value.clone_into(&mut self.resource_namespace),
        }
        Ok(())
    }

    /// Returns a builder with the object and the durations of this configuration.
    ///
    /// The builder accepts further settings before [`start_with_client`](LeaderElectorBuilder::start_with_client). The
    /// builder ignores [`leader_elect`](Self::leader_elect), which the caller must check.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::client_go::LeaderElectionConfig;
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// let mut config = LeaderElectionConfig::default();
    /// config.resource_name = "my-controller".to_owned();
    /// let elector = config.builder().identity("pod-1").start_with_client(Client::new(ClientConfig::infer()?)?)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn builder(&self) -> LeaderElectorBuilder {
        let default = Self::default();
        let chosen = |duration: Duration, default| if duration.is_zero() { default } else { duration };
        let builder = LeaderElector::builder(&self.resource_name)
            .lease_duration(chosen(self.lease_duration, default.lease_duration))
            .renew_deadline(chosen(self.renew_deadline, default.renew_deadline))
            .retry_period(chosen(self.retry_period, default.retry_period))
            .hold_back(self.hold_back)
            .resource_lock(self.resource_lock);
        match self.resource_namespace.as_str() {
            "" => builder,
            namespace => builder.namespace(namespace),
        }
    }
}

const fn flag(name: &'static str, value: &'static str, help: &'static str) -> LeaderElectionFlag {
    LeaderElectionFlag { name, value, help }
}

const fn time(name: &'static str, help: &'static str) -> LeaderElectionFlag {
    flag(name, "DURATION", help)
}

/// Reads `null` like an absent field, as Go does.
fn default_if_null<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn true_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::deserialize(deserializer).map(|chosen| chosen.unwrap_or(true))
}

/// Parses a boolean like Go's `strconv.ParseBool`.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Reads a duration in Go's syntax.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    go_duration::parse(&text).map_err(|rule| D::Error::custom(format_args!("{text:?}: {rule}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LeaderElectionConfig, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn absent_or_zero_value_is_the_default() {
        assert_eq!(read("{}").unwrap(), LeaderElectionConfig::default());
        let zero =
            read(r#"{"leaseDuration":"0s","renewDeadline":"0s","retryPeriod":"0s","resourceName":"x"}"#).unwrap();
        let settings = zero.builder().validate().unwrap();
        assert_eq!(settings.lease_duration, Duration::from_secs(15));
        assert_eq!(settings.renew_deadline, Duration::from_secs(10));
        assert_eq!(settings.retry_period, Duration::from_secs(2));
    }

    #[test]
    fn every_field_is_read() {
        let text = r#"{"leaderElect":false,"leaseDuration":"1m30s","renewDeadline":"1m0s","retryPeriod":"1.5s","holdBack":"300ms","resourceLock":"endpoints","resourceName":"jobs","resourceNamespace":"shop"}"#;
        let config = read(text).unwrap();
        assert!(!config.leader_elect);
        assert_eq!(config.lease_duration, Duration::from_secs(90));
        assert_eq!(config.retry_period, Duration::from_millis(1500));
        assert_eq!(config.resource_lock, ResourceLock::Endpoints);
        assert_eq!((config.resource_name.as_str(), config.resource_namespace.as_str()), ("jobs", "shop"));
        assert_eq!((config.renew_deadline, config.hold_back), (Duration::from_secs(60), Duration::from_millis(300)));
    }

    #[test]
    fn unknown_field_is_refused_and_named() {
        for (text, named) in [
            (r#"{"leaseduration":"15s"}"#, "leaseduration"),
            (r#"{"leaseDuration":15}"#, "15"),
            (r#"{"leaseDuration":"15"}"#, "unit"),
            (r#"{"leaseDuration":"-15s"}"#, "negative"),
            (r#"{"resourceLock":"pods"}"#, "pods"),
            (r#"{"leaderElect":"yes"}"#, "yes"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(named), "{error} should name {named}");
        }
    }

    #[test]
    fn a_null_is_absent() {
        let text = r#"{"leaderElect":null,"resourceLock":null,"resourceName":null,"resourceNamespace":null}"#;
        assert_eq!(read(text).unwrap(), LeaderElectionConfig::default());
    }

    #[test]
    fn each_flag_sets_a_field_of_its_own() {
        let mut config = LeaderElectionConfig::default();
        for (flag, value) in [
            ("leader-elect", "false"),
            ("leader_elect_lease_duration", "1m"),
            ("leader-elect-renew-deadline", "40s"),
            ("leader-elect-retry-period", "3s"),
            ("leader-elect-hold-back", "300ms"),
            ("leader-elect-resource-lock", "configmaps"),
            ("leader-elect-resource-name", "jobs"),
            ("leader-elect-resource-namespace", "shop"),
        ] {
            let before = config.clone();
            config.set(flag, value).unwrap();
            assert_ne!(config, before, "{flag}");
        }
        let expected = LeaderElectionConfig {
            leader_elect: false,
            lease_duration: Duration::from_secs(60),
            renew_deadline: Duration::from_secs(40),
            retry_period: Duration::from_secs(3),
            hold_back: Duration::from_millis(300),
            resource_lock: ResourceLock::ConfigMaps,
            resource_name: "jobs".to_owned(),
            resource_namespace: "shop".to_owned(),
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn truth_has_the_words_of_go() {
        for (words, expected) in [
            (&["1", "t", "T", "true", "TRUE", "True"][..], Some(true)),
            (&["0", "f", "F", "false", "FALSE", "False"], Some(false)),
            (&["", "tRUE", "yes", "no", "2"], None),
        ] {
            for word in words {
                assert_eq!(truth(word), expected, "{word}");
            }
        }
    }

    #[test]
    fn unknown_flag_or_value_is_refused_and_named() {
        for (flag, value) in [
            ("leader-elect", "yes"),
            ("leader-elect-lease-duration", "soon"),
            ("leader-elect-resource-lock", "pods"),
            ("lease-duration", "1s"),
        ] {
            let error = LeaderElectionConfig::default().set(flag, value).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
    }
}
