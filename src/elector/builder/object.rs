//! How a candidacy finds its cluster, and the object that holds the record.

use std::path::PathBuf;

use super::LeaderElectorBuilder;
use crate::backends::kubernetes::client::Client;
use crate::backends::kubernetes::metadata::OwnerReference;
use crate::backends::kubernetes::resource_lock::{ElectionObjects, ObjectChoice, ObjectElection, ResourceLock};
use crate::election::settings::Settings;
use crate::elector::leader_elector::LeaderElector;
use crate::leadership::error::Error;
use crate::store::entry::Entry;
use crate::util::config_error::{ConfigError, require};
use crate::util::log_fields::{LogFields, log_with};
use crate::util::names::{check_name, check_namespace};
use crate::util::sync::Arc;

impl LeaderElectorBuilder {
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
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.object.cluster.kubeconfig = Some(path.into());
        self
    }

    /// The context of the kubeconfig file, for [`start`](Self::start): of [`kubeconfig`](Self::kubeconfig), or else of `KUBECONFIG`
    /// or `~/.kube/config`, also in a pod. Default: the current one. It takes the feature `kubeconfig`, too.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.object.cluster.context = Some(name.into());
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
    pub fn resource_lock(mut self, lock: ResourceLock) -> Self {
        self.object.lock = lock;
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
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.object.metadata.labels.insert(key.into(), value.into());
        self
    }

    /// An annotation for the Lease, as [`label`](Self::label) is a label for it.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.object.metadata.annotations.insert(key.into(), value.into());
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
    pub fn owner_reference(mut self, owner: OwnerReference) -> Self {
        self.object.metadata.owners.push(owner);
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
    pub fn events(mut self, events: bool) -> Self {
        self.object.events = events;
        self
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
    pub fn start(self) -> Result<LeaderElector, Error> {
        let settings = self.validate()?;
        check_name(&self.name)?;
        self.object.metadata.check()?;
        self.namespace.as_deref().map_or(Ok(()), check_namespace)?;
        let client = Client::new(self.object.cluster.client_config()?)?;
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
    pub fn start_with_client(self, client: Client) -> Result<LeaderElector, Error> {
        let settings = self.validate()?;
        self.check_no_choice("start_with_client", "client")?;
        self.start_by(client, settings)
    }

    fn start_by(self, client: Client, settings: Settings) -> Result<LeaderElector, Error> {
        let namespace = match self.namespace {
            Some(namespace) => namespace,
            None => client.default_namespace().to_owned(),
        };
        let (server, source) = (client.server(), client.source().to_owned());
        let election = ObjectElection {
            client,
            namespace: &namespace,
            metadata: self.object.metadata,
            key: &self.name,
            identity: &settings.identity,
        };
        let (primary, secondary) = election.objects(self.object.lock)?;
        let mut asking = self.asking;
        let mut entry = |objects: ElectionObjects| {
            if self.object.events {
                asking.observers.push(Arc::new(objects.events));
            }
            Entry::new(objects.store, &self.name)
        };
        let primary = entry(primary);
        let secondary = secondary.map(entry);
        let fields = LogFields::new(primary.describe(), &settings.identity);
        let fields = secondary.iter().fold(fields, |fields, entry| fields.and(&entry.describe()));
        log_with!(
            log::Level::Info, fields, server = server.as_str(), config_source = source.as_str(), namespace = namespace.as_str();
            "candidate {} at {server} ({source})", fields.identity
        );
        LeaderElector::spawn(settings, primary, secondary, fields, &asking).map_err(Error::Thread)
    }

    /// What is given has a cluster, if any.
    fn check_no_choice(&self, start: &str, given: &str) -> Result<(), ConfigError> {
        self.object.cluster.field().map_or(Ok(()), |(field, value)| {
            let rule = format!("with {start} it is the {given} that says which cluster: leave it out here");
            Err(ConfigError::new(field, format_args!("{value:?}"), rule))
        })
    }

    /// What a store has itself is not the builder's.
    pub(super) fn check_no_object(&self) -> Result<(), ConfigError> {
        self.check_no_choice("start_on", "store")?;
        let ObjectChoice { lock, metadata, events, .. } = &self.object;
        let rule = "with start_on, give the builder an observer: the event_recorder of the store";
        require(!events, "events", true, rule)?;
        let rule = "with start_on it is the store that says what holds the record: leave it out here";
        require(*lock == ResourceLock::default(), "resource_lock", format_args!("{lock:?}"), rule)?;
        let rule = "with start_on it is the store that has labels, annotations and owners: set them there";
        require(metadata.is_empty(), "label", "set", rule)
    }
}
