//! What a fencing token is for: a leader that is stopped between its check and its write comes too late, believes that
//! it leads, and is refused by what it writes to.
//!
//!     cargo run --example fenced_writes
//!
//! Two candidates run as processes of their own, on an API server in memory. Both append to one journal, which remembers
//! the highest token that it has seen. Between her second check and her second write, anna sends herself SIGSTOP. With a
//! database the same check is one condition in the statement that writes:
//!
//!     UPDATE journal SET entry = :entry, token = :token WHERE id = :id AND token <= :token
//!
//! and a write that changed no row was refused.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::testing::ApiServer;
use leasehold::{LeaderElector, LeaderGuard};
use rustix::process::{Pid, Signal, getpid, kill_process};

const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demonstrate(),
        ["candidate", name, api_server, journal] => run_candidate(name, api_server, journal),
        _ => Err("takes no arguments".into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fenced_writes: {error}");
            ExitCode::FAILURE
        }
    }
}

// ---- what is written to ----

/// Takes no entry that comes with a lower token than one that it has taken before.
#[derive(Default)]
struct Journal {
    highest: u64,
    entries: Vec<String>,
}

impl Journal {
    fn append(&mut self, token: u64, entry: &str) -> Result<(), String> {
        if token < self.highest {
            return Err(format!("token {token} is older than {}, which wrote before", self.highest));
        }
        self.highest = token;
        self.entries.push(entry.to_owned());
        Ok(())
    }

    /// Serves a journal on a free port: one write a connection, with one line for an answer.
    fn serve() -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            let mut journal = Journal::default();
            for connection in listener.incoming().flatten() {
                let mut request = String::new();
                let Ok(_) = BufReader::new(&connection).read_line(&mut request) else { continue };
                let Some((token, entry)) = request.trim_end().split_once(' ') else { continue };
                let answer = token.parse().map_err(|_| "no token".to_owned()).and_then(|t| journal.append(t, entry));
                let answer = answer.map_or_else(|why| format!("refused: {why}"), |()| "taken".to_owned());
                println!("  journal: {entry:?} with token {token}: {answer}");
                let _ = writeln!(&connection, "{answer}");
            }
        });
        Ok(address)
    }
}

fn append(journal: &str, token: u64, entry: &str) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(journal)?;
    writeln!(connection, "{token} {entry}")?;
    let mut answer = String::new();
    BufReader::new(connection).read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

// ---- who writes ----

fn run_candidate(name: &str, api_server: &str, journal: &str) -> Result<(), Box<dyn Error>> {
    let elector = LeaderElector::builder("journal")
        .identity(name)
        .lease_duration(Duration::from_secs(2))
        .renew_deadline(Duration::from_secs(1))
        .retry_period(Duration::from_millis(200))
        .start_with_client(Client::new(ClientConfig::new(api_server)?)?)?;
    loop {
        let guard = elector.block_until_leader()?;
        println!("leads with token {}", guard.fencing_token());
        write_while_leading(&guard, name, journal)?;
    }
}

fn write_while_leading(guard: &LeaderGuard, name: &str, journal: &str) -> Result<(), Box<dyn Error>> {
    let mut number = 0;
    loop {
        if let Err(ended) = guard.check() {
            println!("stops: {ended}");
            return Ok(());
        }
        println!("has checked that it leads");
        number += 1;
        // Anything may come between a check and the write that it is for: a page fault, a full queue, a suspended
        // machine. Mostly it is short.
        if name == "anna" && number == 2 {
            println!("is stopped");
            kill_process(getpid(), Signal::STOP)?;
        }
        thread::sleep(Duration::from_millis(300));
        let answer = append(journal, guard.fencing_token(), &format!("{name}'s entry {number}"))?;
        println!("its write is {answer}");
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
        journal: SocketAddr,
        said: Sender<(&'static str, String)>,
    ) -> std::io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["candidate", name, &server.url(), &journal.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().map(BufReader::new);
        thread::spawn(move || {
            for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                println!("{name} {line}");
                let _ = said.send((name, line));
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
    let journal = Journal::serve()?;
    let (said, lines) = unbounded();

    let anna = Candidate::spawn("anna", &server, journal, said.clone())?;
    wait_for(&lines, &anna, "is stopped")?;
    println!("---- anna is stopped here, between her check and her write");
    let boris = Candidate::spawn("boris", &server, journal, said)?;
    wait_for(&lines, &boris, "its write is taken")?;

    kill_process(Pid::from_child(&anna.process), Signal::CONT)?;
    println!("---- anna goes on, and knows nothing of boris");
    wait_for(&lines, &anna, "its write is refused")?;
    wait_for(&lines, &anna, "stops")?;
    println!("---- the journal has no entry of anna's after boris's first");
    Ok(())
}

fn wait_for(lines: &Receiver<(&str, String)>, whom: &Candidate, start: &str) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (name, line) = lines.recv_deadline(deadline).map_err(|_| format!("{} never said: {start}", whom.name))?;
        if name == whom.name && line.starts_with(start) {
            return Ok(());
        }
    }
}
