//! What a program that is to be ended listens to.

use std::io;
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Disconnects at the first SIGTERM, which a cluster sends before it kills a pod, or SIGINT (Ctrl-C): for everybody who has it. The
/// second one ends the process.
pub fn signal() -> io::Result<Receiver<()>> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let (sender, stopped) = bounded(0);
    thread::spawn(move || {
        signals.forever().next();
        drop(sender);
        signals.forever().next();
        std::process::exit(1);
    });
    Ok(stopped)
}
