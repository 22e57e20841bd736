//! A program for the tests of `Stop::on_signals`. Each argument changes its behavior.

use std::time::Duration;

use leasehold::store::MemoryStore;
use leasehold::{Error, LeaderElector, Stop};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> Result<(), Error> {
    env_logger::init();
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    if has("blocked") {
        // The threads of the program inherit this mask, as from a parent process.
        SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]).thread_block().expect("a valid mask");
    }
    if has("without-threads") {
        return without_threads();
    }
    let stop = if has("limited") { Stop::on_signals_within(Duration::from_millis(300))? } else { Stop::on_signals()? };
    let again = Stop::on_signals();
    assert!(matches!(again, Err(Error::Signals(_))), "{again:?}");
    println!("ready");
    while stop.wait(Duration::from_secs(60)) {}
    println!("stopped");
    while has("hangs") {
        std::thread::park();
    }
    Ok(())
}

/// Starts threads while the system refuses them, and then handles signals.
fn without_threads() -> Result<(), Error> {
    let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    let limit = getrlimit(Resource::As);
    let status = std::fs::read_to_string("/proc/self/statm").expect("a status");
    let pages: u64 = status.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    setrlimit(Resource::As, Rlimit { current: Some(pages * 4_096 + (1 << 20)), ..limit }).expect("a limit");
    let signals = Stop::on_signals().map(drop);
    let work = elector.run_until(&Stop::new(), |_| Ok(()));
    setrlimit(Resource::As, limit).expect("a limit");
    assert!(matches!(signals, Err(Error::Thread(_))), "{signals:?}");
    assert!(matches!(work, Err(Error::Thread(_))), "{work:?}");
    let stop = Stop::on_signals()?;
    println!("ready");
    while stop.wait(Duration::from_secs(60)) {}
    Ok(())
}
