//! Candidates in processes of their own on a real etcd: killed, stopped past their lease, and told to end.

use rustix::process::Signal;

use crate::support::etcd::Etcd;
use crate::support::process::{Candidate, Stage, example};

/// As for other stores: between renew deadline and lease duration there is [`GAP`].
const SHORT: [&str; 5] =
    ["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=250ms", "--release-timeout=10s", "--heartbeat=20ms"];
/// In seconds.
const GAP: f64 = 1.0;

fn candidate(etcd: &Etcd, stage: &Stage, id: &str) -> Candidate {
    let mut command = example("leader_election");
    let members = etcd.urls().join(",").replace("http://", "");
    command.args(["--lease-lock-name", "jobs", "--id", id, "--store"]).arg(format!("etcd://{members}/processes/"));
    command.args(SHORT);
    stage.candidate_of(command, id)
}

#[test]
fn candidates_on_an_etcd_survive_whatever_befalls_their_leaders() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let stage = Stage::new("unused", "jobs", &[]);
    let a = candidate(&etcd, &stage, "a");
    let first = a.wait_for("started_leading");
    let b = candidate(&etcd, &stage, "b");
    b.wait_for("new_leader");

    // Killed: its lease runs out.
    let last = a.kill().iter().rfind(|line| line.event == "leading").expect("a heartbeat").mono;
    let second = b.wait_for("started_leading");
    assert!(second.token() > first.token() && second.mono - last > GAP, "{} s", second.mono - last);

    // Stopped past its lease: it knows when it wakes.
    let c = candidate(&etcd, &stage, "c");
    c.wait_for("new_leader");
    b.suspend();
    let third = c.wait_for("started_leading");
    assert!(third.token() > second.token());
    b.signal(Signal::CONT);
    b.wait_for("stopped_leading");

    // Told to end: the next one leads long before a lease runs out.
    c.signal(Signal::TERM);
    let ended = c.wait_for("stopped_leading");
    let fourth = b.wait_for("started_leading");
    assert!(fourth.mono - ended.mono < 2.0, "{} s", fourth.mono - ended.mono);
    assert_eq!(c.end().code, Some(0));
    stage.assert_one_leader_at_a_time();
}
