//! Our candidates and client-go's on one lease of a real kube-apiserver, taking it from each other a hundred times.
//!
//! client-go compares records in whole seconds and writes over the version that it has just read. That is why a renew
//! deadline of ours is at least a second shorter than what we publish.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::support::cluster::Cluster;
use crate::support::exclusion::History;
use crate::support::process::{Candidate, Stage};
use crate::support::{is_built, say_aloud};
use rustix::process::Signal;
use serde_json::Value;

const HANDOVERS: u64 = 100;
/// So many leaders in a row are told to end, and each releases the lease; the next one is killed, and its lease has to
/// run out. It is even, so that both kinds get killed.
const RELEASES_IN_A_ROW: u64 = 10;
const TIMINGS: &[&str] = &["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=200ms", "--heartbeat=10ms"];
const PUBLISHED_SECONDS: u64 = 4;
/// So many heartbeats take longer than the retry period.
const RENEWED: usize = 25;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Ours,
    ClientGo,
}

impl Kind {
    fn other(self) -> Kind {
        match self {
            Kind::Ours => Kind::ClientGo,
            Kind::ClientGo => Kind::Ours,
        }
    }

    fn candidate(self, stage: &Stage, cluster: &Cluster, id: &str) -> Candidate {
        match self {
            Kind::Ours => stage.candidate(id),
            Kind::ClientGo => {
                let mut command = Command::new(client_go());
                command.args(["--lease", &cluster.lease, "--id", id, "--kubeconfig"]);
                command.arg(cluster.kubeconfig("candidate")).args(TIMINGS);
                stage.candidate_of(command, id)
            }
        }
    }
}

#[test]
fn client_go_and_we_take_the_lease_from_each_other() {
    let Some(cluster) = Cluster::real("client_go_interop") else { return };
    if !is_built(&client_go(), "the test beside client-go", "tests/client-go/build") {
        return;
    }
    let stage = Stage::new(cluster.kubeconfig("candidate"), &cluster.lease, TIMINGS);
    let (mut kind, mut leader) = (Kind::Ours, stage.candidate("0"));
    leader.wait_for("leading");
    let first = cluster.lease().expect("a lease");
    let (mut from_ours, mut killed) = (0, 0);
    for number in 1..=HANDOVERS {
        let standby = kind.other().candidate(&stage, &cluster, &number.to_string());
        assert_eq!(standby.wait_for("new_leader").leader.as_ref(), Some(&leader.id));
        // Until it has renewed its lease, under the eyes of the standby.
        (0..RENEWED).for_each(|_| drop(leader.wait_for("leading")));
        if number % (RELEASES_IN_A_ROW + 1) == 0 {
            leader.kill();
            killed += 1;
        } else {
            leader.signal(Signal::TERM);
            let end = leader.end();
            assert_eq!(end.code, Some(0), "{}", end.complaints);
        }
        standby.wait_for("leading");
        let lease = cluster.lease().expect("a lease");
        assert_eq!(lease["metadata"]["uid"], first["metadata"]["uid"], "nobody made it anew");
        assert_valid(&lease["spec"], &standby.id, transitions(&first["spec"]) + number);
        from_ours += u64::from(kind == Kind::Ours);
        (kind, leader) = (kind.other(), standby);
    }
    let history = History::of(&stage.lines());
    assert!(history.overlaps.is_empty(), "two led at a time: {:?}", history.overlaps);
    assert!(history.disorder.is_empty(), "tokens went back: {:?}", history.disorder);
    assert_eq!(history.handovers() as u64, HANDOVERS, "{:?}", history.terms);
    say_aloud(&format!(
        "mixed company: {HANDOVERS} handovers, {from_ours} of them from us to client-go and {} back, {killed} after a \
         kill, {} heartbeat lines: {} overlaps",
        HANDOVERS - from_ours,
        history.heartbeats,
        history.overlaps.len(),
    ));
}

/// What either kind needs to find in a record of the other's.
fn assert_valid(spec: &Value, holder: &str, count: u64) {
    assert_eq!(spec["holderIdentity"], holder, "{spec}");
    assert_eq!(spec["leaseDurationSeconds"], PUBLISHED_SECONDS, "{spec}");
    assert_eq!(transitions(spec), count, "each handover is one transition: {spec}");
    let time = |field: &str| {
        let text = spec[field].as_str().unwrap_or_else(|| panic!("{field} is missing: {spec}"));
        let time = humantime::parse_rfc3339(text).unwrap_or_else(|error| panic!("{field}: {error}: {spec}"));
        time.duration_since(UNIX_EPOCH).expect("a time of our days").as_secs()
    };
    // In whole seconds, as client-go compares them: the fraction of our acquireTime is random.
    assert!(time("acquireTime") <= time("renewTime"), "{spec}");
}

fn transitions(spec: &Value) -> u64 {
    // client-go leaves a zero out.
    spec["leaseTransitions"].as_u64().unwrap_or(0)
}

fn client_go() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().expect("a target directory").join("client-go/client-go")
}
