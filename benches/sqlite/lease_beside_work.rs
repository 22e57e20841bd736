//! Measures how often a leader loses its lease beside workers that write to the same SQLite file.
//!
//!     cargo run --release --example lease_beside_work --features sqlite -- SECONDS [own]
//!
//! Each worker is a process that repeats `BEGIN IMMEDIATE`, an INSERT, 100 ms of work and `COMMIT` without a pause. An
//! elector with the default durations leads beside 1, 3, 8 and 16 workers, for `SECONDS` each. With `own`, the lease is
//! in a file of its own. `docs/stores/SQLITE.md` has results.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold::sqlite::SqliteStore;
use leasehold::{Event, LeaderElector, Observer, StopReason};
use rusqlite::{Connection, TransactionBehavior};

/// The time that a transaction takes.
const WORK: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", file] => work(Path::new(file)),
        [seconds, rest @ ..] => {
            let (lasts, is_own) = (Duration::from_secs(seconds.parse()?), rest == ["own"]);
            println!(
                "| workers | transactions | renewals | slowest renewal | lost terms | lost per hour | without a leader |"
            );
            println!("|--:|--:|--:|--:|--:|--:|--:|");
            [1, 3, 8, 16].into_iter().try_for_each(|workers| measure(workers, lasts, is_own))
        }
        [] => Err("give the seconds of each measurement".into()),
    }
}

/// The observations of the elector.
#[derive(Default)]
struct Seen {
    renewals: AtomicU64,
    slowest_millis: AtomicU64,
    lost: AtomicU64,
}

struct Seeing(Arc<Seen>);

impl Observer for Seeing {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Renewed { latency } => {
                self.0.renewals.fetch_add(1, Relaxed);
                self.0.slowest_millis.fetch_max(latency.as_millis() as u64, Relaxed);
            }
            Event::StoppedLeading { reason: StopReason::Expired } => _ = self.0.lost.fetch_add(1, Relaxed),
            _ => {}
        }
    }
}

/// Prints one line of the table.
fn measure(workers: usize, lasts: Duration, is_own: bool) -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir_in(".")?;
    let (work, own) = (scratch.path().join("work.db"), scratch.path().join("election.db"));
    let connection = connect(&work)?;
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE entries (worker INTEGER)")?;
    let seen = Arc::new(Seen::default());
    let store = SqliteStore::open(if is_own { &own } else { &work })?;
    let elector = LeaderElector::builder("jobs").observer(Seeing(Arc::clone(&seen))).start_on(store)?;
    let mut guard = elector.block_until_leader()?;
    let start = |_| Command::new(std::env::current_exe()?).arg("work").arg(&work).spawn();
    let mut children = (0..workers).map(start).collect::<Result<Vec<_>, _>>()?;
    let (began, mut leaderless) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < lasts {
        sleep(Duration::from_millis(10));
        if !guard.is_leader() {
            let since = Instant::now();
            drop(guard);
            guard = elector.block_until_leader()?;
            leaderless += since.elapsed();
        }
    }
    for child in &mut children {
        child.kill()?;
        child.wait()?;
    }
    let transactions: i64 = connection.query_row("SELECT count(*) FROM entries", [], |row| row.get(0))?;
    let [renewals, slowest, lost] = [&seen.renewals, &seen.slowest_millis, &seen.lost].map(|it| it.load(Relaxed));
    let per_hour = lost as f64 * 3600.0 / lasts.as_secs_f64();
    let slowest = slowest as f64 / 1000.0;
    println!(
        "| {workers} | {transactions} | {renewals} | {slowest:.1} s | {lost} | {per_hour:.0} | {:.1} s |",
        leaderless.as_secs_f64()
    );
    Ok(())
}

/// Repeats transactions until the process is killed.
fn work(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut connection = connect(file)?;
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("INSERT INTO entries VALUES (?1)", [std::process::id()])?;
        sleep(WORK);
        transaction.commit()?;
    }
}

/// Opens a file as a program does that waits for locks.
fn connect(file: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(600))?;
    Ok(connection)
}
