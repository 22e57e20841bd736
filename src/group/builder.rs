//! The builder of a group.

use std::time::Duration;

use humantime::format_duration as show;

#[cfg(feature = "kubernetes")]
use crate::backends::kubernetes::client::{Client, ClientConfig};
#[cfg(feature = "kubernetes")]
use crate::backends::kubernetes::lease::LeaseStore;
use crate::election::group::{GroupKey, GroupSettings, MAX_MEMBERS, MAX_SHARDS};
use crate::elector::builder::LeaderElectorBuilder;
use crate::elector::leader_elector::LeaderElector;
use crate::group::core::GroupCore;
use crate::group::lease_group::LeaseGroup;
use crate::group::threads;
use crate::leadership::error::Error;
use crate::runtime::observing::Observing;
use crate::store::Store;
use crate::util::config_error::require;
use crate::util::debug_fields::debug_fields;
use crate::util::log_fields::LogFields;
use crate::util::setters::setters;
use crate::util::sync::Arc;

/// The settings of a group before its start, created by [`LeaseGroup::builder`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::group::LeaseGroup;
/// use leasehold::store::MemoryStore;
///
/// let group = LeaseGroup::builder("ingest")
///     .shards(64)
///     .drain_timeout(Duration::from_secs(10))
///     .slot(|slot| slot.identity("worker-1"))
///     .start_on(MemoryStore::new())?;
/// assert_eq!(group.identity(), "worker-1");
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing happens before `start`"]
pub struct LeaseGroupBuilder {
    shards: u32,
    max_shards: Option<u32>,
    max_members: u32,
    drain_timeout: Duration,
    slot: LeaderElectorBuilder,
}

impl LeaseGroup {
    /// Returns a builder for the group `name`.
    ///
    /// The names of all records start with `name`. On Kubernetes, the names of the records must be DNS-1123 subdomains.
    pub fn builder(name: impl Into<String>) -> LeaseGroupBuilder {
        LeaseGroupBuilder {
            shards: 16,
            max_shards: None,
            max_members: 16,
            drain_timeout: Duration::from_secs(20),
            slot: LeaderElector::builder(name),
        }
    }
}

setters! {
    impl LeaseGroupBuilder;

    /// Sets the number of shards, from 1 to 1,024.
    ///
    /// All members must use one number. If another member uses another number, this process leaves the group, and
    /// [`run_until`](LeaseGroup::run_until) returns an error. Stop all members before you change the number.
    ///
    /// Defaults to 16.
    pub fn shards(mut self, shards: u32) { self.shards = shards }

    /// Sets the largest number of shards that one member owns.
    ///
    /// With 1, at most `shards` members own a shard, and each of them owns one. If there are fewer members than shards,
    /// the other shards have no owner. All members must use one limit, as for [`shards`](Self::shards).
    ///
    /// Defaults to no limit.
    pub fn max_shards(mut self, max_shards: u32) { self.max_shards = Some(max_shards) }

    /// Sets the number of slots for which this process campaigns, from 1 to 64.
    ///
    /// A process that finds no free slot is a spare, and becomes a member once a slot is free. Each member writes once
    /// per renew interval, so a group on a SQL store should have at most 16 members.
    ///
    /// Defaults to 16.
    pub fn max_members(mut self, max_members: u32) { self.max_members = max_members }

    /// Sets the time in which the worker of a recalled shard must return.
    ///
    /// After this time, the process no longer owns the shard. Another member takes the shard once the worker has
    /// returned, or one lease duration later.
    ///
    /// Defaults to 20 s.
    pub fn drain_timeout(mut self, drain_timeout: Duration) { self.drain_timeout = drain_timeout }

    /// Sets the Kubernetes namespace of the records.
    ///
    /// Defaults to the namespace of the client.
    pub fn namespace(mut self, namespace: impl Into<String>) { self.slot = self.slot.namespace(namespace) }

    /// Changes the settings of the member's slot, such as the identity and the durations.
    ///
    /// All members must have the same lease duration. The renew interval must be at most one sixth of the lease
    /// duration. With a progress timeout, the start returns an error. Observers also receive
    /// [`Event::ShardStarted`](crate::Event::ShardStarted) and
    /// [`Event::ShardEnded`](crate::Event::ShardEnded). The drain timeout of the slot has no effect on shards.
    ///
    /// Defaults to the values of [`LeaderElectorBuilder`].
    pub fn slot(mut self, change: impl FnOnce(LeaderElectorBuilder) -> LeaderElectorBuilder) {
        // The result of `change` may be a builder with another name and another namespace.
        let (name, namespace) = (self.slot.name.clone(), self.slot.namespace.clone());
        self.slot = change(self.slot);
        self.slot.name = name;
        self.slot.namespace = namespace.or(self.slot.namespace.take())
    }
}

impl LeaseGroupBuilder {
    /// Starts the group with the cluster that [`ClientConfig::infer`] finds.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if a setting breaks a rule.
    /// - Returns [`Error::Cluster`] if no cluster is found, or if its description is malformed.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    #[cfg(feature = "kubernetes")]
    pub fn start(self) -> Result<LeaseGroup, Error> {
        let client = Client::new(ClientConfig::infer()?)?;
        self.start_with_client(client)
    }

    /// Starts the group with a client of the program.
    ///
    /// The labels, annotations and owners of the [`slot`](Self::slot) apply to all leases of the group.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if a setting breaks a rule.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    #[cfg(feature = "kubernetes")]
    pub fn start_with_client(mut self, client: Client) -> Result<LeaseGroup, Error> {
        let namespace = self.slot.namespace.take().unwrap_or_else(|| client.default_namespace().to_owned());
        let metadata = std::mem::take(&mut self.slot.object.metadata);
        self.start_on(LeaseStore::with_metadata(client, &namespace, metadata)?)
    }

    /// Starts the group on a store, which must have watches.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if a setting breaks a rule.
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread.
    pub fn start_on(self, store: impl Store) -> Result<LeaseGroup, Error> {
        let Self { shards, max_shards, max_members, drain_timeout, slot } = self;
        let (shards, max_members) = (shards as usize, max_members as usize);
        let settings = slot.check_start_on()?;
        require((1..=MAX_SHARDS).contains(&shards), "shards", shards, format_args!("must be 1 to {MAX_SHARDS}"))?;
        require(max_shards != Some(0), "max_shards", 0, "must be at least 1")?;
        let rule = format_args!("must be 1 to {MAX_MEMBERS}");
        require((1..=MAX_MEMBERS).contains(&max_members), "max_members", max_members, rule)?;
        let lease_duration = settings.lease_duration;
        let shown = show(lease_duration);
        let rule = format_args!("must be at most one sixth of lease_duration ({shown}) in a group");
        require(settings.renew_interval <= lease_duration / 6, "renew_interval", show(settings.renew_interval), rule)?;
        let progress_timeout = settings.progress_timeout.unwrap_or_default();
        let rule = "must not be set in a group, because the work of a slot reports no progress";
        require(settings.progress_timeout.is_none(), "progress_timeout", show(progress_timeout), rule)?;
        let fields = LogFields::new(format!("group {}", slot.name), &settings.identity);
        let observing = |observer: &_| Observing::spawn(Arc::clone(observer), fields.clone());
        let observers: Vec<_> =
            slot.asking.observers.iter().map(observing).collect::<Result<_, _>>().map_err(Error::thread)?;
        let mut slot = slot.identity(settings.identity.clone());
        // The threads of the observers run already.
        slot.asking.observers.clear();
        slot.asking.observing = observers.iter().map(Observing::of_slot).collect();
        let renew_deadline = settings.renew_deadline;
        let settings = GroupSettings {
            shards,
            max_shards: max_shards.map(|number| number as usize),
            max_members,
            identity: settings.identity,
            lease_duration,
            retry_period: settings.retry_period,
            drain_timeout,
        };
        let core = GroupCore::new(slot.name.clone(), settings, renew_deadline, Arc::new(store), observers);
        // The name must be a key by itself, for example not empty.
        core.store.check_key(&core.name)?;
        for key in [GroupKey::Slot(MAX_MEMBERS - 1), GroupKey::Shard(shards - 1)] {
            core.store.check_key(&core.key(key))?;
        }
        threads::spawn(&core).map_err(Error::thread)?;
        Ok(LeaseGroup::new(core, slot))
    }
}

debug_fields!(impl Debug for LeaseGroupBuilder {
    self => name: self.slot.name, shards: self.shards, max_members: self.max_members, slot: self.slot, ..
});
