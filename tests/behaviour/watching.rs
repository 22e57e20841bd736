//! Tests of watches, and of every way in which a watch can fail.
//!
//! Some tests have a long retry period. A faster reaction then proves that the watch reported the change.

use std::time::{Duration, Instant};

use crate::on_both_servers;
use crate::support::cluster::{self, Cluster, NAMESPACE};
use crate::support::proxy::Proxy;
use crate::support::real::Real;
use crate::support::{AT_ONCE, SOON, wait_until, wait_within};
use crossbeam_channel::RecvTimeoutError;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{Campaign, LeaderElector, LeaderElectorBuilder, LeaderGuard, StopReason};
use leasehold_testing::{ApiServer, Fault, Resource, Verb};
use serde_json::json;

on_both_servers! {
    handover_is_delivered,
    created_lease_is_delivered,
    deletion_is_delivered_to_leader_and_standby,
    manual_take_over_is_delivered,
    without_the_right_to_watch_the_lease_is_polled,
    a_lease_that_ran_out_is_taken_over_at_its_expiry,
}

/// Sets durations so long that the elector does not poll during a test.
fn without_polls(builder: LeaderElectorBuilder) -> LeaderElectorBuilder {
    builder
        .lease_duration(Duration::from_secs(300))
        .renew_deadline(Duration::from_secs(200))
        .retry_period(Duration::from_secs(100))
}

fn patient(cluster: &Cluster, identity: &str) -> LeaderElector {
    let builder = without_polls(cluster.builder(identity));
    builder.start_with_client(cluster.client("candidate")).expect("an elector")
}

fn handover_is_delivered(cluster: &Cluster) {
    let (a, b) = (patient(cluster, "a"), patient(cluster, "b"));
    let mut guard = a.block_until_leader().unwrap();
    for round in 0..6 {
        let (from, to) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let campaign = to.campaign().unwrap();
        wait_until("the standby knows the leader", || to.current_leader().as_deref() == Some(from.identity()));
        let token = guard.fencing_token();
        drop(guard);
        guard = campaign.receiver().recv_timeout(AT_ONCE).expect("at once").expect("a term");
        assert!(guard.fencing_token() > token);
    }
}

fn created_lease_is_delivered(cluster: &Cluster) {
    let standby = patient(cluster, "standby");
    std::thread::sleep(Duration::from_millis(500));
    let leader = patient(cluster, "leader");
    let _guard = leader.block_until_leader().unwrap();
    wait_until("the standby hears of it", || standby.current_leader().as_deref() == Some("leader"));
}

fn deletion_is_delivered_to_leader_and_standby(cluster: &Cluster) {
    let (a, b) = (patient(cluster, "a"), patient(cluster, "b"));
    let first = a.block_until_leader().unwrap();
    let campaign = b.campaign().unwrap();
    wait_until("the standby knows the leader", || b.current_leader().as_deref() == Some("a"));
    cluster.delete();
    assert!(first.ended().recv_timeout(AT_ONCE) == Err(RecvTimeoutError::Disconnected));
    // If the leader's watch had not begun, the standby may have created the lease again before.
    let reason = first.check().unwrap_err().reason;
    assert!(matches!(reason, StopReason::Deleted | StopReason::Superseded { .. }), "{reason}");
    let second = campaign.receiver().recv_timeout(AT_ONCE).expect("at once").expect("a term");
    assert!(second.fencing_token() > first.fencing_token());
}

fn manual_take_over_is_delivered(cluster: &Cluster) {
    let elector = patient(cluster, "a");
    let guard = elector.block_until_leader().unwrap();
    cluster.edit(|lease| lease["spec"]["holderIdentity"] = json!("somebody"));
    assert!(guard.ended().recv_timeout(AT_ONCE) == Err(RecvTimeoutError::Disconnected));
    assert_eq!(guard.check().unwrap_err().reason, StopReason::Superseded { by: Some("somebody".into()) });
}

fn without_the_right_to_watch_the_lease_is_polled(cluster: &Cluster) {
    let elector =
        |identity| cluster.builder(identity).start_with_client(cluster.client("no-watch")).expect("an elector");
    let (a, b) = (elector("a"), elector("b"));
    let guard = a.block_until_leader().unwrap();
    let campaign = b.campaign().unwrap();
    wait_until("the standby looks", || b.current_leader().as_deref() == Some("a"));
    drop(guard);
    drop(campaign.receiver().recv_timeout(SOON).expect("soon").expect("a term"));
}

fn a_lease_that_ran_out_is_taken_over_at_its_expiry(cluster: &Cluster) {
    // The elector polls every hundred seconds, so only a wait for the expiry acquires the lease in time.
    let elector = patient(cluster, "a");
    cluster.create(json!({ "holderIdentity": "gone", "leaseDurationSeconds": 3 }));
    let began = Instant::now();
    let guard = elector.block_until_leader_timeout(SOON).unwrap().expect("a term");
    assert!(began.elapsed() > Duration::from_secs(2));
    drop(guard);
}

// ---- costs and failures, in memory ----

fn quick(server: &ApiServer, identity: &str) -> LeaderElector {
    let builder = LeaderElector::builder("watched")
        .lease_duration(Duration::from_secs(6))
        .renew_deadline(Duration::from_secs(4))
        .retry_period(Duration::from_millis(500));
    candidate(server, identity, builder)
}

/// Starts a candidate that renews often, and whose requests may hang for a long time.
fn slow(server: &ApiServer, identity: &str) -> LeaderElector {
    let builder = without_polls(LeaderElector::builder("watched")).renew_interval(Duration::from_millis(200));
    candidate(server, identity, builder)
}

fn candidate(server: &ApiServer, identity: &str, builder: LeaderElectorBuilder) -> LeaderElector {
    let client = ClientConfig::new(&server.url()).and_then(Client::new).unwrap();
    builder.namespace(NAMESPACE).identity(identity).start_with_client(client).expect("an elector")
}

fn count(server: &ApiServer, verb: Verb) -> usize {
    server.requests().iter().filter(|request| request.verb == Some(verb)).count()
}

#[test]
fn a_leader_costs_one_update_a_renewal_and_a_standby_nothing() {
    let server = ApiServer::start().unwrap();
    let (a, b) = (slow(&server, "a"), slow(&server, "b"));
    let guard = a.block_until_leader().unwrap();
    let _campaign = b.campaign().unwrap();
    wait_until("the standby knows the leader", || b.current_leader().as_deref() == Some("a"));
    wait_until("both watch", || count(&server, Verb::Watch) == 2);
    wait_until("the first renewals", || count(&server, Verb::Update) >= 2);
    server.clear_requests();
    let began = Instant::now();
    wait_until("many renewals", || count(&server, Verb::Update) >= 10);
    let elapsed = began.elapsed();
    assert_eq!((count(&server, Verb::Get), count(&server, Verb::Watch)), (0, 0));
    let renewals = elapsed.as_millis() / 200 + 2;
    assert!(count(&server, Verb::Update) as u128 <= renewals, "one each renew interval");
    assert!(guard.is_leader());
}

#[test]
fn a_herd_of_standbys_writes_at_most_once_each_for_a_handover() {
    let server = ApiServer::start().unwrap();
    // A candidate whose request times out on a busy machine would read the record again.
    let patient = |identity: &str| {
        let builder = without_polls(LeaderElector::builder("watched")).retry_period(Duration::from_millis(500));
        candidate(&server, identity, builder)
    };
    let leader = patient("leader");
    let guard = leader.block_until_leader().unwrap();
    let standbys: Vec<_> = (0..40).map(|number| patient(&format!("standby-{number}"))).collect();
    let campaigns: Vec<_> = standbys.iter().map(|elector| elector.campaign().unwrap()).collect();
    for elector in &standbys {
        wait_until("everyone knows the leader", || elector.current_leader().as_deref() == Some("leader"));
    }
    wait_until("everyone watches", || count(&server, Verb::Watch) == 41);
    server.clear_requests();
    let released = Instant::now();
    drop(guard);
    let mut select = crossbeam_channel::Select::new();
    for campaign in &campaigns {
        select.recv(campaign.receiver());
    }
    let won = select.select_timeout(SOON).expect("somebody leads");
    let winner = won.index();
    let guard = won.recv(campaigns[winner].receiver()).unwrap().unwrap();
    for elector in &standbys {
        let winner = standbys[winner].identity();
        wait_until("everyone knows the winner", || elector.current_leader().as_deref() == Some(winner));
    }
    let took = released.elapsed();
    // The release and one try of each standby make 41 updates. The winner may have renewed by now.
    let renewals = count(&server, Verb::Update).saturating_sub(41);
    assert!(renewals <= 4, "{renewals} more updates than candidates");
    let reads = count(&server, Verb::Get);
    // A candidate reads if an event is late, such as the opening of its watch or the win of another candidate.
    let allowed = if took < Duration::from_millis(250) { standbys.len() / 4 } else { 2 * standbys.len() };
    assert!(reads <= allowed, "the losers learn the winner from the event: {reads} reads in {took:?}");
    assert!(guard.is_leader());
}

#[test]
fn leader_learns_of_a_deletion_during_a_hanging_renewal() {
    let server = ApiServer::start().unwrap();
    let elector = slow(&server, "a");
    let guard = elector.block_until_leader().unwrap();
    wait_until("a watch", || count(&server, Verb::Watch) == 1);
    let hanging = server.fault(Fault::hang().verb(Verb::Update));
    assert!(hanging.wait_for_hits(1, SOON));
    assert!(guard.is_leader());
    server.delete(Resource::Leases, NAMESPACE, "watched").expect("a lease");
    assert_eq!(guard.ended().recv_timeout(AT_ONCE), Err(RecvTimeoutError::Disconnected), "sooner than the time-out");
    assert_eq!(guard.check().unwrap_err().reason, StopReason::Deleted);
}

#[test]
fn standby_learns_of_a_release_during_a_hanging_read() {
    let server = ApiServer::start().unwrap();
    let leader = slow(&server, "a");
    let guard = leader.block_until_leader().unwrap();
    wait_until("the leader watches", || count(&server, Verb::Watch) == 1);
    let hanging = server.fault(Fault::hang().verb(Verb::Get).first(1));
    // The initial event of a watch could replace the read. Therefore, the watch opens only after the read was sent.
    let late = server.fault(Fault::hang().verb(Verb::Watch).first(1));
    let standby = slow(&server, "b");
    let campaign = standby.campaign().unwrap();
    assert!(hanging.wait_for_hits(1, SOON) && late.wait_for_hits(1, SOON));
    late.release();
    wait_until("the standby sees the leader", || standby.current_leader().as_deref() == Some("a"));
    let again = server.fault(Fault::hang().verb(Verb::Get));
    drop(guard);
    let won = campaign.receiver().recv_timeout(AT_ONCE);
    drop(won.expect("sooner than the time-out").expect("a term"));
    again.remove();
}

/// Returns the faults of a watch, each with its name.
fn failures() -> Vec<(&'static str, Fault)> {
    let watch = |fault: Fault| fault.verb(Verb::Watch).resource(Resource::Leases);
    let other = json!({ "type": "MODIFIED", "object": { "kind": "Lease", "metadata": { "name": "another" } } });
    let typeless = json!({ "type": "SURPRISE", "object": { "kind": "Lease", "metadata": { "name": "watched" } } });
    let gone = json!({ "type": "ERROR", "object": {
        "kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version" } });
    let line = |event: serde_json::Value| format!("{event}\n").into_bytes();
    vec![
        ("refused", watch(Fault::status(403, "Forbidden", "no watch"))),
        ("gone, as a status", watch(Fault::status(410, "Expired", "too old resource version"))),
        ("gone, as an event", watch(Fault::watch_bytes(line(gone)))),
        ("unavailable", watch(Fault::status(503, "ServiceUnavailable", "later"))),
        ("too many requests", watch(Fault::status(429, "TooManyRequests", "later")).retry_after(1)),
        ("dropped", watch(Fault::drop_before())),
        ("closed in order, always", watch(Fault::close_watch())),
        ("cut, always", watch(Fault::cut_watch())),
        ("silent", watch(Fault::stall_watch())),
        ("never answered", watch(Fault::hang())),
        ("events for other objects, and then silence", watch(Fault::watch_bytes(line(other)))),
        ("an unknown type", watch(Fault::watch_bytes(line(typeless)))),
        ("garbage", watch(Fault::watch_bytes(b"\x00\xffgarbage\n".to_vec()))),
        ("not even HTTP", watch(Fault::garbage(b"220 smtp ready\r\n".to_vec()))),
        ("a proxy's page", watch(Fault::replace_bytes(200, "text/html", b"<html>sign in</html>\n".to_vec()))),
        ("a line without end", watch(Fault::endless_body())),
        ("late events", watch(Fault::delay_events(Duration::from_secs(60)))),
    ]
}

#[test]
fn handover_polls_if_watches_fail_not_in_a_tight_loop() {
    std::thread::scope(|scope| {
        for (name, fault) in failures() {
            scope.spawn(move || {
                let server = ApiServer::start().unwrap();
                server.fault(fault);
                let (a, b) = (quick(&server, "a"), quick(&server, "b"));
                let began = Instant::now();
                let guard = a.block_until_leader_timeout(SOON).unwrap().unwrap_or_else(|| panic!("{name}: no leader"));
                let campaign = b.campaign().unwrap();
                wait_until(name, || b.current_leader().as_deref() == Some("a"));
                std::thread::sleep(Duration::from_secs(2));
                assert!(guard.is_leader(), "{name}");
                drop(guard);
                let won = campaign.receiver().recv_timeout(SOON);
                let guard = won.unwrap_or_else(|_| panic!("{name}: no handover")).expect("a term");
                drop(guard);
                let seconds = began.elapsed().as_secs() as usize + 1;
                let watches = count(&server, Verb::Watch);
                assert!(watches <= 2 * (2 * seconds + 3), "{name}: {watches} watches in {seconds} s by two candidates");
                let reads = count(&server, Verb::Get);
                assert!(reads <= 2 * (2 * seconds + 6), "{name}: {reads} reads in {seconds} s by two candidates");
            });
        }
    });
}

#[test]
fn a_watch_that_works_again_is_used_again() {
    let server = ApiServer::start().unwrap();
    let outage = server.fault(Fault::status(503, "ServiceUnavailable", "later").verb(Verb::Watch));
    let (a, b) = (quick(&server, "a"), quick(&server, "b"));
    let guard = a.block_until_leader().unwrap();
    let _campaign = b.campaign().unwrap();
    assert!(outage.wait_for_hits(4, SOON));
    outage.remove();
    server.clear_requests();
    wait_until("both watch", || count(&server, Verb::Watch) >= 2);
    wait_until("they stop polling", || {
        server.clear_requests();
        std::thread::sleep(Duration::from_millis(1500));
        count(&server, Verb::Get) == 0
    });
    assert!(guard.is_leader());
}

/// A restarting server closes all connections, and refuses watches until it has loaded its rights.
#[test]
fn watch_that_worked_reopens_soon_after_refusals() {
    std::thread::scope(|scope| {
        for (code, reason) in [(403, "Forbidden"), (401, "Unauthorized"), (404, "NotFound")] {
            scope.spawn(move || {
                let server = ApiServer::start().unwrap();
                let address = server.url().trim_start_matches("http://").trim_end_matches('/').parse();
                let proxy = Proxy::to(address.expect("an address and a port"));
                let elector = |identity: &str| {
                    let config = ClientConfig::new(&format!("http://127.0.0.1:{}", proxy.port)).unwrap();
                    let builder = LeaderElector::builder("watched").namespace(NAMESPACE).identity(identity);
                    builder.retry_period(RESTARTING).start_with_client(Client::new(config).unwrap()).unwrap()
                };
                let (a, b) = (elector("a"), elector("b"));
                let guard = a.block_until_leader().unwrap();
                let campaign = b.campaign().unwrap();
                hands_over_on_watches([&a, &b], guard, campaign, || {
                    let refused = server.fault(Fault::status(code, reason, "starting").verb(Verb::Watch));
                    proxy.close_connections();
                    assert!(refused.wait_for_hits(4, SOON), "{code}");
                    refused.remove();
                });
            });
        }
    });
}

#[test]
fn watch_reopens_soon_after_a_restart_of_the_real_server() {
    let Some(real) = Real::own() else { return };
    let elector = |identity: &str| {
        let client = cluster::client(real.ready.kubeconfigs["candidate"].clone());
        let builder = LeaderElector::builder("restarted").namespace(&real.ready.namespace).identity(identity);
        builder.retry_period(RESTARTING).start_with_client(client).unwrap()
    };
    for round in 0..2 {
        let (a, b) = (elector("a"), elector("b"));
        let guard = a.block_until_leader().unwrap();
        let campaign = b.campaign().unwrap();
        hands_over_on_watches([&a, &b], guard, campaign, || {
            real.tell(if round == 0 { "kill kube-apiserver" } else { "stop kube-apiserver" });
            real.tell("start kube-apiserver");
        });
    }
}

const RESTARTING: Duration = Duration::from_millis(500);

/// Checks that both electors watch again after `restart`, and that the standby then notices a release by its watch.
fn hands_over_on_watches(
    electors: [&LeaderElector; 2],
    guard: LeaderGuard,
    campaign: Campaign,
    restart: impl FnOnce(),
) {
    let all_watch = || electors.iter().all(|elector| elector.status().is_watching);
    wait_until("both watch", all_watch);
    restart();
    // The pauses between two watches grow while the server is away.
    wait_within(Duration::from_secs(100), "both watch again", all_watch);
    let guard = if guard.is_leader() { guard } else { return drop(guard) };
    drop(guard);
    drop(campaign.receiver().recv_timeout(AT_ONCE).expect("at once").expect("a term"));
}
