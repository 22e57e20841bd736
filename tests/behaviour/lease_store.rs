//! Tests of `LeaseStore` on the in-memory API server, beyond the conformance suite.
//!
//! The tests check the request of a watch and the error that ends a watch.

use std::thread;
use std::time::Duration;

use crossbeam_channel::unbounded;

use leasehold::kubernetes::LeaseStore;
use leasehold::store::{
    CancelToken, Cursor, Store, StoreError, StoreErrorKind, VersionedRecord, WatchEvent, WatchScope,
};
use leasehold_testing::{ApiServer, Fault, Resource, Verb};
use serde_json::{Value, json};

use crate::support::SOON;
use crate::support::cluster::client_of;
use crate::support::stores::{call, held_by};

const NAMESPACE: &str = "default";
const LEASE: &str = "locked";

/// Returns a server, a store of its leases, and a created lease.
fn created() -> (ApiServer, LeaseStore, VersionedRecord) {
    let server = ApiServer::start().expect("an in-memory server");
    let store = LeaseStore::new(client_of(&server.kubeconfig("admin")), NAMESPACE).expect("a store");
    let created = store.create(LEASE, held_by("a").as_write(), &call()).expect("a lease");
    (server, store, created)
}

#[test]
fn watch_requests_one_lease_a_version_and_bookmarks() {
    for goes_on in [false, true] {
        let (server, store, base) = created();
        let after = goes_on.then_some(base.version);
        let from = after.map(Cursor::new);
        let cancel = CancelToken::new();
        let (told, tells) = unbounded();
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                store.watch(WatchScope::Key(LEASE), from.as_ref(), &cancel, &mut |event| drop(told.send(event)))
            });
            let opened = tells.recv_timeout(SOON);
            cancel.cancel();
            assert!(matches!(opened, Ok(WatchEvent::Opened)), "{opened:?}");
            let ended = watching.join().expect("no panic").expect_err("stopped");
            assert_eq!(ended.kind(), StoreErrorKind::Interrupted);
        });
        let asked: Vec<_> = server.requests().into_iter().filter(|request| request.verb == Some(Verb::Watch)).collect();
        assert_eq!(asked.len(), 1);
        let has = |parameter: &str| asked[0].query.split('&').any(|it| it == parameter);
        assert!(has("watch=true") && has("allowWatchBookmarks=true"), "{}", asked[0].query);
        assert!(has("fieldSelector=metadata.name%3Dlocked"), "{}", asked[0].query);
        assert!(asked[0].query.contains("timeoutSeconds="), "{}", asked[0].query);
        match after {
            Some(version) => assert!(has(&format!("resourceVersion={version}")), "{}", asked[0].query),
            None => assert!(!asked[0].query.contains("resourceVersion"), "{}", asked[0].query),
        }
    }
}

/// Returns the error of a watch that `fault` ends.
fn end_of_a_watch(fault: Fault) -> StoreError {
    let (server, store, base) = created();
    server.fault(fault.verb(Verb::Watch));
    store
        .watch(WatchScope::Key(LEASE), Some(&Cursor::new(base.version)), &CancelToken::new(), &mut |_| {})
        .expect_err("it is spoiled")
}

/// Returns a fault that sends an error event on an open watch.
fn error_event(code: u16, reason: &str) -> Fault {
    let event = json!({ "type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "made up",
        "details": { "retryAfterSeconds": 9 },
    } });
    Fault::watch_bytes(format!("{event}\n"))
}

#[test]
fn a_watch_that_is_refused_as_gone_has_expired() {
    assert_eq!(end_of_a_watch(Fault::status(410, "Expired", "made up")).kind(), StoreErrorKind::Expired);
    assert_eq!(end_of_a_watch(Fault::status(410, "Gone", "made up")).kind(), StoreErrorKind::Expired);
}

#[test]
fn a_watch_that_is_ended_as_gone_has_expired() {
    assert_eq!(end_of_a_watch(error_event(410, "Expired")).kind(), StoreErrorKind::Expired);
    assert_eq!(end_of_a_watch(error_event(500, "InternalError")).kind(), StoreErrorKind::Unavailable);
}

#[test]
fn ended_watch_passes_on_retry_after() {
    for code in [410, 429, 503] {
        let refused = end_of_a_watch(Fault::status(code, "TooManyRequests", "made up").retry_after(9));
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(9)), "{code}");
        let ended = end_of_a_watch(error_event(code, "TooManyRequests"));
        assert_eq!(ended.retry_after(), Some(Duration::from_secs(9)), "{code}");
    }
}

/// Returns the line of a watch event about the Lease `name`.
fn line(kind: &str, name: &str, version: u64) -> String {
    let metadata = json!({ "name": name, "namespace": NAMESPACE, "uid": "u", "resourceVersion": version.to_string() });
    let object = json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata });
    format!("{}\n", json!({ "type": kind, "object": object }))
}

/// A page of 500 leases exceeds the response limit of the client.
///
/// During the first page that fits, a delivered lease is deleted, and the token of the next page expires.
#[test]
fn list_in_small_pages_restarts_and_loses_no_deletion() {
    let (server, store, _) = created();
    let put = |name: &str, spec: Value| {
        let metadata = json!({ "annotations": { "filler": "x".repeat(60_000) } });
        server.put(Resource::Leases, NAMESPACE, name, json!({ "metadata": metadata, "spec": spec }));
    };
    let names: Vec<_> = (100..220).map(|number| format!("jobs-{number}")).collect();
    names.iter().for_each(|name| put(name, json!({})));
    for damaged in ["jobs-damaged", "jobs", "mail"] {
        put(damaged, json!({ "holderIdentity": 7 }));
    }
    let listed_at = server.revision();
    let (cancel, mut restarted, mut told) = (CancelToken::new(), false, Vec::new());
    let ended = store.watch(WatchScope::Prefix("jobs-"), None, &cancel, &mut |event| match event {
        WatchEvent::Changed { key, .. } => {
            if !std::mem::replace(&mut restarted, true) {
                server.delete(Resource::Leases, NAMESPACE, &key).expect("a lease");
                server.compact();
            }
            told.push(key.into());
        }
        WatchEvent::Synced => told.push("synced".to_owned()),
        WatchEvent::Deleted { key, .. } => told.push(format!("deleted {key}")),
        WatchEvent::Bookmark(cursor) if cursor.get() == Some(&listed_at) => told.push("bookmark".to_owned()),
        WatchEvent::Bookmark(_) => cancel.cancel(),
        _ => {}
    });
    assert_eq!(ended.expect_err("cancelled").kind(), StoreErrorKind::Interrupted);
    let last = ["synced", "bookmark", "deleted jobs-100"].map(str::to_owned);
    assert_eq!(told, [&names[..49], &names[1..], &last].concat());
    let lists = server.requests().into_iter().filter(|request| request.verb == Some(Verb::List));
    let limits: Vec<_> = lists.map(|list| list.query.split(['=', '&']).nth(1).unwrap_or_default().to_owned()).collect();
    assert_eq!(limits, ["500", "50", "50", "50", "50", "50"], "the third request is refused");
}

#[test]
fn cancelled_watch_delivers_no_event() {
    let (server, store, _) = created();
    let lines: String = (0..1000).map(|version| line("MODIFIED", LEASE, 1000 + version)).collect();
    server.fault(Fault::watch_bytes(lines).verb(Verb::Watch).first(1));
    let (cancel, mut changes) = (CancelToken::new(), 0);
    let ended = store.watch(WatchScope::Key(LEASE), None, &cancel, &mut |event| {
        if let WatchEvent::Changed { .. } = event {
            changes += 1;
            // During this wait, all events arrive, but the cancellation must stop their delivery.
            thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        }
    });
    assert_eq!(ended.expect_err("cancelled").kind(), StoreErrorKind::Interrupted);
    assert_eq!(changes, 1);
}
