//! The signals that end a program.

use std::io;
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Returns a channel that disconnects at the first SIGTERM or SIGINT (Ctrl-C).
///
/// All clones of the receiver disconnect as well. The second signal ends the process. Kubernetes sends SIGTERM to a pod
/// before SIGKILL.
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
