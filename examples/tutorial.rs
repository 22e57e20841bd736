//! The program of docs/TUTORIAL.md: replicas that take over from each other.

use std::{error::Error, thread, time::Duration};

use leasehold::crossbeam_channel::bounded;
use leasehold::{LeaderElector, LeaderGuard};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).format_target(false).init();
    // The first Ctrl-C disconnects `stopped`. The second Ctrl-C ends the process at once.
    let (stop, stopped) = bounded::<()>(0);
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        signals.forever().next();
        drop(stop);
        signals.forever().next();
        std::process::exit(1);
    });
    let mut builder = LeaderElector::builder("demo");
    if let Some(name) = std::env::args().nth(1) {
        builder = builder.identity(name);
    }
    // Runs `work` in each term, until the first Ctrl-C.
    builder.start()?.run_until(&stopped, work)?;
    Ok(())
}

fn work(guard: &LeaderGuard) {
    while guard.is_leader() {
        println!("working with fencing token {}", guard.fencing_token());
        thread::sleep(Duration::from_secs(1)); // one unit of work
    }
}
