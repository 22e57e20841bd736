//! The thread that a probe is run on: it may take its time, hang or panic there, and nobody waits.

use std::convert::Infallible;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use log::Level;

use crate::handle::{Command, Link};
use crate::log_fields::log_with;
use crate::sync::channel::{self, Receiver, RecvTimeoutError, Sender};
use crate::sync::{Arc, Instant, Mutex, thread};

/// What says whether a candidate is fit. Clones of a builder share it.
pub(crate) type Probe = Arc<Mutex<Box<dyn FnMut() -> bool + Send>>>;

/// What runs a probe. Its thread ends when this is dropped, after the probe that is under way.
pub(crate) struct Probing {
    _end: Sender<Infallible>,
}

impl Probing {
    pub(crate) fn spawn(probe: Probe, period: Duration, link: Arc<Link>) -> io::Result<Self> {
        let (end, ended) = channel::bounded(0);
        thread::Builder::new().name("leasehold-probe".into()).spawn(move || run(&probe, period, &link, &ended))?;
        Ok(Self { _end: end })
    }
}

fn run(probe: &Probe, period: Duration, link: &Link, ended: &Receiver<Infallible>) {
    let mut has_panicked = false;
    loop {
        let began = Instant::now();
        // Of a closure that has panicked nothing is known but that it did.
        let said = catch_unwind(AssertUnwindSafe(|| (probe.lock())()));
        link.tell(Command::Probed(*said.as_ref().unwrap_or(&false)));
        // The first of several in a row.
        if said.is_err() && !has_panicked {
            let fields = link.log_fields(None);
            let _ = catch_unwind(AssertUnwindSafe(|| {
                log_with!(Level::Error, fields; "the probe has panicked, which is a no");
            }));
        }
        has_panicked = said.is_err();
        match ended.recv_timeout(period.saturating_sub(began.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}
