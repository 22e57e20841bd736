//! The thread that a probe is run on: it may take its time, hang or panic there, and nobody waits.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use log::Level;

use crate::handle::{Command, Link};
use crate::log_fields::log_with;
use crate::panics::caught;
use crate::sync::channel::{self, Receiver, RecvTimeoutError, Sender};
use crate::sync::{Arc, Instant, Mutex, thread};

/// What says whether a candidate is fit. Clones of a builder share it.
pub(crate) type Probe = Arc<SharedProbe>;

/// A probe that several electors may ask: one run answers all who have waited for it. (A lock alone would let one elector run it again
/// and again while others wait.)
pub(crate) struct SharedProbe(Mutex<Shared>);

struct Shared {
    /// Not there while it is run.
    ask: Option<Box<dyn FnMut() -> bool + Send>>,
    /// Who has asked since the run under way began: to each what the next one says, or that it is to run it.
    waiting: Vec<Sender<Option<bool>>>,
}

impl SharedProbe {
    pub(crate) fn new(ask: Box<dyn FnMut() -> bool + Send>) -> Self {
        Self(Mutex::new(Shared { ask: Some(ask), waiting: Vec::new() }))
    }

    /// What it says in a run that begins after this; `None` if it has panicked.
    fn ask(&self) -> Option<bool> {
        let mut answer = None;
        loop {
            let mut shared = self.0.lock();
            if let Some(ask) = shared.ask.take() {
                let waiting = std::mem::take(&mut shared.waiting);
                drop(shared);
                return self.run(ask, waiting);
            }
            let answer = answer.get_or_insert_with(|| {
                let (sender, receiver) = channel::unbounded();
                shared.waiting.push(sender);
                receiver
            });
            drop(shared);
            if let Ok(Some(is_fit)) = answer.recv() {
                return Some(is_fit);
            }
        }
    }

    fn run(&self, mut ask: Box<dyn FnMut() -> bool + Send>, waiting: Vec<Sender<Option<bool>>>) -> Option<bool> {
        // Of a closure that has panicked nothing is known but that it did.
        let said = caught(&mut ask);
        let mut shared = self.0.lock();
        shared.ask = Some(ask);
        if let Some(next) = shared.waiting.first() {
            let _ = next.try_send(None);
        }
        drop(shared);
        for waits in waiting {
            let _ = waits.try_send(Some(said.unwrap_or(false)));
        }
        said
    }
}

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
        let said = probe.ask();
        link.tell(Command::Probed(said.unwrap_or(false)));
        // The first of several in a row.
        if said.is_none() && !has_panicked {
            let fields = link.log_fields(None);
            let _ = caught(|| {
                log_with!(Level::Error, fields; "the probe has panicked, which is a no");
            });
        }
        has_panicked = said.is_none();
        match ended.recv_timeout(period.saturating_sub(began.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}
