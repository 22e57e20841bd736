//! Electors on two objects, beside electors on one of them, on both servers.

use crate::support::api::Method;
use leasehold::client_go::ResourceLock;
use leasehold::kubernetes::OwnerReference;
use leasehold::store::Store;
use leasehold::{LeaderElector, LeaderElectorBuilder, StopReason};
use serde_json::Value;

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE, brief};
use crate::support::kind::Kind;
use crate::support::stores::call;
use crate::support::{A_WHILE, SOON, lost, wait_until};

on_both_servers! {
    candidates_on_both_hand_over_in_both_records,
    candidates_on_both_and_on_either_alone_exclude_each_other,
    a_deletion_of_either_object_ends_the_term,
    labels_owners_and_events_are_of_every_kind_that_a_lock_names,
    address_is_in_both_objects_until_the_release,
}

/// The locks of two objects, and their kinds.
const LOCKS: [(ResourceLock, [Kind; 2]); 2] = [
    (ResourceLock::ConfigMapsLeases, [Kind::ConfigMap, Kind::Lease]),
    (ResourceLock::EndpointsLeases, [Kind::Endpoints, Kind::Lease]),
];

/// The candidates on two objects, or on one of these objects.
struct Fleet<'a> {
    cluster: &'a Cluster,
    lock: ResourceLock,
    pair: [Kind; 2],
    name: String,
}

impl<'a> Fleet<'a> {
    fn of_each_pair(cluster: &'a Cluster) -> impl Iterator<Item = Self> {
        let name = |lock| format!("{}-{lock:?}", cluster.lease).to_lowercase();
        LOCKS.into_iter().map(move |(lock, pair)| Fleet { cluster, lock, pair, name: name(lock) })
    }

    fn on_both(&self, identity: &str) -> LeaderElector {
        self.start(brief(&self.name, identity))
    }

    fn start(&self, builder: LeaderElectorBuilder) -> LeaderElector {
        let builder = builder.namespace(NAMESPACE).resource_lock(self.lock);
        builder.start_with_client(self.cluster.client("admin")).expect("an elector")
    }

    fn on(&self, kind: Kind, identity: &str) -> LeaderElector {
        brief(&self.name, identity).start_on(kind.store(self.cluster.client("admin"))).expect("an elector")
    }

    fn object(&self, kind: Kind, method: Method) -> Value {
        let path = format!("{}/{}", kind.collection(), self.name);
        self.cluster.api("admin").request(method, &path, None).expect("the object")
    }

    /// Returns the holder and the duration of each record.
    fn records(&self) -> [(String, i64); 2] {
        self.pair.map(|kind| {
            let record = kind.record(&self.object(kind, Method::GET));
            let holder = record["holderIdentity"].as_str().unwrap_or_default().to_owned();
            (holder, record["leaseDurationSeconds"].as_i64().expect("a duration"))
        })
    }
}

fn candidates_on_both_hand_over_in_both_records(cluster: &Cluster) {
    for fleet in Fleet::of_each_pair(cluster) {
        let (a, b) = (fleet.on_both("a"), fleet.on_both("b"));
        let guard = a.block_until_leader().expect("a term");
        let first = guard.fencing_token();
        assert_eq!(fleet.records(), [("a".to_owned(), 4), ("a".to_owned(), 4)]);
        wait_until("it is seen to lead", || b.current_leader().as_deref() == Some("a"));
        let campaign = b.campaign().expect("a campaign");
        assert!(campaign.receiver().recv_timeout(A_WHILE).is_err());
        guard.release().expect("a release");
        let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
        assert!(guard.fencing_token() > first);
        assert_eq!(fleet.records(), [("b".to_owned(), 4), ("b".to_owned(), 4)]);
        drop((guard, a, b));
        assert_eq!(fleet.records(), [(String::new(), 4), (String::new(), 4)]);
    }
}

fn candidates_on_both_and_on_either_alone_exclude_each_other(cluster: &Cluster) {
    for fleet in Fleet::of_each_pair(cluster) {
        let both = fleet.on_both("both");
        for kind in fleet.pair {
            let alone = fleet.on(kind, "alone");
            for (holder, other) in [(&both, &alone), (&alone, &both)] {
                let guard = holder.block_until_leader().expect("a term");
                let token = guard.fencing_token();
                let campaign = other.campaign().expect("a campaign");
                assert!(campaign.receiver().recv_timeout(A_WHILE).is_err(), "beside one on {kind:?}");
                assert!(guard.is_leader());
                guard.release().expect("a release");
                let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
                assert!(guard.fencing_token() > token);
            }
        }
    }
}

fn a_deletion_of_either_object_ends_the_term(cluster: &Cluster) {
    for fleet in Fleet::of_each_pair(cluster) {
        let elector = fleet.on_both("a");
        for kind in fleet.pair {
            let guard = elector.block_until_leader().expect("a term");
            fleet.object(kind, Method::DELETE);
            assert_eq!(lost(&guard, "after a deletion"), StopReason::Superseded { by: None });
            drop(guard);
        }
        let guard = elector.block_until_leader().expect("a term");
        assert!(guard.is_leader());
        assert_eq!(fleet.records().map(|(holder, _)| holder), ["a", "a"]);
    }
}

fn labels_owners_and_events_are_of_every_kind_that_a_lock_names(cluster: &Cluster) {
    let owner = || OwnerReference::new("apps/v1", "Deployment", "jobs", "c2a1a9f0-6a8f-4f4e-9d54-0f1e6b8f7a11");
    let locks = [
        (ResourceLock::ConfigMaps, vec![Kind::ConfigMap]),
        (ResourceLock::EndpointsLeases, vec![Kind::Endpoints, Kind::Lease]),
    ];
    for (lock, kinds) in locks {
        let name = format!("{}-{lock:?}", cluster.lease).to_lowercase();
        let builder = LeaderElector::builder(&name).namespace(NAMESPACE).identity("a").resource_lock(lock);
        let builder = builder.label("team", "red").owner_reference(owner()).events(true);
        let elector = builder.start_with_client(cluster.client("admin")).expect("an elector");
        let guard = elector.block_until_leader().expect("a term");
        for kind in kinds {
            let path = format!("{}/{name}", kind.collection());
            let object = cluster.api("admin").request(Method::GET, &path, None).expect("the object");
            assert_eq!(object["metadata"]["labels"]["team"], "red", "{lock:?} {kind:?}");
            assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "Deployment", "{lock:?} {kind:?}");
            wait_until("its event", || {
                let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
                let events = cluster.api("admin").request(Method::GET, &path, None).expect("events");
                let events = events["items"].as_array().cloned().unwrap_or_default();
                events.iter().any(|event| {
                    event["regarding"]["uid"] == object["metadata"]["uid"] && event["note"] == "a became leader"
                })
            });
        }
        drop(guard);
    }
}

fn address_is_in_both_objects_until_the_release(cluster: &Cluster) {
    for fleet in Fleet::of_each_pair(cluster) {
        let (a, standby) = (fleet.start(brief(&fleet.name, "a").advertise("host:1")), fleet.on_both("b"));
        let lock = fleet.lock;
        let address = |kind: Kind| {
            let record = kind.store(cluster.client("admin")).get(&fleet.name, &call()).expect("an answer");
            record.expect("a record").notes.term.address.clone()
        };
        let guard = a.block_until_leader().expect("a term");
        assert_eq!(fleet.pair.map(address), ["host:1"; 2].map(|it| Some(it.to_owned())), "{lock:?}");
        wait_until("it is reported", || standby.status().leader_address.as_deref() == Some("host:1"));
        guard.release().expect("a release");
        assert_eq!(fleet.pair.map(address), [None, None], "{lock:?}");
    }
}
