//! The threads of an elector, which decide, send requests, watch, probe, observe and log.

use crate::leadership::handle::as_runtime;
use crate::util::cancel::CancelToken;
use crate::util::panics::caught;
use crate::util::sync::thread;

pub(crate) mod elector_thread;
pub(crate) mod lines;
pub(crate) mod observing;
pub(crate) mod probing;
mod request_thread;
pub(crate) mod state;
pub(crate) mod watcher;

#[cfg(test)]
pub(crate) mod tests;

/// The stack size of a thread. The deepest stack is a TLS handshake.
const STACK_SIZE: usize = 256 * 1024;

/// Cancels a call on a thread that then ends, because a hook of a store may block or panic.
///
/// If no thread can be started, the hooks run on the calling thread.
fn cancel_aside(cancel: CancelToken) {
    let aside = cancel.clone();
    let run = move || {
        // A hook that drops a guard must not wait for a release that waits for the hook.
        let _as_runtime = as_runtime();
        let _ = caught(|| aside.cancel());
    };
    if thread::Builder::new().name("leasehold-cancel".into()).spawn(run).is_err() {
        let _ = caught(|| cancel.cancel());
    }
}
