//! Fleets of candidates with addresses, requests and delays.

use std::process::Command;

use rustix::process::Signal;

use crate::support::cluster::Cluster;
use crate::support::process::{Candidate, Stage};
use crate::support::{in_target, is_built, say_aloud, wait_for};

const REQUEST: &str = "leasehold.dev/step-down";

/// The delay of the candidates in the other zone, in seconds.
const DELAY: f64 = 1.5;

/// Three candidates of leasehold and two of client-go hand over 22 times, by SIGTERM and by requests.
#[test]
fn fleet_beside_client_go_obeys_requests_one_at_a_time() {
    let Some(cluster) = Cluster::real("fleet_beside_client_go") else { return };
    let program = in_target("client-go/client-go");
    if !is_built(&program, "the test beside client-go", "tests/client-go/build") {
        return;
    }
    let timings = ["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=200ms", "--heartbeat=10ms"];
    let kubeconfig = cluster.kubeconfig("candidate");
    let stage = Stage::new(&kubeconfig, &cluster.lease, &timings);
    let start = |id: &str| {
        let Some(delay) = id.strip_prefix("ours-").and_then(|rest| rest.split('-').next()) else {
            let mut command = Command::new(&program);
            command.args(["--lease", &cluster.lease, "--id", id, "--kubeconfig"]).arg(&kubeconfig).args(timings);
            return stage.candidate_of(command, id);
        };
        let (delay, address) = (format!("--hold-back={delay}ms"), format!("--advertise={id}:1"));
        stage.candidate_with(id, &[&delay, &address, "--accept-requests"])
    };
    let mut fleet: Vec<_> = ["ours-0-0", "ours-300-0", "ours-600-0", "go-1-0", "go-2-0"].map(start).into();
    let (mut leader, mut requests) = (String::new(), 0);
    for number in 1..=24 {
        let previous = std::mem::take(&mut leader);
        leader = wait_for("another leader", || cluster.holder().filter(|holder| *holder != previous));
        let place = fleet.iter().position(|candidate| candidate.id == leader).expect("a candidate of the fleet");
        fleet[place].wait_for("leading");
        if leader.starts_with("ours") && number % 2 == 0 {
            requests += 1;
            cluster.edit(|lease| lease["metadata"]["annotations"][REQUEST] = leader.as_str().into());
            let end = fleet[place].wait_for("stopped_leading");
            assert_eq!(end.reason.as_deref(), Some("a step-down was requested"));
        } else {
            // A new identity, because the terms of a client-go candidate have no tokens.
            let role = leader.rsplit_once('-').expect("a number").0;
            let successor = start(&format!("{role}-{number}"));
            let ended = std::mem::replace(&mut fleet[place], successor);
            ended.signal(Signal::TERM);
            assert_eq!(ended.end().code, Some(0));
        }
    }
    let history = stage.assert_one_leader_at_a_time();
    let is_ours = |identity: &str| identity.starts_with("ours");
    let addresses = stage.lines().into_iter().filter(|line| line.event == "new_leader" && is_ours(&line.identity));
    for line in addresses {
        let leader = line.leader.expect("a leader");
        let expected = is_ours(&leader).then(|| format!("{leader}:1"));
        assert_eq!(line.address, expected, "the address of {leader}");
    }
    let handovers = history.handovers();
    say_aloud(&format!("beside client-go: {handovers} handovers, {requests} of them by requests: 0 overlaps"));
    assert!(handovers >= 22 && requests >= 3, "{handovers} handovers, {requests} requests");
}

/// Six candidates in two zones, of which one zone is preferred.
#[test]
fn preferred_zone_leads_while_one_of_its_candidates_is_alive() {
    let Some(cluster) = Cluster::real("preferred_zone") else { return };
    let flags = ["--lease-duration=3s", "--renew-deadline=1500ms", "--retry-period=200ms", "--no-client-go-peers"];
    let flags = flags.into_iter().chain(["--heartbeat=10ms"]).collect::<Vec<_>>();
    let stage = Stage::new(cluster.kubeconfig("candidate"), &cluster.lease, &flags);
    let delay = format!("--hold-back={DELAY}s");
    let delayed = [delay.as_str()];
    let start = |id: &str| stage.candidate_with(id, if id.starts_with('b') { &delayed } else { &[] });
    let mut preferred: Vec<_> = ["a-0", "a-1", "a-2"].map(start).into();
    // The delay does not apply to a lease that does not exist.
    preferred.iter().for_each(|candidate: &Candidate| drop(candidate.wait_for("new_leader")));
    let others = ["b-0", "b-1", "b-2"].map(start);
    others.iter().for_each(|other| drop(other.wait_for("new_leader")));
    let mut leader = String::new();
    let mut next_leader = |what: &str| {
        let previous = std::mem::take(&mut leader);
        leader = wait_for(what, || cluster.holder().filter(|holder| *holder != previous));
        leader.clone()
    };
    for number in 0..40 {
        let holder = next_leader("a leader of the preferred zone");
        let place = preferred.iter().position(|it| it.id == holder).unwrap_or_else(|| panic!("{holder} is preferred"));
        preferred[place].wait_for("leading");
        // The successor must watch before the next handover.
        let successor = start(&format!("a-{}", number + 3));
        successor.wait_for("new_leader");
        let ended = std::mem::replace(&mut preferred[place], successor);
        end(ended, number % 4 == 3);
    }
    // Without a preferred candidate, another zone leads after the delay.
    let holder = next_leader("a leader of the preferred zone");
    let (leading, rest): (Vec<_>, Vec<_>) = preferred.into_iter().partition(|it| it.id == holder);
    rest.into_iter().for_each(|it| end(it, true));
    leading.into_iter().for_each(|it| end(it, false));
    let holder = next_leader("a leader of the other zone");
    let other = others.iter().find(|it| it.id == holder).expect("a candidate of the other zone");
    let led_at = other.wait_for("leading").mono;
    let terms = stage.assert_one_leader_at_a_time().terms;
    let left_at = terms.iter().rfind(|term| term.identity != holder).expect("a term of the preferred zone").last;
    assert!(led_at - left_at >= DELAY, "the other zone led {} s after the preferred zone", led_at - left_at);
}

fn end(candidate: Candidate, is_killed: bool) {
    if is_killed {
        drop(candidate.kill());
    } else {
        candidate.signal(Signal::TERM);
        assert_eq!(candidate.end().code, Some(0));
    }
}
