//! How long it takes to release, and to be told that one's lease was taken, from far away: `cargo bench --bench release`.
//!
//! TLS, and every duration as it is by default, except that renewals come sooner, so that it does not take an hour.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use leasehold::kubernetes::{Client, Kubeconfig};
use leasehold::testing::{ApiServer, Fault, FaultHandle, Resource, Verb};
use leasehold::{LeaderElector, LeaderGuard};
use serde_json::json;

#[path = "../tests/support/far.rs"]
mod far;

use far::Far;

const ROUND_TRIPS: [u64; 9] = [1, 5, 20, 50, 100, 200, 300, 400, 500];
const TRIES: usize = 20;
/// A try that was to meet a renewal in flight and missed it is made again.
const TRIES_AGAIN: usize = 5;

/// The default, which a term is counted in.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RENEW_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq)]
enum What {
    Release,
    /// Another takes the lease, and the leader is to learn of it.
    Loss,
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    Quiet,
    /// While the renewal of this number is in flight.
    Renewing(usize),
    /// While a renewal is in flight that will not be answered.
    Hanging,
    /// When the server has closed all connections and that is known.
    Closed,
    /// When the server has just closed all connections and the word of it is under way.
    Closing,
}

const CASES: [(&str, What, When); 8] = [
    ("Release, no renewal in flight", What::Release, When::Quiet),
    ("Release, the first renewal of the term in flight", What::Release, When::Renewing(1)),
    ("Release, the fourth renewal in flight", What::Release, When::Renewing(4)),
    ("Release, a renewal in flight that is never answered", What::Release, When::Hanging),
    ("Release, the connection was closed before", What::Release, When::Closed),
    ("Release, the connection closes under it", What::Release, When::Closing),
    ("Another takes the lease, a renewal in flight", What::Loss, When::Renewing(2)),
    ("Another takes the lease, a renewal in flight that is never answered", What::Loss, When::Hanging),
];

struct Outcome {
    took: Duration,
    done: bool,
    /// Connections that were opened meanwhile.
    opened: usize,
}

fn main() {
    let server = ApiServer::builder().tls(true).start().expect("an in-memory server");
    let rows: Vec<_> = ROUND_TRIPS
        .map(Duration::from_millis)
        .into_iter()
        .map(|round_trip| (round_trip, CASES.map(|(_, what, when)| (what, when))))
        .map(|(round_trip, cases)| (round_trip, measure(&server, round_trip, &cases)))
        .collect();
    for (index, (name, what, _)) in CASES.iter().enumerate() {
        let done = if *what == What::Release { "confirmed" } else { "told" };
        println!("\n{name}:\n");
        println!("| round trip | median | worst | in round trips | {done} | connections opened |");
        println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
        for (round_trip, outcomes) in &rows {
            println!("{}", row(*round_trip, &outcomes[index]));
        }
    }
}

/// All tries of all cases at once, for they mostly wait. They begin one after another, so that they do not all need
/// the processor at the same moment.
fn measure(server: &ApiServer, round_trip: Duration, cases: &[(What, When)]) -> Vec<Vec<Outcome>> {
    thread::scope(|scope| {
        let mut started = 0;
        let mut start = |case: (What, When), n: usize| {
            let pause = Duration::from_millis(7) * started;
            started += 1;
            scope.spawn(move || {
                thread::sleep(pause);
                let part = (n as f64 + 0.5) / TRIES as f64;
                (0..TRIES_AGAIN).find_map(|_| attempt(server, round_trip, case, part))
            })
        };
        let cases: Vec<Vec<_>> = cases.iter().map(|case| (0..TRIES).map(|n| start(*case, n)).collect()).collect();
        let outcome = |tries: Vec<thread::ScopedJoinHandle<'_, Option<Outcome>>>| {
            tries.into_iter().filter_map(|tried| tried.join().expect("a try that does not panic")).collect()
        };
        cases.into_iter().map(outcome).collect()
    })
}

/// One try, at the given part of a renewal's flight. `None` if no renewal was in flight at that moment.
fn attempt(server: &ApiServer, round_trip: Duration, (what, when): (What, When), part: f64) -> Option<Outcome> {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let lease = format!("bench-{}", COUNTER.fetch_add(1, Ordering::SeqCst));
    let far = Far::to(address(server), round_trip);
    let elector = LeaderElector::builder(&lease)
        .identity("me")
        .renew_interval(RENEW_INTERVAL)
        .start_with_client(client(server, &far))
        .expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let mut fault = None;
    match when {
        // Half of them right after the election, half after a renewal.
        When::Quiet | When::Closed | When::Closing if part < 0.5 => {}
        When::Quiet | When::Closed | When::Closing => wait_until_renewed(&guard),
        When::Renewing(number) => (1..number).for_each(|_| wait_until_renewed(&guard)),
        When::Hanging => {
            wait_until_renewed(&guard);
            fault = Some(hang(server, &lease));
        }
    }
    match when {
        When::Quiet => {}
        When::Renewing(_) | When::Hanging => {
            wait_until_renewal_is_sent(&guard);
            thread::sleep(round_trip.mul_f64(part));
        }
        When::Closed => {
            far.close_connections();
            thread::sleep(round_trip / 2 + Duration::from_millis(20));
        }
        When::Closing => {
            far.close_connections();
            thread::sleep((round_trip / 2).mul_f64(part));
        }
    }
    let opened = far.connections();
    let began = Instant::now();
    let done = match what {
        What::Release => guard.release().is_ok(),
        What::Loss => {
            server.edit(Resource::Leases, "default", &lease, |lease| {
                lease["spec"]["holderIdentity"] = json!("another");
            });
            guard.ended().recv_timeout(RENEW_DEADLINE) == Err(RecvTimeoutError::Disconnected)
        }
    };
    let outcome = Outcome { took: began.elapsed(), done, opened: far.connections() - opened };
    let was_in_flight = server.requests().iter().any(|request| {
        // What is sent from now on cannot arrive that soon.
        let arrived_before = request.at < began + round_trip / 2;
        let answered_after = request.at + round_trip / 2 > began || when == When::Hanging && request.status.is_none();
        request.verb == Some(Verb::Update)
            && request.name.as_deref() == Some(&lease)
            && arrived_before
            && answered_after
    });
    if let Some(fault) = fault {
        fault.remove();
    }
    let wanted = matches!(when, When::Renewing(_) | When::Hanging);
    (was_in_flight == wanted).then_some(outcome)
}

/// The next renewal is received and never answered.
fn hang(server: &ApiServer, lease: &str) -> FaultHandle {
    server.fault(Fault::hang().verb(Verb::Update).resource(Resource::Leases).name(lease).first(1))
}

/// A term is counted from when its last renewal was sent, and the next one follows a renew interval later.
fn until_renewal(guard: &LeaderGuard) -> Duration {
    guard.remaining().saturating_sub(RENEW_DEADLINE - RENEW_INTERVAL)
}

fn wait_until_renewal_is_sent(guard: &LeaderGuard) {
    loop {
        match until_renewal(guard) {
            Duration::ZERO => return,
            left => thread::sleep(left.saturating_sub(Duration::from_millis(1)).max(Duration::from_micros(50))),
        }
    }
}

fn wait_until_renewed(guard: &LeaderGuard) {
    wait_until_renewal_is_sent(guard);
    while until_renewal(guard).is_zero() {
        thread::sleep(Duration::from_micros(200));
    }
}

fn row(round_trip: Duration, outcomes: &[Outcome]) -> String {
    let mut took: Vec<_> = outcomes.iter().map(|outcome| outcome.took).collect();
    took.sort();
    let (Some(worst), count) = (took.last(), took.len()) else {
        return format!("| {} ms | – | – | – | – | – |", round_trip.as_millis());
    };
    let median = took[count / 2];
    let done = outcomes.iter().filter(|outcome| outcome.done).count();
    let opened: usize = outcomes.iter().map(|outcome| outcome.opened).sum();
    format!(
        "| {} ms | {} | {} | {:.1} | {done} of {count} | {opened} |",
        round_trip.as_millis(),
        shown(median),
        shown(*worst),
        median.as_secs_f64() / round_trip.as_secs_f64(),
    )
}

fn shown(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

fn address(server: &ApiServer) -> SocketAddr {
    server.url().trim_start_matches("https://").parse().expect("an address")
}

fn client(server: &ApiServer, far: &Far) -> Client {
    let here = format!("127.0.0.1:{}", address(server).port());
    let there = format!("127.0.0.1:{}", far.port);
    let kubeconfig = server.kubeconfig("me").replace(&here, &there);
    let kubeconfig = Kubeconfig::from_text(&kubeconfig, ".").expect("a kubeconfig");
    Client::new(kubeconfig.client_config(None).expect("a cluster")).expect("a client")
}
