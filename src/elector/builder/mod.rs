//! The builder of an elector.

use std::panic::{RefUnwindSafe, UnwindSafe};

#[cfg(feature = "kubernetes")]
use crate::backends::kubernetes::resource_lock::ObjectChoice;
use crate::election::settings::{Config, Settings};
use crate::elector::leader_elector::{Asking, LeaderElector};
use crate::leadership::error::Error;
use crate::observe::observer::Observer;
use crate::store::Store;
use crate::store::entry::Entry;
use crate::util::config_error::{ConfigError, require};
use crate::util::debug_fields::debug_fields;
use crate::util::log_fields::{LogFields, log_with};
use crate::util::setters::setters;
use crate::util::sync::Arc;

mod election;
mod fitness;
#[cfg(feature = "kubernetes")]
mod object;

/// A builder for a [`LeaderElector`], created by [`LeaderElector::builder`].
///
/// | Setter | Default | Meaning |
/// | --- | --- | --- |
/// | [`lease_duration`](Self::lease_duration) | 15 s | time that standbys wait after the last renewal |
/// | [`renew_deadline`](Self::renew_deadline) | 10 s | time that a term stays valid without a renewal |
/// | [`retry_period`](Self::retry_period) | 2 s | delay between retries, and between polls without a watch |
/// | [`renew_interval`](Self::renew_interval) | retry period | time between renewals of a healthy leader |
/// | [`release_timeout`](Self::release_timeout) | retry period | time that dropping a guard may block |
/// | [`identity`](Self::identity) | host name and 64 random bits | unique name of the candidate |
/// | [`reclaim_own_identity`](Self::reclaim_own_identity) | `false` | take over a record with the own identity at once |
/// | [`hold_back`](Self::hold_back) | 0 | time that a free lease is left to other candidates |
/// | [`advertise`](Self::advertise) | none | address that other candidates receive |
/// | [`accept_requests`](Self::accept_requests) | `false` | whether an operator may ask this candidate to step down |
/// | [`no_client_go_peers`](Self::no_client_go_peers) | `false` | allow a renew deadline closer to the lease duration |
/// | [`progress_timeout`](Self::progress_timeout) | none | time that the work may go without reporting progress |
/// | [`fit_while`](Self::fit_while), [`fitness`](Self::fitness) | none | whether this candidate may lead |
/// | [`probe_timeout`](Self::probe_timeout) | renew deadline | time that a candidate stays fit after the probe returned `true` |
/// | [`drain_timeout`](Self::drain_timeout) | renew deadline; no limit after `step_down()` | time that the lease is kept while the work of an ended term finishes |
/// | [`observer`](Self::observer) | none | receives the events of the elector |
///
/// If only some of the first three durations are set, the others follow in client-go's proportions. The setting
/// `lease_duration(30 s)` alone gives 30 s, 20 s and 4 s. [`validate`](Self::validate) returns the effective settings.
///
/// These methods choose the store and start the elector:
///
/// - `start` finds the Kubernetes cluster, and `start_with_client` uses a client of the program (feature `kubernetes`).
/// - [`start_on`](Self::start_on) uses any [`Store`].
///
/// The methods for the Kubernetes object (`resource_lock`, `label`, `annotation`, `owner_reference`,
/// `events`) and [`namespace`](Self::namespace) apply to `start` and `start_with_client` only.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use leasehold::LeaderElector;
///
/// let builder = LeaderElector::builder("my-controller")
///     .namespace("jobs")
///     .identity(std::env::var("POD_NAME").unwrap_or_else(|_| "my-controller-0".into()))
///     .lease_duration(Duration::from_secs(30))
///     .renew_deadline(Duration::from_secs(20))
///     .retry_period(Duration::from_secs(2))
///     .renew_interval(Duration::from_secs(5))
///     .release_timeout(Duration::from_secs(1));
/// println!("{:?}", builder.validate()?);
/// let elector = builder.start()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing happens before `start`"]
pub struct LeaderElectorBuilder {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    #[cfg(feature = "kubernetes")]
    pub(crate) object: ObjectChoice,
    pub(crate) asking: Asking,
    pub(crate) config: Config,
}

impl LeaderElector {
    /// Returns a builder for an elector on the Lease `name`.
    ///
    /// Nothing happens until a `start` method is called. With a store other than Kubernetes, `name` is the key of the
    /// record.
    pub fn builder(name: impl Into<String>) -> LeaderElectorBuilder {
        LeaderElectorBuilder {
            name: name.into(),
            namespace: None,
            #[cfg(feature = "kubernetes")]
            object: ObjectChoice::default(),
            asking: Asking::default(),
            config: Config::default(),
        }
    }
}

setters! {
    impl LeaderElectorBuilder;

    /// Sets the namespace of the Lease.
    ///
    /// Defaults to the namespace of the kubeconfig context, then of the pod, then `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) { self.namespace = Some(namespace.into()) }

    /// Adds an observer that receives the events of the elector on its own thread.
    ///
    /// Several observers may be added, each with its own thread. Clones of the builder share the observers.
    ///
    /// Defaults to no observer.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::MemoryStore;
    /// use leasehold::{Event, LeaderElector};
    ///
    /// let audit = |event: &Event| match event {
    ///     Event::StartedLeading { fencing_token } => println!("started leading with token {fencing_token}"),
    ///     Event::StoppedLeading { reason } => println!("stopped leading: {reason}"),
    ///     _ => {}
    /// };
    /// let elector = LeaderElector::builder("jobs").observer(audit).start_on(MemoryStore::new())?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn observer(mut self, observer: impl Observer) { self.asking.observers.push(Arc::new(observer)) }
}

impl LeaderElectorBuilder {
    /// Validates the configuration and returns the effective settings.
    ///
    /// Does not check the name, because the rules for names depend on the store.
    ///
    /// # Errors
    ///
    /// - Returns [`ConfigError`] with the field, its value and the rule if a setting breaks a rule.
    pub fn validate(&self) -> Result<Settings, ConfigError> {
        self.config.validate()
    }

    /// Starts an elector on any store.
    ///
    /// The name of the builder is the key of the record. Several electors can share a store in an `Arc`. The method
    /// sends no request. The elector retries and logs if the store is unreachable.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::MemoryStore;
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if a setting breaks a rule.
    /// - Returns [`Error::Config`] if a [`namespace`](Self::namespace), a label, an annotation, an owner, events or a
    ///   kind of object is set, because they apply to [`start_with_client`](Self::start_with_client) only.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    pub fn start_on(self, store: impl Store) -> Result<LeaderElector, Error> {
        let settings = self.check_start_on()?;
        let entry = self.entry(store)?;
        check_notes(&settings, &entry)?;
        let fields = LogFields::new(entry.describe(), &settings.identity);
        log_with!(log::Level::Info, fields; "elector started{}", entry.at());
        LeaderElector::spawn(settings, entry, fields, &self.asking).map_err(Error::thread)
    }

    /// Returns an error if the builder has a setting that belongs to the store.
    pub(crate) fn check_start_on(&self) -> Result<Settings, ConfigError> {
        let settings = self.validate()?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let rule = "cannot be combined with start_on; set the namespace in the store";
        require(self.namespace.is_none(), "namespace", format_args!("{namespace:?}"), rule)?;
        #[cfg(feature = "kubernetes")]
        self.check_no_object()?;
        Ok(settings)
    }

    fn entry(&self, store: impl Store) -> Result<Entry, ConfigError> {
        store.check_key(&self.name)?;
        Ok(Entry::new(Arc::new(store), &self.name))
    }
}

/// Returns an error if the settings need notes, and the store does not keep notes.
pub(crate) fn check_notes(settings: &Settings, entry: &Entry) -> Result<(), ConfigError> {
    let keeps_notes = entry.keeps_notes();
    if let Some(address) = &settings.address {
        let recipe = format!("{}@{address}", settings.identity.split('_').next().unwrap_or_default());
        let rule = format_args!(
            "needs a store that keeps notes; with this store, add the address to the identity, such as \
             identity({recipe:?})"
        );
        require(keeps_notes, "advertise", format_args!("{address:?}"), rule)?;
    }
    let rule = "must be false with this store, because the store keeps no notes";
    require(!settings.accepts_requests || keeps_notes, "accept_requests", true, rule)
}

debug_fields!(impl Debug for LeaderElectorBuilder {
    self => name: self.name, namespace: self.namespace, config: self.config, ..
});

// A panic cannot leave the builder half-changed, because the builder never calls its observers and probes.
impl UnwindSafe for LeaderElectorBuilder {}
impl RefUnwindSafe for LeaderElectorBuilder {}

#[cfg(all(test, feature = "kubernetes"))]
mod tests {
    use super::*;
    use crate::backends::kubernetes::resource_lock::ResourceLock;
    use crate::store::memory::MemoryStore;

    #[test]
    fn property_of_a_given_store_is_not_set_by_the_builder() {
        let builder = || LeaderElector::builder("jobs");
        for (builder, field) in [
            (builder().namespace("shop"), "namespace"),
            (builder().events(true), "events"),
            (builder().resource_lock(ResourceLock::ConfigMaps), "resource_lock"),
            (builder().label("team", "red"), "label"),
        ] {
            let refused = |outcome: Result<LeaderElector, Error>| match outcome {
                Err(Error::Config(error)) => error.field(),
                other => panic!("{field}: {other:?}"),
            };
            assert_eq!(refused(builder.start_on(MemoryStore::new())), field);
        }
    }
}
