//! The program of docs/TUTORIAL.md: replicas that take over from each other.

use std::{error::Error, time::Duration};

use leasehold::{LeaderElector, LeaderGuard, Stop};

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).format_target(false).init();
    // The first Ctrl-C stops the run. The second Ctrl-C ends the process immediately.
    let stop = Stop::on_signals()?;
    let mut builder = LeaderElector::builder("demo");
    if let Some(name) = std::env::args().nth(1) {
        builder = builder.identity(name);
    }
    // Runs `work` in each term, until the first Ctrl-C.
    builder.start()?.run_until(&stop, work)?;
    Ok(())
}

fn work(guard: &LeaderGuard) -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("working with fencing token {}", guard.fencing_token());
    while guard.wait(Duration::from_secs(1)) {
        println!("working with fencing token {}", guard.fencing_token()); // one unit of work
    }
    Ok(())
}
