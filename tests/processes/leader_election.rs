//! Candidates in their own processes that end, are killed or are stopped, on both servers.
//!
//! The tests run the example `leader_election` on a Lease, as the user `candidate`, who has only the rights of
//! docs/rbac.yaml. Tests of signals and kills also run on a ConfigMap together with a Lease. The test of a stop also
//! runs on a ConfigMap alone.
//!
//! A time is asserted only where the protocol bounds the time, by a clock that all processes share. All other
//! assertions are about the order of events.

use std::collections::BTreeSet;

use crate::on_both_servers;
use crate::support::api::Method;
use crate::support::cluster::Cluster;
use crate::support::kind::Kind;
use crate::support::process::{Candidate, Line, Stage, run};
use crate::support::wait_until;
use leasehold_testing::ApiServer;
use rustix::process::Signal;

on_both_servers! {
    first_candidate_is_elected_and_every_standby_learns_it,
    elector_has_three_threads,
    sigterm_hands_the_lease_over,
    sigint_hands_the_lease_over,
    a_killed_leader_is_followed_when_its_lease_ran_out,
    a_leader_that_was_stopped_past_its_lease_knows_when_it_wakes,
    config_map_leader_paused_past_its_lease_knows_on_wake,
    sigterm_hands_both_over,
    a_killed_leader_by_both_is_followed_when_its_leases_ran_out,
    leader_on_both_paused_past_its_leases_knows_on_wake,
    five_candidates_survive_faults_of_their_leaders,
}

/// Flags of a lease that expires during a test.
///
/// The lease duration exceeds the renew deadline by [`GAP`].
pub const SHORT: &[&str] = &[
    "--lease-duration=4s",
    "--renew-deadline=3s",
    "--retry-period=250ms",
    "--release-timeout=10s",
    "--heartbeat=20ms",
];
/// The least time from the end of a term by the leader's clock to the takeover, in seconds.
const GAP: f64 = 1.0;

/// Flags of a lease that does not expire during a test.
pub const LONG: &[&str] = &[
    "--lease-duration=60s",
    "--renew-deadline=50s",
    "--retry-period=250ms",
    "--release-timeout=25s",
    "--heartbeat=20ms",
];
/// A time in seconds within which a lease of [`LONG`] does not expire.
const WELL_BEFORE: f64 = 30.0;

fn stage(cluster: &Cluster, flags: &[&str]) -> Stage {
    Stage::new(cluster.kubeconfig("candidate"), &cluster.lease, flags)
}

/// Returns a stage for other lock types, on which the user `candidate` has no rights.
fn stage_of(lock_type: &str, cluster: &Cluster, flags: &[&str]) -> Stage {
    let lock_type = format!("--lock-type={lock_type}");
    Stage::new(cluster.kubeconfig("admin"), &cluster.lease, &[flags, &[lock_type.as_str()]].concat())
}

/// Returns the holder in the record of the ConfigMap.
fn holder_of_config_map(cluster: &Cluster) -> Option<String> {
    let path = format!("{}/{}", Kind::ConfigMap.collection(), cluster.lease);
    let object = cluster.api("admin").request(Method::GET, &path, None).expect("a config map");
    let record = Kind::ConfigMap.record(&object);
    record["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}

/// Starts a leader, and a standby that has observed the leader.
fn leader_and_standby(stage: &Stage) -> (Candidate, Line, Candidate) {
    let leader = stage.candidate("a");
    let started = leader.wait_for("started_leading");
    let standby = stage.candidate("b");
    assert_eq!(standby.wait_for("new_leader").leader.as_deref(), Some("a"));
    (leader, started, standby)
}

/// Returns the last time at which the candidate reported that it led.
fn last_beat(lines: &[Line]) -> f64 {
    let beats = lines.iter().filter(|line| line.event == "leading").map(|line| line.mono);
    beats.max_by(f64::total_cmp).expect("a leader that led")
}

fn first_candidate_is_elected_and_every_standby_learns_it(cluster: &Cluster) {
    let stage = stage(cluster, LONG);
    let first = stage.candidate("first");
    assert_eq!(first.wait_for("new_leader").leader.as_deref(), Some("first"));
    let started = first.wait_for("started_leading");
    assert!(started.token() > 0);
    let second = stage.candidate("second");
    assert_eq!(second.wait_for("new_leader").leader.as_deref(), Some("first"));
    assert_eq!(cluster.holder().as_deref(), Some("first"));
    let beat = first.wait_for("leading");
    assert_eq!(beat.token(), started.token());
    assert!(beat.mono >= started.mono);
    assert!(second.lines().iter().all(|line| line.event == "new_leader"), "{:?}", second.lines());
}

fn elector_has_three_threads(cluster: &Cluster) {
    let stage = stage(cluster, LONG);
    let (leader, _, standby) = leader_and_standby(&stage);
    for candidate in [&leader, &standby] {
        // Each new connection starts one more thread, which ends soon.
        wait_until("three threads that last", || {
            threads(candidate) == ["leasehold", "leasehold-signa", "leasehold-store", "leasehold-watch"]
        });
    }
}

/// Returns the names of the threads that the library started.
fn threads(candidate: &Candidate) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", candidate.pid.as_raw_nonzero())).expect("it runs");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let mut ours: Vec<_> =
        names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("leasehold")).collect();
    ours.sort();
    ours
}

fn sigterm_hands_the_lease_over(cluster: &Cluster) {
    hands_over(&stage(cluster, LONG), Signal::TERM, || cluster.holder());
}

fn sigint_hands_the_lease_over(cluster: &Cluster) {
    hands_over(&stage(cluster, LONG), Signal::INT, || cluster.holder());
}

fn sigterm_hands_both_over(cluster: &Cluster) {
    let holder = || holder_of_config_map(cluster).filter(|holder| cluster.holder().as_ref() == Some(holder));
    hands_over(&stage_of("configmapsleases", cluster, LONG), Signal::TERM, holder);
}

pub fn hands_over(stage: &Stage, signal: Signal, holder: impl Fn() -> Option<String>) {
    let (leader, first, standby) = leader_and_standby(stage);
    assert_eq!(holder().as_deref(), Some("a"));
    leader.signal(signal);
    let stopped = leader.wait_for("stopped_leading");
    assert_eq!(stopped.reason.as_deref(), Some("the guard was dropped or released"));
    let end = leader.end();
    assert_eq!(end.code, Some(0), "{}", end.errors);
    assert_eq!(end.errors, "", "nothing to complain of");
    // The process ended after its release, so the record no longer names the process.
    assert_ne!(holder().as_deref(), Some("a"));
    let second = standby.wait_for("started_leading");
    assert!(second.token() > first.token(), "{first:?} {second:?}");
    assert!(second.mono > stopped.mono, "{stopped:?} {second:?}");
    assert!(second.mono < stopped.mono + WELL_BEFORE, "a hand-over does not wait for the lease to run out");
    standby.wait_for("leading");
    stage.assert_one_leader_at_a_time();
}

fn a_killed_leader_is_followed_when_its_lease_ran_out(cluster: &Cluster) {
    is_followed_when_killed(&stage(cluster, SHORT));
}

fn a_killed_leader_by_both_is_followed_when_its_leases_ran_out(cluster: &Cluster) {
    is_followed_when_killed(&stage_of("configmapsleases", cluster, SHORT));
}

pub fn is_followed_when_killed(stage: &Stage) {
    let (leader, _, standby) = leader_and_standby(stage);
    leader.wait_for("leading");
    let said = leader.kill();
    let first = said.iter().rfind(|line| line.event == "started_leading").expect("a term");
    let second = standby.wait_for("started_leading");
    assert!(second.token() > first.token(), "{first:?} {second:?}");
    assert!(second.mono > last_beat(&said) + GAP, "others wait until the term has surely ended");
    standby.wait_for("leading");
    stage.assert_one_leader_at_a_time();
}

fn a_leader_that_was_stopped_past_its_lease_knows_when_it_wakes(cluster: &Cluster) {
    knows_when_it_wakes(&stage(cluster, SHORT));
}

fn config_map_leader_paused_past_its_lease_knows_on_wake(cluster: &Cluster) {
    knows_when_it_wakes(&stage_of("configmaps", cluster, SHORT));
}

fn leader_on_both_paused_past_its_leases_knows_on_wake(cluster: &Cluster) {
    knows_when_it_wakes(&stage_of("configmapsleases", cluster, SHORT));
}

pub fn knows_when_it_wakes(stage: &Stage) {
    let (sleeper, _, standby) = leader_and_standby(stage);
    sleeper.wait_for("leading");
    let asleep_since = sleeper.suspend();
    let second = standby.wait_for("started_leading");
    assert!(second.mono > asleep_since, "the lease was held when its holder fell asleep");
    let before = sleeper.lines();
    let beats = |lines: &[Line]| lines.iter().filter(|line| line.event == "leading").count();

    sleeper.signal(Signal::CONT);
    let stopped = sleeper.wait_for("stopped_leading");
    assert!(stopped.mono > second.mono);
    assert!(stopped.reason.as_deref().is_some_and(|reason| !reason.is_empty()), "{stopped:?}");
    // The process may have been stopped between its check and its output. The time in the output is from before the
    // check.
    let after = sleeper.lines();
    assert!(beats(&after) <= beats(&before) + 1, "{:?}", &after[before.len()..]);
    assert!(last_beat(&after) <= asleep_since, "{:?}", &after[before.len()..]);

    // The continued process is a candidate again.
    standby.signal(Signal::TERM);
    let third = sleeper.wait_for("started_leading");
    assert!(third.token() > second.token(), "{second:?} {third:?}");
    sleeper.wait_for("leading");
    assert_eq!(standby.end().code, Some(0));
    stage.assert_one_leader_at_a_time();
}

fn five_candidates_survive_faults_of_their_leaders(cluster: &Cluster) {
    const ROUNDS: usize = 6;
    let stage = stage(cluster, SHORT);
    let mut candidates: Vec<_> = (0..5).map(|number| stage.candidate(&format!("candidate-{number}"))).collect();
    let mut token = 0;
    for round in 0..ROUNDS {
        let started = stage.wait_for_leader_after(token);
        token = started.token();
        let index = candidates.iter().position(|candidate| candidate.id == started.identity).expect("one of ours");
        let leader = candidates.swap_remove(index);
        if round % 2 == 0 {
            leader.kill();
        } else {
            leader.signal(Signal::TERM);
            let end = leader.end();
            assert_eq!(end.code, Some(0), "{}", end.errors);
        }
        candidates.push(stage.candidate(&format!("candidate-{}", 5 + round)));
    }
    let last = stage.wait_for_leader_after(token);
    stage.wait_for("the last one leads", |line| line.event == "leading" && line.token() == last.token());
    stage.assert_one_leader_at_a_time();
    let starts: Vec<_> = stage.lines().iter().filter(|line| line.event == "started_leading").map(Line::token).collect();
    assert!(starts.len() > ROUNDS, "{starts:?}");
    let different: BTreeSet<_> = starts.iter().collect();
    assert_eq!(different.len(), starts.len(), "a token was given twice: {starts:?}");
}

/// The process prints one line with the remedy and exits with 2.
///
/// A candidate that fails exits with 1.
#[test]
fn unusable_setting_is_one_line() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a path in UTF-8").to_owned()
    };
    let server = ApiServer::start().expect("an in-memory server");
    let good = write("good", &server.kubeconfig("anybody"));
    let malformed = format!("--kubeconfig={}", write("malformed", "apiVersion: v1\nclusters: {{{\n"));
    let missing = format!("--kubeconfig={}", dir.path().join("missing").display());

    let (lease, good) = ("--lease-lock-name=x", format!("--kubeconfig={good}"));
    let named = |more: &[&'static str]| [&[lease, &good], more].concat();
    for (what, flags, words) in [
        ("no name", vec![&*good], &["--lease-lock-name", "missing"][..]),
        ("no duration", named(&["--lease-duration", "soon"]), &["--lease-duration", "soon", "15s"]),
        ("a duration without unit", named(&["--retry-period", "2"]), &["--retry-period", "15s"]),
        ("a negative duration", named(&["--renew-deadline=-5s"]), &["--renew-deadline", "-5s"]),
        ("a heartbeat", named(&["--heartbeat", "often"]), &["--heartbeat", "often"]),
        ("a value that is missing", named(&["--lease-duration"]), &["--lease-duration"]),
        (
            "the deadline is too long",
            named(&["--lease-duration=15s", "--renew-deadline=20s"]),
            &["renew_deadline", "20s", "15s"],
        ),
        ("an unknown flag", named(&["--lease-durations", "1s"]), &["--lease-durations"]),
        ("a word too many", named(&["please"]), &["please"]),
        ("no such kubeconfig", vec![lease, &missing], &["missing"]),
        ("a malformed kubeconfig", vec![lease, &malformed], &["malformed", "line"]),
        ("no cluster at all", vec![lease], &["KUBECONFIG"]),
    ] {
        let end = run(&flags);
        assert_eq!(end.code, Some(2), "{what}: {}", end.errors);
        assert_eq!(end.errors.lines().count(), 1, "{what}: {}", end.errors);
        for word in words {
            assert!(end.errors.contains(word), "{what}: {word} is missing in {}", end.errors);
        }
    }
    assert!(server.requests().is_empty(), "what cannot be used does not get as far as the server");
}

#[test]
fn help_is_asked_for_and_given() {
    assert_eq!(run(&["--help"]).code, Some(0));
    assert_eq!(run(&["-h"]).code, Some(0));
}
