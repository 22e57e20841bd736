//! Measures 200 electors of one process: their watches, threads and requests, and the release of all guards.
//!
//! With the argument `hangs`, measures what a hang of the server costs them ([results](many.md)).
//!
//! Run `cargo bench --bench many`. The server is a real kube-apiserver if one is built, and the in-memory server
//! otherwise. Each round compares `release_all` with as many bare writes at the same time by the same client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use std::{fs, thread};

use leasehold::kubernetes::LeaseStore;
use leasehold::store::{SharedWatch, Store, WatchScope};
use leasehold::{LeaderElector, release_all};

#[path = "many/hangs.rs"]
mod hangs;
#[path = "../tests/support/mod.rs"]
mod support;

use support::SOON;
use support::cluster::{Cluster, NAMESPACE};
use support::stores::{Wrapped, call, held_by};

const ELECTORS: usize = 200;
const ROUNDS: usize = 9;

fn main() {
    if let Some(position) = std::env::args().position(|argument| argument == "hangs") {
        return hangs::measure(std::env::args().nth(position + 1).as_deref());
    }
    let cluster = Cluster::real("bench-many").unwrap_or_else(|| Cluster::in_memory("bench-many"));
    let leases = Arc::new(LeaseStore::new(cluster.client("admin"), NAMESPACE).expect("a store"));
    let (watches, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let watch = {
        let (leases, watches) = (Arc::clone(&leases), Arc::clone(&watches));
        move |from: Option<&_>, cancel: &_, on_event: &mut dyn FnMut(_)| {
            watches.fetch_add(1, Ordering::SeqCst);
            leases.watch(WatchScope::All, from, cancel, on_event)
        }
    };
    let counted = Arc::clone(&requests);
    let counting = Wrapped::watching(Arc::clone(&leases), watch)
        .and_answering(move |_| _ = counted.fetch_add(1, Ordering::SeqCst));
    let store = Arc::new(SharedWatch::new(counting));
    let before = threads();
    let elector = |number: usize| {
        let builder = LeaderElector::builder(format!("{}-{number}", cluster.lease));
        builder.start_on(Arc::clone(&store)).expect("an elector")
    };
    let electors: Vec<_> = (0..ELECTORS).map(elector).collect();
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let campaigns: Vec<_> = electors.iter().map(|it| it.campaign().expect("a campaign")).collect();
        let won = campaigns.iter().map(|it| it.receiver().recv_timeout(SOON).expect("soon").expect("a term"));
        let guards: Vec<_> = won.collect();
        if round == 0 {
            println!("requests of {ELECTORS} electors until all lead: {}", requests.load(Ordering::SeqCst));
            println!("threads: {} ({:?} before)", threads(), before);
        }
        // Renewals become regular, and the pool has its usual connections.
        thread::sleep(Duration::from_secs(3));
        let began = Instant::now();
        let released = release_all(guards, SOON);
        ours.push(began.elapsed());
        assert!(released.iter().all(Result::is_ok), "{released:?}");
        drop(campaigns);
        bare.push(bare_writes(&leases, &cluster.lease));
    }
    println!("watches of all leases: {}", watches.load(Ordering::SeqCst));
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[ROUNDS / 2]
    };
    let (ours, bare) = (median(&mut ours), median(&mut bare));
    println!("release_all of {ELECTORS} guards: {ours:.1?}; {ELECTORS} bare writes: {bare:.1?}");
    println!("ratio: {:.2}", ours.as_secs_f64() / bare.as_secs_f64());
}

/// Returns the time of one update of each of 200 records, all at the same time.
fn bare_writes(leases: &LeaseStore, prefix: &str) -> Duration {
    let key = |number: usize| format!("{prefix}-{number}");
    let read = |number| leases.get(&key(number), &call()).expect("an answer").expect("a record");
    let bases: Vec<_> = (0..ELECTORS).map(read).collect();
    let ready = Barrier::new(ELECTORS + 1);
    thread::scope(|scope| {
        for (number, base) in bases.iter().enumerate() {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                leases.update(&key(number), base, held_by("").as_write(), &call()).expect("a write");
            });
        }
        // The wait for the other threads is over before the first write.
        thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        ready.wait();
        began
    })
    .elapsed()
}

/// Returns the number of threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
