//! Elections through an API server, on both servers.
//!
//! The candidate is the least-privileged user, because an administrator bypasses RBAC and its errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE, version};
use crate::support::{SOON, lost, wait_until};
use leasehold::kubernetes::OwnerReference;
use leasehold::store::StoreErrorKind;
use leasehold::{Error, LeaderElector, StopReason, Transition};
use serde_json::{Value, json};

on_both_servers! {
    a_first_election_creates_the_lease,
    a_leader_renews,
    a_drop_a_release_and_a_panic_each_release,
    a_lease_of_another_holder_is_waited_out,
    a_released_lease_is_taken_at_once,
    rule_5_transitions_at_the_limit_of_32_bits_are_still_taken,
    an_edit_of_labels_costs_no_term_and_labels_survive,
    labels_annotations_and_owners_are_set_and_restored,
    deletion_ends_the_term_and_the_token_still_grows,
    our_identity_written_by_hand_ends_the_term,
    an_emptied_spec_ends_the_term_and_is_taken_again,
    candidate_without_rights_learns_verb_resource_namespace,
    a_namespace_that_is_missing_is_an_error_that_names_it,
    invalid_name_is_refused_at_the_start,
    transitions_report_other_leaders,
}

fn a_first_election_creates_the_lease(cluster: &Cluster) {
    let guard = cluster.elector("a").block_until_leader().unwrap();
    let lease = cluster.lease().expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], "a");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 4);
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    assert!(lease["spec"]["acquireTime"].is_string() && lease["spec"]["renewTime"].is_string());
    assert!(guard.fencing_token() <= version(&lease));
    assert!(guard.is_leader());
}

fn a_leader_renews(cluster: &Cluster) {
    let elector = cluster.elector("a");
    let guard = elector.block_until_leader().unwrap();
    let first = cluster.lease().unwrap();
    wait_until("renewals", || cluster.version() > version(&first) && cluster.lease().unwrap()["spec"] != first["spec"]);
    std::thread::sleep(Duration::from_secs(4));
    assert!(guard.is_leader(), "longer than the lease would last by itself");
    let last = cluster.lease().unwrap();
    assert_eq!(last["spec"]["acquireTime"], first["spec"]["acquireTime"]);
    assert_eq!(last["spec"]["leaseTransitions"], first["spec"]["leaseTransitions"]);
    assert!(last["spec"]["renewTime"].as_str() > first["spec"]["renewTime"].as_str());
}

fn a_drop_a_release_and_a_panic_each_release(cluster: &Cluster) {
    let elector = cluster.elector("a");
    drop(elector.block_until_leader().unwrap());
    assert_eq!(cluster.holder(), None);
    elector.block_until_leader().unwrap().release().unwrap();
    assert_eq!(cluster.holder(), None);
    assert_eq!(cluster.lease().unwrap()["spec"]["leaseDurationSeconds"], 1);
    let guard = elector.block_until_leader().unwrap();
    assert_eq!(cluster.holder().as_deref(), Some("a"));
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("as planned");
    }));
    assert!(panic.is_err());
    assert_eq!(cluster.holder(), None);
}

fn a_lease_of_another_holder_is_waited_out(cluster: &Cluster) {
    cluster.create(json!({ "holderIdentity": "other", "leaseDurationSeconds": 3600 }));
    let elector = cluster.elector("a");
    assert!(elector.block_until_leader_timeout(Duration::from_secs(6)).unwrap().is_none());
    assert_eq!(cluster.holder().as_deref(), Some("other"));
    assert_eq!(elector.current_leader().as_deref(), Some("other"));
}

fn a_released_lease_is_taken_at_once(cluster: &Cluster) {
    cluster.create(json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7 }));
    assert!(cluster.elector("a").try_acquire().unwrap().is_some());
    assert_eq!(cluster.lease().unwrap()["spec"]["leaseTransitions"], 8);
}

fn rule_5_transitions_at_the_limit_of_32_bits_are_still_taken(cluster: &Cluster) {
    cluster.create(json!({ "holderIdentity": "", "leaseTransitions": i32::MAX }));
    assert!(cluster.elector("a").try_acquire().unwrap().is_some());
    assert_eq!(cluster.lease().unwrap()["spec"]["leaseTransitions"], i32::MAX);
}

fn an_edit_of_labels_costs_no_term_and_labels_survive(cluster: &Cluster) {
    let elector = cluster.elector("a");
    let transitions = elector.transitions();
    let guard = elector.block_until_leader().unwrap();
    for edit in 0..8 {
        let edited = cluster.edit(|lease| {
            lease["metadata"]["labels"] = json!({ "edit": edit.to_string() });
            lease["metadata"]["annotations"] = json!({ "by": "hand" });
        });
        wait_until("a renewal after the edit", || {
            let lease = cluster.lease().unwrap();
            lease["spec"]["renewTime"].as_str() > edited["spec"]["renewTime"].as_str()
        });
        let lease = cluster.lease().unwrap();
        assert_eq!(lease["metadata"]["labels"]["edit"], edit.to_string());
        assert_eq!(lease["metadata"]["annotations"]["by"], "hand");
        assert!(guard.is_leader());
    }
    assert!(!transitions.try_iter().any(|transition| matches!(transition, Transition::StoppedLeading { .. })));
    drop(guard);
    assert_eq!(cluster.lease().unwrap()["metadata"]["labels"]["edit"], "7", "a release keeps them too");
}

fn labels_annotations_and_owners_are_set_and_restored(cluster: &Cluster) {
    let owner = OwnerReference::new("apps/v1", "Deployment", "jobs", "c2a1a9f0-6a8f-4f4e-9d54-0f1e6b8f7a11");
    let builder = cluster
        .builder("a")
        .label("team", "blue")
        .label("example.com/tier", "")
        .annotation("example.com/why", "because: 'ä'")
        .owner_reference(owner.clone());
    let elector = builder.start_with_client(cluster.client("candidate")).unwrap();
    let guard = elector.block_until_leader().unwrap();
    let has_ours = |metadata: &Value| {
        let owners = metadata["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        metadata["labels"]["team"] == "blue"
            && metadata["labels"]["example.com/tier"] == ""
            && metadata["annotations"]["example.com/why"] == "because: 'ä'"
            && owners.iter().filter(|it| it["uid"] == *owner.uid && it["name"] == "jobs").count() == 1
    };
    assert!(has_ours(&cluster.lease().unwrap()["metadata"]));
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u-2" });
    cluster.edit(|lease| {
        lease["metadata"]["labels"] = json!({ "team": "red", "of": "others" });
        lease["metadata"]["annotations"] = json!(null);
        lease["metadata"]["ownerReferences"] = json!([other]);
    });
    wait_until("ours is there again", || has_ours(&cluster.lease().unwrap()["metadata"]));
    let metadata = &cluster.lease().unwrap()["metadata"];
    assert_eq!(metadata["labels"]["of"], "others");
    assert_eq!(metadata["ownerReferences"].as_array().unwrap().len(), 2);
    assert!(guard.is_leader());
}

fn lost_after(cluster: &Cluster, change: impl FnOnce(&Cluster)) -> StopReason {
    let elector = cluster.elector("a");
    let guard = elector.block_until_leader().unwrap();
    let token = guard.fencing_token();
    change(cluster);
    let reason = lost(&guard, "after a change");
    drop(guard);
    let again = elector.block_until_leader_timeout(SOON).unwrap().expect("another term");
    assert!(again.fencing_token() > token);
    reason
}

fn deletion_ends_the_term_and_the_token_still_grows(cluster: &Cluster) {
    assert_eq!(lost_after(cluster, Cluster::delete), StopReason::Deleted);
    assert_eq!(cluster.lease().unwrap()["spec"]["leaseTransitions"], 0, "the transitions began anew");
}

fn our_identity_written_by_hand_ends_the_term(cluster: &Cluster) {
    let reason = lost_after(cluster, |cluster| {
        cluster.edit(|lease| {
            lease["spec"]["acquireTime"] = json!("2020-01-01T00:00:00.000000Z");
            lease["spec"]["leaseDurationSeconds"] = json!(2);
        });
    });
    assert_eq!(reason, StopReason::IdentityConflict);
}

fn an_emptied_spec_ends_the_term_and_is_taken_again(cluster: &Cluster) {
    let reason = lost_after(cluster, |cluster| drop(cluster.edit(|lease| lease["spec"] = json!({}))));
    assert_eq!(reason, StopReason::Superseded { by: None });
}

fn candidate_without_rights_learns_verb_resource_namespace(cluster: &Cluster) {
    let elector = cluster.builder("a").start_with_client(cluster.client("nobody")).unwrap();
    let error = elector.block_until_leader().unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::Forbidden), "{error}");
    for word in ["`get`", "`leases`", "`coordination.k8s.io`", NAMESPACE, "grant"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

fn a_namespace_that_is_missing_is_an_error_that_names_it(cluster: &Cluster) {
    // Only an administrator may request leases in a missing namespace.
    let elector = cluster.builder("a").namespace("no-such-place").start_with_client(cluster.client("admin")).unwrap();
    let error = elector.block_until_leader().unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains("`no-such-place` exists"), "{error}");
}

fn invalid_name_is_refused_at_the_start(cluster: &Cluster) {
    let error = LeaderElector::builder("Upper_Case").start_with_client(cluster.client("candidate")).unwrap_err();
    assert!(matches!(&error, Error::Config(error) if error.field() == "name"), "{error}");
    let error = cluster.builder("a").namespace("a.b").start_with_client(cluster.client("candidate")).unwrap_err();
    assert!(matches!(&error, Error::Config(error) if error.field() == "namespace"), "{error}");
}

fn transitions_report_other_leaders(cluster: &Cluster) {
    let (a, b) = (cluster.elector("a"), cluster.elector("b"));
    let transitions = b.transitions();
    let guard = a.block_until_leader().unwrap();
    let told = transitions.recv_timeout(SOON).unwrap();
    assert_eq!(told, Transition::NewLeader { identity: "a".into(), address: None });
    drop(guard);
    let guard = b.block_until_leader().unwrap();
    assert_eq!(transitions.recv_timeout(SOON).unwrap(), Transition::NoLeader { previous: "a".into() });
    assert_eq!(transitions.recv_timeout(SOON).unwrap(), Transition::NewLeader { identity: "b".into(), address: None });
    let started = Transition::StartedLeading { fencing_token: guard.fencing_token() };
    assert_eq!(transitions.recv_timeout(SOON).unwrap(), started);
}
