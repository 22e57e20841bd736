//! Measures renewals and takeovers beside fenced transactions that never stop, on PostgreSQL and MariaDB.
//!
//! `run` writes the output to results.md. Two electors with the default durations take turns every three seconds. The
//! workers of the leader run fenced transactions of 100 ms, each worker without a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use leasehold::store::{
    CallContext, CancelToken, Cursor, RecordWrite, Store, StoreError, VersionedRecord, WatchEvent, WatchScope,
};
use leasehold::{ConfigError, LeaderElector};
use parking_lot::Mutex;

#[path = "../../tests/support/mod.rs"]
mod support;

use support::SOON;
use support::mariadb::MariaDb;
use support::postgres::Postgres;
use support::real_store::Elects;
use support::sql::SqlServer;

const WORKERS: [usize; 4] = [1, 3, 8, 16];
const TERM: Duration = Duration::from_secs(3);

/// A store that measures the renewals.
struct Timed {
    store: Box<dyn Store>,
    renewals: Arc<Mutex<Vec<Duration>>>,
}

impl Store for Timed {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        self.store.get(key, call)
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.store.create(key, write, call)
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        let began = Instant::now();
        let answer = self.store.update(key, base, write, call);
        let term = |record: &leasehold::store::LeaderElectionRecord| {
            (record.holder().map(str::to_owned), record.acquire_time.clone())
        };
        if term(write.record) == term(&base.record) {
            self.renewals.lock().push(began.elapsed());
        }
        answer
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        self.store.watch(scope, from, cancel, on_event)
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        self.store.check_key(key)
    }

    fn describe(&self, key: &str) -> String {
        self.store.describe(key)
    }
}

fn main() {
    // Cargo adds the argument `--bench`.
    let arguments: Vec<_> = env::args().collect();
    let seconds = arguments.iter().skip_while(|it| *it != "--seconds").nth(1);
    let time = Duration::from_secs(seconds.map_or(300, |seconds| seconds.parse().expect("a number of seconds")));
    println!("{} s for each row.\n", time.as_secs());
    println!(
        "| server | workers | transactions | lost terms | renewals | p50 | p99 | max | takeovers | p50 | p99 | max |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    if let Some(server) = Postgres::start(&["fsync=on"]) {
        measure(&server, "PostgreSQL", "SELECT pg_sleep(0.1)", time);
    }
    if let Some(server) = MariaDb::start(&["innodb_flush_log_at_trx_commit=1"]) {
        measure(&server, "MariaDB", "SELECT SLEEP(0.1)", time);
    }
}

fn measure<S: Elects>(server: &S, name: &str, work: &str, time: Duration) {
    for workers in WORKERS {
        let database = server.database(&format!("fences_{workers}"));
        let url = server.url(S::ADMINISTRATOR, &database);
        S::create_table(&url).expect("a table");
        let (renewals, lost, passed) = (Arc::new(Mutex::new(Vec::new())), &mut 0, AtomicUsize::new(0));
        let start = |identity: &str| {
            let store = Timed { store: S::store(&url), renewals: Arc::clone(&renewals) };
            let builder = LeaderElector::builder("jobs").identity(identity).release_timeout(SOON);
            builder.renew_interval(Duration::from_millis(100)).start_on(store).expect("an elector")
        };
        let electors = ["a", "b"].map(start);
        let mut guard = electors[0].block_until_leader().expect("a term");
        let (fence, stops) = (Mutex::new(S::fence("jobs", guard.fencing_token())), AtomicBool::new(false));
        let mut takeovers = Vec::new();
        thread::scope(|scope| {
            for _ in 0..workers {
                let mut session = server.session(&database);
                let (fence, stops, passed) = (&fence, &stops, &passed);
                scope.spawn(move || {
                    while !stops.load(Ordering::Relaxed) {
                        let transaction = format!("BEGIN; {}; {work}; COMMIT;", fence.lock());
                        passed.fetch_add(session.query(&transaction).starts_with('1').into(), Ordering::Relaxed);
                    }
                });
            }
            let until = Instant::now() + time;
            for next in electors.iter().rev().cycle() {
                let campaign = next.campaign().expect("a campaign");
                thread::sleep(TERM);
                if let Err(error) = guard.check() {
                    eprintln!("{name}, {workers} workers: {error}");
                    *lost += 1;
                }
                let began = Instant::now();
                guard.release().expect("a release");
                guard = campaign.receiver().recv_timeout(10 * SOON).expect("an answer").expect("a term");
                takeovers.push(began.elapsed());
                *fence.lock() = S::fence("jobs", guard.fencing_token());
                if Instant::now() >= until {
                    break;
                }
            }
            stops.store(true, Ordering::Relaxed);
        });
        let passed = passed.into_inner();
        let [renewals, takeovers] = [std::mem::take(&mut *renewals.lock()), takeovers].map(spread);
        println!("| {name} | {workers} | {passed} | {lost} | {renewals} | {takeovers} |");
    }
}

/// Returns the number of values, the median, the 99th percentile and the maximum.
fn spread(mut values: Vec<Duration>) -> String {
    values.sort();
    let at = |percent: usize| {
        let value = values[((values.len() - 1) * percent).div_ceil(100)];
        format!("{:.1} ms", value.as_secs_f64() * 1e3)
    };
    format!("{} | {} | {} | {}", values.len(), at(50), at(99), at(100))
}
