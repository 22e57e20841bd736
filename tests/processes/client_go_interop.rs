//! Our candidates and client-go's on one object of a real kube-apiserver: a Lease beside its newest release, ConfigMaps and
//! Endpoints beside v0.23, the last that had those locks.
//!
//! client-go compares records in whole seconds and writes over the version that it has just read. That is why a renew
//! deadline of ours is at least a second shorter than what we publish.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use leasehold::kube::Method;
use serde_json::Value;

use crate::alternation::{Alternation, End};
use crate::support::cluster::{Cluster, NAMESPACE, request};
use crate::support::process::Stage;
use crate::support::{is_built, say_aloud};

/// So many leaders in a row are told to end, and each releases the lease; the next one is killed, and its lease has to
/// run out. It is even, so that both kinds get killed.
const RELEASES_IN_A_ROW: u64 = 10;
const TIMINGS: &[&str] = &["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=200ms", "--heartbeat=10ms"];
const PUBLISHED_SECONDS: u64 = 4;
/// So many heartbeats take longer than the retry period.
const RENEWED: usize = 25;
const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

#[test]
fn client_go_and_we_take_the_lease_from_each_other() {
    take_from_each_other(None, "leases", "candidate", 100);
}

#[test]
fn client_go_0_23_and_we_take_a_config_map_from_each_other() {
    take_from_each_other(Some("0.23"), "configmaps", "admin", 22);
}

#[test]
fn client_go_0_23_and_we_take_endpoints_from_each_other() {
    take_from_each_other(Some("0.23"), "endpoints", "admin", 22);
}

fn take_from_each_other(version: Option<&str>, lock_type: &str, user: &str, handovers: u64) {
    let Some(cluster) = Cluster::real(&format!("client_go_interop_{lock_type}")) else { return };
    let (client, build) = match version {
        None => ("client-go".to_owned(), "tests/client-go/build".to_owned()),
        Some(version) => (format!("client-go-{version}"), format!("tests/client-go/build v{version}")),
    };
    let program = built(&client);
    if !is_built(&program, "the test beside client-go", &build) {
        return;
    }
    let kubeconfig = cluster.kubeconfig(user);
    let flag = format!("--lock-type={lock_type}");
    let flags: Vec<_> = TIMINGS.iter().copied().chain([flag.as_str()]).collect();
    let stage = Stage::new(&kubeconfig, &cluster.lease, &flags);
    let theirs = |id: &str| {
        let mut command = Command::new(&program);
        command.args(["--lease", &cluster.lease, "--id", id, "--kubeconfig"]).arg(&kubeconfig).args(&flags);
        stage.candidate_of(command, id)
    };
    let end = |number: u64, _| if number.is_multiple_of(RELEASES_IN_A_ROW + 1) { End::Killed } else { End::Told };
    let alternation = Alternation { stage: &stage, theirs: &theirs, handovers, end: &end, renewed: RENEWED };
    let first_uid = OnceCell::new();
    let history = alternation.run(|number, leader| {
        let (uid, record) = record(&cluster, lock_type);
        assert_valid(&record, &leader.id, number);
        assert_eq!(*first_uid.get_or_init(|| uid.clone()), uid, "nobody made it anew");
    });
    let killed = handovers / (RELEASES_IN_A_ROW + 1);
    say_aloud(&format!(
        "beside {client} on {lock_type}: {handovers} handovers, {killed} of them after a kill, {} heartbeats: 0 overlaps",
        history.heartbeats,
    ));
}

/// The object's uid, and its record.
fn record(cluster: &Cluster, lock_type: &str) -> (Value, Value) {
    let collection = match lock_type {
        "leases" => "/apis/coordination.k8s.io/v1",
        _ => "/api/v1",
    };
    let path = format!("{collection}/namespaces/{NAMESPACE}/{lock_type}/{}", cluster.lease);
    let mut object = request(&cluster.client("admin"), Method::Get, &path, None).expect("the object");
    let record = match object["metadata"]["annotations"][ANNOTATION].as_str() {
        Some(text) => serde_json::from_str(text).expect("JSON"),
        None => object["spec"].take(),
    };
    (object["metadata"]["uid"].take(), record)
}

/// What either kind needs to find in a record of the other's.
fn assert_valid(record: &Value, holder: &str, count: u64) {
    assert_eq!(record["holderIdentity"], holder, "{record}");
    assert_eq!(record["leaseDurationSeconds"], PUBLISHED_SECONDS, "{record}");
    assert_eq!(transitions(record), count, "each handover is one transition: {record}");
    let time = |field: &str| {
        let text = record[field].as_str().unwrap_or_else(|| panic!("{field} is missing: {record}"));
        let time = humantime::parse_rfc3339(text).unwrap_or_else(|error| panic!("{field}: {error}: {record}"));
        time.duration_since(UNIX_EPOCH).expect("a time of our days").as_secs()
    };
    // In whole seconds, as client-go compares them: the fraction of our acquireTime is random.
    assert!(time("acquireTime") <= time("renewTime"), "{record}");
}

fn transitions(record: &Value) -> u64 {
    // In a Lease client-go leaves a zero out.
    [&record["leaseTransitions"], &record["leaderTransitions"]].into_iter().find_map(Value::as_u64).unwrap_or(0)
}

fn built(client: &str) -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().expect("a target directory").join(client).join(client)
}
