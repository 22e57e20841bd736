//! How a candidacy is set up.

use std::fmt;
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
use crate::util::log_fields::{LogFields, log_with};
use crate::util::sync::Arc;

mod election;
mod fitness;
#[cfg(feature = "kubernetes")]
mod object;

/// Sets up a [`LeaderElector`]. Made by [`LeaderElector::builder`].
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
    name: String,
    namespace: Option<String>,
    #[cfg(feature = "kubernetes")]
    object: ObjectChoice,
    asking: Asking,
    config: Config,
}

impl LeaderElector {
    /// Begins a candidacy for the Lease `name`.
    pub fn builder(name: impl Into<String>) -> LeaderElectorBuilder {
        LeaderElectorBuilder::new(name.into())
    }
}

impl LeaderElectorBuilder {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            namespace: None,
            #[cfg(feature = "kubernetes")]
            object: ObjectChoice::default(),
            asking: Asking::default(),
            config: Config::default(),
        }
    }

    /// The Lease's namespace. Default: that of the kubeconfig's context or of the pod, else `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Tells `observer` what the elector does, on a thread of its own. Several may be added, each with its thread; a clone of
    /// this builder has the same ones.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, MemoryStore, Observer, StopReason};
    ///
    /// struct Audit;
    ///
    /// impl Observer for Audit {
    ///     fn on_started_leading(&self, fencing_token: u64) {
    ///         println!("a term began: {fencing_token}");
    ///     }
    ///     fn on_stopped_leading(&self, reason: &StopReason) {
    ///         println!("it ended: {reason}");
    ///     }
    /// }
    ///
    /// let elector = LeaderElector::builder("jobs").observer(Audit).start_on(MemoryStore::new())?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.asking.observers.push(Arc::new(observer));
        self
    }

    /// Checks every rule but those for names, which are the store's, and gives what the election would run by.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the field, its value and the rule.
    pub fn validate(&self) -> Result<Settings, ConfigError> {
        self.config.validate()
    }

    /// Starts the elector's thread on any store, which others may share. The builder's name is the key.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a violated rule, also when a [`namespace`](Self::namespace), a label, an annotation or an
    /// owner is set, which a store has itself if it has any; [`Error::Thread`].
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, MemoryStore};
    ///
    /// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn start_on(self, store: impl Store) -> Result<LeaderElector, Error> {
        let settings = self.check_start_on()?;
        let entry = self.entry(store)?;
        let fields = LogFields::new(entry.describe(), &settings.identity);
        log_with!(log::Level::Info, fields; "candidate {}{}", fields.identity, entry.at());
        LeaderElector::spawn(settings, entry, None, fields, &self.asking).map_err(Error::Thread)
    }

    /// Starts an elector on two stores at once, for a fleet that moves from one to the other: it leads while it holds the
    /// builder's name in both. It excludes every candidate on either of them alone, and those on both.
    ///
    /// These are two elections with one guard, for no compare-and-swap spans two objects. It campaigns for the secondary only
    /// while it holds the primary, its term is valid while both are, and the loss of one ends both. The secondary is released
    /// first, and both within one release timeout. The [fencing token](crate::LeaderGuard::fencing_token) is the secondary's
    /// version; it is comparable with those of candidates on the primary alone where both objects are in one etcd, and not where
    /// they are in two stores that count apart. Somebody leads, for [`current_leader`](LeaderElector::current_leader) and
    /// [`Transition`](crate::Transition), when both records name the same. Each record has its own two threads. Observers are told
    /// of the requests and watches of both, and counters count both; a watch is open when both are, and the last contact is the
    /// older of those with each.
    ///
    /// Every candidate names the two in the same order: of two in opposite orders each can hold one and wait for the other, and
    /// then nobody leads. Who waits for the secondary says so in the log, at `info`. They are two different records: on one and
    /// the same it never leads, and says that another process uses its identity.
    ///
    /// Move a fleet in steps, all candidates through each before any begins the next: primary, both, secondary. The pairings
    /// that exclude each other, and what holds beside client-go's `configmapsleases`, are listed in
    /// [docs/MIGRATING.md](https://docs.rs/crate/leasehold/latest/source/docs/MIGRATING.md). Use the same durations throughout.
    ///
    /// # Errors
    ///
    /// As for [`start_on`](Self::start_on).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::kubernetes::{Client, ClientConfig};
    /// use leasehold::{ConfigMapStore, LeaderElector, LeaseStore};
    ///
    /// let client = Client::new(ClientConfig::infer()?)?;
    /// let old = ConfigMapStore::new(client.clone(), "jobs")?;
    /// let new = LeaseStore::new(client, "jobs")?;
    /// let elector = LeaderElector::builder("my-controller").start_on_both(old, new)?;
    /// let guard = elector.block_until_leader()?;
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn start_on_both(self, primary: impl Store, secondary: impl Store) -> Result<LeaderElector, Error> {
        let settings = self.check_start_on()?;
        let (primary, secondary) = (self.entry(primary)?, self.entry(secondary)?);
        let fields = LogFields::new(primary.describe(), &settings.identity).and(&secondary.describe());
        log_with!(log::Level::Info, fields; "candidate {}{}{}", fields.identity, primary.at(), secondary.at());
        LeaderElector::spawn(settings, primary, Some(secondary), fields, &self.asking).map_err(Error::Thread)
    }

    /// What a store has itself, if it has any, is not the builder's.
    fn check_start_on(&self) -> Result<Settings, ConfigError> {
        let settings = self.validate()?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let rule = "with start_on it is the store that has a namespace, if any: leave it out here";
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

impl fmt::Debug for LeaderElectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElectorBuilder")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

// An observer or a probe is only ever passed on: nothing here is left half-done by a panic.
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
            assert_eq!(refused(builder.clone().start_on(MemoryStore::new())), field);
            assert_eq!(refused(builder.start_on_both(MemoryStore::new(), MemoryStore::new())), field);
        }
    }
}
