//! Elects in the database of the work. The fence is a statement of the store.

use std::time::Duration;

use leasehold::postgres::{PostgresConfig, PostgresStore};
use leasehold::{LeaderElector, LeaderGuard, Stop};
use postgres::{Client, NoTls};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEASE: &str = "billing";
/// Less than the 30 s after which Kubernetes kills the process.
const STOP_LIMIT: Duration = Duration::from_secs(25);

fn main() -> Result<(), Failure> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let stop = Stop::on_signals_within(STOP_LIMIT)?;
    let url = std::env::var("DATABASE_URL")?;
    let mut database = Client::connect(&url, NoTls)?;
    database.batch_execute("CREATE TABLE IF NOT EXISTS bills (number BIGSERIAL, token BIGINT)")?;
    let store = PostgresStore::new(PostgresConfig::new(&url)?)?;
    store.create_table()?;
    let elector = LeaderElector::builder(LEASE).start_on(store)?;
    elector.run_until(&stop, |guard| lead(guard, &mut database))?;
    Ok(())
}

fn lead(guard: &LeaderGuard, database: &mut Client) -> Result<(), Failure> {
    let token = guard.fencing_token();
    let fence = PostgresStore::fence_sql(LEASE, token);
    while guard.wait(Duration::from_secs(1)) {
        let mut transaction = database.transaction()?;
        if transaction.query_opt(&fence, &[])?.is_none() {
            return Ok(()); // a later term exists, and dropping the transaction rolls back
        }
        transaction.execute("INSERT INTO bills (token) VALUES ($1)", &[&i64::try_from(token)?])?;
        transaction.commit()?;
    }
    Ok(())
}
