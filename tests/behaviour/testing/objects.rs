//! Reads and writes of objects: versions, conflicts, validation.

use leasehold_testing::Resource;
use serde_json::{Value, json};

use crate::testing::support::*;

#[test]
fn a_created_object_carries_the_systems_metadata() {
    let server = server();
    let before = server.revision();
    let created = create_x(&server);
    assert_eq!([version(&created), server.revision()], [before + 1; 2]);
    let metadata = &created["metadata"];
    assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("x"), &json!("default")));
    assert_eq!(created["kind"], "Lease");
    let uid = metadata["uid"].as_str().unwrap();
    assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    let made = metadata["creationTimestamp"].as_str().unwrap();
    assert_eq!((made.len(), &made[19..]), (20, "Z"));
    assert_eq!(get(&server, X).json(), created);
}

/// `behaviour/conformance.rs` checks the codes and reasons of refusals on a real server.
#[test]
fn refusals_have_the_words_of_the_real_server() {
    let server = server();
    let old = create_x(&server);
    server.delete(Resource::Leases, "default", "x");
    put(&server, X, &old).assert_says(409, "Conflict", "Precondition failed: UID in precondition");
    get(&server, X).assert_says(404, "NotFound", "leases.coordination.k8s.io \"x\" not found");
    assert_eq!(
        get(&server, X).json()["details"],
        json!({"name": "x", "group": "coordination.k8s.io", "kind": "leases"})
    );
    let elsewhere = LEASES.replace("default", "nowhere");
    let created = post(&server, &elsewhere, &lease(json!({})));
    created.assert_says(404, "NotFound", "namespaces \"nowhere\" not found");
    server.add_namespace("nowhere");
    assert_eq!(post(&server, &elsewhere, &lease(json!({}))).code, 201);

    let stale = create_x(&server);
    server.edit(Resource::Leases, "default", "x", |lease| lease["spec"]["holderIdentity"] = json!("b"));
    let mut both = stale.clone();
    both["spec"]["leaseDurationSeconds"] = json!(0);
    let modified = "Operation cannot be fulfilled on leases.coordination.k8s.io \"x\": the object has been modified; \
                    please apply your changes to the latest version and try again";
    for object in [&stale, &both] {
        put(&server, X, object).assert_says(409, "Conflict", modified);
    }
    let without = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    put(&server, X, &lease(json!({}))).assert_says(422, "Invalid", without);
    let with_version = "resourceVersion should not be set on objects to be created";
    for (change, code, reason, message) in [
        (json!({}), 409, "AlreadyExists", "leases.coordination.k8s.io \"x\" already exists"),
        (json!({"metadata": {"name": "y", "resourceVersion": "7"}}), 500, "", with_version),
        (json!({"metadata": {"name": "y", "labels": {"a": 1}}}), 400, "BadRequest", ""),
        (json!({"apiVersion": "v1"}), 400, "BadRequest", ""),
        (json!({"kind": "Sofa"}), 400, "BadRequest", ""),
        (json!({"spec": "spec"}), 400, "BadRequest", ""),
        (json!({"spec": {"renewTime": "yesterday"}}), 400, "BadRequest", "cannot be handled as a Lease: parsing time"),
        (
            json!({"spec": {"leaseTransitions": 2147483648_u64}}),
            400,
            "BadRequest",
            "cannot unmarshal number 2147483648",
        ),
        (json!({"spec": {"leaseDurationSeconds": 0}}), 422, "Invalid", "Invalid value: 0: must be greater than 0"),
    ] {
        let mut object = lease(json!({}));
        object.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        post(&server, LEASES, &object).assert_says(code, reason, message);
    }
    assert_eq!(server.get(Resource::Leases, "default", "y"), None);
}

#[test]
fn config_maps_and_endpoints_are_updated_without_a_version() {
    let server = server();
    let path = "/api/v1/namespaces/default/endpoints/e";
    let object = |label: &str| json!({"metadata": {"name": "e", "labels": {"l": label}}});
    assert_eq!(["1", "2"].map(|label| put(&server, path, &object(label)).code), [201, 200], "created by PUT");
    let path = format!("{CONFIG_MAPS}/c");
    let object = |data: &str| json!({"metadata": {"name": "c"}, "data": {"k": data}});
    put(&server, &path, &object("0")).assert_status(404, "NotFound");
    let first = post(&server, CONFIG_MAPS, &object("1")).json();
    assert_eq!(put(&server, &path, &object("2")).code, 200);
    put(&server, &path, &first).assert_status(409, "Conflict");
}

#[test]
fn names_are_checked_and_agree_with_the_path() {
    let server = server();
    let object = create_x(&server);
    for (field, value) in [("name", "y"), ("namespace", "kube-system"), ("name", "")] {
        let mut object = object.clone();
        object["metadata"][field] = json!(value);
        put(&server, X, &object).assert_status(400, "BadRequest");
    }
    let mut elsewhere = lease(json!({}));
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    post(&server, LEASES, &elsewhere).assert_status(400, "BadRequest");
    for name in ["", "Upper", "-a", "a..b", "a/b"] {
        let body = post(&server, LEASES, &json!({"metadata": {"name": name}})).assert_status(422, "Invalid");
        assert_eq!(body["details"]["causes"][0]["field"], "metadata.name");
    }
}

#[test]
fn a_deletion_has_preconditions_and_takes_a_version_of_its_own() {
    let server = server();
    let created = create_x(&server);
    let delete = |preconditions: Value| call(&server, "DELETE", X, Some(&json!({"preconditions": preconditions})));
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        delete(wrong).assert_status(409, "Conflict");
    }
    let metadata = &created["metadata"];
    let reply = delete(json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}));
    assert_eq!(reply.code, 200);
    let body = reply.json();
    assert_eq!(body["status"], "Success");
    assert_eq!(body["details"]["uid"], created["metadata"]["uid"]);
    assert_eq!(server.revision(), version(&created) + 1);
    call(&server, "DELETE", X, None).assert_status(404, "NotFound");
}

#[test]
fn a_list_is_of_one_namespace_or_of_all() {
    let server = server();
    for (namespace, name) in [("default", "a"), ("default", "b"), ("kube-system", "c")] {
        server.put(Resource::Leases, namespace, name, json!({"spec": {}}));
    }
    let names = |path: &str| {
        let list = get(&server, path).json();
        assert_eq!(list["kind"], "LeaseList");
        assert_eq!(version(&list), server.revision());
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(LEASES), ["a", "b"]);
    assert_eq!(names("/apis/coordination.k8s.io/v1/leases"), ["a", "b", "c"]);
    assert_eq!(names(&format!("{LEASES}?fieldSelector=metadata.name=b")), ["b"]);
    get(&server, &format!("{LEASES}?fieldSelector=spec.x=b")).assert_status(400, "BadRequest");
    get(&server, &format!("{LEASES}?labelSelector=a")).assert_status(400, "BadRequest");
}

#[test]
fn events_have_two_faces() {
    let server = server();
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-11-21T10:00:00.000000Z",
        "reportingController": "leasehold",
        "reportingInstance": "pod-1",
        "action": "LeaderElection",
        "reason": "StartedLeading",
        "regarding": {"kind": "Lease", "name": "x", "namespace": "default"},
        "note": "became leader",
        "type": "Normal",
    });
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let created = post(&server, path, &event);
    assert_eq!(created.code, 201, "{}", created.json());
    assert_eq!(created.json()["note"], "became leader");
    let core = get(&server, "/api/v1/namespaces/default/events/e").json();
    assert_eq!(core["apiVersion"], "v1");
    assert_eq!(core["message"], "became leader");
    assert_eq!(core["involvedObject"]["name"], "x");

    let mut incomplete = event.clone();
    incomplete["metadata"]["name"] = json!("f");
    incomplete.as_object_mut().unwrap().remove("action");
    post(&server, path, &incomplete).assert_status(422, "Invalid");
    let mut elsewhere = event;
    elsewhere["metadata"]["name"] = json!("g");
    elsewhere["regarding"]["namespace"] = json!("kube-system");
    post(&server, path, &elsewhere).assert_status(422, "Invalid");
}

#[test]
fn health_and_version_answer() {
    let server = server();
    for path in ["/healthz", "/readyz", "/livez"] {
        let reply = get(&server, path);
        assert_eq!((reply.code, reply.body.as_slice()), (200, b"ok".as_slice()));
    }
    assert_eq!(get(&server, "/version").json()["major"], "1");
    get(&server, "/apis/apps/v1/deployments").assert_status(404, "NotFound");
    call(&server, "DELETE", LEASES, None).assert_status(405, "MethodNotAllowed");
}

#[test]
fn the_operators_hand_works_past_the_rules() {
    let server = server();
    let put = server.put(Resource::Leases, "default", "x", json!({"spec": {"leaseDurationSeconds": "soon"}}));
    assert_eq!(get(&server, X).json(), put);
    let edited = server
        .edit(Resource::Leases, "default", "x", |lease| {
            lease["spec"] = json!({"holderIdentity": "operator"});
        })
        .unwrap();
    assert_eq!(version(&edited), version(&put) + 1);
    let all = server.list(Resource::Leases, "default");
    assert_eq!(all.as_slice(), std::slice::from_ref(&edited));
    let deleted = server.delete(Resource::Leases, "default", "x").unwrap();
    assert_eq!(version(&deleted), version(&edited) + 1);
    assert_eq!(server.edit(Resource::Leases, "default", "x", |_| ()), None);
    server.put(Resource::Leases, "default", "x", json!("no object at all"));
    assert_eq!(get(&server, X).json()["metadata"]["name"], "x");
}
