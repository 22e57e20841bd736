//! A leader whose work may hang: where it makes no progress for five seconds the process ends, and another takes over.
//!
//!     cargo run --example watchdog -- [HANG_AFTER_SECONDS]       # in-cluster, or by kubeconfig

#[path = "shared/stop.rs"]
mod stop;

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{LeaderElector, Leadership, StopReason};

const PATIENCE: Duration = Duration::from_secs(5);

fn main() {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    run(std::env::args().nth(1).and_then(|after| after.parse().ok())).unwrap_or_else(|error| end(&error.to_string()));
}

fn end(why: &str) {
    eprintln!("watchdog: {why}");
    std::process::exit(1);
}

fn run(hang_after: Option<u64>) -> Result<(), Box<dyn Error>> {
    let elector = LeaderElector::builder("watchdog").progress_within(PATIENCE).start()?;
    elector.run_until(&stop::signal()?, |guard| {
        println!("leads, with token {}", guard.fencing_token());
        let term = guard.leadership();
        thread::spawn(move || watch_over(&term));
        let began = Instant::now();
        while guard.progress() {
            thread::sleep(Duration::from_millis(100)); // one unit of work
            while hang_after.is_some_and(|seconds| began.elapsed().as_secs() >= seconds) {
                thread::park();
            }
        }
    })?;
    Ok(())
}

/// Until the term is over.
fn watch_over(term: &Leadership) {
    let _ = term.lost().recv();
    if term.check().is_err_and(|lost| lost.reason == StopReason::NoProgress) {
        // The lease is left to run out: only the end of the process ends for certain what hangs.
        end(&format!("no progress for {PATIENCE:?}"));
    }
}
