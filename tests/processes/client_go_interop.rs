//! Candidates of leasehold and client-go on the same objects of a real kube-apiserver.
//!
//! On a Lease, the test uses client-go's newest release. On ConfigMaps and Endpoints, the test uses v0.23, the last
//! release with these locks. On a Lease together with one of them, the test uses v0.27, the last release with
//! `MultiLock`.
//!
//! client-go compares records in whole seconds and overwrites the version that it has just read. Therefore, leasehold's
//! renew deadline is at least one second shorter than the published lease duration.

use std::cell::OnceCell;
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::support::api::Method;
use serde_json::Value;

use crate::alternation::{Alternation, End};
use crate::support::cluster::Cluster;
use crate::support::kind::Kind;
use crate::support::process::Stage;
use crate::support::{in_target, is_built, say_aloud};

/// The number of leaders that release the lease before the next leader is killed.
///
/// The number is even, so that leaders of both clients are killed.
const RELEASES_IN_A_ROW: u64 = 10;
const TIMINGS: &[&str] = &["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=200ms", "--heartbeat=10ms"];
const PUBLISHED_SECONDS: u64 = 4;
/// A number of heartbeats that takes longer than the retry period.
const RENEWED: usize = 25;
/// The number of heartbeats beside a `MultiLock`.
///
/// client-go needs five requests for one renewal, and sends at most five requests a second.
const RENEWED_ON_BOTH: usize = 150;

#[test]
fn client_go_and_we_take_the_lease_from_each_other() {
    take_from_each_other(None, ["leases"; 2], "candidate", 100);
}

#[test]
fn client_go_0_23_and_we_take_a_config_map_from_each_other() {
    take_from_each_other(Some("0.23"), ["configmaps"; 2], "admin", 22);
}

#[test]
fn client_go_0_23_and_we_take_endpoints_from_each_other() {
    take_from_each_other(Some("0.23"), ["endpoints"; 2], "admin", 22);
}

#[test]
fn client_go_0_27_config_map_and_lease_hand_over_both_ways() {
    take_from_each_other(Some("0.27"), ["configmapsleases"; 2], "admin", 22);
}

#[test]
fn client_go_0_27_endpoints_and_lease_hand_over_both_ways() {
    take_from_each_other(Some("0.27"), ["endpointsleases"; 2], "admin", 22);
}

/// The first step of a migration: some candidates use a ConfigMap, the others both objects.
#[test]
fn client_go_0_23_config_map_and_both_hand_over_both_ways() {
    take_from_each_other(Some("0.23"), ["configmaps", "configmapsleases"], "admin", 22);
}

/// The last step of a migration: some candidates use a Lease, the others both objects.
#[test]
fn client_go_on_a_lease_and_we_on_both_take_it_from_each_other() {
    take_from_each_other(None, ["leases", "configmapsleases"], "admin", 22);
}

/// Alternates a candidate of client-go on `lock_type` with a leasehold candidate on `ours`.
fn take_from_each_other(version: Option<&str>, [lock_type, ours]: [&str; 2], user: &str, handovers: u64) {
    let Some(cluster) = Cluster::real(&format!("client_go_interop_{lock_type}_{ours}")) else { return };
    let (client, build) = match version {
        None => ("client-go".to_owned(), "tests/client-go/build".to_owned()),
        Some(version) => (format!("client-go-{version}"), format!("tests/client-go/build v{version}")),
    };
    let program = in_target(&format!("{client}/{client}"));
    if !is_built(&program, "the test beside client-go", &build) {
        return;
    }
    let kinds = kinds(lock_type);
    let kubeconfig = cluster.kubeconfig(user);
    let [flag, flag_of_ours] = [lock_type, ours].map(|lock_type| format!("--lock-type={lock_type}"));
    let with = |flag| TIMINGS.iter().copied().chain([flag]).collect::<Vec<_>>();
    let flags = with(flag.as_str());
    // client-go must keep the notes of leasehold's candidates, and work beside them.
    let mut flags_of_ours = with(flag_of_ours.as_str());
    flags_of_ours.push("--advertise=10.0.3.7:9000");
    if !ours.ends_with("sleases") {
        flags_of_ours.push("--accept-requests");
    }
    let stage = Stage::new(&kubeconfig, &cluster.lease, &flags_of_ours);
    let theirs = |id: &str| {
        let mut command = Command::new(&program);
        command.args(["--lease", &cluster.lease, "--id", id, "--kubeconfig"]).arg(&kubeconfig).args(&flags);
        stage.candidate_of(command, id)
    };
    let end = |number: u64, _| if number.is_multiple_of(RELEASES_IN_A_ROW + 1) { End::Killed } else { End::Told };
    let renewed = if kinds.len() == 1 { RENEWED } else { RENEWED_ON_BOTH };
    // A killed candidate on both objects leaves its name in the primary, which is reported before the Lease.
    let we_see_them = lock_type == ours || lock_type != "leases";
    let alternation = Alternation { stage: &stage, theirs: &theirs, handovers, end: &end, renewed, we_see_them };
    let first_uids = OnceCell::new();
    let history = alternation.run(|number, leader| {
        let (uids, records): (Vec<_>, Vec<_>) = kinds.iter().map(|kind| record(&cluster, *kind)).unzip();
        records.iter().for_each(|record| assert_valid(record, &leader.id));
        // Only the transitions of the primary are checked, because `MultiLock` copies them into the Lease.
        assert_eq!(transitions(&records[0]), number, "each handover is one transition: {records:?}");
        assert_eq!(*first_uids.get_or_init(|| uids.clone()), uids, "nobody made them anew");
    });
    let killed = handovers / (RELEASES_IN_A_ROW + 1);
    say_aloud(&format!(
        "beside {client} on {lock_type}, ours on {ours}: {handovers} handovers, {killed} of them after a kill, {} heartbeats: 0 overlaps",
        history.heartbeats,
    ));
}

/// Returns the kinds of the objects that have a record.
///
/// The first kind is the one that `MultiLock` calls the primary.
fn kinds(lock_type: &str) -> &'static [Kind] {
    match lock_type {
        "configmaps" => &[Kind::ConfigMap],
        "endpoints" => &[Kind::Endpoints],
        "configmapsleases" => &[Kind::ConfigMap, Kind::Lease],
        "endpointsleases" => &[Kind::Endpoints, Kind::Lease],
        _ => &[Kind::Lease],
    }
}

/// Returns the uid of the object, and its record.
fn record(cluster: &Cluster, kind: Kind) -> (Value, Value) {
    let path = format!("{}/{}", kind.collection(), cluster.lease);
    let object = cluster.api("admin").request(Method::GET, &path, None).expect("the object");
    (object["metadata"]["uid"].clone(), kind.record(&object))
}

/// Asserts that a record has the fields that both clients require.
fn assert_valid(record: &Value, holder: &str) {
    assert_eq!(record["holderIdentity"], holder, "{record}");
    assert_eq!(record["leaseDurationSeconds"], PUBLISHED_SECONDS, "{record}");
    let time = |field: &str| {
        let text = record[field].as_str().unwrap_or_else(|| panic!("{field} is missing: {record}"));
        let time = humantime::parse_rfc3339(text).unwrap_or_else(|error| panic!("{field}: {error}: {record}"));
        time.duration_since(UNIX_EPOCH).expect("a time of our days").as_secs()
    };
    // client-go compares whole seconds. The fraction of leasehold's `acquireTime` is random.
    assert!(time("acquireTime") <= time("renewTime"), "{record}");
}

fn transitions(record: &Value) -> u64 {
    // client-go omits a zero from a Lease.
    [&record["leaseTransitions"], &record["leaderTransitions"]].into_iter().find_map(Value::as_u64).unwrap_or(0)
}
