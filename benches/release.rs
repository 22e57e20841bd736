//! Measures the time of a release and of noticing a lost lease, far from the API server.
//!
//! Run `cargo bench --bench release`, or with `-- ended` only the delay of `ended`. The connections use TLS. All durations
//! are defaults, except a shorter renew interval, which saves an hour. `release.md` shows results.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use leasehold::kubernetes::Client;
use leasehold::{LeaderElector, LeaderGuard};
use leasehold_testing::{ApiServer, Fault, FaultHandle, Resource, Verb};
use serde_json::json;

#[path = "../tests/support/client_config.rs"]
mod client_config;
#[path = "../tests/support/proxy.rs"]
#[allow(dead_code, reason = "other users cause faults")]
mod proxy;

use proxy::Proxy;

const ROUND_TRIPS: [u64; 9] = [1, 5, 20, 50, 100, 200, 300, 400, 500];
const TRIES: usize = 20;
/// The maximum number of attempts per try.
///
/// An attempt fails if it misses the renewal that must be in flight.
const TRIES_AGAIN: usize = 5;

/// The default renew deadline. A new term remains valid for this time.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RENEW_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Release,
    /// Another candidate takes the lease, and the leader must notice.
    Loss,
}

/// The situation in which the release or the loss begins.
#[derive(Clone, Copy, PartialEq)]
enum Situation {
    Quiet,
    /// The renewal with this number is in flight.
    Renewing(usize),
    /// A renewal is in flight that the server never answers.
    Hanging,
    /// The server has closed all connections, and the client has noticed.
    Closed,
    /// The server has closed all connections, and the client cannot have noticed yet.
    Closing,
}

const CASES: [(&str, Ending, Situation); 8] = [
    ("Release, no renewal in flight", Ending::Release, Situation::Quiet),
    ("Release, the first renewal of the term in flight", Ending::Release, Situation::Renewing(1)),
    ("Release, the fourth renewal in flight", Ending::Release, Situation::Renewing(4)),
    ("Release, a renewal in flight that is never answered", Ending::Release, Situation::Hanging),
    ("Release, the connection was closed before", Ending::Release, Situation::Closed),
    ("Release, the connection closes during the release", Ending::Release, Situation::Closing),
    ("Another candidate takes the lease, a renewal in flight", Ending::Loss, Situation::Renewing(2)),
    ("Another candidate takes the lease, a renewal in flight that is never answered", Ending::Loss, Situation::Hanging),
];

struct Outcome {
    took: Duration,
    done: bool,
    /// The number of connections that were opened during the release or the loss.
    opened: usize,
}

fn main() {
    let server = ApiServer::builder().tls(true).start().expect("an in-memory server");
    if !std::env::args().any(|argument| argument == "ended") {
        measure_releases(&server);
    }
    let mut late = ends_behind_a_hang(&server);
    late.sort();
    println!("\nFrom the end of a term until `ended` disconnects, while a renewal hangs:\n");
    println!("median {:.1?}, worst {:.1?}, {} terms", late[late.len() / 2], late[late.len() - 1], late.len());
}

fn measure_releases(server: &ApiServer) {
    let rows: Vec<_> = ROUND_TRIPS
        .map(Duration::from_millis)
        .into_iter()
        .map(|round_trip| (round_trip, CASES.map(|(_, ending, situation)| (ending, situation))))
        .map(|(round_trip, cases)| (round_trip, measure(server, round_trip, &cases)))
        .collect();
    for (index, (name, ending, _)) in CASES.iter().enumerate() {
        let done = if *ending == Ending::Release { "confirmed" } else { "noticed" };
        println!("\n{name}:\n");
        println!("| round trip | median | worst | in round trips | {done} | connections opened |");
        println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
        for (round_trip, outcomes) in &rows {
            println!("{}", row(*round_trip, &outcomes[index]));
        }
    }
}

/// Returns the times from the end of a term until `ended` disconnects, while a renewal hangs.
fn ends_behind_a_hang(server: &ApiServer) -> Vec<Duration> {
    let times = (0..TRIES).map(|n| {
        let lease = format!("bench-end-{n}");
        let (_near, config) = Proxy::far_from(&server.kubeconfig("me"), Duration::ZERO);
        let elector = LeaderElector::builder(&lease)
            .lease_duration(Duration::from_secs(4))
            .renew_deadline(Duration::from_secs(2))
            .retry_period(Duration::from_millis(500))
            .start_with_client(Client::new(config).expect("a client"))
            .expect("an elector");
        let guard = elector.block_until_leader().expect("a term");
        let _hang = server.fault(Fault::hang().verb(Verb::Update).resource(Resource::Leases).name(&lease));
        while guard.is_leader() {
            thread::sleep(Duration::from_micros(100));
        }
        let began = Instant::now();
        let _ = guard.ended().recv();
        began.elapsed()
    });
    times.collect()
}

/// Runs all tries of all cases concurrently, because a try mostly waits.
///
/// The tries start 7 ms apart, so that they do not compete for the processor.
fn measure(server: &ApiServer, round_trip: Duration, cases: &[(Ending, Situation)]) -> Vec<Vec<Outcome>> {
    thread::scope(|scope| {
        let mut started = 0;
        let mut start = |case: (Ending, Situation), n: usize| {
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

/// Makes one attempt at a release or a loss in the given situation.
///
/// `part` is the fraction of a round trip that passes before the release or the loss.
///
/// Returns `None` if the situation requires a renewal in flight and there was none, or the reverse.
fn attempt(
    server: &ApiServer,
    round_trip: Duration,
    (ending, situation): (Ending, Situation),
    part: f64,
) -> Option<Outcome> {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let lease = format!("bench-{}", COUNTER.fetch_add(1, Ordering::SeqCst));
    let (far, config) = Proxy::far_from(&server.kubeconfig("me"), round_trip);
    let elector = LeaderElector::builder(&lease)
        .identity("me")
        .renew_interval(RENEW_INTERVAL)
        .start_with_client(Client::new(config).expect("a client"))
        .expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let mut fault = None;
    match situation {
        // In half of the tries the release follows the election directly, in the other half a renewal.
        Situation::Quiet | Situation::Closed | Situation::Closing if part < 0.5 => {}
        Situation::Quiet | Situation::Closed | Situation::Closing => wait_until_renewed(&guard),
        Situation::Renewing(number) => (1..number).for_each(|_| wait_until_renewed(&guard)),
        Situation::Hanging => {
            wait_until_renewed(&guard);
            fault = Some(hang(server, &lease));
        }
    }
    match situation {
        Situation::Quiet => {}
        Situation::Renewing(_) | Situation::Hanging => {
            wait_until_renewal_is_sent(&guard);
            thread::sleep(round_trip.mul_f64(part));
        }
        Situation::Closed => {
            far.close_connections();
            thread::sleep(round_trip / 2 + Duration::from_millis(20));
        }
        Situation::Closing => {
            far.close_connections();
            thread::sleep((round_trip / 2).mul_f64(part));
        }
    }
    let opened = far.connections();
    let began = Instant::now();
    let done = match ending {
        Ending::Release => guard.release().is_ok(),
        Ending::Loss => {
            server.edit(Resource::Leases, "default", &lease, |lease| {
                lease["spec"]["holderIdentity"] = json!("another");
            });
            guard.ended().recv_timeout(RENEW_DEADLINE) == Err(RecvTimeoutError::Disconnected)
        }
    };
    let outcome = Outcome { took: began.elapsed(), done, opened: far.connections() - opened };
    let was_in_flight = server.requests().iter().any(|request| {
        // A request that was sent after `began` arrives at least half a round trip later.
        let arrived_before = request.at < began + round_trip / 2;
        let answered_after =
            request.at + round_trip / 2 > began || situation == Situation::Hanging && request.status.is_none();
        request.verb == Some(Verb::Update)
            && request.name.as_deref() == Some(&lease)
            && arrived_before
            && answered_after
    });
    if let Some(fault) = fault {
        fault.remove();
    }
    let wanted = matches!(situation, Situation::Renewing(_) | Situation::Hanging);
    (was_in_flight == wanted).then_some(outcome)
}

/// Makes the server never answer the next renewal.
fn hang(server: &ApiServer, lease: &str) -> FaultHandle {
    server.fault(Fault::hang().verb(Verb::Update).resource(Resource::Leases).name(lease).first(1))
}

/// Returns the time until the next renewal. Renewals are one renew interval apart.
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
