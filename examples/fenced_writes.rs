//! Shows how a fencing token makes a database refuse the late write of a stopped leader.
//!
//!     cargo run --example fenced_writes
//!
//! Two candidates run as processes on an in-memory API server. Both insert entries into one SQLite database. Each
//! transaction first raises the one-row table `fence` to the writer's fencing token. Anna sends herself SIGSTOP between
//! her second check and her second INSERT, and boris takes over meanwhile.
//!
//! If only each row had a token, the database would accept anna's INSERT, because a new row has no older token to
//! compare. If the lease is in the same database, `fence_sql` of the store (such as `PostgresStore::fence_sql`) replaces
//! the fence table. A lease in SQLite should have a file of its own, because workers that write without a pause starve
//! the renewals in their file. The fence row then stays in the file of the work, as here.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderGuard};
use leasehold_testing::ApiServer;
use rusqlite::{Connection, TransactionBehavior};
use rustix::process::{Pid, Signal, getpid, kill_process};

const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demonstrate(),
        ["candidate", name, api_server, database] => run_candidate(name, api_server, database),
        _ => Err("takes no arguments".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fenced_writes: {error}");
            ExitCode::FAILURE
        }
    }
}

// ---- the database ----

const SCHEMA: &str = "
    CREATE TABLE fence (name VARCHAR(99) PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL);
    INSERT INTO fence VALUES ('journal', 0, 0);
    CREATE TABLE journal (entry TEXT NOT NULL, token BIGINT NOT NULL);";

/// Updates no row if a later leader has raised the fence.
///
/// `writes` makes every UPDATE change the row, because MySQL does not count a row whose values stay the same.
const RAISE_FENCE: &str = "UPDATE fence SET token = ?1, writes = writes + 1 WHERE name = 'journal' AND token <= ?1";

/// Inserts an entry, unless a later leader has raised the fence. Returns the outcome as text.
fn append(database: &mut Connection, token: u64, entry: &str) -> Result<String, Box<dyn Error>> {
    // The conversion never fails: a fencing token is a store version, and an elector rejects versions above `i64::MAX`.
    let token = i64::try_from(token)?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if transaction.execute(RAISE_FENCE, [token])? == 0 {
        let fence: i64 =
            transaction.query_row("SELECT token FROM fence WHERE name = 'journal'", [], |row| row.get(0))?;
        // Dropping the transaction rolls it back.
        return Ok(format!("refused: token {token} is lower than the fence, {fence}"));
    }
    transaction.execute("INSERT INTO journal (entry, token) VALUES (?1, ?2)", (entry, token))?;
    transaction.commit()?;
    Ok("accepted".to_owned())
}

// ---- the candidates ----

fn run_candidate(name: &str, api_server: &str, database: &str) -> Result<(), Box<dyn Error>> {
    let mut database = Connection::open(database)?;
    let elector = LeaderElector::builder("journal")
        .identity(name)
        .lease_duration(Duration::from_secs(2))
        .renew_deadline(Duration::from_secs(1))
        .retry_period(Duration::from_millis(200))
        .start_with_client(Client::new(ClientConfig::new(api_server)?)?)?;
    loop {
        let guard = elector.block_until_leader()?;
        println!("leads with token {}", guard.fencing_token());
        write_while_leading(&guard, name, &mut database)?;
    }
}

fn write_while_leading(guard: &LeaderGuard, name: &str, database: &mut Connection) -> Result<(), Box<dyn Error>> {
    let mut number = 0;
    loop {
        if let Err(ended) = guard.check() {
            println!("stops: {ended}");
            return Ok(());
        }
        println!("has checked that it leads");
        number += 1;
        // SIGSTOP stands for any long pause, such as a page fault, a full queue or a suspended machine.
        if name == "anna" && number == 2 {
            println!("is stopped");
            kill_process(getpid(), Signal::STOP)?;
        }
        thread::sleep(Duration::from_millis(300));
        let outcome = append(database, guard.fencing_token(), &format!("{name}'s entry {number}"))?;
        println!("its write is {outcome}");
    }
}

// ---- the demonstration ----

struct Candidate {
    name: &'static str,
    process: Child,
}

impl Candidate {
    fn spawn(
        name: &'static str,
        server: &ApiServer,
        database: &Path,
        printed: Sender<(&'static str, String)>,
    ) -> std::io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["candidate", name, &server.url()])
            .arg(database)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().map(BufReader::new);
        thread::spawn(move || {
            for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                println!("{name} {line}");
                let _ = printed.send((name, line));
            }
        });
        Ok(Self { name, process })
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn demonstrate() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start()?;
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("journal.db");
    let database = Connection::open(&path)?;
    database.execute_batch(SCHEMA)?;
    let (printed, lines) = unbounded();

    let anna = Candidate::spawn("anna", &server, &path, printed.clone())?;
    wait_for(&lines, &anna, "is stopped")?;
    println!("---- anna is stopped between her check and her write");
    let boris = Candidate::spawn("boris", &server, &path, printed)?;
    wait_for(&lines, &boris, "its write is accepted")?;

    kill_process(Pid::from_child(&anna.process), Signal::CONT)?;
    println!("---- anna continues, and has not noticed boris");
    wait_for(&lines, &anna, "its write is refused")?;
    wait_for(&lines, &anna, "stops")?;

    println!("---- the journal, in the order of the commits:");
    let mut statement = database.prepare("SELECT entry, token FROM journal ORDER BY rowid")?;
    let entries = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let entries = entries.collect::<Result<Vec<(String, i64)>, _>>()?;
    entries.iter().for_each(|(entry, token)| println!("{entry}, token {token}"));
    if !entries.is_sorted_by_key(|(_, token)| *token) {
        return Err("an entry with a lower token follows an entry with a higher token".into());
    }
    Ok(())
}

fn wait_for(lines: &Receiver<(&str, String)>, candidate: &Candidate, start: &str) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let missing = |_| format!("{} did not print: {start}", candidate.name);
        let (name, line) = lines.recv_deadline(deadline).map_err(missing)?;
        if name == candidate.name && line.starts_with(start) {
            return Ok(());
        }
    }
}
