//! Reading and writing objects: versions, conflicts, validation.

use leasehold::testing::{ApiServer, Resource};
use serde_json::{Value, json};

use crate::testing::support::*;

fn server() -> ApiServer {
    ApiServer::start().unwrap()
}

/// The answer to a lease with this spec, created under the name `x`.
fn create_with(spec: Value) -> Reply {
    post(&server(), LEASES, &lease(spec))
}

#[test]
fn a_created_object_carries_the_systems_metadata() {
    let server = server();
    let before = server.revision();
    let created = create_x(&server);
    assert_eq!(version(&created), before + 1);
    assert_eq!(server.revision(), before + 1);
    assert_eq!(created["metadata"]["name"], "x");
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["kind"], "Lease");
    let uid = created["metadata"]["uid"].as_str().unwrap();
    assert_eq!(uid.len(), 36);
    assert_eq!(&uid[14..15], "4");
    let made = created["metadata"]["creationTimestamp"].as_str().unwrap();
    assert_eq!((made.len(), &made[19..]), (20, "Z"));
    assert_eq!(get(&server, X).json(), created);
}

#[test]
fn a_missing_object_is_not_found() {
    let body = get(&server(), X).assert_status(404, "NotFound");
    assert_eq!(body["message"], "leases.coordination.k8s.io \"x\" not found");
    assert_eq!(body["details"], json!({"name": "x", "group": "coordination.k8s.io", "kind": "leases"}));
}

#[test]
fn creating_twice_is_already_exists() {
    let server = server();
    create_x(&server);
    let body = post(&server, LEASES, &lease(json!({}))).assert_status(409, "AlreadyExists");
    assert_eq!(body["message"], "leases.coordination.k8s.io \"x\" already exists");
}

#[test]
fn creating_with_a_version_is_an_internal_error() {
    let server = server();
    let mut object = lease(json!({}));
    object["metadata"]["resourceVersion"] = json!("7");
    let body = post(&server, LEASES, &object).assert_status(500, "");
    assert_eq!(body["message"], "resourceVersion should not be set on objects to be created");
    assert_eq!(server.get(Resource::Leases, "default", "x"), None);
}

#[test]
fn a_missing_namespace_is_not_found() {
    let server = server();
    let path = LEASES.replace("default", "nowhere");
    let body = post(&server, &path, &lease(json!({}))).assert_status(404, "NotFound");
    assert_eq!(body["message"], "namespaces \"nowhere\" not found");
    assert_eq!(body["details"], json!({"name": "nowhere", "kind": "namespaces"}));
    server.add_namespace("nowhere");
    assert_eq!(post(&server, &path, &lease(json!({}))).code, 201);
}

#[test]
fn an_update_needs_the_current_version() {
    let server = server();
    let mut object = create_x(&server);
    object["spec"]["holderIdentity"] = json!("b");
    let stale = object.clone();
    let updated = put(&server, X, &object);
    assert_eq!(updated.code, 200);
    let updated = updated.json();
    assert_eq!(version(&updated), version(&stale) + 1);
    assert_eq!(updated["metadata"]["uid"], stale["metadata"]["uid"]);

    let body = put(&server, X, &stale).assert_status(409, "Conflict");
    assert_eq!(
        body["message"],
        "Operation cannot be fulfilled on leases.coordination.k8s.io \"x\": the object has been \
         modified; please apply your changes to the latest version and try again"
    );
    assert_eq!(get(&server, X).json(), updated);
}

#[test]
fn a_lease_update_without_a_version_is_invalid() {
    let server = server();
    create_x(&server);
    let body = put(&server, X, &lease(json!({}))).assert_status(422, "Invalid");
    assert_eq!(body["details"]["causes"][0]["field"], "metadata.resourceVersion");
    assert_eq!(
        body["message"],
        "leases.coordination.k8s.io \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: \
         must be specified for an update"
    );
}

#[test]
fn a_config_map_update_needs_no_version_but_respects_one() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/c");
    let object = |data: &str| json!({"metadata": {"name": "c"}, "data": {"k": data}});
    put(&server, &path, &object("0")).assert_status(404, "NotFound");
    let first = post(&server, CONFIG_MAPS, &object("1")).json();
    assert_eq!(put(&server, &path, &object("2")).code, 200);
    put(&server, &path, &first).assert_status(409, "Conflict");
}

#[test]
fn endpoints_are_updated_without_a_version_and_created_by_put() {
    let server = server();
    let path = "/api/v1/namespaces/default/endpoints/e";
    let object = |label: &str| json!({"metadata": {"name": "e", "labels": {"l": label}}});
    assert_eq!(put(&server, path, &object("1")).code, 201);
    assert_eq!(put(&server, path, &object("2")).code, 200);
}

#[test]
fn an_identical_update_changes_nothing() {
    let server = server();
    let created = create_x(&server);
    let reply = put(&server, X, &created);
    assert_eq!((reply.code, reply.json()), (200, created));
}

#[test]
fn an_update_of_a_deleted_object_creates_it() {
    let server = server();
    let old = create_x(&server);
    server.delete(Resource::Leases, "default", "x");

    let body = put(&server, X, &old).assert_status(409, "Conflict");
    let message = body["message"].as_str().unwrap();
    assert!(message.contains("Precondition failed: UID in precondition"));

    let mut anonymous = old.clone();
    anonymous["metadata"].as_object_mut().unwrap().remove("uid");
    let reply = put(&server, X, &anonymous);
    assert_eq!(reply.code, 201);
    assert_ne!(reply.json()["metadata"]["uid"], old["metadata"]["uid"]);
}

#[test]
fn an_update_with_another_uid_is_a_conflict() {
    let server = server();
    let mut object = create_x(&server);
    object["metadata"]["uid"] = json!("11111111-1111-4111-8111-111111111111");
    put(&server, X, &object).assert_status(409, "Conflict");
}

#[test]
fn name_and_namespace_must_agree_with_the_path() {
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
}

#[test]
fn times_have_exactly_six_digits() {
    for field in ["renewTime", "acquireTime"] {
        for time in ["2026-11-21T10:00:00Z", "2026-11-21T10:00:00.1Z", "2026-11-21T10:00:00.1234567Z", "yesterday"] {
            let body = create_with(json!({field: time})).assert_status(400, "BadRequest");
            let message = body["message"].as_str().unwrap();
            assert!(message.starts_with("Lease in version \"v1\" cannot be handled as a Lease: parsing time"));
        }
        let time = "1970-01-01T00:00:00.000001Z";
        let reply = create_with(json!({field: time}));
        assert_eq!((reply.code, &reply.json()["spec"][field]), (201, &json!(time)));
    }
}

#[test]
fn a_duration_is_positive_or_absent() {
    for seconds in [0, -1] {
        let body = create_with(json!({"leaseDurationSeconds": seconds})).assert_status(422, "Invalid");
        assert_eq!(
            body["message"],
            format!(
                "Lease.coordination.k8s.io \"x\" is invalid: spec.leaseDurationSeconds: \
                 Invalid value: {seconds}: must be greater than 0"
            )
        );
    }
    assert_eq!(create_with(json!({"leaseDurationSeconds": 1})).code, 201);
    assert_eq!(create_with(json!({"leaseDurationSeconds": null})).code, 201);
    assert_eq!(create_with(json!({})).code, 201);
    let bare = json!({"metadata": {"name": "x"}});
    assert_eq!(post(&server(), LEASES, &bare).json()["spec"], json!({}));
}

#[test]
fn transitions_are_32_bits_and_not_negative() {
    let body = create_with(json!({"leaseTransitions": 2147483648_u64})).assert_status(400, "BadRequest");
    let message = body["message"].as_str().unwrap();
    assert!(message.contains("cannot unmarshal number 2147483648"));
    create_with(json!({"leaseTransitions": -1})).assert_status(422, "Invalid");
    assert_eq!(create_with(json!({"leaseTransitions": 2147483647})).code, 201);
    assert_eq!(create_with(json!({"leaseTransitions": 0})).code, 201);
}

#[test]
fn wrong_types_are_refused() {
    for spec in [
        json!({"holderIdentity": 7}),
        json!({"leaseDurationSeconds": "15"}),
        json!({"leaseDurationSeconds": 1.5}),
        json!({"renewTime": 0}),
        json!("spec"),
    ] {
        create_with(spec).assert_status(400, "BadRequest");
    }
    let mut object = lease(json!({}));
    object["metadata"]["labels"] = json!({"a": 1});
    post(&server(), LEASES, &object).assert_status(400, "BadRequest");
}

#[test]
fn unknown_fields_are_dropped_and_known_ones_kept() {
    let server = server();
    let mut object = lease(json!({"holderIdentity": "", "strategy": "s", "colour": "blue"}));
    object["extra"] = json!(1);
    object["metadata"]["labels"] = json!({"a": "b"});
    object["metadata"]["annotations"] = json!({"c": "d"});
    let created = post(&server, LEASES, &object).json();
    assert_eq!(created["spec"], json!({"holderIdentity": ""}));
    assert_eq!(created["extra"], Value::Null);
    assert_eq!(created["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(created["metadata"]["annotations"], json!({"c": "d"}));
}

#[test]
fn kind_and_version_must_not_lie() {
    let mut object = lease(json!({}));
    object["apiVersion"] = json!("v1");
    post(&server(), LEASES, &object).assert_status(400, "BadRequest");
    let mut object = lease(json!({}));
    object["kind"] = json!("Sofa");
    post(&server(), LEASES, &object).assert_status(400, "BadRequest");
}

#[test]
fn names_are_checked() {
    for name in ["", "Upper", "-a", "a..b", "a/b"] {
        let object = json!({"metadata": {"name": name}});
        let body = post(&server(), LEASES, &object).assert_status(422, "Invalid");
        assert_eq!(body["details"]["causes"][0]["field"], "metadata.name");
    }
}

#[test]
fn the_version_is_checked_before_the_content() {
    let server = server();
    let mut object = create_x(&server);
    object["metadata"]["resourceVersion"] = json!("1");
    object["spec"]["leaseDurationSeconds"] = json!(0);
    put(&server, X, &object).assert_status(409, "Conflict");
}

#[test]
fn a_deletion_takes_a_version_of_its_own() {
    let server = server();
    let created = create_x(&server);
    let reply = call(&server, "DELETE", X, None);
    assert_eq!(reply.code, 200);
    let body = reply.json();
    assert_eq!(body["status"], "Success");
    assert_eq!(body["details"]["uid"], created["metadata"]["uid"]);
    assert_eq!(server.revision(), version(&created) + 1);
    call(&server, "DELETE", X, None).assert_status(404, "NotFound");
}

#[test]
fn a_deletion_may_have_preconditions() {
    let server = server();
    let created = create_x(&server);
    let with = |preconditions: Value| json!({"preconditions": preconditions});
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        call(&server, "DELETE", X, Some(&with(wrong))).assert_status(409, "Conflict");
    }
    let right = json!({
        "uid": created["metadata"]["uid"],
        "resourceVersion": created["metadata"]["resourceVersion"],
    });
    assert_eq!(call(&server, "DELETE", X, Some(&with(right))).code, 200);
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
