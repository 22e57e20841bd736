//! Facts about the API server on which the protocol relies, checked on both servers.
//!
//! If only the in-memory server passes a test, the in-memory server has a bug.

use crate::elector::listener::heard_here;
use crate::on_both_servers;
use crate::support::SOON;
use crate::support::api::{Api, ApiError, Method};
use crate::support::cluster::{Cluster, NAMESPACE, version};
use crate::support::kind::Kind;
use crate::support::stores::held_by;
use leasehold::kubernetes::EndpointsStore;
use leasehold::store::{CallContext, CancelToken, Store, WatchScope};
use serde_json::{Value, json};

on_both_servers! {
    a_put_must_name_the_version_and_the_uid_of_the_lease,
    a_post_of_an_existing_lease_already_exists,
    a_post_with_a_version_is_an_error,
    a_put_to_a_deleted_lease_creates_it,
    put_to_a_deleted_config_map_or_endpoints_is_as_for_leases,
    an_identical_put_changes_nothing,
    versions_are_integers_that_grow_also_over_deletion,
    times_take_six_fraction_digits_and_z,
    durations_and_transitions_have_limits,
    every_spec_field_may_be_absent,
    fields_that_the_server_does_not_know_are_dropped,
    wrong_types_are_bad_requests,
    a_time_with_an_offset_comes_back_in_utc,
    a_missing_lease_is_not_found_by_kind,
    a_missing_namespace_is_not_found,
    unknown_user_is_unauthorized,
    forbidden_error_names_verb_and_resource,
    user_without_watch_may_do_the_rest,
    watch_of_one_lease_delivers_changes_after_its_version,
    endpoints_warning_is_logged_once_per_client,
}

fn status(result: Result<Value, ApiError>) -> Value {
    result.expect_err("a refusal").status().expect("a Status").clone()
}

fn is(status: &Value, code: u64, reason: &str) {
    assert_eq!((status["code"].as_u64(), status["reason"].as_str()), (Some(code), Some(reason)), "{status}");
}

fn held() -> Value {
    json!({
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z",
    })
}

fn a_put_must_name_the_version_and_the_uid_of_the_lease(cluster: &Cluster) {
    let refuses = |lease: &Value, code, reason| {
        is(&status(cluster.request(Method::PUT, true, Some(lease))), code, reason);
    };
    let stale = cluster.create(held());
    let mut unversioned = stale.clone();
    unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    refuses(&unversioned, 422, "Invalid");
    cluster.edit(|lease| lease["spec"]["leaseTransitions"] = json!(1));
    refuses(&stale, 409, "Conflict");
    cluster.delete();
    refuses(&stale, 409, "Conflict");
    assert!(cluster.lease().is_none());
    let mut lease = cluster.create(held());
    lease["metadata"]["uid"] = stale["metadata"]["uid"].clone();
    refuses(&lease, 409, "Conflict");
}

fn a_post_of_an_existing_lease_already_exists(cluster: &Cluster) {
    cluster.create(held());
    is(&status(cluster.request(Method::POST, false, Some(&cluster.new_lease(held())))), 409, "AlreadyExists");
}

fn a_post_with_a_version_is_an_error(cluster: &Cluster) {
    let mut lease = cluster.create(held());
    cluster.delete();
    lease["metadata"].as_object_mut().unwrap().remove("uid");
    assert!(status(cluster.request(Method::POST, false, Some(&lease)))["code"].as_u64() >= Some(400));
}

fn a_put_to_a_deleted_lease_creates_it(cluster: &Cluster) {
    let mut lease = cluster.create(held());
    cluster.delete();
    let uid = lease["metadata"].as_object_mut().unwrap().remove("uid");
    let (code, _) = cluster.api("admin").send(Method::PUT, &cluster.path(true), Some(&lease)).expect("it is created");
    assert_eq!(code, 201);
    assert_ne!(cluster.lease().unwrap()["metadata"].get("uid").cloned(), uid);
}

fn put_to_a_deleted_config_map_or_endpoints_is_as_for_leases(cluster: &Cluster) {
    let admin = cluster.api("admin");
    for (kind, resource) in [("ConfigMap", "configmaps"), ("Endpoints", "endpoints")] {
        let collection = format!("/api/v1/namespaces/{NAMESPACE}/{resource}");
        let path = format!("{collection}/{}", cluster.lease);
        let new = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": cluster.lease } });
        let mut object = admin.request(Method::POST, &collection, Some(&new)).expect("it is created");
        admin.request(Method::DELETE, &path, None).expect("it is deleted");
        let mut put = |has_uid: bool| {
            if !has_uid {
                object["metadata"].as_object_mut().expect("metadata").remove("uid");
            }
            admin.request(Method::PUT, &path, Some(&object))
        };
        if kind == "ConfigMap" {
            is(&status(put(true)), 404, "NotFound");
            is(&status(put(false)), 404, "NotFound");
        } else {
            is(&status(put(true)), 409, "Conflict");
            put(false).expect("it is created");
        }
    }
}

fn an_identical_put_changes_nothing(cluster: &Cluster) {
    let lease = cluster.create(held());
    let again = cluster.request(Method::PUT, true, Some(&lease)).expect("it is taken");
    assert_eq!(version(&again), version(&lease));
}

fn versions_are_integers_that_grow_also_over_deletion(cluster: &Cluster) {
    let mut last = version(&cluster.create(held()));
    for transitions in 1..5 {
        let now = version(&cluster.edit(|lease| lease["spec"]["leaseTransitions"] = json!(transitions)));
        assert!(now > last);
        last = now;
    }
    cluster.delete();
    assert!(version(&cluster.create(held())) > last + 1, "a deletion takes a version of its own");
}

fn times_take_six_fraction_digits_and_z(cluster: &Cluster) {
    for (field, time, code) in [
        ("renewTime", "2026-01-02T03:04:05.000006Z", 0),
        ("acquireTime", "2026-01-02T03:04:05.000006Z", 0),
        ("renewTime", "1970-01-01T00:00:00.000000Z", 0),
        ("renewTime", "9999-12-31T23:59:59.999999Z", 0),
        ("renewTime", "2026-01-02T03:04:05Z", 400),
        ("acquireTime", "2026-01-02T03:04:05Z", 400),
        ("renewTime", "2026-01-02T03:04:05.1Z", 400),
        ("renewTime", "2026-01-02T03:04:05.0000001Z", 400),
        ("renewTime", "yesterday", 400),
    ] {
        let spec = json!({ "holderIdentity": "a", "leaseDurationSeconds": 15, field: time });
        let lease = cluster.new_lease(spec);
        match cluster.request(Method::POST, false, Some(&lease)) {
            Ok(created) => {
                assert_eq!(code, 0, "{time}");
                assert_eq!(created["spec"][field], time, "kept as it was written");
                cluster.delete();
            }
            Err(error) => assert_eq!(error.code(), Some(code), "{time}: {error}"),
        }
    }
}

fn durations_and_transitions_have_limits(cluster: &Cluster) {
    cluster.create(held());
    for (field, value, code) in [
        ("leaseDurationSeconds", json!(0), 422),
        ("leaseDurationSeconds", json!(-1), 422),
        ("leaseTransitions", json!(-1), 422),
        ("leaseTransitions", json!(2_147_483_648_u32), 400),
        ("leaseTransitions", json!(2_147_483_647), 200),
        ("leaseDurationSeconds", json!(2_147_483_647), 200),
        ("leaseDurationSeconds", json!(null), 200),
        ("leaseTransitions", json!(0), 200),
    ] {
        let mut lease = cluster.lease().unwrap();
        lease["spec"][field] = value.clone();
        match cluster.request(Method::PUT, true, Some(&lease)) {
            Ok(_) => assert_eq!(code, 200, "{field} {value}"),
            Err(error) => assert_eq!(error.code(), Some(code), "{field} {value}: {error}"),
        }
    }
}

fn every_spec_field_may_be_absent(cluster: &Cluster) {
    let lease = cluster.create(json!({}));
    assert!(lease["spec"].get("holderIdentity").is_none());
    let emptied = cluster.edit(|lease| lease["spec"] = json!({ "holderIdentity": "", "leaseDurationSeconds": 1 }));
    assert_eq!(emptied["spec"]["holderIdentity"], "");
}

fn fields_that_the_server_does_not_know_are_dropped(cluster: &Cluster) {
    let lease = cluster.create(json!({ "holderIdentity": "a", "someday": 1, "strategy": "OldestEmulationVersion" }));
    assert_eq!(lease["spec"], json!({ "holderIdentity": "a" }));
}

fn a_time_with_an_offset_comes_back_in_utc(cluster: &Cluster) {
    let lease = cluster.create(json!({ "renewTime": "2026-01-02T03:04:05.000006+02:00" }));
    assert_eq!(lease["spec"]["renewTime"], "2026-01-02T01:04:05.000006Z");
}

fn wrong_types_are_bad_requests(cluster: &Cluster) {
    cluster.create(held());
    for (field, value) in [
        ("holderIdentity", json!(7)),
        ("leaseDurationSeconds", json!("15")),
        ("leaseDurationSeconds", json!(1.5)),
        ("renewTime", json!(0)),
    ] {
        let mut lease = cluster.lease().unwrap();
        lease["spec"][field] = value;
        is(&status(cluster.request(Method::PUT, true, Some(&lease))), 400, "BadRequest");
    }
}

fn a_missing_lease_is_not_found_by_kind(cluster: &Cluster) {
    let status = status(cluster.request(Method::GET, true, None));
    is(&status, 404, "NotFound");
    assert_eq!(status["details"]["kind"], "leases");
}

fn a_missing_namespace_is_not_found(cluster: &Cluster) {
    let mut lease = cluster.new_lease(held());
    lease["metadata"]["namespace"] = json!("no-such-place");
    let path = "/apis/coordination.k8s.io/v1/namespaces/no-such-place/leases";
    let status = status(cluster.api("admin").request(Method::POST, path, Some(&lease)));
    is(&status, 404, "NotFound");
    assert_eq!(status["details"]["kind"], "namespaces");
}

fn unknown_user_is_unauthorized(cluster: &Cluster) {
    let text = std::fs::read_to_string(cluster.kubeconfig("candidate")).unwrap();
    let token = text.split("token:").nth(1).unwrap().split_whitespace().next().unwrap().trim_matches('"');
    let client = Api::of(&text.replace(token, "not-a-token"));
    is(&status(client.request(Method::GET, &cluster.path(true), None)), 401, "Unauthorized");
}

fn forbidden_error_names_verb_and_resource(cluster: &Cluster) {
    let status = status(cluster.api("nobody").request(Method::GET, &cluster.path(true), None));
    is(&status, 403, "Forbidden");
    for word in ["nobody", "get", "leases", "coordination.k8s.io", NAMESPACE] {
        assert!(status["message"].as_str().is_some_and(|message| message.contains(word)), "{word}: {status}");
    }
}

fn user_without_watch_may_do_the_rest(cluster: &Cluster) {
    let client = cluster.api("no-watch");
    let lease = cluster.new_lease(held());
    let lease = client.request(Method::POST, &cluster.path(false), Some(&lease)).expect("create");
    client.request(Method::GET, &cluster.path(true), None).expect("get");
    client.request(Method::PUT, &cluster.path(true), Some(&lease)).expect("update");
    let error = watch(cluster, "no-watch", &cluster.lease, None).err().expect("a refusal");
    assert_eq!(error.code(), Some(403));
    assert!(error.to_string().contains("watch"), "{error}");
}

fn watch(
    cluster: &Cluster,
    user: &str,
    lease: &str,
    after: Option<u64>,
) -> Result<impl Iterator<Item = Value> + use<>, ApiError> {
    let after = after.map(|version| format!("&resourceVersion={version}")).unwrap_or_default();
    let query = format!("watch=true&fieldSelector=metadata.name%3D{lease}&timeoutSeconds=3{after}");
    cluster.api(user).watch(&format!("{}?{query}", cluster.path(false)))
}

/// Returns all events of a watch until the server ends the watch.
fn events(watch: impl Iterator<Item = Value>) -> Vec<(String, u64)> {
    let event = |event: Value| (event["type"].as_str().unwrap().to_owned(), version(&event["object"]));
    watch.map(event).collect()
}

/// All watches run at the same time, because each watch lasts for three seconds.
fn watch_of_one_lease_delivers_changes_after_its_version(cluster: &Cluster) {
    let created = version(&cluster.create(held()));
    let edit =
        |transitions: i32| version(&cluster.edit(|lease| lease["spec"]["leaseTransitions"] = json!(transitions)));
    let first = edit(1);
    let streams = [
        (cluster.lease.as_str(), None),
        (&cluster.lease, Some(created)),
        (&cluster.lease, Some(created + 1_000_000)),
        ("another", Some(created)),
    ]
    .map(|(name, after)| watch(cluster, "candidate", name, after).unwrap());
    assert_eq!(edit(1), first, "an unchanged update is no event");
    let second = edit(2);
    cluster.delete();
    let [from_scratch, after_creation, of_the_future, of_another] = streams.map(events);
    let [.., (_, deleted)] = &after_creation[..] else { panic!("no event") };
    assert!(*deleted > second, "a deletion has a version of its own");
    let event = |kind: &str, version| (kind.to_owned(), version);
    let rest = [event("MODIFIED", second), event("DELETED", *deleted)];
    assert_eq!(from_scratch, [&[event("ADDED", first)], &rest[..]].concat());
    assert_eq!(after_creation, [&[event("MODIFIED", first)], &rest[..]].concat());
    assert_eq!((of_the_future, of_another), (vec![], vec![]));
}

/// The API server warns about Endpoints since version 1.33.
///
/// A client logs the same warning only once, so each request has its own client.
fn endpoints_warning_is_logged_once_per_client(cluster: &Cluster) {
    let call = || CallContext::new(SOON, CancelToken::new());
    let write = |store: &EndpointsStore, is_new: bool| match is_new {
        true => drop(store.create(&cluster.lease, held_by("a").as_write(), &call())),
        false => {
            let base = store.get(&cluster.lease, &call()).expect("an answer").expect("a record");
            store.update(&cluster.lease, &base, held_by("b").as_write(), &call()).expect("an update");
        }
    };
    let watch = |store: &EndpointsStore| {
        let cancel = CancelToken::new();
        store.watch(WatchScope::All, None, &cancel, &mut |_| cancel.cancel()).expect_err("it is cancelled");
    };
    type Call<'a> = &'a dyn Fn(&EndpointsStore);
    let calls: [(&str, Call<'_>); 6] = [
        ("a GET of what is missing", &|store| drop(store.get(&cluster.lease, &call()))),
        ("a creation", &|store| write(store, true)),
        ("a creation of what is there", &|store| write(store, true)),
        ("a GET", &|store| drop(store.get(&cluster.lease, &call()))),
        ("a list and a watch", &watch),
        ("an update", &|store| write(store, false)),
    ];
    let store = |user: &str| EndpointsStore::new(cluster.client(user), NAMESPACE).expect("a store");
    let warnings = |run: &dyn Fn()| heard_here("kubernetes: warning from the server: ", run);
    for (what, call) in calls {
        let store = store("admin");
        let deprecated = ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"];
        assert_eq!(warnings(&|| call(&store)), deprecated, "{what}");
        assert!(warnings(&|| call(&store)).is_empty(), "{what}, once more");
    }
    let unauthorized = store("nobody");
    assert!(warnings(&|| drop(unauthorized.get(&cluster.lease, &call()))).is_empty());
    for other in [Kind::Lease, Kind::ConfigMap] {
        let store = other.store(cluster.client("admin"));
        assert!(warnings(&|| drop(store.get(&cluster.lease, &call()))).is_empty(), "{other:?}");
    }
}
