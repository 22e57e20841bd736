//! A service of plain threads: a pool of workers takes jobs only while this replica leads.
//!
//!     cargo run --example threaded_service -- --in-memory      # alone, without a cluster
//!     cargo run --example threaded_service                     # in-cluster, or by kubeconfig
//!
//! It ends by Ctrl-C, or after `--seconds N`. With `--listen ADDRESS:PORT` it answers probes and scrapes: `/healthz`, `/readyz`
//! and `/metrics`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, after, bounded, never, select, tick};
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::testing::ApiServer;
use leasehold::{LeaderElector, LeaderGuard, Leadership, ProgressHandle, Transition};

struct Job(u64);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("threaded_service: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let mut arguments = std::env::args().skip(1);
    let (mut in_memory, mut end, mut listen) = (false, never(), None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--in-memory" => in_memory = true,
            "--seconds" => end = after(Duration::from_secs(arguments.next().unwrap_or_default().parse()?)),
            "--listen" => listen = arguments.next(),
            other => {
                let known = "--in-memory, --seconds N and --listen ADDRESS:PORT";
                return Err(format!("unknown flag {other}: there are {known}").into());
            }
        }
    }

    let server = if in_memory { Some(ApiServer::start()?) } else { None };
    let client = Client::new(match &server {
        Some(server) => ClientConfig::new(&server.url())?,
        None => ClientConfig::infer()?,
    })?;
    // A thread that hangs does not keep the lease.
    let builder = LeaderElector::builder("threaded-service").progress_timeout(Duration::from_secs(10));
    let elector = Arc::new(builder.start_with_client(client.clone())?);
    if let Some(address) = listen {
        let server = tiny_http::Server::http(&address).map_err(|error| format!("--listen {address}: {error}"))?;
        println!("probes and metrics at http://{}", server.server_addr());
        let elector = Arc::clone(&elector);
        thread::spawn(move || server.incoming_requests().for_each(|request| answer(&elector, &client, request)));
    }
    serve(&elector, &shutdown()?, &end)
}

/// What a probe or a scrape is told. None of it waits for the API server.
fn answer(elector: &LeaderElector, client: &Client, request: tiny_http::Request) {
    let (code, text) = match request.url() {
        // Work hangs, or goes on although its term is over, or the elector's thread has panicked: a restart helps.
        "/healthz" => match elector.health_check().check() {
            Ok(()) => (200, "ok".to_owned()),
            Err(unhealthy) => (500, unhealthy.to_string()),
        },
        // A standby is ready, too: were it not, a rollout would wait for it to lead, which it cannot before the old one ends.
        "/readyz" if elector.status().is_running => (200, "ready".to_owned()),
        "/readyz" => (500, "no candidate any more".to_owned()),
        "/metrics" => {
            let mut text = String::new();
            let written = elector.status().write_prometheus(&mut text);
            match written.and_then(|()| client.counters().write_prometheus(&mut text)) {
                Ok(()) => (200, text),
                Err(error) => (500, error.to_string()),
            }
        }
        _ => (404, "there are /healthz, /readyz and /metrics".to_owned()),
    };
    // Whoever asked may be gone by now.
    let _ = request.respond(tiny_http::Response::from_string(text).with_status_code(code));
}

/// One loop for everything that can happen to this replica.
fn serve<T>(elector: &LeaderElector, shutdown: &Receiver<()>, end: &Receiver<T>) -> Result<(), Box<dyn Error>> {
    // A subscription of our own, made once: inside the loop it would be a new one each time.
    let transitions = elector.transitions();
    loop {
        let campaign = elector.campaign()?;
        println!("standing by as {}", elector.identity());
        let guard = loop {
            select! {
                recv(campaign.receiver()) -> won => break won??,
                recv(transitions) -> transition => report(&transition?),
                recv(shutdown) -> _ => return Ok(()),
                recv(end) -> _ => return Ok(()),
            }
        };
        let ending = lead(&guard, &transitions, shutdown, end);
        // The workers have ended: only now may somebody else begin.
        guard.release()?;
        if ending {
            println!("released");
            return Ok(());
        }
    }
}

/// Feeds the workers until the lease is lost (false) or the service is told to end (true).
fn lead<T>(
    guard: &LeaderGuard,
    transitions: &Receiver<Transition>,
    shutdown: &Receiver<()>,
    end: &Receiver<T>,
) -> bool {
    guard.scope(|scope| {
        let (jobs, queue) = bounded(0);
        for number in 1..=3 {
            let (queue, leadership, progress) = (queue.clone(), guard.leadership(), guard.progress_handle());
            scope.spawn(move || work(number, &queue, &leadership, &progress));
        }
        // When this closure ends, `jobs` goes, the workers' queue disconnects, and the scope waits for them.
        feed(&jobs, guard, transitions, shutdown, end)
    })
}

fn feed<T>(
    jobs: &Sender<Job>,
    guard: &LeaderGuard,
    transitions: &Receiver<Transition>,
    shutdown: &Receiver<()>,
    end: &Receiver<T>,
) -> bool {
    let (arrivals, progress) = (tick(Duration::from_millis(250)), guard.progress_handle());
    let mut next = 0;
    loop {
        progress.report();
        select! {
            recv(arrivals) -> _ => {
                next += 1;
                select! {
                    send(jobs, Job(next)) -> _ => {}
                    recv(guard.ended()) -> _ => return false,
                }
            }
            recv(guard.ended()) -> _ => return false,
            recv(transitions) -> transition => if let Ok(transition) = transition { report(&transition) },
            recv(shutdown) -> _ => return true,
            recv(end) -> _ => return true,
        }
    }
}

fn work(number: u32, queue: &Receiver<Job>, leadership: &Leadership, progress: &ProgressHandle) {
    loop {
        // Each for itself: one that waits for a job says so, and one that hangs is not hidden by the others.
        progress.report();
        let job = match queue.recv_timeout(Duration::from_secs(1)) {
            Ok(Job(job)) => job,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // The check comes right before the write, and the token goes along with it: a store that remembers the highest
        // token it has seen can refuse what was already past this check when the lease was lost.
        if let Err(ended) = leadership.check() {
            println!("worker {number} leaves job {job}: {ended}");
            return;
        }
        println!("worker {number} does job {job} with fencing token {}", leadership.fencing_token());
        thread::sleep(Duration::from_millis(100));
    }
}

fn report(transition: &Transition) {
    match transition {
        Transition::NewLeader { identity } => println!("{identity} leads"),
        Transition::NoLeader { previous } => println!("nobody leads; {previous} did"),
        Transition::StartedLeading { fencing_token } => println!("this replica leads, fencing token {fencing_token}"),
        Transition::StoppedLeading { reason } => println!("this replica does not lead any more: {reason}"),
        _ => {}
    }
}

fn shutdown() -> Result<Receiver<()>, Box<dyn Error>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let (sender, receiver) = bounded(1);
    thread::spawn(move || {
        for _ in signals.forever() {
            let _ = sender.try_send(());
        }
    });
    Ok(receiver)
}
