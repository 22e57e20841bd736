//! A service with a pool of worker threads that take jobs only while this replica leads.
//!
//!     cargo run --example threaded_service -- --in-memory      # without a cluster
//!     cargo run --example threaded_service                     # in a pod, or with a kubeconfig
//!
//! The service ends at Ctrl-C, or after `--seconds N`. With `--listen ADDRESS:PORT` the service answers probes and
//! scrapes at `/healthz`, `/readyz` and `/metrics`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, after, bounded, never, select, tick};
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderGuard, Leadership, ProgressHandle, Status, Stop, Transition};
use leasehold_testing::ApiServer;

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
    // If a thread hangs, the term ends after 10 s without progress.
    let builder = LeaderElector::builder("threaded-service").progress_timeout(Duration::from_secs(10));
    let elector = Arc::new(builder.start_with_client(client.clone())?);
    if let Some(address) = listen {
        let server = tiny_http::Server::http(&address).map_err(|error| format!("--listen {address}: {error}"))?;
        println!("probes and metrics at http://{}", server.server_addr());
        let elector = Arc::clone(&elector);
        thread::spawn(move || server.incoming_requests().for_each(|request| answer(&elector, &client, request)));
    }
    serve(&elector, &Stop::on_signals()?, &end)
}

/// Answers a probe or a scrape without waiting for the API server.
fn answer(elector: &LeaderElector, client: &Client, request: tiny_http::Request) {
    let (code, text) = match request.url() {
        // The check fails if work hangs or continues after its term, or if the elector's thread has panicked. Then a
        // restart helps.
        "/healthz" => match elector.health_check().check() {
            Ok(()) => (200, "ok".to_owned()),
            Err(unhealthy) => (500, unhealthy.to_string()),
        },
        // A standby is also ready. If only the leader were ready, a rollout would wait until the new replica leads.
        "/readyz" => match elector.status() {
            status if !status.is_running => (500, "no longer a candidate".to_owned()),
            status if status.last_contact.is_none() => (500, "no response from the store yet".to_owned()),
            _ => (200, "ready".to_owned()),
        },
        "/metrics" => {
            let mut text = String::new();
            let written = Status::write_prometheus([&elector.status()], &mut text);
            match written.and_then(|()| Client::write_prometheus([client], &mut text)) {
                Ok(()) => (200, text),
                Err(error) => (500, error.to_string()),
            }
        }
        _ => (404, "there are /healthz, /readyz and /metrics".to_owned()),
    };
    // The client may have closed the connection, so an error is ignored.
    let _ = request.respond(tiny_http::Response::from_string(text).with_status_code(code));
}

/// Handles all events of this replica in one loop.
fn serve<T>(elector: &LeaderElector, stop: &Stop, end: &Receiver<T>) -> Result<(), Box<dyn Error>> {
    // The subscription is outside the loop, because each call of `transitions` creates another subscription.
    let transitions = elector.transitions();
    loop {
        let campaign = elector.campaign()?;
        println!("standing by as {}", elector.identity());
        let guard = loop {
            select! {
                recv(campaign.receiver()) -> won => break won??,
                recv(transitions) -> transition => report(&transition?),
                recv(stop.receiver()) -> _ => return Ok(()),
                recv(end) -> _ => return Ok(()),
            }
        };
        let ending = lead(&guard, &transitions, stop, end);
        // The workers have ended, so the next leader may start.
        guard.release()?;
        if ending {
            println!("released");
            return Ok(());
        }
    }
}

/// Runs the workers for one term.
///
/// Returns `false` if the lease is lost, and `true` if the service must end.
fn lead<T>(guard: &LeaderGuard, transitions: &Receiver<Transition>, stop: &Stop, end: &Receiver<T>) -> bool {
    guard.scope(|scope| {
        let (jobs, queue) = bounded(0);
        for number in 1..=3 {
            let (queue, leadership, progress) = (queue.clone(), guard.leadership(), guard.progress_handle());
            scope.spawn(move || work(number, &queue, &leadership, &progress));
        }
        // When this closure ends, `jobs` is dropped, the queue disconnects, and the scope waits for the workers.
        feed(&jobs, guard, transitions, stop, end)
    })
}

fn feed<T>(
    jobs: &Sender<Job>,
    guard: &LeaderGuard,
    transitions: &Receiver<Transition>,
    stop: &Stop,
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
            recv(stop.receiver()) -> _ => return true,
            recv(end) -> _ => return true,
        }
    }
}

fn work(number: u32, queue: &Receiver<Job>, leadership: &Leadership, progress: &ProgressHandle) {
    loop {
        // Each worker reports its own progress, even while it waits for a job. So other workers cannot hide a hung
        // worker.
        progress.report();
        let job = match queue.recv_timeout(Duration::from_secs(1)) {
            Ok(Job(job)) => job,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // The check must come right before the write, and the fencing token must be part of the write. If the lease is
        // lost after the check, a resource that remembers the highest token can still refuse the write.
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
        Transition::NewLeader { identity, .. } => println!("{identity} leads"),
        Transition::NoLeader { previous } => println!("no candidate leads; {previous} did"),
        Transition::StartedLeading { fencing_token } => println!("this replica leads, fencing token {fencing_token}"),
        Transition::StoppedLeading { reason } => println!("this replica no longer leads: {reason}"),
        _ => {}
    }
}
