//! How a candidacy is set up.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
#[cfg(feature = "kubernetes")]
use std::path::PathBuf;

#[cfg(feature = "kubernetes")]
use crate::backends::kubernetes::client::Client;
#[cfg(feature = "kubernetes")]
use crate::backends::kubernetes::client::config::choice::Choice;
#[cfg(feature = "kubernetes")]
use crate::backends::kubernetes::metadata::{Metadata, OwnerReference};
#[cfg(feature = "kubernetes")]
use crate::backends::kubernetes::resource_lock::{ElectionObjects, ObjectElection, ResourceLock};
use crate::election::settings::{Config, Settings};
use crate::elector::leader_elector::{Asking, LeaderElector};
use crate::leadership::error::Error;
use crate::observe::observer::Observer;
use crate::store::Store;
use crate::store::entry::Entry;
use crate::util::config_error::{ConfigError, require};
use crate::util::log_fields::{LogFields, log_with};
#[cfg(feature = "kubernetes")]
use crate::util::names::{check_name, check_namespace};
use crate::util::sync::Arc;

mod election;
mod fitness;

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
    cluster: Choice,
    #[cfg(feature = "kubernetes")]
    lock: ResourceLock,
    #[cfg(feature = "kubernetes")]
    metadata: Metadata,
    asking: Asking,
    #[cfg(feature = "kubernetes")]
    events: bool,
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
            cluster: Choice::default(),
            #[cfg(feature = "kubernetes")]
            lock: ResourceLock::default(),
            #[cfg(feature = "kubernetes")]
            metadata: Metadata::default(),
            asking: Asking::default(),
            #[cfg(feature = "kubernetes")]
            events: false,
            config: Config::default(),
        }
    }

    /// The Lease's namespace. Default: that of the kubeconfig's context or of the pod, else `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The kubeconfig file that names the cluster, for [`start`](Self::start). Default: as
    /// [`ClientConfig::infer`](crate::backends::kubernetes::client::ClientConfig::infer) finds it. It takes
    /// the feature `kubeconfig`; without that `start` says so.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").kubeconfig("/etc/jobs/kubeconfig").context("production").start()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "kubernetes")]
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.cluster.kubeconfig = Some(path.into());
        self
    }

    /// The context of the kubeconfig file, for [`start`](Self::start): of [`kubeconfig`](Self::kubeconfig), or else of `KUBECONFIG`
    /// or `~/.kube/config`, also in a pod. Default: the current one. It takes the feature `kubeconfig`, too.
    #[cfg(feature = "kubernetes")]
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.cluster.context = Some(name.into());
        self
    }

    /// The kind of object that holds the record, or two kinds at once, for [`start`](Self::start) and
    /// [`start_with_client`](Self::start_with_client), as in client-go's `resourcelock.New`. Default: a Lease.
    ///
    /// Two kinds are what [`start_on_both`](Self::start_on_both) is about: read there how a fleet moves from one to another.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, ResourceLock};
    ///
    /// let builder = LeaderElector::builder("jobs").resource_lock(ResourceLock::ConfigMapsLeases);
    /// let builder = LeaderElector::builder("jobs").resource_lock("endpoints".parse()?);
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    #[cfg(feature = "kubernetes")]
    pub fn resource_lock(mut self, lock: ResourceLock) -> Self {
        self.lock = lock;
        self
    }

    /// A label for the Lease (or whatever holds the record), put there when it is made, and again with each of our writes. Labels
    /// of others stay.
    ///
    /// It is for what [`start`](Self::start) and [`start_with_client`](Self::start_with_client) elect on: stores have one of their own, such as
    /// [`ConfigMapStore::label`](crate::ConfigMapStore::label).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs").label("app.kubernetes.io/part-of", "shop").annotation("example.com/why", "x");
    /// ```
    #[cfg(feature = "kubernetes")]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.labels.insert(key.into(), value.into());
        self
    }

    /// An annotation for the Lease, as [`label`](Self::label) is a label for it.
    #[cfg(feature = "kubernetes")]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.annotations.insert(key.into(), value.into());
        self
    }

    /// An owner of the Lease, as [`label`](Self::label) is a label for it: who deletes the owner deletes the Lease.
    ///
    /// Name one that outlives the candidates, such as their Deployment, and never a candidate's own Pod: the deletion of a Lease
    /// that is held ends the term of whoever holds it, and until that one hears of it, by its watch or its next renewal, another
    /// may lead as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, OwnerReference};
    ///
    /// # let uid = "c2a1a9f0-6a8f-4f4e-9d54-0f1e6b8f7a11";
    /// let owner = OwnerReference::new("apps/v1", "Deployment", "my-controller", uid);
    /// let builder = LeaderElector::builder("my-controller").owner_reference(owner);
    /// ```
    #[cfg(feature = "kubernetes")]
    pub fn owner_reference(mut self, owner: OwnerReference) -> Self {
        self.metadata.owners.push(owner);
        self
    }

    /// Whether the terms of this candidate are recorded as events on the Lease, as [`EventRecorder`](crate::EventRecorder) says.
    /// Default: false.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("my-controller").events(true);
    /// ```
    #[cfg(feature = "kubernetes")]
    pub fn events(mut self, events: bool) -> Self {
        self.events = events;
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

    /// Finds the cluster ([`ClientConfig::infer`](crate::backends::kubernetes::client::ClientConfig::infer): `KUBECONFIG`, else in-cluster, else
    /// `~/.kube/config`) and starts the elector's thread. It reads files and environment; it does not talk to the API server.
    ///
    /// So an API server that cannot be reached is no error here: it is tried again and again, and the `log` crate is told why.
    /// Without a logger, such as `env_logger`, that is silent.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a violated rule, [`Error::Cluster`] when no cluster is found or its description is
    /// malformed, [`Error::Thread`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::LeaderElector;
    ///
    /// // RUST_LOG says how much: `info` by default here.
    /// env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    /// let elector = LeaderElector::builder("jobs").start()?;
    /// println!("{}", elector.status());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "kubernetes")]
    pub fn start(self) -> Result<LeaderElector, Error> {
        let settings = self.validate()?;
        check_name(&self.name)?;
        self.metadata.check()?;
        self.namespace.as_deref().map_or(Ok(()), check_namespace)?;
        let client = Client::new(self.cluster.client_config()?)?;
        self.start_by(client, settings)
    }

    /// Starts the elector's thread on a client of the caller's, which others may share. (Clones of a client are the same
    /// client.)
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a violated rule, [`Error::Thread`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::LeaderElector;
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// let client = Client::new(ClientConfig::in_cluster()?)?;
    /// let elector = LeaderElector::builder("my-controller").start_with_client(client)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "kubernetes")]
    pub fn start_with_client(self, client: Client) -> Result<LeaderElector, Error> {
        let settings = self.validate()?;
        self.check_no_choice("start_with", "client")?;
        self.start_by(client, settings)
    }

    #[cfg(feature = "kubernetes")]
    fn start_by(self, client: Client, settings: Settings) -> Result<LeaderElector, Error> {
        let namespace = match self.namespace {
            Some(namespace) => namespace,
            None => client.default_namespace().to_owned(),
        };
        let (server, source) = (client.server(), client.source().to_owned());
        let election = ObjectElection {
            client,
            namespace: &namespace,
            metadata: self.metadata,
            key: &self.name,
            identity: &settings.identity,
        };
        let (primary, secondary) = election.objects(self.lock)?;
        let mut asking = self.asking;
        let mut entry = |objects: ElectionObjects| {
            if self.events {
                asking.observers.push(Arc::new(objects.events));
            }
            Entry::new(objects.store, &self.name)
        };
        let primary = entry(primary);
        let secondary = secondary.map(entry);
        let fields = LogFields::new(primary.describe(), &settings.identity);
        let fields = secondary.iter().fold(fields, |fields, entry| fields.and(&entry.describe()));
        log_with!(
            log::Level::Info, fields, server = server.as_str(), source = source.as_str(), namespace = namespace.as_str();
            "candidate {} at {server} ({source})", fields.identity
        );
        LeaderElector::spawn(settings, primary, secondary, fields, &asking).map_err(Error::Thread)
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

    /// What is given has a cluster, if any.
    #[cfg(feature = "kubernetes")]
    fn check_no_choice(&self, start: &str, given: &str) -> Result<(), ConfigError> {
        self.cluster.field().map_or(Ok(()), |(field, value)| {
            let rule = format!("with {start} it is the {given} that says which cluster: leave it out here");
            Err(ConfigError::new(field, format_args!("{value:?}"), rule))
        })
    }

    /// What a store has itself, if it has any, is not the builder's.
    fn check_start_on(&self) -> Result<Settings, ConfigError> {
        let settings = self.validate()?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let rule = "with start_on it is the store that has a namespace, if any: leave it out here";
        require(self.namespace.is_none(), "namespace", format_args!("{namespace:?}"), rule)?;
        #[cfg(feature = "kubernetes")]
        {
            self.check_no_choice("start_on", "store")?;
            let rule = "with start_on, give the builder an observer: the event_recorder of the store";
            require(!self.events, "events", true, rule)?;
            let rule = "with start_on it is the store that says what holds the record: leave it out here";
            let is_default = self.lock == ResourceLock::default();
            require(is_default, "resource_lock", format_args!("{:?}", self.lock), rule)?;
            let rule = "with start_on it is the store that has labels, annotations and owners: set them there";
            require(self.metadata.is_empty(), "label", "set", rule)?;
        }
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
    use crate::store::memory::MemoryStore;

    #[test]
    fn what_a_store_has_itself_is_not_the_builders() {
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
