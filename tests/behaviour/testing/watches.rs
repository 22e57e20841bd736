//! Watch streams of the in-memory server.

use leasehold_testing::{ApiServer, ExpiredWatch, Resource};
use serde_json::{Value, json};

use crate::testing::support::*;

fn renew(server: &ApiServer, holder: &str) -> Value {
    server.put(Resource::Leases, "default", "x", json!({"spec": {"holderIdentity": holder}}))
}

#[test]
fn watch_without_a_version_starts_with_existing_objects() {
    let server = server();
    let there = create_x(&server);
    for query in ["", "resourceVersion=0", "resourceVersion="] {
        let mut watch = WatchClient::on_x(&server, query);
        assert!(watch.head.contains("application/json"));
        assert_eq!(watch.event(), ("ADDED".into(), there.clone()));
        assert_eq!(watch.peek_silence(), Next::Silent);
    }
}

#[test]
fn other_objects_are_not_seen() {
    let server = server();
    let mut watch = WatchClient::on_x(&server, "");
    server.put(Resource::Leases, "default", "y", json!({}));
    server.put(Resource::Leases, "kube-system", "x", json!({}));
    server.put(Resource::ConfigMaps, "default", "x", json!({}));
    let x = renew(&server, "a");
    assert_eq!(watch.event().1, x);
    let all = "/apis/coordination.k8s.io/v1/leases";
    let mut watch = WatchClient::open(&server, all, "");
    for _ in 0..3 {
        assert_eq!(watch.event().0, "ADDED");
    }
}

#[test]
fn a_future_version_is_silent_until_it_is_reached() {
    let server = server();
    let now = version(&renew(&server, "a"));
    let mut watch = WatchClient::on_x(&server, &format!("resourceVersion={}", now + 2));
    renew(&server, "b");
    renew(&server, "c");
    assert_eq!(watch.peek_silence(), Next::Silent);
    let fourth = renew(&server, "d");
    assert_eq!(watch.event(), ("MODIFIED".into(), fourth));
}

#[test]
fn too_old_is_an_error_event() {
    let server = server();
    let old = version(&renew(&server, "a"));
    renew(&server, "b");
    server.compact();
    let mut watch = WatchClient::on_x(&server, &format!("resourceVersion={old}"));
    let (kind, status) = watch.event();
    assert_eq!(kind, "ERROR");
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(watch.next(), Next::End);
    let now = server.revision();
    let mut watch = WatchClient::on_x(&server, &format!("resourceVersion={now}"));
    let next = renew(&server, "c");
    assert_eq!(watch.event().1, next);
}

#[test]
fn the_history_is_bounded() {
    let server = ApiServer::builder().history(2).expired_watch(ExpiredWatch::Status).start().unwrap();
    let first = version(&renew(&server, "a"));
    let second = version(&renew(&server, "b"));
    renew(&server, "c");
    renew(&server, "d");
    let path = |version: u64| format!("{LEASES}?watch=true&resourceVersion={version}");
    get(&server, &path(first)).assert_says(410, "Expired", &format!("too old resource version: {first}"));
    let mut watch = WatchClient::on_x(&server, &format!("resourceVersion={second}"));
    assert_eq!(watch.event().1["spec"]["holderIdentity"], "c");
}

#[test]
fn bookmarks_are_sent_on_request_only() {
    let server = server();
    let mut asked = WatchClient::on_x(&server, "allowWatchBookmarks=true");
    let mut other = WatchClient::on_x(&server, "");
    server.advance_revision(5);
    server.send_bookmarks();
    let expected = json!({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"resourceVersion": server.revision().to_string()},
    });
    assert_eq!(asked.event(), ("BOOKMARK".into(), expected));
    assert_eq!(other.peek_silence(), Next::Silent);
}

#[test]
fn a_watch_on_one_object_is_a_get() {
    let server = server();
    let object = create_x(&server);
    assert_eq!(get(&server, &format!("{X}?watch=true")).json(), object);
}

#[test]
fn events_are_watched_in_their_own_form() {
    let server = server();
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut watch = WatchClient::open(&server, path, "");
    server.put(Resource::Events, "default", "e", json!({"message": "hi"}));
    let (_, event) = watch.event();
    assert_eq!((&event["note"], &event["apiVersion"]), (&json!("hi"), &json!("events.k8s.io/v1")));
}

#[test]
fn a_herd_of_watchers_sees_every_change() {
    let server = server();
    let mut watches = (0..100).map(|_| WatchClient::on_x(&server, "")).collect::<Vec<_>>();
    let changes = (0..5).map(|turn| renew(&server, &turn.to_string())).collect::<Vec<_>>();
    for watch in &mut watches {
        for change in &changes {
            assert_eq!(&watch.event().1, change);
        }
    }
}

#[test]
fn slow_reader_delays_no_one() {
    let server = server();
    let slow = WatchClient::on_x(&server, "");
    let ballast = "x".repeat(100_000);
    for turn in 0..100 {
        renew(&server, &format!("{turn}{ballast}"));
    }
    assert_eq!(get(&server, X).code, 200);
    drop(slow);
}
