//! Every kind of credential elects, on the real server.

mod support;

use support::cluster::Cluster;

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
    certificates_in_files_beside_the_kubeconfig_and_a_ca_that_is_a_bundle: "candidate-cert-files",
    a_credential_plugin_that_gives_a_token: "candidate-exec",
    a_credential_plugin_that_gives_a_certificate: "candidate-exec-cert",
    an_administrator_who_impersonates_a_candidate: "admin-impersonating-candidate",
}

fn elect(test: &str, kubeconfig: &str) {
    let Some(cluster) = Cluster::real(test) else { return };
    let elector = cluster.builder("a").start_with(cluster.client(kubeconfig)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    assert_eq!(cluster.holder().as_deref(), Some("a"));
    guard.release().expect("released");
    assert_eq!(cluster.holder(), None);
}
