//! A candidate for a session lock, which the server frees when the connection ends.

use std::thread;
use std::time::Duration;

use contender::say;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use crate::Error;
use crate::client::{Row, mysql, postgres};

/// A connection, and the SQL statements for the lock.
struct Lock<Ask> {
    ask: Ask,
    wait: String,
    attempt: String,
    unlock: String,
}

pub fn postgres(address: &str, name: &str, how: &str) -> Result<(), Error> {
    let mut client = postgres::Client::connect(address)?.patiently()?;
    let number = format!("hashtextextended('{name}', 0)");
    let lock = Lock {
        ask: move |sql: &str| client.query(sql),
        wait: format!("SELECT pg_advisory_lock({number}) IS NOT NULL"),
        attempt: format!("SELECT pg_try_advisory_lock({number})"),
        unlock: format!("SELECT pg_advisory_unlock({number})"),
    };
    candidate(lock, how)
}

pub fn mysql(address: &str, name: &str, how: &str) -> Result<(), Error> {
    let mut client = mysql::Client::connect(address)?.patiently()?;
    let lock = Lock {
        ask: move |sql: &str| client.query(sql),
        // A timeout of one year.
        wait: format!("SELECT GET_LOCK('{name}', 31536000)"),
        attempt: format!("SELECT GET_LOCK('{name}', 0)"),
        unlock: format!("SELECT RELEASE_LOCK('{name}')"),
    };
    candidate(lock, how)
}

fn candidate(mut lock: Lock<impl FnMut(&str) -> Result<Vec<Row>, Error>>, how: &str) -> Result<(), Error> {
    let mut is_ours = |sql: &str| (lock.ask)(sql).map(|rows| matches!(&rows[..], [row] if is_true(row)));
    if how == "session" {
        if !is_ours(&lock.wait)? {
            return Err("cannot get the lock".into());
        }
    } else {
        let period: Duration = humantime::parse_duration(how)?;
        while !is_ours(&lock.attempt)? {
            thread::sleep(period);
        }
    }
    // The handler must be installed before the report, because the benchmark sends SIGTERM after the report.
    let mut signals = Signals::new([SIGTERM])?;
    say("started_leading")?;
    signals.forever().next();
    say("stopped_leading")?;
    is_ours(&lock.unlock)?;
    Ok(())
}

fn is_true(row: &Row) -> bool {
    matches!(row.first(), Some(Some(value)) if value == "t" || value == "1")
}
