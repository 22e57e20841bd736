//! A service whose leader runs three workers. The database refuses the writes of a former leader.

use std::error::Error;
use std::panic::resume_unwind;
use std::time::Duration;

use leasehold::{LeaderElector, Leadership, Stop};
use rusqlite::{Connection, TransactionBehavior::Immediate};

type Failure = Box<dyn Error + Send + Sync>;

const DATABASE: &str = "service.db";
const TABLES: &str = "CREATE TABLE IF NOT EXISTS fence (name TEXT PRIMARY KEY, token INTEGER NOT NULL);
    INSERT OR IGNORE INTO fence VALUES ('service', 0);
    CREATE TABLE IF NOT EXISTS runs (worker INTEGER, token INTEGER);";
/// Less than the 30 s after which Kubernetes kills the process.
const STOP_LIMIT: Duration = Duration::from_secs(25);

fn main() -> Result<(), Failure> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let stop = Stop::on_signals_within(STOP_LIMIT)?;
    Connection::open(DATABASE)?.execute_batch(TABLES)?;
    let elector = LeaderElector::builder("service").start()?;
    elector.run_until(&stop, |guard| {
        write(&mut Connection::open(DATABASE)?, guard, |_| Ok(0))?; // from here on, earlier tokens are refused
        guard.scope(|scope| {
            let workers: Vec<_> = (0..3).map(|number| scope.spawn(move || work(guard, number))).collect();
            let ends = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ends.collect::<Vec<_>>().into_iter().collect()
        })
    })?;
    Ok(())
}

/// Works until the term ends. An error ends the term, so that the other workers end too.
fn work(term: &Leadership, number: u32) -> Result<(), Failure> {
    let mut database = Connection::open(DATABASE)?;
    while term.wait(Duration::from_secs(1)) {
        let token = i64::try_from(term.fencing_token())?;
        let insert = |it: &Connection| it.execute("INSERT INTO runs VALUES (?1, ?2)", (number, token));
        write(&mut database, term, insert).inspect_err(|_| term.step_down())?;
    }
    Ok(())
}

/// Runs `write` in a transaction that fails if a later leader has raised the fence.
fn write(
    database: &mut Connection,
    term: &Leadership,
    write: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
) -> Result<(), Failure> {
    let transaction = database.transaction_with_behavior(Immediate)?;
    let raise = "UPDATE fence SET token = ?1 WHERE name = 'service' AND token <= ?1";
    if transaction.execute(raise, [i64::try_from(term.fencing_token())?])? == 0 {
        return Err("a later leader has raised the fence".into());
    }
    write(&transaction)?;
    Ok(transaction.commit()?)
}
