//! Tests of an election with each kind of credential, on the real server.

use std::path::Path;

use crate::support::SOON;
use crate::support::cluster::{Cluster, NAMESPACE};
use leasehold::kubernetes::{Client, ClientConfig, LeaseStore};
use leasehold::store::{CallContext, CancelToken, Store, StoreErrorKind};
use leasehold_testing::ApiServer;

macro_rules! elects {
    ($($test:ident: $kubeconfig:literal),* $(,)?) => {
        $(#[test] fn $test() { elect(stringify!($test), $kubeconfig); })*
    };
}

elects! {
    a_token: "candidate",
    a_token_file: "candidate-token-file",
    a_client_certificate_with_a_pkcs8_key: "candidate-cert",
    a_client_certificate_with_a_pkcs1_key: "candidate-cert-pkcs1",
    a_client_certificate_with_a_sec1_key: "candidate-cert-sec1",
    a_client_certificate_of_version_1: "candidate-cert-version-1",
    certificates_in_files_beside_the_kubeconfig_and_a_ca_that_is_a_bundle: "candidate-cert-files",
    a_credential_plugin_that_gives_a_token: "candidate-exec",
    a_credential_plugin_that_gives_a_certificate: "candidate-exec-cert",
    an_administrator_who_impersonates_a_candidate: "admin-impersonating-candidate",
}

fn elect(test: &str, kubeconfig: &str) {
    let Some(cluster) = Cluster::real(test) else { return };
    let elector = cluster.builder("a").start_with_client(cluster.client(kubeconfig)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    assert_eq!(cluster.holder().as_deref(), Some("a"));
    guard.release().expect("released");
    assert_eq!(cluster.holder(), None);
}

/// Copies a kubeconfig and its certificates, and returns a client with the copy.
///
/// Each pair in `files` is the name of a copy and the name of its source.
fn copy(from: &Path, to: &Path, files: &[(&str, &str)]) -> Client {
    let directory = from.parent().expect("a directory");
    std::fs::copy(from, to.join("config")).expect("a copy of the kubeconfig");
    for (name, source) in files {
        std::fs::copy(directory.join(source), to.join(name)).expect("a copy of a certificate");
    }
    let config = ClientConfig::from_kubeconfig(Some(&to.join("config")), None);
    Client::new(config.expect("a configuration")).expect("a client")
}

#[test]
fn the_servers_own_certificate_is_authority_enough() {
    let Some(cluster) = Cluster::real("the-servers-own-certificate") else { return };
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let files = [("ca-bundle.crt", "kube-apiserver.crt"), ("candidate.crt", "candidate.crt")];
    let files = [&files[..], &[("candidate.key", "candidate.key")]].concat();
    let client = copy(&cluster.kubeconfig("candidate-cert-files"), scratch.path(), &files);
    let elector = cluster.builder("a").start_with_client(client).expect("an elector");
    elector.block_until_leader().expect("a term").release().expect("released");
}

/// After a failed handshake, the client reads the files again without waiting for a minute.
#[test]
fn certificates_replaced_after_expiry_are_used_at_once() {
    let Some(cluster) = Cluster::real("replaced-certificates") else { return };
    let from = cluster.kubeconfig("candidate-cert-files");
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let write = |name: &str, text: &str| std::fs::write(scratch.path().join(name), text).expect("a file");
    // The files belong to another cluster at first.
    let other = ApiServer::builder().tls(true).start().expect("an in-memory server");
    let (chain, key) = other.client_certificate("candidate");
    write("ca-bundle.crt", &other.ca_pem().expect("an authority"));
    write("candidate.crt", &chain);
    write("candidate.key", &key);
    let client = copy(&from, scratch.path(), &[]);
    let leases = LeaseStore::new(client.clone(), NAMESPACE).expect("a store");
    let get = || leases.get(&cluster.lease, &CallContext::new(SOON, CancelToken::new()));
    let failure = || get().map(drop).map_err(|error| error.kind());
    assert_eq!(failure(), Err(StoreErrorKind::Untrusted));
    let directory = from.parent().expect("a directory");
    let replace = |name: &str| std::fs::copy(directory.join(name), scratch.path().join(name)).expect("a copy");
    replace("ca-bundle.crt");
    assert_eq!(failure(), Err(StoreErrorKind::Unauthorized), "now it is only the client that is not known");
    replace("candidate.crt");
    assert_eq!(failure(), Err(StoreErrorKind::Unauthorized), "half a rotation");
    replace("candidate.key");
    assert!(get().expect("an answer").is_none());
    let elector = cluster.builder("a").start_with_client(client.clone()).expect("an elector");
    elector.block_until_leader().expect("a term").release().expect("released");
}

/// The managed fields of a write name the program, and not only the library.
#[test]
fn managed_fields_name_the_program() {
    let Some(cluster) = Cluster::real("managed-fields") else { return };
    let elector = cluster.builder("a").start_with_client(cluster.client("candidate")).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let lease = cluster.lease().expect("a lease");
    let manager = lease["metadata"]["managedFields"][0]["manager"].as_str().expect("a manager");
    let program = std::env::current_exe().expect("a program");
    assert_eq!(Some(manager), program.file_name().and_then(|name| name.to_str()), "{lease}");
    drop(guard);
}
