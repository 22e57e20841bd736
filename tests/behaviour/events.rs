//! Events about terms, on both servers.

use crate::support::api::Method;
use leasehold::LeaderElector;
use leasehold::client_go::ResourceLock;
use serde_json::Value;

use crate::elector::listener::{lines_beginning, listen};
use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::wait_until;

on_both_servers! {
    terms_are_events_that_are_found_at_their_object,
    a_request_to_step_down_is_an_event,
    a_config_map_has_events_too,
    missing_events_right_is_logged_once_and_the_term_goes_on,
}

/// Returns the events of an object in the form of core/v1.
///
/// `kubectl describe` requests the same form.
fn events(cluster: &Cluster, kind: &str, uid: &Value) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/events");
    let mut list = cluster.api("admin").request(Method::GET, &path, None).expect("a list");
    let all = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let is_of_it = |event: &Value| event["involvedObject"]["kind"] == kind && event["involvedObject"]["uid"] == *uid;
    all.into_iter().filter(is_of_it).collect()
}

fn messages(events: &[Value]) -> Vec<&str> {
    let mut messages: Vec<_> = events.iter().filter_map(|event| event["message"].as_str()).collect();
    messages.sort_unstable();
    messages
}

fn terms_are_events_that_are_found_at_their_object(cluster: &Cluster) {
    let elector = cluster.builder("pod-1").events(true).start_with_client(cluster.client("admin")).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let uid = &cluster.lease().expect("a lease")["metadata"]["uid"];
    wait_until("the first event", || messages(&events(cluster, "Lease", uid)) == ["pod-1 became leader"]);
    drop(guard);
    let both = ["pod-1 became leader", "pod-1 stopped leading"];
    wait_until("the second event", || messages(&events(cluster, "Lease", uid)) == both);
    let event = &events(cluster, "Lease", uid)[0];
    assert_eq!((event["reason"].as_str(), event["type"].as_str()), (Some("LeaderElection"), Some("Normal")));
    assert_eq!(event["involvedObject"]["name"], *cluster.lease);
}

fn a_request_to_step_down_is_an_event(cluster: &Cluster) {
    let builder = cluster.builder("pod-1").events(true).accept_requests(true);
    let elector = builder.start_with_client(cluster.client("admin")).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let lease = cluster.edit(|lease| lease["metadata"]["annotations"]["leasehold.dev/step-down"] = "pod-1".into());
    let uid = &lease["metadata"]["uid"];
    let both = ["pod-1 became leader", "pod-1 stopped leading: a step-down was requested"];
    wait_until("both events", || messages(&events(cluster, "Lease", uid)) == both);
    drop(guard);
}

fn a_config_map_has_events_too(cluster: &Cluster) {
    // The identity is too long for the text of an event.
    let identity = format!("pod-{}", "ä".repeat(510));
    let builder = LeaderElector::builder(&cluster.lease).namespace(NAMESPACE).identity(&identity).events(true);
    let builder = builder.resource_lock(ResourceLock::ConfigMaps);
    let elector = builder.start_with_client(cluster.client("admin")).expect("an elector");
    let _guard = elector.block_until_leader().expect("a term");
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{}", cluster.lease);
    let object = cluster.api("admin").request(Method::GET, &path, None).expect("the object");
    let uid = &object["metadata"]["uid"];
    let is_there = || messages(&events(cluster, "ConfigMap", uid)).iter().any(|it| it.ends_with(" became leader"));
    wait_until("an event", is_there);
}

fn missing_events_right_is_logged_once_and_the_term_goes_on(cluster: &Cluster) {
    listen();
    let elector =
        cluster.builder("pod-1").events(true).start_with_client(cluster.client("candidate")).expect("an elector");
    let begin = format!("Lease {NAMESPACE}/{}: event ", cluster.lease);
    for term in 1..=2 {
        let guard = elector.block_until_leader().expect("a term");
        wait_until("a line of the beginning", || lines_beginning(&begin).len() == 2 * term - 1);
        assert!(guard.is_leader());
        guard.release().expect("a release");
        wait_until("a line of the end", || lines_beginning(&begin).len() == 2 * term);
    }
    let lines = lines_beginning(&begin);
    let warnings: Vec<_> = lines.iter().filter(|(level, _)| *level == log::Level::Warn).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].1.contains("grant the verb `create` on the resource `events`"), "{warnings:?}");
}
