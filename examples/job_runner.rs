//! Three scheduled jobs that run on the leader only, with probes and metrics.
//!
//!     cargo run --example job_runner -- [ADDRESS:PORT]       # in a pod, or with a kubeconfig
//!
//! After SIGTERM, each job stops at the end of its current piece of work, and another replica takes over at once.

use std::error::Error;
use std::fmt::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{select, tick};
use leasehold::{LeaderElector, LeaderGuard, Status, Stop, TermEnded};
use tiny_http::{Request, Response, Server};

struct Job {
    name: &'static str,
    every: Duration,
    pieces: u32,
    runs: AtomicU64,
    left: AtomicU64,
}

static JOBS: [Job; 3] = [Job::new("rollup", 500, 3), Job::new("purge", 1_000, 10), Job::new("report", 3_000, 40)];

impl Job {
    const fn new(name: &'static str, every_ms: u64, pieces: u32) -> Self {
        let (runs, left) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { name, every: Duration::from_millis(every_ms), pieces, runs, left }
    }

    /// Runs the job at its interval until the term ends.
    fn repeat(&self, guard: &LeaderGuard) {
        let ticks = tick(self.every);
        loop {
            select! {
                recv(ticks) -> _ => match self.run(guard) {
                    Ok(()) => drop(self.runs.fetch_add(1, Ordering::Relaxed)),
                    Err(ended) => {
                        self.left.fetch_add(1, Ordering::Relaxed);
                        println!("{} is left unfinished: {ended}", self.name);
                    }
                },
                recv(guard.ended()) -> _ => return,
            }
        }
    }

    fn run(&self, guard: &LeaderGuard) -> Result<(), TermEnded> {
        for _ in 0..self.pieces {
            // The check must come right before each piece of work. A real job sends `guard.fencing_token()` with each
            // write.
            guard.check()?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("job_runner: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let stop = Stop::on_signals()?;
    let listen = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let server = Server::http(&listen).map_err(|error| format!("{listen}: {error}"))?;
    println!("probes and metrics at http://{}", server.server_addr());
    let elector = Arc::new(LeaderElector::builder("job-runner").start()?);
    let asked = Arc::clone(&elector);
    thread::spawn(move || server.incoming_requests().for_each(|request| answer(&asked, request)));
    elector.run_until(&stop, |guard| {
        println!("{}", elector.status());
        guard.scope(|scope| JOBS.iter().for_each(|job| drop(scope.spawn(move || job.repeat(guard)))));
        Ok(())
    })?;
    println!("ended");
    Ok(())
}

/// Answers an HTTP request without waiting for the API server.
fn answer(elector: &LeaderElector, request: Request) {
    let (code, text) = match request.url() {
        "/healthz" => elector.health_check().check().map_or_else(|why| (500, why.to_string()), |()| (200, "ok".into())),
        // A standby is also ready. If only the leader were ready, a rollout would wait until the new replica leads.
        "/readyz" => {
            let status = elector.status();
            let is_ready = status.is_running && status.last_contact.is_some();
            (if is_ready { 200 } else { 500 }, status.to_string())
        }
        "/metrics" => metrics(elector).map_or_else(|error| (500, error.to_string()), |text| (200, text)),
        _ => (404, "there are /healthz, /readyz and /metrics".to_owned()),
    };
    // The client may have closed the connection, so an error is ignored.
    let _ = request.respond(Response::from_string(text).with_status_code(code));
}

fn metrics(elector: &LeaderElector) -> Result<String, fmt::Error> {
    let mut text = String::new();
    Status::write_prometheus([&elector.status()], &mut text)?;
    for Job { name, runs, left, .. } in &JOBS {
        writeln!(text, "job_runs_total{{job=\"{name}\"}} {}", runs.load(Ordering::Relaxed))?;
        writeln!(text, "job_runs_left_total{{job=\"{name}\"}} {}", left.load(Ordering::Relaxed))?;
    }
    Ok(text)
}
