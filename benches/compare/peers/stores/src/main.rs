//! Bare clients of stores, without an election in them:
//!
//! - `stores limit STORE WHERE`: the least that any handover costs there. For each line on standard input one client writes,
//!   another that waits is told of it, reads what it was not told, and writes onto that. STORE is etcd, sqlite, postgres or
//!   mysql; WHERE is HOST:PORT, or a file.
//! - `stores lock STORE WHERE NAME session|DURATION`: a candidate on a lock that a session holds, as postgres and mysql have
//!   them: it waits in the server for the lock, or tries to get it this often.
//! - `stores query STORE WHERE SQL`: prints the rows, a tab after each column.
//! - `stores version`: that of the SQLite which is built in.
//!
//! The servers ask for no password. `limit` and `lock` print JSON lines.

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
