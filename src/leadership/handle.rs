//! The handle through which campaigns, guards and watches send commands to their elector.

use std::cell::Cell;
use std::convert::Infallible;
use std::process;
use std::time::Duration;

use crate::election::candidate::messages::Input;
use crate::election::drain::DrainLimit;
use crate::election::{Change, StoreResponse};
use crate::leadership::error::Error;
use crate::leadership::term::Term;
use crate::store::StoreOperation;
use crate::util::clock::{self, Moment};
use crate::util::log_fields::LogFields;
use crate::util::on_drop::OnDrop;
use crate::util::sync::channel::{self, Receiver, RecvTimeoutError, Sender};
use crate::util::sync::{AtomicBool, Instant, Ordering, thread_local};

/// The time that a release waits for its log line.
///
/// The release waits, because the process may exit afterwards. The wait is limited, because a logger may hang.
pub(crate) const LOGGED_WITHIN: Duration = Duration::from_millis(200);

/// The number of queued commands from which on a caller waits for the elector.
const MAX_QUEUED: usize = 1024;

thread_local! {
    static IS_RUNTIME: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as a thread of an elector until the value is dropped.
///
/// A marked thread never waits for a release.
#[must_use]
pub(crate) fn as_runtime() -> OnDrop<impl Fn()> {
    let was_one = IS_RUNTIME.with(|it| it.replace(true));
    OnDrop(move || IS_RUNTIME.with(|it| it.set(was_one)))
}

/// A message to the thread of an elector.
pub(crate) enum Command {
    Input(Input),
    GuardDropped {
        /// Notifies the thread that waits for the release. `None` if no thread waits.
        ack: Option<ReleaseSender>,
        at: Moment,
    },
    Close {
        /// Notified when the elector holds no record. `None` if no thread waits.
        ack: Option<ReleaseSender>,
    },
    /// A change that a watch reported.
    Watched {
        received_at: Moment,
        change: Change,
        /// Dropped after the change was handled. The watch waits, so that a fast watch fills no memory.
        handled: Sender<Infallible>,
    },
    WatchOpened {
        from_scratch: bool,
        /// Dropped after the opening was handled, for which the watch waits.
        handled: Sender<Infallible>,
    },
    WatchLost,
    /// Dropped after all earlier commands were handled.
    Barrier(Sender<Infallible>),
    /// The job of the term has ended.
    JobEnded {
        exit_code: i32,
        /// Receives whether the record contains the result.
        recorded: Sender<bool>,
    },
    /// The answer to the request under way.
    Answered {
        id: u64,
        operation: StoreOperation,
        took: Duration,
        /// The new idle time after which the connection must be used again, if it has changed.
        idle_timeout: Option<Input>,
        /// The time of the store at its answer in Unix microseconds, if the answer has the time.
        store_time: Option<u64>,
        response: StoreResponse,
    },
    /// The request thread has panicked.
    RequestThreadPanicked,
}

/// Notifies the thread that waits for one or more releases.
///
/// Sends the number of a release when the record no longer has this candidate as its holder. Dropped when the release is
/// logged.
pub(crate) struct ReleaseSender {
    /// The number of the release, from zero.
    pub(crate) number: usize,
    pub(crate) acks: Sender<usize>,
}

/// Waits until every release has a result and is logged.
///
/// Blocks at most until `timeout` has passed since `began`.
pub(crate) fn finish(
    results: &mut [Option<Result<(), Error>>],
    acks: &Receiver<usize>,
    began: Instant,
    timeout: Duration,
) {
    let left = || timeout.saturating_sub(began.elapsed());
    while results.iter().any(Option::is_none) {
        let end: fn(Duration) -> Error = match acks.recv_timeout(left()) {
            Ok(number) => {
                results[number] = Some(Ok(()));
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => |_| Error::Stopped,
            Err(RecvTimeoutError::Timeout) => |waited| Error::ReleaseTimeout { waited },
        };
        results.iter_mut().for_each(|it| _ = it.get_or_insert_with(|| Err(end(timeout))));
    }
    let _ = acks.recv_timeout(left().min(LOGGED_WITHIN));
}

/// The connection of a campaign, a guard or a watch to its elector.
pub(crate) struct Link {
    commands: Sender<Command>,
    release_timeout: Duration,
    busy: AtomicBool,
    /// `true` after the elector was dropped.
    closed: AtomicBool,
    fields: LogFields,
    /// The process whose threads run the elector.
    process: u32,
}

impl Link {
    pub(crate) fn new(commands: Sender<Command>, release_timeout: Duration, fields: LogFields) -> Self {
        let (busy, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { commands, release_timeout, busy, closed, fields, process: process::id() }
    }

    /// Returns `true` in a child of the elector's process that was made by `fork`.
    ///
    /// The child has no threads of the elector. Another thread may have held any lock during the fork, so the child
    /// must not lock.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process::id()
    }

    /// Returns the fields of log lines about a campaign, or about a guard with `fencing_token`.
    pub(crate) fn log_fields(&self, fencing_token: Option<u64>) -> LogFields {
        LogFields { fencing_token, ..self.fields.clone() }
    }

    /// Reserves the elector for one campaign or guard. Returns `false` if the elector is busy.
    pub(crate) fn try_reserve(&self) -> bool {
        !self.busy.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn clear_busy(&self) {
        self.busy.store(false, Ordering::SeqCst);
    }

    /// Sends a command to the elector. Never waits.
    ///
    /// An elector that has ended ignores the command. A forked child sends nothing, because a lock of the channel may
    /// have been held during the fork.
    pub(crate) fn send(&self, command: Command) {
        if !self.is_forked() {
            let _ = self.commands.send(command);
        }
    }

    /// Waits until the elector has handled all earlier commands.
    ///
    /// The elector never waits for the store, so the wait is short.
    pub(crate) fn wait_until_handled(&self) {
        self.send_and_wait(Command::Barrier);
    }

    /// Sends a command, and waits until the elector has dropped the sender in the command.
    pub(crate) fn send_and_wait(&self, command: impl FnOnce(Sender<Infallible>) -> Command) {
        let (handled, is_handled) = channel::bounded(0);
        self.send(command(handled));
        let Err(_) = is_handled.recv();
    }

    /// Waits for the elector if many commands are queued, so that a caller in a loop fills no memory.
    pub(crate) fn wait_for_room(&self) {
        if !self.is_forked() && self.commands.len() >= MAX_QUEUED {
            self.wait_until_handled();
        }
    }

    /// Ends `term` and sends the limit of its renewals to the elector.
    ///
    /// Does nothing in a forked child.
    pub(crate) fn step_down(&self, term: &Term, limit: DrainLimit) {
        if !self.is_forked() {
            self.wait_for_room();
            term.step_down(limit, || self.send(Command::Input(Input::StepDown(limit))));
        }
    }

    /// Records the result of the job, and returns `true` once the record contains the result.
    ///
    /// Blocks at most for the renew deadline.
    pub(crate) fn record_result(&self, exit_code: i32) -> bool {
        let (recorded, is_recorded) = channel::bounded(1);
        self.send(Command::JobEnded { exit_code, recorded });
        is_recorded.recv().unwrap_or(false)
    }

    /// Releases the lease of a dropped guard and waits for the release.
    pub(crate) fn release(&self) -> Result<(), Error> {
        let released = self.wait_for(|ack| Command::GuardDropped { ack, at: clock::now() });
        self.clear_busy();
        released
    }

    /// Announces the drop of the elector, after which no campaign follows.
    ///
    /// Waits until the elector has released every record that has no guard.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = self.wait_for(|ack| Command::Close { ack });
    }

    /// Releases a term that no caller received.
    ///
    /// If the elector was dropped earlier, this method waits for the release, because no later drop waits.
    pub(crate) fn release_untaken(&self) {
        self.send(Command::GuardDropped { ack: None, at: clock::now() });
        self.clear_busy();
        // Checked after the command was sent. If the elector is dropped later, its drop waits for the release.
        if self.closed.load(Ordering::SeqCst) {
            self.close();
        }
    }

    /// Starts the release of a dropped guard. The caller frees the elector after the release.
    pub(crate) fn start_release(&self, ack: ReleaseSender) {
        self.start(ack, |ack| Command::GuardDropped { ack, at: clock::now() });
    }

    fn start(&self, ack: ReleaseSender, command: impl FnOnce(Option<ReleaseSender>) -> Command) {
        if IS_RUNTIME.with(Cell::get) {
            // Two electors whose threads drop each other's guards would wait for each other until the release timeout.
            self.send(command(None));
            let _ = ack.acks.send(ack.number);
        } else {
            self.send(command(Some(ack)));
        }
    }

    fn wait_for(&self, command: impl FnOnce(Option<ReleaseSender>) -> Command) -> Result<(), Error> {
        let (began, (acks, progress), mut results) = (Instant::now(), channel::unbounded(), [None]);
        // The command is sent before the wait, so that the elector has the command even if the wait fails.
        self.start(ReleaseSender { number: 0, acks }, command);
        finish(&mut results, &progress, began, self.release_timeout);
        let [result] = results;
        result.unwrap_or(Err(Error::Stopped))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a link, and the receiver of its commands.
    pub(crate) fn link() -> (std::sync::Arc<Link>, Receiver<Command>) {
        let (sender, commands) = channel::unbounded();
        (std::sync::Arc::new(Link::new(sender, Duration::ZERO, fields())), commands)
    }

    pub(crate) fn fields() -> LogFields {
        LogFields::new("jobs".to_owned(), "me")
    }

    #[test]
    fn caller_waits_if_many_commands_are_queued() {
        let (link, commands) = link();
        (0..MAX_QUEUED).for_each(|_| link.send(Command::WatchLost));
        let caller = std::thread::spawn(move || link.wait_for_room());
        while commands.len() == MAX_QUEUED {
            std::thread::yield_now();
        }
        let barrier = commands.iter().find(|command| matches!(command, Command::Barrier(_)));
        assert!(barrier.is_some() && !caller.is_finished());
        drop(barrier);
        caller.join().expect("no panic");
    }
}
