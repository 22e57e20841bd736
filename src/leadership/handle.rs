//! How a campaign, a guard or a watch tells its elector something.

use std::cell::Cell;
use std::convert::Infallible;
use std::process;
use std::time::Duration;

use crate::election::Change;
use crate::election::candidate::session::Input;
use crate::election::candidate::side::Side;
use crate::election::drain::DrainLimit;
use crate::leadership::error::Error;
use crate::leadership::term::Term;
use crate::util::cancel::CancelToken;
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::log_fields::LogFields;
use crate::util::on_drop::OnDrop;
use crate::util::panics::caught;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, RecvTimeoutError, Sender};
use crate::util::sync::{AtomicBool, Instant, OnceLock, Ordering, Weak, thread_local};

/// How long a release waits until it is logged: the process may end after it, and a logger may hang.
pub(crate) const LOGGED_WITHIN: Duration = Duration::from_millis(200);

thread_local! {
    static IS_RUNTIME: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that runs an elector, until the value is dropped. Such a thread waits for no release of any elector.
#[must_use]
pub(crate) fn as_runtime() -> OnDrop<impl Fn()> {
    let was_one = IS_RUNTIME.with(|it| it.replace(true));
    OnDrop(move || IS_RUNTIME.with(|it| it.set(was_one)))
}

/// Where an elector finds what it was told.
pub(crate) trait Inbox: Send + Sync {
    /// Has the elector hear all of it, unless another thread is seeing to that.
    fn work_off(&self);
}

/// What an elector is told.
pub(crate) enum Command {
    /// An input of the candidacy that is about no side.
    Input(Input),
    /// The program has said something else about its fitness.
    FitnessSet,
    GuardGone {
        /// `None` where nobody waits.
        ack: Option<Sender<ReleaseAck>>,
        at: Moment,
    },
    Close {
        /// Hears when nothing is held any more. `None` where nobody waits.
        ack: Option<Sender<ReleaseAck>>,
    },
    /// What a watch told of.
    Watched {
        side: Side,
        received_at: Moment,
        change: Change,
        /// Hears what has to be cancelled for it.
        taken: Sender<Option<Cancellation>>,
    },
    WatchOpened {
        side: Side,
        from_scratch: bool,
    },
    WatchLost(Side),
}

/// What comes back about a guard that is gone.
pub(crate) enum ReleaseAck {
    /// The release waits behind a request under way.
    Behind(Cancellation),
    /// The record no longer has this candidate as its holder. The channel disconnects when that change is logged.
    Released,
}

/// A request under way that is to be cancelled, by whoever told what waits behind it: the elector's threads wait themselves.
pub(crate) struct Cancellation {
    pub(crate) at: Moment,
    pub(crate) cancel: CancelToken,
    /// Disconnects when the request has ended.
    pub(crate) ended: Receiver<Infallible>,
}

impl Cancellation {
    /// Waits for the request, at most so long and until the moment has come. After that it is abandoned, its outcome left open.
    pub(crate) fn carry_out(self, within: Duration) {
        let left = self.at.since(clock::now()).min(within);
        if matches!(self.ended.recv_timeout(left), Err(RecvTimeoutError::Timeout)) {
            // A hook is the store's: its panic is not one of whoever drops a guard.
            let _ = caught(|| self.cancel.cancel());
        }
    }
}

/// How a campaign, a guard or a watch reaches its elector.
pub(crate) struct Link {
    commands: Sender<Command>,
    inbox: OnceLock<Weak<dyn Inbox>>,
    release_timeout: Duration,
    busy: AtomicBool,
    /// Whether the elector has been dropped.
    closed: AtomicBool,
    fields: LogFields,
    /// Whose threads run the elector.
    process: u32,
}

impl Link {
    pub(crate) fn new(commands: Sender<Command>, release_timeout: Duration, fields: LogFields) -> Self {
        let (inbox, busy, closed) = (OnceLock::new(), AtomicBool::new(false), AtomicBool::new(false));
        Self { commands, inbox, release_timeout, busy, closed, fields, process: process::id() }
    }

    /// Whether this is a child of the elector's process, made by `fork`. It has none of its threads, and the locks as they were
    /// then, of which another thread may have had any: nothing here is to take one.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process::id()
    }

    /// From now on what is told is worked off at once, also while a request is under way.
    pub(crate) fn set_inbox(&self, inbox: Weak<dyn Inbox>) {
        let _ = self.inbox.set(inbox);
    }

    /// What is said about a campaign has these, and about a guard its token as well.
    pub(crate) fn log_fields(&self, fencing_token: Option<u64>) -> LogFields {
        LogFields { fencing_token, ..self.fields.clone() }
    }

    /// Takes the elector's one seat, for a campaign or a guard; false if it is taken.
    pub(crate) fn take_seat(&self) -> bool {
        !self.busy.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn free_seat(&self) {
        self.busy.store(false, Ordering::SeqCst);
    }

    /// Tells the elector.
    pub(crate) fn tell(&self, command: Command) {
        self.leave(command);
        self.work_off();
    }

    /// Ends this term, and tells the elector how it is renewed from then on. In a forked child nothing.
    pub(crate) fn step_down(&self, term: &Term, limit: DrainLimit) {
        if !self.is_forked() {
            term.step_down(limit, || self.leave(Command::Input(Input::StepDown(limit))));
            self.work_off();
        }
    }

    /// Leaves it something, for [`work_off`](Self::work_off). One that has ended has nothing left to do for anybody.
    pub(crate) fn leave(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Has the elector hear what was left for it. Not in a forked child, where it would be done a second time.
    pub(crate) fn work_off(&self) {
        if self.is_forked() {
            return;
        }
        if let Some(inbox) = self.inbox.get().and_then(Weak::upgrade) {
            // Guards that are dropped when a request is cancelled, for instance.
            let _as_runtime = as_runtime();
            inbox.work_off();
        }
    }

    /// Tells the elector that the guard is gone, without waiting for the release.
    pub(crate) fn release_later(&self) {
        self.tell(Command::GuardGone { ack: None, at: clock::now() });
        self.free_seat();
    }

    /// Tells the elector that the guard is gone, and waits until the record is not ours any more.
    pub(crate) fn release(&self) -> Result<(), Error> {
        let released = self.wait_for(|ack| Command::GuardGone { ack, at: clock::now() });
        self.free_seat();
        released
    }

    /// Tells the elector that no campaign will come any more, and waits until it holds nothing that nobody has a guard for.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = self.wait_for(|ack| Command::Close { ack });
    }

    /// Releases a term that nobody took. Waits for the release only if the elector has been dropped: no later drop waits.
    pub(crate) fn release_untaken(&self) {
        self.release_later();
        // In this order: an elector that is dropped in between waits itself.
        if self.closed.load(Ordering::SeqCst) {
            self.close();
        }
    }

    fn wait_for(&self, command: impl FnOnce(Option<Sender<ReleaseAck>>) -> Command) -> Result<(), Error> {
        if IS_RUNTIME.with(Cell::get) {
            // This thread may itself have to send the release, and it has other work.
            self.tell(command(None));
            return Ok(());
        }
        // Before anything else: whatever happens here, the elector knows.
        let began = Instant::now();
        let (ack, acks) = channel::unbounded();
        self.tell(command(Some(ack)));
        let left = || self.release_timeout.saturating_sub(began.elapsed());
        loop {
            match acks.recv_timeout(left()) {
                Ok(ReleaseAck::Behind(cancellation)) => cancellation.carry_out(left()),
                Ok(ReleaseAck::Released) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Stopped),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Error::ReleaseTimeout { waited: self.release_timeout });
                }
            }
        }
        let _ = acks.recv_timeout(left().min(LOGGED_WITHIN));
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A link, and the receiver of its commands.
    pub(crate) fn link() -> (std::sync::Arc<Link>, Receiver<Command>) {
        let (sender, commands) = channel::unbounded();
        (std::sync::Arc::new(Link::new(sender, Duration::ZERO, fields())), commands)
    }

    pub(crate) fn fields() -> LogFields {
        LogFields::new("jobs".to_owned(), "me")
    }
}
