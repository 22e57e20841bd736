//! The flags that select the followed leases.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use leasehold::{
    CallContext, CancelToken, ConfigMapStore, EndpointsStore, LeaseStore, ResourceLock, Store, VersionedRecord,
};

use super::super::election::{PlaceArgs, RecordPlace};
use super::leases::Which;

#[derive(Debug, Args)]
pub struct FollowArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Object that holds the records in a cluster: leases, configmaps or endpoints [default: leases]
    #[arg(
        long,
        value_name = "TYPE",
        value_parser = one_kind,
        conflicts_with = "store",
        help_heading = "Lease location"
    )]
    lock_type: Option<ResourceLock>,
}

impl FollowArgs {
    /// Opens the store, and returns the selection of leases for a command that names no lease.
    pub fn open(&self) -> Result<(Arc<dyn Store>, Which), Box<dyn std::error::Error>> {
        let client = match self.place.open(self.lock_type, false)? {
            RecordPlace::Store(store) => return Ok((Arc::from(store), Which::All)),
            RecordPlace::Cluster(client) => *client,
        };
        let namespace = self.place.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        Ok(match self.lock_type {
            Some(ResourceLock::ConfigMaps) => (Arc::new(ConfigMapStore::new(client, &namespace)?), Which::AllRecords),
            Some(ResourceLock::Endpoints) => (Arc::new(EndpointsStore::new(client, &namespace)?), Which::AllRecords),
            _ => (Arc::new(LeaseStore::new(client, &namespace)?), Which::All),
        })
    }
}

/// One lease, for commands that send a few requests.
pub struct LeaseInStore<'a> {
    pub store: Arc<dyn Store>,
    pub call: CallContext,
    key: &'a str,
}

impl<'a> LeaseInStore<'a> {
    /// Opens the store. `timeout` limits all requests together.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be opened, or if `key` cannot be the name of a lease.
    pub fn open(follow: &FollowArgs, key: &'a str, timeout: Duration) -> Result<Self, String> {
        let (store, _) = follow.open().map_err(|error| error.to_string())?;
        check_name(&*store, key)?;
        Ok(Self { store, call: CallContext::new(timeout, CancelToken::new()), key })
    }

    /// Returns the holder and the record, or `None` without a holder.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer in time, or rejects the request.
    pub fn holder(&self) -> Result<Option<(String, VersionedRecord)>, String> {
        let observed = self.store.get(self.key, &self.call).map_err(|error| error.to_string())?;
        Ok(observed.and_then(|observed| Some((observed.record.holder()?.to_owned(), observed))))
    }

    /// Returns the name of the record.
    pub fn name(&self) -> String {
        self.store.describe(self.key)
    }

    /// Returns the message for a lease without a holder.
    pub fn no_leader(&self) -> String {
        format!("{} has no leader", self.name())
    }
}

/// Returns an error if `name` cannot be the name of a lease.
pub(super) fn check_name(store: &dyn Store, name: &str) -> Result<(), String> {
    store.check_key(name).map_err(|error| format!("invalid lease name {name:?}: {}", error.rule()))
}

/// Parses a lock type of one object.
///
/// If an election uses two objects, the command can follow either object.
fn one_kind(text: &str) -> Result<ResourceLock, String> {
    match text.parse() {
        Ok(kind @ (ResourceLock::Leases | ResourceLock::ConfigMaps | ResourceLock::Endpoints)) => Ok(kind),
        _ => Err("give one of leases, configmaps and endpoints".to_owned()),
    }
}
