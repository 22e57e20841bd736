//! What the library costs inside the process: `cargo bench`.

use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use divan::Bencher;
use divan::counter::ItemsCount;
use leasehold::clock::{Moment, Now};
use leasehold::election::{Election, Event, Operation, Request, Response, Step};
use leasehold::kube::{Client, Kubeconfig};
use leasehold::testing::{ApiServer, User};
use leasehold::{Call, Cancel, LeaderElector, LeaseStore, Observed, Opaque, Store};

const TIMEOUT: Duration = Duration::from_secs(5);
/// A clock read is too short to be measured alone.
const CALLS: usize = 1000;

fn main() {
    divan::main();
}

// ---- the check, beside what it is made of ----

#[divan::bench]
fn clock_read(bencher: Bencher) {
    bencher.counter(ItemsCount::new(CALLS)).bench_local(|| {
        for _ in 0..CALLS {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            black_box(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
        }
    });
}

#[divan::bench]
fn is_leader(bencher: Bencher) {
    let server = ApiServer::start().expect("an in-memory server");
    let elector = LeaderElector::builder("bench").start_with(client(&server)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    bencher.counter(ItemsCount::new(CALLS)).bench_local(|| {
        for _ in 0..CALLS {
            black_box(black_box(&guard).is_leader());
        }
    });
    assert!(guard.is_leader());
}

// ---- the core ----

/// Deciding to renew, and learning that it was done.
#[divan::bench]
fn one_renewal_of_the_core(bencher: Bencher) {
    let settings = LeaderElector::builder("bench").identity("me").settings().expect("good settings");
    let mut election = Election::new(settings, 1);
    let mut clock =
        Clock { local: Moment::from_nanos(1_000_000_000_000), wall: UNIX_EPOCH + Duration::from_secs(1_700_000_000) };
    let mut version = 0;
    election.campaign(false);
    while !std::iter::from_fn(|| election.event()).any(|event| matches!(event, Event::Elected { .. })) {
        clock.step(&mut election, &mut version);
    }
    bencher.bench_local(|| {
        let renewed = version + 1;
        while version < renewed {
            clock.step(&mut election, &mut version);
        }
    });
}

/// A made-up clock, on which nothing takes any time but waiting; and a store that does whatever it is asked.
struct Clock {
    local: Moment,
    wall: SystemTime,
}

impl Clock {
    fn step(&mut self, election: &mut Election, version: &mut u64) {
        match election.next(Now { local: self.local, wall: self.wall }) {
            Step::Wait(until) => {
                self.wall += until.since(self.local);
                self.local = until;
            }
            Step::Send(Request { id, operation, .. }) => {
                let answer = match operation {
                    Operation::Get(look) => Response::Read(look, None),
                    Operation::Create(record) | Operation::Update(_, record) => {
                        *version += 1;
                        Response::Written(Observed::new(record, *version, Opaque::none()))
                    }
                };
                election.on_response(self.local, id, answer);
            }
            Step::Finished => unreachable!("nobody closed it"),
        }
    }
}

// ---- the wire ----

/// Decoding a lease is not public by itself: this is that with a request on an open connection, without TLS.
#[divan::bench]
fn read_and_decode_a_lease(bencher: Bencher) {
    let (_server, store) = store(false);
    bencher.bench_local(|| store.get("bench", &call()).expect("an answer"));
}

/// What a leader sends every `renew_interval`, on an open connection, without TLS and with.
#[divan::bench(args = [false, true])]
fn renewal_in_memory(bencher: Bencher, tls: bool) {
    let (_server, store) = store(tls);
    let mut base = store.get("bench", &call()).expect("an answer").expect("a lease");
    let mut seconds = 0;
    bencher.bench_local(|| {
        seconds += 1;
        let mut record = base.record.clone();
        record.renew_time = Some(leasehold::MicroTime::from_unix_micros(seconds * 1_000_000));
        base = store.update("bench", &base, &record, &call()).expect("a renewal");
    });
}

fn call() -> Call {
    Call::new(TIMEOUT, Cancel::new())
}

fn store(tls: bool) -> (ApiServer, LeaseStore) {
    let server = ApiServer::builder().tls(tls).user(User::candidate()).start().expect("an in-memory server");
    let store = LeaseStore::new(client(&server), "default").expect("a good name");
    store.create("bench", &leasehold::LeaderElectionRecord::default(), &call()).expect("a lease");
    (server, store)
}

fn client(server: &ApiServer) -> Client {
    let kubeconfig = Kubeconfig::from_text(&server.kubeconfig("candidate"), ".").expect("a kubeconfig");
    Client::new(kubeconfig.client_config(None).expect("a cluster")).expect("a client")
}
