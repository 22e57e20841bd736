//! Benchmarks of operations inside the process.
//!
//! Run `cargo bench --bench micro`, or `cargo bench --bench micro -- TEXT` for the benchmarks whose names contain TEXT.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::election::candidate::Candidate;
use leasehold::election::candidate::messages::{Effect, Input};
use leasehold::election::{Operation, Step, StoreRequest, StoreResponse};
use leasehold::group::LeaseGroup;
use leasehold::kubernetes::Client;
use leasehold::kubernetes::LeaseStore;
use leasehold::store::{CallContext, CancelToken, MemoryStore, Store, StoreData, VersionedRecord};
use leasehold::util::clock::{Moment, Now};
use leasehold::{Event, LeaderElector, LeaderElectorBuilder, LeaderGuard, Observer};
use leasehold_testing::{ApiServer, User};

#[path = "../tests/support/client_config.rs"]
mod client_config;

const TIMEOUT: Duration = Duration::from_secs(5);
/// The number of calls per sample, because one call is too short to measure.
const CALLS: usize = 1000;

/// The duration of each benchmark.
const MEASURED: Duration = Duration::from_secs(2);
/// The duration of the shortest sample.
///
/// Reading the clock takes a negligible part of such a sample.
const SAMPLE: Duration = Duration::from_micros(50);

/// A benchmark, called with its name.
type Bench = fn(&str);

const BENCHES: [(&str, Bench); 13] = [
    ("clock_read", clock_read),
    ("is_leader", |name| is_leader(name, None)),
    ("is_leader, with progress", |name| is_leader(name, Some(LONG))),
    ("is_owned", is_owned),
    ("progress", |name| progress(name, 0)),
    ("progress, of 8 handles", |name| progress(name, 8)),
    ("one_renewal_of_the_core", one_renewal_of_the_core),
    ("empty_call_of_an_observer", empty_call_of_an_observer),
    ("term_in_memory, unobserved", |name| term_in_memory(name, false)),
    ("term_in_memory, observed", |name| term_in_memory(name, true)),
    ("read_and_decode_a_lease", read_and_decode_a_lease),
    ("renewal_in_memory, plain", |name| renewal_in_memory(name, false)),
    ("renewal_in_memory, TLS", |name| renewal_in_memory(name, true)),
];

fn main() {
    // Skips the flags that cargo adds.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:<26}{:>12}{:>12}{:>12}{:>12}", "ns", "fastest", "median", "mean", "slowest");
    for (name, bench) in BENCHES.iter().filter(|(name, _)| name.contains(&wanted)) {
        bench(name);
    }
}

/// Measures and prints the time of one operation.
///
/// Each call of `work` repeats the operation `times` times.
fn measure<T>(name: &str, times: usize, mut work: impl FnMut() -> T) {
    let mut sample = |rounds: usize| {
        let began = Instant::now();
        (0..rounds).for_each(|_| drop(black_box(work())));
        began.elapsed()
    };
    let mut rounds = 1;
    while sample(rounds) < SAMPLE {
        rounds *= 2;
    }
    let end = Instant::now() + MEASURED;
    let mut samples: Vec<_> = std::iter::from_fn(|| (Instant::now() < end).then(|| sample(rounds))).collect();
    samples.sort();
    let mean = samples.iter().sum::<Duration>() / samples.len() as u32;
    print!("{name:<26}");
    for time in [samples[0], samples[samples.len() / 2], mean, samples[samples.len() - 1]] {
        print!("{:>12.1}", time.as_nanos() as f64 / (rounds * times) as f64);
    }
    println!();
}

// ---- the check and its parts ----

fn clock_read(name: &str) {
    measure(name, CALLS, || {
        for _ in 0..CALLS {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            black_box(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
        }
    });
}

/// A progress timeout that exceeds the time of a benchmark.
const LONG: Duration = Duration::from_secs(3_600);

fn leading(within: Option<Duration>) -> (LeaderElector, LeaderGuard) {
    let builder = within.into_iter().fold(LeaderElector::builder("bench"), LeaderElectorBuilder::progress_timeout);
    let elector = builder.start_on(MemoryStore::new()).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    (elector, guard)
}

fn is_leader(name: &str, within: Option<Duration>) {
    let (_elector, guard) = leading(within);
    measure(name, CALLS, || {
        for _ in 0..CALLS {
            black_box(black_box(&guard).is_leader());
        }
    });
}

fn is_owned(name: &str) {
    let builder = LeaseGroup::builder("jobs").shards(1);
    let group = builder.slot(|slot| slot.lease_duration(Duration::from_secs(2))).start_on(MemoryStore::new());
    let shards = group.expect("a group").shards().expect("a member");
    let shard = shards.recv().expect("a shard");
    measure(name, CALLS, || {
        for _ in 0..CALLS {
            black_box(black_box(&shard).is_owned());
        }
    });
}

/// Measures a progress report by the guard, or by one of `handles` progress handles.
fn progress(name: &str, handles: usize) {
    let (_elector, guard) = leading(Some(LONG));
    let handles: Vec<_> = (0..handles).map(|_| guard.progress_handle()).collect();
    measure(name, CALLS, || {
        for _ in 0..CALLS {
            black_box(handles.first().map_or_else(|| guard.report_progress(), |handle| black_box(handle).report()));
        }
    });
}

// ---- the core ----

/// Measures the decision to renew and the handling of the response.
fn one_renewal_of_the_core(name: &str) {
    let settings = LeaderElector::builder("bench").identity("me").validate().expect("good settings");
    let mut candidate = Candidate::new(settings, 1);
    let mut clock =
        Clock { local: Moment::from_nanos(1_000_000_000_000), wall: UNIX_EPOCH + Duration::from_secs(1_700_000_000) };
    let mut version = 0;
    candidate.handle(clock.local, Input::Campaign { id: 1, once: false });
    while !std::iter::from_fn(|| candidate.effect()).any(|effect| matches!(effect, Effect::Offer { .. })) {
        clock.step(&mut candidate, &mut version);
    }
    measure(name, 1, || {
        let renewed = version + 1;
        while version < renewed {
            clock.step(&mut candidate, &mut version);
        }
        while candidate.effect().is_some() {}
    });
}

/// A simulated clock, which only advances when the candidate waits.
///
/// `step` also simulates a store.
struct Clock {
    local: Moment,
    wall: SystemTime,
}

impl Clock {
    fn step(&mut self, candidate: &mut Candidate, version: &mut u64) {
        match candidate.next(Now { local: self.local, wall: self.wall }) {
            Step::Wait(until) => {
                self.wall += until.since(self.local);
                self.local = until;
            }
            Step::Send(StoreRequest { id, operation, .. }) => {
                let answer = match operation {
                    Operation::Get(look) => StoreResponse::Read(look, None),
                    Operation::Create(record) | Operation::Update(_, record) => {
                        *version += 1;
                        StoreResponse::Written(VersionedRecord::new(record, *version, StoreData::none()))
                    }
                };
                candidate.handle(self.local, Input::Response(id, answer));
            }
            Step::Finished => unreachable!("the candidate is open"),
        }
    }
}

// ---- observers ----

/// An observer that does nothing.
struct Idle;

impl Observer for Idle {
    fn on_event(&self, _: &Event) {}
}

fn empty_call_of_an_observer(name: &str) {
    let observer: &dyn Observer = &Idle;
    measure(name, CALLS, || {
        for _ in 0..CALLS {
            black_box(observer).on_event(black_box(&Event::Renewed { latency: TIMEOUT }));
        }
    });
}

/// Measures a term on a store in memory, from the campaign to the release.
///
/// If `is_observed`, the elector calls an observer that does nothing.
fn term_in_memory(name: &str, is_observed: bool) {
    let builder = LeaderElector::builder("bench");
    let builder = if is_observed { builder.observer(Idle) } else { builder };
    let elector = builder.start_on(MemoryStore::new()).expect("an elector");
    measure(name, 1, || elector.block_until_leader().expect("a term").release().expect("a release"));
}

// ---- the wire ----

/// Measures a read on an open connection without TLS.
///
/// The decoder is not public, so it cannot be measured alone.
fn read_and_decode_a_lease(name: &str) {
    let (_server, store) = store(false);
    measure(name, 1, || store.get("bench", &call()).expect("an answer"));
}

/// Measures a renewal on an open connection, with or without TLS.
fn renewal_in_memory(name: &str, tls: bool) {
    let (_server, store) = store(tls);
    let mut base = store.get("bench", &call()).expect("an answer").expect("a lease");
    let mut seconds = 0;
    measure(name, 1, || {
        seconds += 1;
        let mut record = base.record.clone();
        record.renew_time = Some(leasehold::store::MicroTime::from_unix_micros(seconds * 1_000_000));
        base = store.update("bench", &base, record.as_write(), &call()).expect("a renewal");
    });
}

fn call() -> CallContext {
    CallContext::new(TIMEOUT, CancelToken::new())
}

fn store(tls: bool) -> (ApiServer, LeaseStore) {
    let server = ApiServer::builder().tls(tls).user(User::candidate()).start().expect("an in-memory server");
    let store = LeaseStore::new(client(&server), "default").expect("a good name");
    store.create("bench", leasehold::store::LeaderElectionRecord::default().as_write(), &call()).expect("a lease");
    (server, store)
}

fn client(server: &ApiServer) -> Client {
    Client::new(client_config::config_of(&server.kubeconfig("candidate")).expect("a cluster")).expect("a client")
}
