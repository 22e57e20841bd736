//! Candidates of leasehold and of Python's `kubernetes` client on a real kube-apiserver.
//!
//! The tests run on a ConfigMap and on a Lease. Python's client never releases, so its candidates are killed, and
//! leasehold's candidates wait until the lease expires. `LEASEHOLD_HANDOVERS` sets the number of handovers in each test
//! (default: 5).

use std::path::Path;
use std::process::Command;

use crate::alternation::{Alternation, End};
use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::process::{Candidate, Stage};
use crate::support::{chosen, in_target, is_built, say_aloud};

/// The path of Python in the target directory.
const PYTHON: &str = "python/venv/bin/python";

/// The shortest durations that Python's client accepts.
const TIMINGS: &[&str] = &["--lease-duration=3s", "--renew-deadline=2s", "--retry-period=200ms", "--heartbeat=10ms"];

/// A number of heartbeats that takes longer than the retry period of Python's client.
const RENEWED: usize = 120;

#[test]
fn python_and_we_take_a_config_map_from_each_other() {
    take_from_each_other("configmaps");
}

#[test]
fn python_and_we_take_a_lease_from_each_other() {
    take_from_each_other("leases");
}

fn take_from_each_other(lock_type: &str) {
    let Some(cluster) = Cluster::real(&format!("python_interop_{lock_type}")) else { return };
    if !is_built(&in_target(PYTHON), "the test beside Python's client", "tests/python/build") {
        return;
    }
    let handovers = chosen("LEASEHOLD_HANDOVERS", |text| text.parse().ok()).unwrap_or(5);
    let lock_flag = format!("--lock-type={lock_type}");
    let notes = ["--advertise=10.0.3.7:9000", "--accept-requests"];
    let flags: Vec<_> = TIMINGS.iter().copied().chain([lock_flag.as_str()]).chain(notes).collect();
    let stage = Stage::new(cluster.kubeconfig("admin"), &cluster.lease, &flags);
    let theirs = |id: &str| of_python(&cluster, lock_type, &stage, id);
    let end = |_, is_ours| if is_ours { End::Told } else { End::Killed };
    let alternation =
        Alternation { stage: &stage, theirs: &theirs, handovers, end: &end, renewed: RENEWED, we_see_them: true };
    let history = alternation.run(|_, _| {});
    say_aloud(&format!(
        "beside Python on {lock_type}: {handovers} handovers, {} heartbeats, 0 overlaps",
        history.heartbeats
    ));
}

fn of_python(cluster: &Cluster, lock_type: &str, stage: &Stage, id: &str) -> Candidate {
    let mut command = Command::new(in_target(PYTHON));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/candidate.py"));
    command.args(["--lock-type", lock_type, "--name", &cluster.lease, "--namespace", NAMESPACE, "--id", id]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig("admin"));
    stage.candidate_of(command, id)
}
