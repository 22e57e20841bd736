//! A guard's release is confirmed in time even if the API server is far away or slow.
//!
//! Round trips and durations are four times as long as for a server 500 ms away and the default durations. A busy
//! machine thus has four times as long for its own work. All tries run at once, because they mostly wait.

use std::thread;
use std::time::{Duration, Instant};

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE, Server};
use crate::support::proxy::Proxy;
use crate::support::{SOON, wait_until};
use leasehold::kubernetes::Client;
use leasehold::{LeaderElector, LeaderGuard};
use leasehold_testing::{Fault, Verb};

on_both_servers! { a_release_from_far_away_is_confirmed, standby_takes_over_soon_on_a_dropped_connection }

/// The duration of a term after its last renewal.
const RENEW_DEADLINE: Duration = Duration::from_secs(40);
/// The retry period, which is also the release timeout.
const RETRY_PERIOD: Duration = Duration::from_secs(8);
/// A renew interval that is longer than any round trip in this test.
const RENEW_INTERVAL: Duration = Duration::from_millis(3_200);

/// The moment at which the guard is released.
#[derive(Clone, Copy, Debug)]
enum When {
    /// After this number of renewals has been answered.
    After(usize),
    /// During a renewal: its number, and the part of the round trip that has passed.
    In(usize, f64),
    /// After the server has closed its connections.
    ///
    /// The elector is not aware of the closing yet (`Closing`), or already is (`Closed`).
    Closing,
    Closed,
}

use When::{After, Closed, Closing, In};

const USUAL: [When; 9] =
    [After(0), After(1), After(2), In(1, 0.05), In(1, 0.3), In(1, 0.6), In(1, 0.9), In(3, 0.05), In(3, 0.8)];

fn a_release_from_far_away_is_confirmed(cluster: &Cluster) {
    thread::scope(|scope| {
        for far in [1_600, 2_000] {
            let moments = [&USUAL[..], &[Closing, Closed]].concat();
            scope.spawn(move || each_is_confirmed(cluster, Duration::from_millis(far), &moments));
        }
    });
}

#[test]
fn release_is_confirmed_by_a_server_that_answers_late() {
    thread::scope(|scope| {
        for late in [Fault::delay, Fault::delay_answer] {
            scope.spawn(move || {
                let cluster = Cluster::in_memory("late");
                let server = cluster.in_memory_server().expect("it is in memory");
                server.fault(late(Duration::from_millis(2_800)));
                each_is_confirmed(&cluster, Duration::ZERO, &USUAL);
            });
        }
    });
}

#[test]
fn the_tries_do_meet_renewals_in_flight() {
    let cluster = Cluster::in_memory("flight");
    let server = cluster.in_memory_server().expect("it is in memory");
    let round_trip = Duration::from_millis(1_600);
    let dropped_at = try_to_release(&cluster, round_trip, In(1, 0.5), &cluster.lease);
    let met = server.requests().into_iter().filter(|request| request.verb == Some(Verb::Update)).any(|request| {
        let since_sent = (dropped_at + round_trip / 2).checked_duration_since(request.at);
        since_sent.is_some_and(|since| since < round_trip)
    });
    assert!(met, "no renewal was in flight when the guard went");
}

/// A firewall drops connections that are idle for 11 s. The events of the leader's renewals keep the watch in use.
fn standby_takes_over_soon_on_a_dropped_connection(cluster: &Cluster) {
    let ((_near, leader), (path, standby)) = (from_afar(cluster, Duration::ZERO), from_afar(cluster, Duration::ZERO));
    let lease = format!("{}-dropped", cluster.lease);
    let elector = |identity: &str, client| {
        let builder = LeaderElector::builder(&lease).namespace(NAMESPACE).identity(identity);
        builder.start_with_client(client).expect("an elector")
    };
    let leader = elector("leader", leader);
    let guard = leader.block_until_leader().expect("a term");
    let standby = elector("standby", standby);
    let campaign = standby.campaign().expect("a campaign");
    wait_until("the standby watches", || standby.status().is_watching && standby.current_leader().is_some());
    thread::sleep(Duration::from_secs(13));
    assert_eq!(path.forget_idle(Duration::from_secs(11)), 1, "the connection of the requests");
    let released_at = Instant::now();
    guard.release().expect("an answer");
    let _guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    // With half of the renew deadline for the first attempt, the takeover takes more than five seconds.
    let took = released_at.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(4), "{took:?}");
}

fn each_is_confirmed(cluster: &Cluster, round_trip: Duration, moments: &[When]) {
    thread::scope(|scope| {
        for (index, when) in moments.iter().enumerate() {
            let lease = format!("{}-{}-{index}", cluster.lease, round_trip.as_millis());
            scope.spawn(move || try_to_release(cluster, round_trip, *when, &lease));
        }
    });
}

/// Leads until the given moment, and then releases.
///
/// Panics if the release is not confirmed. Returns the time at which the release began.
fn try_to_release(cluster: &Cluster, round_trip: Duration, when: When, lease: &str) -> Instant {
    let (far, client) = from_afar(cluster, round_trip);
    let mut elector = LeaderElector::builder(lease).namespace(NAMESPACE).identity("me");
    elector = elector.lease_duration(3 * RENEW_DEADLINE / 2).renew_deadline(RENEW_DEADLINE).retry_period(RETRY_PERIOD);
    let answered = match when {
        After(renewals) => renewals,
        In(number, _) => number - 1,
        Closing | Closed => 0,
    };
    // After the connections are closed, a renewal would open a new connection. These cases must have no early renewal.
    if !matches!(when, Closing | Closed) {
        elector = elector.renew_interval(RENEW_INTERVAL);
    }
    let elector = elector.start_with_client(client).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    for _ in 0..answered {
        wait_until_renewal_is_sent(&guard);
        while until_renewal(&guard).is_zero() {
            thread::sleep(Duration::from_millis(1));
        }
    }
    match when {
        After(_) => {}
        In(_, part) => {
            wait_until_renewal_is_sent(&guard);
            thread::sleep(round_trip.mul_f64(part));
        }
        // At a round trip of 2 s, a new connection takes three quarters of the release timeout. Therefore, the release
        // starts shortly before or after the elector learns of the closing.
        Closing | Closed => {
            far.close_connections();
            let is_heard = matches!(when, Closed);
            thread::sleep(if is_heard { round_trip / 2 + Duration::from_millis(80) } else { round_trip / 4 });
        }
    }
    let dropped_at = Instant::now();
    let released = guard.release();
    let took = dropped_at.elapsed();
    released.unwrap_or_else(|error| panic!("{round_trip:?} away, {when:?}: {error} ({took:?})"));
    dropped_at
}

/// Returns the time until the next renewal is sent.
///
/// A term counts from the sending of its last renewal. The next renewal follows one renew interval later.
fn until_renewal(guard: &LeaderGuard) -> Duration {
    guard.remaining().saturating_sub(RENEW_DEADLINE - RENEW_INTERVAL)
}

fn wait_until_renewal_is_sent(guard: &LeaderGuard) {
    while !until_renewal(guard).is_zero() {
        thread::sleep(until_renewal(guard).max(Duration::from_millis(1)));
    }
}

/// Returns a client that is far away from the server.
///
/// The client works only while the returned proxy exists.
fn from_afar(cluster: &Cluster, round_trip: Duration) -> (Proxy, Client) {
    let kubeconfig = match cluster.server() {
        Server::InMemory { server, .. } => server.kubeconfig("candidate"),
        Server::Real(_) => std::fs::read_to_string(cluster.kubeconfig("candidate")).expect("a kubeconfig"),
    };
    let (far, config) = Proxy::far_from(&kubeconfig, round_trip);
    (far, Client::new(config).expect("a client"))
}
