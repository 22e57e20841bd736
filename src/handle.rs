//! The line from what the user holds to the elector's thread.

use std::cell::Cell;
use std::time::Duration;

use crate::cancel::Cancel;
use crate::clock::{self, Moment};
use crate::election::{Change, InterruptAfter};
use crate::error::Error;
use crate::log_fields::LogFields;
use crate::sync::channel::{self, RecvTimeoutError, Sender};
use crate::sync::{Arc, AtomicBool, AtomicU64, Instant, Mutex, Ordering, thread_local};

thread_local! {
    static IS_RUNTIME: Cell<bool> = const { Cell::new(false) };
}

/// Called by each thread on which electors run: it waits for no release, of whatever elector.
pub(crate) fn this_is_a_runtime() {
    IS_RUNTIME.with(|it| it.set(true));
}

/// What the elector's thread is told.
pub(crate) enum Command {
    Campaign {
        id: u64,
        once: bool,
    },
    Withdraw(u64),
    StepDown,
    GuardGone {
        ack: Sender<ReleaseAck>,
        at: Moment,
    },
    Close,
    /// What a watch told of. What `_taken` belongs to disconnects when the thread has taken it.
    Watched {
        received_at: Moment,
        change: Change,
        _taken: Option<Sender<()>>,
    },
    WatchOpened {
        from_scratch: bool,
    },
    WatchLost,
}

/// What comes back about a guard that is gone.
#[derive(PartialEq)]
pub(crate) enum ReleaseAck {
    /// The thread knows; from here on it works on the release.
    Received,
    /// The record is not ours any more.
    Released,
}

/// How long a request under way is left to finish by itself, as the elector's thread last said.
pub(crate) struct InterruptDelays {
    release: AtomicU64,
    news: AtomicU64,
}

impl InterruptDelays {
    pub(crate) fn new(after: InterruptAfter) -> Self {
        let delays = Self { release: AtomicU64::new(0), news: AtomicU64::new(0) };
        delays.set(after);
        delays
    }

    pub(crate) fn set(&self, InterruptAfter { release, news }: InterruptAfter) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.release.store(nanos(release), Ordering::SeqCst);
        self.news.store(nanos(news), Ordering::SeqCst);
    }

    pub(crate) fn for_release(&self) -> Duration {
        Duration::from_nanos(self.release.load(Ordering::SeqCst))
    }

    pub(crate) fn for_news(&self) -> Duration {
        Duration::from_nanos(self.news.load(Ordering::SeqCst))
    }
}

/// The request under way, for whoever cannot wait for it.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<Cancel>);

impl InFlight {
    /// What ends the request that begins now.
    pub(crate) fn begin(&self) -> Cancel {
        let cancel = Cancel::new();
        *self.0.lock() = cancel.clone();
        cancel
    }

    pub(crate) fn cancel(&self) {
        let cancel = self.0.lock().clone();
        cancel.cancel();
    }
}

/// How a campaign or a guard reaches its elector's thread.
pub(crate) struct Link {
    commands: Sender<Command>,
    in_flight: Arc<InFlight>,
    release_timeout: Duration,
    delays: Arc<InterruptDelays>,
    busy: AtomicBool,
    fields: LogFields,
}

impl Link {
    pub(crate) fn new(
        commands: Sender<Command>,
        in_flight: Arc<InFlight>,
        release_timeout: Duration,
        delays: Arc<InterruptDelays>,
        fields: LogFields,
    ) -> Self {
        Self { commands, in_flight, release_timeout, delays, busy: AtomicBool::new(false), fields }
    }

    /// What is said about a guard has these.
    pub(crate) fn log_fields(&self, token: u64) -> LogFields {
        LogFields { token: Some(token), ..self.fields.clone() }
    }

    /// Takes the elector's one seat; false if it is taken.
    pub(crate) fn take_seat(&self) -> bool {
        !self.busy.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn free_seat(&self) {
        self.busy.store(false, Ordering::SeqCst);
    }

    /// Tells the thread. One that has ended has nothing left to do for anybody.
    pub(crate) fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Ends what the thread waits for.
    pub(crate) fn interrupt(&self) {
        self.in_flight.cancel();
    }

    /// Tells the thread that the guard is gone, without waiting for the release.
    pub(crate) fn release_later(&self) {
        let (ack, _) = channel::bounded(2);
        self.tell(Command::GuardGone { ack, at: clock::now() });
        self.free_seat();
    }

    /// Tells the thread that the guard is gone, and waits until the record is not ours any more.
    pub(crate) fn release(&self) -> Result<(), Error> {
        if IS_RUNTIME.with(Cell::get) {
            // Waiting here may be waiting for ourselves, and holds up whatever else this thread has to do.
            self.release_later();
            return Ok(());
        }
        // Before anything else: whatever happens here, the thread knows that the guard is gone.
        let (ack, acks) = channel::bounded(2);
        self.tell(Command::GuardGone { ack, at: clock::now() });
        let began = Instant::now();
        let left = || self.release_timeout.saturating_sub(began.elapsed());
        let delays = self.delays.for_release();
        let mut received = acks.recv_timeout(delays);
        while received == Err(RecvTimeoutError::Timeout) && !left().is_zero() {
            // A request that hangs must not hold up the release. It is abandoned, its outcome left open. More than
            // once: the thread may have been about to send it.
            self.interrupt();
            received = acks.recv_timeout(delays.min(left()));
        }
        let released = match received {
            Ok(ReleaseAck::Received) => acks.recv_timeout(left()),
            other => other,
        };
        self.free_seat();
        match released {
            Ok(ReleaseAck::Released) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Stopped),
            // Received at the last moment is not released.
            _ => Err(Error::ReleaseTimeout { waited: self.release_timeout }),
        }
    }
}
