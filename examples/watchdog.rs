//! A leader that exits if its work makes no progress for five seconds.
//!
//! A standby takes over when the lease of the ended process expires.
//!
//!     cargo run --example watchdog -- [HANG_AFTER_SECONDS]       # in a pod, or with a kubeconfig

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{HealthCheck, LeaderElector, Stop};

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
    let elector = LeaderElector::builder("watchdog").progress_timeout(PATIENCE).start()?;
    let health = elector.health_check();
    thread::spawn(move || watch_over(&health));
    elector.run_until(&Stop::on_signals()?, |guard| {
        println!("leads, with token {}", guard.fencing_token());
        let began = Instant::now();
        while guard.report_progress() {
            thread::sleep(Duration::from_millis(100)); // one unit of work
            while hang_after.is_some_and(|seconds| began.elapsed().as_secs() >= seconds) {
                thread::park();
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Ends the process if work hangs, during the term or while draining after the term.
///
/// The lease is not released but expires, because only the end of the process is certain to stop hung work.
fn watch_over(health: &HealthCheck) {
    loop {
        if let Err(unhealthy) = health.check() {
            end(&unhealthy.to_string());
        }
        thread::sleep(Duration::from_millis(100));
    }
}
