//! `LeaseLock`'s duties, on the in-memory API server: what an update compares.

use std::time::Duration;

use leasehold::kube::{Client, Kubeconfig};
use leasehold::testing::{ApiServer, Resource};
use leasehold::{LeaderElectionRecord, LeaseLock, Lock, LockErrorKind, Observed};

const SOON: Duration = Duration::from_secs(10);
const NAMESPACE: &str = "default";
const LEASE: &str = "locked";

/// A server, a lock on a lease of it, and the lease as it was created.
fn created() -> (ApiServer, LeaseLock, Observed) {
    let server = ApiServer::start().expect("an in-memory server");
    let kubeconfig = Kubeconfig::from_text(&server.kubeconfig("admin"), "/").expect("a kubeconfig");
    let client = Client::new(kubeconfig.client_config(None).expect("a configuration")).expect("a client");
    let lock = LeaseLock::new(client, NAMESPACE, LEASE).expect("a lock");
    let created = lock.create(&held_by("a"), SOON).expect("a lease");
    (server, lock, created)
}

fn held_by(identity: &str) -> LeaderElectionRecord {
    LeaderElectionRecord { holder_identity: Some(identity.into()), ..LeaderElectionRecord::default() }
}

#[test]
fn an_update_of_a_deleted_lease_is_a_conflict_and_does_not_make_it_anew() {
    let (server, lock, base) = created();
    server.delete(Resource::Leases, NAMESPACE, LEASE).expect("a lease to delete");
    let error = lock.update(&base, &held_by("b"), SOON).expect_err("nothing to update");
    assert_eq!(error.kind(), LockErrorKind::Conflict);
    assert!(lock.get(SOON).expect("an answer").is_none());
}

#[test]
fn an_update_of_what_has_moved_is_a_conflict_and_leaves_it() {
    let (_server, lock, base) = created();
    lock.update(&base, &held_by("b"), SOON).expect("an update");
    let error = lock.update(&base, &held_by("c"), SOON).expect_err("it has moved");
    assert_eq!(error.kind(), LockErrorKind::Conflict);
    let standing = lock.get(SOON).expect("an answer").expect("a lease");
    assert_eq!(standing.record.holder(), Some("b"));
}
