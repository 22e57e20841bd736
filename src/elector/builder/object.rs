//! Setters for the cluster and the object, and methods that start an elector on Kubernetes.

use super::{LeaderElectorBuilder, check_notes};
use crate::backends::kubernetes::client::{Client, ClientConfig};
use crate::backends::kubernetes::metadata::OwnerReference;
use crate::backends::kubernetes::resource_lock::{ObjectChoice, ResourceLock};
use crate::election::settings::Settings;
use crate::elector::leader_elector::LeaderElector;
use crate::leadership::error::Error;
use crate::store::entry::Entry;
use crate::util::config_error::{ConfigError, require};
use crate::util::log_fields::{LogFields, log_with};
use crate::util::names::{check_name, check_namespace};
use crate::util::setters::setters;
use crate::util::sync::Arc;

setters! {
    impl LeaderElectorBuilder;

    /// Sets the kind of object that holds the record, or two kinds at once.
    ///
    /// The kinds have the names of client-go's `resourcelock.New`.
    ///
    /// Two kinds serve the migration of a fleet from a ConfigMap or an Endpoints object to a Lease. The elector leads
    /// only while it holds both objects, so it excludes the candidates on either object and on both. [CLIENT-GO.md] has
    /// the steps and the limits. Both objects must be in one etcd; otherwise fencing tokens do not compare. An elector
    /// on two objects polls, so a handover takes up to a jittered retry period. A deletion of either object ends the
    /// term with [`StopReason::Superseded`](crate::StopReason::Superseded) at the next renewal.
    /// [`accept_requests`](Self::accept_requests) is refused.
    ///
    /// [CLIENT-GO.md]: https://docs.rs/crate/leasehold/latest/source/docs/CLIENT-GO.md
    ///
    /// Defaults to a Lease.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::client_go::ResourceLock;
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs").resource_lock(ResourceLock::ConfigMapsLeases);
    /// let builder = LeaderElector::builder("jobs").resource_lock("endpoints".parse()?);
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    pub fn resource_lock(mut self, lock: ResourceLock) { self.object.lock = lock }

    /// Adds a label to the Lease or other object that holds the record.
    ///
    /// Every write of this candidate restores the label. Labels of other clients are kept.
    /// [`start_on`](Self::start_on) refuses labels. A store that the program wraps, such as in a
    /// [`SharedWatch`](crate::store::SharedWatch), therefore writes no labels.
    ///
    /// Defaults to no labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs").label("app.kubernetes.io/part-of", "shop").annotation("example.com/why", "x");
    /// ```
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) {
        self.object.metadata.labels.insert(key.into(), value.into());
    }

    /// Adds an annotation to the Lease, under the rules of [`label`](Self::label).
    ///
    /// Defaults to no annotations.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) {
        self.object.metadata.annotations.insert(key.into(), value.into());
    }

    /// Adds an owner reference to the Lease, under the rules of [`label`](Self::label).
    ///
    /// Deleting the owner deletes the Lease. Name an owner that outlives the candidates, such as their Deployment.
    /// Never name the Pod of a candidate. Deleting a held Lease ends the term of its leader. Until that leader learns
    /// of the deletion, by its watch or its next renewal, another candidate may also lead.
    ///
    /// Defaults to no owners.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::kubernetes::OwnerReference;
    /// use leasehold::LeaderElector;
    ///
    /// # let uid = "c2a1a9f0-6a8f-4f4e-9d54-0f1e6b8f7a11";
    /// let owner = OwnerReference::new("apps/v1", "Deployment", "my-controller", uid);
    /// let builder = LeaderElector::builder("my-controller").owner_reference(owner);
    /// ```
    pub fn owner_reference(mut self, owner: OwnerReference) { self.object.metadata.owners.push(owner) }

    /// Sets whether this candidate's terms are recorded as Kubernetes events on the Lease.
    ///
    /// The events `became leader` and `stopped leading` use `events.k8s.io/v1`, and belong to the object that holds the
    /// record. No request of the election waits for an event. Requires the right to `create` the resource `events` of
    /// the API group `events.k8s.io`, and the right to `get` the object, because an event contains the object's uid.
    ///
    /// A failed event is not retried. The first lost event is logged at `warn`, and further lost events at `debug`. The
    /// next recorded event resets the level. If the process exits immediately after the term, the event about its end
    /// may be lost.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("my-controller").events(true);
    /// ```
    pub fn events(mut self, events: bool) { self.object.events = events }
}

impl LeaderElectorBuilder {
    /// Finds the cluster and starts the elector.
    ///
    /// [`ClientConfig::infer`](crate::backends::kubernetes::client::ClientConfig::infer) uses `KUBECONFIG`, then the
    /// pod's service account, then `~/.kube/config`. The method reads files and environment variables but sends no
    /// request.
    ///
    /// An unreachable API server is not an error here. The elector retries and logs the cause through the `log` crate.
    /// Install a logger, such as `env_logger`; without a logger, the failures are silent.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::LeaderElector;
    ///
    /// // RUST_LOG sets the log level, here `info` by default.
    /// env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    /// let elector = LeaderElector::builder("jobs").start()?;
    /// println!("{}", elector.status());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if a setting breaks a rule.
    /// - Returns [`Error::Cluster`] if no cluster is found, or if its description is malformed.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    pub fn start(self) -> Result<LeaderElector, Error> {
        let settings = self.validate()?;
        check_name(&self.name)?;
        self.object.metadata.check()?;
        self.namespace.as_deref().map_or(Ok(()), check_namespace)?;
        let client = Client::new(ClientConfig::infer()?)?;
        self.start_by(client, settings)
    }

    /// Starts an elector with a client of the program.
    ///
    /// Several electors can share the client. A clone of a client is the same client. The method sends no request.
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
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if a setting breaks a rule.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    pub fn start_with_client(self, client: Client) -> Result<LeaderElector, Error> {
        let settings = self.validate()?;
        self.start_by(client, settings)
    }

    fn start_by(self, client: Client, settings: Settings) -> Result<LeaderElector, Error> {
        let namespace = self.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let (server, source) = (client.server(), client.source().to_owned());
        let has_two_objects = self.object.lock.has_two_objects();
        let settings = Settings { release_keeps_duration: has_two_objects, ..settings };
        let objects = self.object.objects(&client, &namespace, &self.name, &settings)?;
        let mut asking = self.asking;
        if self.object.events {
            asking.observers.extend(objects.events.into_iter().map(|events| Arc::new(events) as _));
        }
        let entry = Entry::new(objects.store, &self.name);
        check_notes(&settings, &entry)?;
        let rule = "must be false with two objects, because a request names the holder of one object";
        require(!settings.accepts_requests || !has_two_objects, "accept_requests", true, rule)?;
        let fields = LogFields::new(entry.describe(), &settings.identity);
        log_with!(
            log::Level::Info, fields, server = server.as_str(), config_source = source.as_str(), namespace = namespace.as_str();
            "elector started at {server} ({source})"
        );
        LeaderElector::spawn(settings, entry, fields, &asking).map_err(Error::thread)
    }

    /// Returns an error if the builder has a setting that belongs to the store.
    pub(super) fn check_no_object(&self) -> Result<(), ConfigError> {
        let ObjectChoice { lock, metadata, events } = &self.object;
        let rule = "applies to start and start_with_client of LeaderElectorBuilder only";
        require(!events, "events", true, rule)?;
        require(*lock == ResourceLock::default(), "resource_lock", format_args!("{lock:?}"), rule)?;
        let rule = "cannot be combined with start_on; use start_with_client for labels, annotations and owners";
        require(metadata.is_empty(), "label", "set", rule)
    }
}
