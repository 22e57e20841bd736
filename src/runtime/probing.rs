//! The thread that a probe is run on: it may take its time, hang or panic there, and nobody waits.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use log::Level;

use crate::leadership::handle::{Command, Link};
use crate::util::log_fields::log_with;
use crate::util::panics::caught;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, RecvTimeoutError, Sender};
use crate::util::sync::{Arc, Instant, Mutex, thread};

/// What says whether a candidate is fit. Clones of a builder share it.
pub(crate) type Probe = Arc<SharedProbe>;

/// A probe that several electors may ask: one run answers all who have waited for it. (A lock alone would let one elector run it again
/// and again while others wait.)
pub(crate) struct SharedProbe(Mutex<SharedProbeState>);

struct SharedProbeState {
    /// Not there while it is run.
    ask: Option<Box<dyn FnMut() -> bool + Send>>,
    /// Who has asked since the run under way began: to each what the next one says, or that it is to run it.
    waiting: Vec<Sender<ProbeAnswer>>,
    has_panicked: bool,
}

enum ProbeAnswer {
    Answered(ProbeResult),
    Run,
}

/// What a run of a probe has come to.
#[derive(Clone, Copy)]
struct ProbeResult {
    is_fit: bool,
    /// The first time in a row; told to the one who ran it.
    panics_anew: bool,
}

impl SharedProbe {
    pub(crate) fn new(ask: Box<dyn FnMut() -> bool + Send>) -> Self {
        Self(Mutex::new(SharedProbeState { ask: Some(ask), waiting: Vec::new(), has_panicked: false }))
    }

    /// What it says in a run that begins after this.
    fn ask(&self) -> ProbeResult {
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
            if let Ok(ProbeAnswer::Answered(said)) = answer.recv() {
                return said;
            }
        }
    }

    fn run(&self, mut ask: Box<dyn FnMut() -> bool + Send>, waiting: Vec<Sender<ProbeAnswer>>) -> ProbeResult {
        // Of a closure that has panicked nothing is known but that it did.
        let answer = caught(&mut ask);
        let mut shared = self.0.lock();
        shared.ask = Some(ask);
        let panicked_before = std::mem::replace(&mut shared.has_panicked, answer.is_none());
        if let Some(next) = shared.waiting.first() {
            let _ = next.try_send(ProbeAnswer::Run);
        }
        drop(shared);
        let said = ProbeResult { is_fit: answer.unwrap_or(false), panics_anew: answer.is_none() && !panicked_before };
        for waits in waiting {
            let _ = waits.try_send(ProbeAnswer::Answered(ProbeResult { panics_anew: false, ..said }));
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
    loop {
        let began = Instant::now();
        let said = probe.ask();
        link.tell(Command::Probed(said.is_fit));
        if said.panics_anew {
            log_with!(Level::Error, link.log_fields(None); "the probe has panicked, which is a no");
        }
        match ended.recv_timeout(period.saturating_sub(began.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}
