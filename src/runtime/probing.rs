//! The thread of a probe. A slow, hanging or panicking probe delays no other thread.

use std::convert::Infallible;
use std::time::Duration;
use std::{io, mem};

use log::Level;

use crate::election::candidate::fitness::FitnessSource;
use crate::election::candidate::messages::Input;
use crate::leadership::handle::{Command, Link};
use crate::util::log_fields::log_with;
use crate::util::panics::caught;
use crate::util::sync::channel::{self, Receiver, RecvTimeoutError, Sender};
use crate::util::sync::{Arc, AtomicU64, Instant, Mutex, Ordering, thread, unlock_fair};

/// A probe that the electors of a builder and of its clones share. One run answers all electors that waited for the
/// run.
pub(crate) struct SharedProbe {
    /// The number of runs that have begun.
    runs: AtomicU64,
    /// Locked during a run. A fair unlock gives the lock to the thread that has waited longest.
    probe: Mutex<ProbeState>,
}

struct ProbeState {
    ask: Box<dyn FnMut() -> bool + Send>,
    /// The result of the last run.
    is_fit: bool,
    has_panicked: bool,
}

impl SharedProbe {
    pub(crate) fn new(ask: Box<dyn FnMut() -> bool + Send>) -> Self {
        let probe = Mutex::new(ProbeState { ask, is_fit: false, has_panicked: false });
        Self { runs: AtomicU64::new(0), probe }
    }

    /// Returns the result of a run that begins after this call.
    ///
    /// The second value is `true` if this elector's own run panicked and the run before did not. The elector then logs
    /// the panic.
    fn ask(&self) -> (bool, bool) {
        let runs = self.runs.load(Ordering::SeqCst);
        let mut probe = self.probe.lock();
        let mut panics_anew = false;
        if self.runs.load(Ordering::SeqCst) == runs {
            self.runs.fetch_add(1, Ordering::SeqCst);
            let answer = caught(&mut probe.ask);
            // A panic counts as unfit.
            probe.is_fit = answer.unwrap_or(false);
            panics_anew = !mem::replace(&mut probe.has_panicked, answer.is_none()) && answer.is_none();
        }
        let is_fit = probe.is_fit;
        unlock_fair(probe);
        (is_fit, panics_anew)
    }
}

/// Starts the thread that runs a probe. When the returned sender is dropped, the thread ends after the current run.
pub(crate) fn spawn(probe: Arc<SharedProbe>, period: Duration, link: Arc<Link>) -> io::Result<Sender<Infallible>> {
    let (end, ended) = channel::bounded(0);
    thread::Builder::new().name("leasehold-probe".into()).spawn(move || run(&probe, period, &link, &ended))?;
    Ok(end)
}

fn run(probe: &SharedProbe, period: Duration, link: &Link, ended: &Receiver<Infallible>) {
    loop {
        let began = Instant::now();
        let (is_fit, panics_anew) = probe.ask();
        link.send(Command::Input(Input::Fitness(FitnessSource::Probe, is_fit)));
        if panics_anew {
            log_with!(Level::Error, link.log_fields(None); "probe panicked: the candidate is unfit until the probe returns true");
        }
        match ended.recv_timeout(period.saturating_sub(began.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}
