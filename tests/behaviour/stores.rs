//! The public conformance suite on every store.
//!
//! The stores are all kinds of objects on both servers, etcd, MariaDB, memory and a file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold::LeaderElector;
use leasehold::kubernetes::Client;
use leasehold::kubernetes::LeaseStore;
use leasehold::store::{CallContext, CancelToken, MemoryStore, SharedWatch, Store, StoreErrorKind, WatchScope};
use leasehold_testing::conformance::{self, CHECKS, Table};
use leasehold_testing::{Resource, User, Verb};
use parking_lot::Mutex;
use serde_json::json;

use crate::on_both_servers;
use crate::support::SOON;
use crate::support::api::Method;
use crate::support::cluster::{Cluster, NAMESPACE, Server, client_of};
use crate::support::kind::Kind;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::real_store::{File, InEtcd, InSql, RealStore};
use crate::support::stores::{at_last, call};

/// Returns a table whose objects of this kind an administrator deletes.
fn of(cluster: &Cluster, kind: Kind, store: impl Store + 'static, key: &str) -> Table {
    let admin = cluster.api("admin");
    Table::new(store, key, move |key| {
        let path = format!("{}/{key}", kind.collection());
        admin.request(Method::DELETE, &path, None).expect("an object to delete");
    })
}

fn conforms_in_cluster(check: &str, cluster: &Cluster, kind: Kind) {
    let table = of(cluster, kind, kind.store(cluster.client("admin")), &cluster.lease);
    conformance::check_one(check, &table.delivers_every_change());
}

fn conforms_in_memory(check: &str) {
    let store = Arc::new(MemoryStore::new());
    let of_operator = Arc::clone(&store);
    let table = Table::new(store, "jobs", move |key| assert!(of_operator.delete(key), "a record to delete"));
    conformance::check_one(check, &table.delivers_every_change());
}

fn conforms<P: RealStore + Send + 'static>(check: &str, delivers_every_change: bool) {
    let Some(place) = P::shared(&format!("conformance_{check}")) else { return };
    let (store, place) = (place.store(), Mutex::new(place));
    let table = Table::new(store, "jobs", move |key| place.lock().delete(key));
    let table = if delivers_every_change { table.delivers_every_change() } else { table };
    conformance::check_one(check, &table);
}

macro_rules! on_every_kind {
    ($kind:ident $value:expr; $($test:ident),*) => {
        mod $kind {
            use super::*;
            $(fn $test(cluster: &Cluster) { conforms_in_cluster(stringify!($test), cluster, $value) })*
            on_both_servers!($($test),*);
        }
    };
    ($kind:ident $value:expr, $($more:ident $others:expr),*; $($test:ident),*) => {
        on_every_kind!($kind $value; $($test),*);
        on_every_kind!($($more $others),*; $($test),*);
    };
}

macro_rules! in_every_place {
    ($module:ident $delivers_every_change:literal $place:ty; $($test:ident),*) => {
        mod $module {
            use super::*;
            $(#[test] fn $test() { conforms::<$place>(stringify!($test), $delivers_every_change); })*
            #[test] fn with_a_shared_watch() { conforms_with_a_shared_watch::<$place>(); }
        }
    };
}

macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        on_every_kind!(leases Kind::Lease, config_maps Kind::ConfigMap, endpoints Kind::Endpoints; $($test),*);
        mod memory { $(#[test] fn $test() { super::conforms_in_memory(stringify!($test)); })* }
        in_every_place!(sqlite false File; $($test),*);
        in_every_place!(mysql false InSql<MariaDb>; $($test),*);
        in_every_place!(etcd true InEtcd; $($test),*);
        in_every_place!(postgres false InSql<Postgres>; $($test),*);
        #[test]
        fn every_check_is_a_test() {
            assert_eq!(CHECKS, [$(stringify!($test)),*]);
        }
    };
}

on_every_store!(
    written_record_is_read,
    any_record_round_trips,
    existing_record_is_not_created,
    changed_record_is_not_updated,
    deleted_record_is_not_updated,
    versions_grow_over_deletion,
    notes_are_beside_the_record,
    keys_are_apart,
    concurrent_writes_are_serialized,
    call_without_time_ends,
    cancelled_call_ends_and_disturbs_no_other,
    watch_delivers_existing_and_later_changes,
    watch_resumes_after_its_cursor,
    watch_of_all_delivers_all_keys,
    watch_of_prefix_delivers_only_its_keys,
    watch_cancelled_before_its_start_ends,
    electors_take_turns,
    deletion_ends_a_term,
);

on_both_servers!(
    an_update_keeps_what_others_have_put_there,
    one_client_serves_many_leases,
    leases_with_a_shared_watch,
    watch_of_prefix_needs_list_and_watch,
);

/// Returns a client of the user `watcher`, who has the rights for a watch of a prefix and for writes.
fn watcher(cluster: &Cluster) -> Client {
    let server = match cluster.server() {
        Server::InMemory { server, .. } => server,
        Server::Real(_) => {
            let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}");
            let admin = cluster.api("admin");
            let create = |resource: &str, mut object: serde_json::Value| {
                object["metadata"] = json!({ "name": "watcher" });
                admin.request(Method::POST, &format!("{rbac}/{resource}"), Some(&object)).expect("it is created");
            };
            let verbs = ["get", "list", "watch", "create", "update"];
            let rule = json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs });
            create("roles", json!({ "rules": [rule] }));
            let group = "rbac.authorization.k8s.io";
            create(
                "rolebindings",
                json!({
                    "roleRef": { "apiGroup": group, "kind": "Role", "name": "watcher" },
                    "subjects": [{ "apiGroup": group, "kind": "User", "name": "watcher" }],
                }),
            );
            let admin = std::fs::read_to_string(cluster.kubeconfig("admin-impersonating-candidate"));
            return client_of(&admin.expect("a kubeconfig").replace("as: candidate", "as: watcher"));
        }
    };
    let verbs = [Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update];
    let user = User::new("watcher", "watcher-token");
    server.set_user(verbs.into_iter().fold(user, |user, verb| user.grant(verb, Resource::Leases)));
    client_of(&server.kubeconfig("watcher"))
}

fn watch_of_prefix_needs_list_and_watch(cluster: &Cluster) {
    let store = Kind::Lease.store(watcher(cluster));
    // The server learns of a new role after a moment.
    at_last("the role", || store.get(&cluster.lease, &call()));
    let table = of(cluster, Kind::Lease, store, &cluster.lease);
    conformance::check_one("watch_of_prefix_delivers_only_its_keys", &table.delivers_every_change());
    let store = Kind::Lease.store(cluster.client("candidate"));
    let refused = store.watch(WatchScope::Prefix("jobs"), None, &CancelToken::new(), &mut |event| panic!("{event:?}"));
    let refused = refused.expect_err("a refusal");
    assert_eq!(refused.kind(), StoreErrorKind::Forbidden);
    let advice = refused.to_string();
    assert!(advice.contains("grant the verb `list`") && advice.ends_with(" without `resourceNames`"), "{advice}");
}

/// Runs all checks on leases whose watches share one watch of all leases.
fn leases_with_a_shared_watch(cluster: &Cluster) {
    conformance::check(|key| {
        let store = SharedWatch::new(Kind::Lease.store(cluster.client("admin")));
        of(cluster, Kind::Lease, store, &format!("{}-{key}", cluster.lease))
    });
}

#[test]
fn memory_with_a_shared_watch() {
    conformance::check(|key| {
        let store = Arc::new(MemoryStore::new());
        let of_operator = Arc::clone(&store);
        Table::new(SharedWatch::new(store), key, move |key| assert!(of_operator.delete(key), "a record to delete"))
    });
}

fn conforms_with_a_shared_watch<P: RealStore + Send + 'static>() {
    if P::shared("conformance_shared").is_none() {
        return;
    }
    conformance::check(|key| {
        let place = P::shared(&format!("shared_{}", key.replace('-', "_"))).expect("a place");
        let (store, place) = (SharedWatch::new(place.store()), Mutex::new(place));
        Table::new(store, "jobs", move |key| place.lock().delete(key))
    });
}

/// An update keeps labels and field managers.
///
/// The library's updates contain no `managedFields`.
fn an_update_keeps_what_others_have_put_there(cluster: &Cluster) {
    cluster.create(json!({ "holderIdentity": "a" }));
    let mut lease = cluster.lease().expect("a lease");
    lease["metadata"]["labels"] = json!({ "team": "blue" });
    let path = format!("{}?fieldManager=editor", cluster.path(true));
    cluster.api("admin").request(Method::PUT, &path, Some(&lease)).expect("an update");
    // The in-memory server has no managed fields.
    let check_manager = || {
        let lease = cluster.lease().expect("a lease");
        let managers = lease["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let has_manager = managers.iter().any(|entry| entry["manager"] == "editor");
        assert!(has_manager || cluster.in_memory_server().is_some(), "{managers:?}");
    };
    check_manager();
    let store = Kind::Lease.store(cluster.client("admin"));
    let call = CallContext::new(SOON, CancelToken::new());
    let base = store.get(&cluster.lease, &call).expect("an answer").expect("a record");
    let mut record = base.record.clone();
    record.holder_identity = Some("b".to_owned());
    store.update(&cluster.lease, &base, record.as_write(), &call).expect("an update");
    let lease = cluster.lease().expect("a lease");
    assert_eq!(lease["metadata"]["labels"]["team"], "blue");
    assert_eq!(lease["spec"]["holderIdentity"], "b");
    check_manager();
}

/// Each of several electors on one store of one client has its own term.
fn one_client_serves_many_leases(cluster: &Cluster) {
    let store = Arc::new(LeaseStore::new(cluster.client("admin"), NAMESPACE).expect("a store"));
    let electors: Vec<_> = (0..4)
        .map(|number| {
            let builder = LeaderElector::builder(format!("{}-{number}", cluster.lease));
            builder.lease_duration(Duration::from_secs(60)).renew_interval(Duration::from_millis(50))
        })
        .map(|builder| builder.start_on(Arc::clone(&store)).expect("an elector"))
        .collect();
    let lead = |elector: &LeaderElector| elector.block_until_leader().expect("a term");
    let mut guards: VecDeque<_> = electors.iter().map(lead).collect();
    for elector in electors.iter().cycle().take(20) {
        let guard = guards.pop_front().expect("a guard");
        let token = guard.fencing_token();
        guard.release().expect("a release");
        let guard = lead(elector);
        assert!(guard.fencing_token() > token);
        guards.push_back(guard);
        assert!(guards.iter().all(|guard| guard.is_leader()));
    }
}
