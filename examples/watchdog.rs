//! A leader whose work may hang: where it makes no progress for five seconds the process ends, and another takes over.
//!
//!     cargo run --example watchdog -- [HANG_AFTER_SECONDS]       # in-cluster, or by kubeconfig

#[path = "shared/stop.rs"]
mod stop;

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use leasehold::LeaderElector;

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
    let elector = LeaderElector::builder("watchdog").start()?;
    elector.run_until(&stop::signal()?, |guard| {
        println!("leads, with token {}", guard.fencing_token());
        let (progress, progresses) = bounded(1);
        thread::spawn(move || watch_over(&progresses));
        let began = Instant::now();
        while guard.is_leader() {
            thread::sleep(Duration::from_millis(100)); // one unit of work
            while hang_after.is_some_and(|seconds| began.elapsed().as_secs() >= seconds) {
                thread::park();
            }
            let _ = progress.try_send(());
        }
    })?;
    Ok(())
}

/// Until the work returns, and its end of the channel is gone.
fn watch_over(progresses: &Receiver<()>) {
    let Some(Err(why)) = std::iter::repeat_with(|| progresses.recv_timeout(PATIENCE)).find(Result::is_err) else {
        return;
    };
    if why == RecvTimeoutError::Timeout {
        // Not released: the work may go on where it hangs, and only the end of the process ends it for certain.
        end(&format!("no progress for {PATIENCE:?}: the lease is left to run out"));
    }
}
