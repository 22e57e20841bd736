//! Users, tokens and certificates of etcd.

use std::sync::Arc;

use leasehold::TlsConfig;
use leasehold::etcd::{EtcdConfig, EtcdStore};
use leasehold::store::{CancelToken, Cursor, Store, StoreErrorKind, WatchEvent, WatchScope};

use crate::support::authority::Authority;
use crate::support::etcd::{Etcd, PASSWORD};
use crate::support::stores::{call, elector, held_by};
use crate::support::{SOON, wait_until};

fn store(etcd: &Etcd, password: &str) -> EtcdStore {
    EtcdStore::new(etcd.config("users/").with_user("jobs").with_password(password)).expect("a store")
}

#[test]
fn a_user_where_there_are_none_is_refused_with_a_hint() {
    let Some(etcd) = Etcd::shared() else { return };
    let error = store(etcd, PASSWORD).get("jobs", &call()).expect_err("a refusal");
    assert_eq!(error.kind(), StoreErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("remove the user"), "{error}");
}

#[test]
fn a_term_outlasts_its_tokens_and_so_do_a_watch_and_a_standby() {
    let Some(mut etcd) = Etcd::start(1, &[]) else { return };
    etcd.enable_users("users/");
    let (leads, waits) = (Arc::new(store(&etcd, PASSWORD)), Arc::new(store(&etcd, PASSWORD)));
    let leader = elector(&leads, "a");
    let guard = leader.block_until_leader().expect("a term");
    let standby = elector(&waits, "b");
    let campaign = standby.campaign().expect("a campaign");
    let version = || leads.get("jobs", &call()).expect("an answer").expect("a record").version;
    etcd.set_password_of_jobs(PASSWORD);
    let before = version();
    wait_until("it is renewed with another token", || version() > before);
    // etcd keeps its tokens in memory, so a restart deletes the tokens.
    etcd.members[0].kill();
    etcd.members[0].start_again();
    let renewed = || leads.get("jobs", &call()).ok().flatten().is_some_and(|it| it.version > before + 5);
    wait_until("it is renewed after a restart", renewed);
    assert!(guard.is_leader(), "{:?}", guard.check());
    drop(guard);
    let next = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert!(next.is_leader());
    // A watch whose first token is refused gets another token by itself.
    etcd.set_password_of_jobs(PASSWORD);
    let cancel = CancelToken::new();
    let from = Cursor::new(1_u64);
    let ended = waits.watch(WatchScope::Key("jobs"), Some(&from), &cancel, &mut |event| {
        if let WatchEvent::Opened = event {
            cancel.cancel();
        }
    });
    assert_eq!(ended.expect_err("it was cancelled").kind(), StoreErrorKind::Interrupted);
}

#[test]
fn client_certificate_is_shown_to_a_verified_server_only() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let authority = Authority::new();
    let client = authority.issue("client");
    let server = authority.issue("127.0.0.1");
    let Some(etcd) = Etcd::start_with_certificates(&authority, &server, scratch.path()) else { return };
    let ca = scratch.path().join("ca.crt");
    let tls = || TlsConfig::new().with_ca_file(&ca).expect("an authority");
    let config = |tls| EtcdConfig::new(etcd.urls()).expect("URLs").with_tls(tls);
    let pair = (client.certificate.clone(), client.key.clone());
    let ours = tls().with_client_certificate_pem(pair.0, pair.1).expect("a pair");
    let store = Arc::new(EtcdStore::new(config(ours)).expect("a store"));
    let elector = elector(&store, "a");
    let guard = elector.block_until_leader().expect("a term");
    assert!(guard.is_leader() && store.location().is_some_and(|at| at.starts_with("https://")));
    drop(guard);
    let old = authority.issue_version_1("client");
    let old = tls().with_client_certificate_pem(old.certificate, old.key).expect("a pair");
    EtcdStore::new(config(old)).expect("a store").get("jobs", &call()).expect("X.509 version 1 is accepted");
    let nobody = EtcdStore::new(config(tls())).expect("a store").get("jobs", &call()).expect_err("no certificate");
    assert_eq!(nobody.kind(), StoreErrorKind::Unavailable, "{nobody}");
    let system = EtcdConfig::new(etcd.urls()).expect("URLs");
    let untrusted = EtcdStore::new(system).expect("a store").create("jobs", held_by("x").as_write(), &call());
    let untrusted = untrusted.expect_err("an unknown authority");
    assert_eq!(untrusted.kind(), StoreErrorKind::Untrusted, "{untrusted}");
}

/// The gateway of etcd shows the server certificate of the member as a client certificate.
#[test]
fn server_certificate_without_client_auth_is_named() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let authority = Authority::new();
    let (server, client) = (authority.issue_for_a_server("127.0.0.1"), authority.issue("client"));
    let Some(etcd) = Etcd::start_with_certificates(&authority, &server, scratch.path()) else { return };
    let tls = TlsConfig::new().with_ca_file(scratch.path().join("ca.crt")).expect("an authority");
    let tls = tls.with_client_certificate_pem(client.certificate, client.key).expect("a pair");
    let store = EtcdStore::new(EtcdConfig::new(etcd.urls()).expect("URLs").with_tls(tls)).expect("a store");
    let error = store.get("jobs", &call()).expect_err("the gateway is refused").to_string();
    assert!(error.contains("--client-cert-auth") && error.contains("clientAuth"), "{error}");
}
