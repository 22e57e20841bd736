//! A program for the tests of `Stop::on_signals`. Each argument changes its behavior.

use std::time::Duration;

use leasehold::{Error, Stop};
use nix::sys::signal::{SigSet, Signal};

fn main() -> Result<(), Error> {
    env_logger::init();
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    if has("blocked") {
        // The threads of the program inherit this mask, as from a parent process.
        SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]).thread_block().expect("a valid mask");
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
