//! The flags that select leases.

use std::sync::Arc;

use clap::Args;
use leasehold::client_go::ResourceLock;
use leasehold::kubernetes::{ConfigMapStore, EndpointsStore, LeaseStore};
use leasehold::store::Store;

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

#[derive(Debug, Args)]
pub struct LeaseArgs {
    /// Name of the lease
    #[arg(value_name = "LEASE", required_unless_present = "named")]
    lease: Option<String>,
    /// Name of the lease, as in `run`
    #[arg(long = "lease", id = "named", value_name = "NAME", conflicts_with = "lease")]
    named: Option<String>,
}

impl LeaseArgs {
    pub fn key(&self) -> &str {
        self.named.as_ref().or(self.lease.as_ref()).map_or("", |name| name)
    }
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

/// Returns an error if `name` cannot be the name of a lease.
pub fn check_name(store: &dyn Store, name: &str) -> Result<(), String> {
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
