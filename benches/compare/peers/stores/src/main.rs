//! Clients of stores, without leasehold:
//!
//! - `stores limit STORE WHERE` measures the lower bound of a handover. After each line on standard input, one client
//!   writes a record. A waiting client receives a notification, and then reads and replaces the record. STORE is etcd,
//!   sqlite, postgres or mysql. WHERE is HOST:PORT or a file.
//! - `stores lock STORE WHERE NAME session|DURATION` is a candidate for a session lock of postgres or mysql. With
//!   `session`, the server blocks the candidate until the lock is free. With DURATION, the candidate tries to get the
//!   lock at this interval.
//! - `stores query STORE WHERE SQL` prints the rows, with a tab after each column.
//! - `stores version` prints the version of the bundled SQLite.
//!
//! The servers need no password. `limit` and `lock` print JSON lines.

mod client;
mod limit;
mod lock;

pub type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["limit", "etcd", address] => limit::etcd::measure(address),
        ["limit", "sqlite", file] => limit::sqlite::measure(file.as_ref()),
        ["limit", "postgres", address] => limit::postgres::measure(address),
        ["limit", "mysql", address] => limit::mysql::measure(address),
        ["lock", "postgres", address, name, how] => lock::postgres(address, name, how),
        ["lock", "mysql", address, name, how] => lock::mysql(address, name, how),
        ["query", "postgres", address, sql] => print(client::postgres::Client::connect(address)?.query(sql)?),
        ["query", "mysql", address, sql] => print(client::mysql::Client::connect(address)?.query(sql)?),
        ["version"] => print(vec![vec![Some(rusqlite::version().to_owned())]]),
        _ => Err("see the comment at the top of main.rs".into()),
    }
}

fn print(rows: Vec<client::Row>) -> Result<(), Error> {
    for row in rows {
        println!("{}", row.into_iter().map(|column| column.unwrap_or_default() + "\t").collect::<String>());
    }
    Ok(())
}
