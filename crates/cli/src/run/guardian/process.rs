//! The guardian's process, which starts the command and ends the command with the term.
//!
//! The guardian ends the command even if the supervisor is stopped or killed.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Signal, WaitStatus, getpid, kill_process, set_child_subreaper};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::low_level::pipe;

use super::super::super::say::{Failure, print};
use super::super::exec::{Begin, Prepared};
use super::super::messages::{CommandEnd, GuardianLink, GuardianReport, Order, OrderKind, wait_for};
use super::super::signals::{ParentMask, not_ignored};
use super::super::times::{KillSchedule, KillStep, boot_time};
use super::super::{command, descendants};

/// The name of the hidden subcommand of the guardian.
pub const NAME: &str = "__guardian";

/// The shortest pause between two rounds that kill the remaining processes.
///
/// Each round also kills processes that have started since the last round. The pause grows to [`LONGEST_ROUND`] if a
/// process cannot be killed.
const ROUND: Duration = Duration::from_millis(1);
const LONGEST_ROUND: Duration = Duration::from_millis(50);

/// Runs the guardian of the command in `arguments`.
///
/// Returns when the supervisor is gone and no process of the command is left.
pub fn main(arguments: Vec<OsString>) -> Result<u8, Failure> {
    let ended = GuardianProcess::new(arguments).and_then(GuardianProcess::run);
    ended.map_err(|error| format!("guardian failed: {error}"))?;
    Ok(0)
}

struct GuardianProcess {
    arguments: Vec<OsString>,
    /// The mask of the command.
    mask: ParentMask,
    /// The socket to the supervisor, or `None` if the supervisor is gone.
    link: Option<GuardianLink>,
    timer: OwnedFd,
    children: UnixStream,
    signals: UnixStream,
    /// The process that becomes the next command. `None` while a command runs.
    prepared: Option<Prepared>,
    running: Option<RunningCommand>,
    /// `true` if the guardian has reported a signal to end, and has received no order since.
    has_asked: bool,
}

/// A command, from its start until none of its processes is left.
struct RunningCommand {
    pid: Pid,
    /// The foreground group of the terminal, if the command has joined the group.
    group: Option<Pid>,
    schedule: KillSchedule,
    has_ended: bool,
    /// The number of rounds in which the remaining processes were killed.
    rounds: u32,
}

impl GuardianProcess {
    fn new(arguments: Vec<OsString>) -> io::Result<Self> {
        // As a subreaper, this process adopts the orphans of the command.
        set_child_subreaper(Some(getpid()))?;
        let _ = rustix::thread::set_name(c"leasehold");
        let link = GuardianLink(fcntl_dupfd_cloexec(io::stdin(), 3)?);
        let signals = signalled(&not_ignored(&[SIGTERM, SIGINT]))?;
        // These signals have no effect on the guardian, because the supervisor passes them on to the command.
        for signal in not_ignored(&[SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]) {
            flag::register(signal, Arc::default())?;
        }
        let children = signalled(&[SIGCHLD])?;
        let mask = ParentMask::unblock()?;
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // Sending fails unless `leasehold run` has started this process with a socket as stdin.
        let sent = link.send(&GuardianReport::Ready, None);
        sent.map_err(|error| io::Error::other(format!("{NAME} is internal to leasehold run: {error}")))?;
        Ok(Self {
            arguments,
            mask,
            link: Some(link),
            timer,
            children,
            signals,
            prepared: None,
            running: None,
            has_asked: false,
        })
    }

    fn run(mut self) -> io::Result<()> {
        while self.link.is_some() || self.running.is_some() {
            let timeout = self.set_timer()?;
            self.wait(timeout)?;
            // The report is sent once until the next order, because the socket must have room for important reports.
            if drain(&mut self.signals) && !std::mem::replace(&mut self.has_asked, true) {
                self.report(&GuardianReport::AskedToStop);
            }
            self.hear()?;
            drain(&mut self.children);
            self.reap();
            self.act();
        }
        if let Some(prepared) = self.prepared {
            prepared.end();
        }
        Ok(())
    }

    /// Sets the timer to the next action. Returns the longest time to wait for an event.
    fn set_timer(&self) -> io::Result<Option<Duration>> {
        let round = self.running.as_ref().filter(|running| running.rounds > 0);
        let round = round.map(|running| ROUND.saturating_mul(1 << (running.rounds / 16).min(8)).min(LONGEST_ROUND));
        // A time of zero would disarm the timer. The timer fires at once if the time is in the past.
        let at = match &self.running {
            Some(running) if round.is_none() => running.schedule.next().0.max(Duration::from_nanos(1)),
            _ => Duration::ZERO,
        };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: never, it_value: Timespec::try_from(at).unwrap_or(never) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(round)
    }

    fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let descriptors = [self.timer.as_fd(), self.children.as_fd(), self.signals.as_fd()];
        let descriptors = descriptors.into_iter().chain(self.link.as_ref().map(AsFd::as_fd));
        let mut polled: Vec<_> = descriptors.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)).collect();
        wait_for(&mut polled, timeout)
    }

    /// Handles the orders of the supervisor.
    fn hear(&mut self) -> io::Result<()> {
        while let Some(link) = &self.link {
            match link.receive::<Order>() {
                Ok(Some((Order { number, what }, stdin))) => {
                    self.has_asked = false;
                    self.obey(what, stdin);
                    self.report(&GuardianReport::Acknowledged(number));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
                Ok(None) => {
                    self.link = None;
                    let is_news = self.running.as_ref().is_some_and(|running| !running.schedule.is_terminated());
                    self.stop(false);
                    if is_news {
                        // The message is dropped if the reader of stderr blocks, because the kill must not be late.
                        print("leasehold: the supervisor is gone, stopping the command\n", Duration::ZERO);
                    }
                }
            }
        }
        Ok(())
    }

    fn obey(&mut self, what: OrderKind, stdin: Option<OwnedFd>) {
        match (what, &mut self.running) {
            // An error of the preparation is ignored, because the start repeats the step and reports its error.
            (OrderKind::Prepare, None) if self.prepared.is_none() => {
                self.prepared = Prepared::start(&self.arguments, &self.mask).ok()
            }
            (OrderKind::Start { times, valid_until, group, environment }, None) => {
                let schedule = KillSchedule::new(times, valid_until);
                let begin = Begin { deadline: schedule.kill_at(), group, environment };
                match self.start(&begin, stdin) {
                    Ok(pid) => {
                        let group = group.and_then(Pid::from_raw);
                        self.running = Some(RunningCommand { pid, group, schedule, has_ended: false, rounds: 0 });
                        self.report(&GuardianReport::Started(pid.as_raw_nonzero().get()));
                    }
                    Err(error) => {
                        let (code, error) = (command::not_started(&error), error.to_string());
                        self.report(&GuardianReport::NotStarted { code, error });
                    }
                }
            }
            (OrderKind::Start { .. }, Some(_)) => {
                let error = "another command is still running".to_owned();
                self.report(&GuardianReport::NotStarted { code: command::NOT_EXECUTABLE, error });
            }
            (OrderKind::Valid { until }, Some(running)) => running.schedule.extend(until),
            (OrderKind::Stop { is_told }, _) => self.stop(is_told),
            (OrderKind::Kill, Some(running)) => running.schedule.kill(),
            (OrderKind::Signal(signal), Some(running)) => {
                if let Some(signal) = Signal::from_named_raw(signal).filter(|_| !running.has_ended) {
                    let _ = kill_process(running.pid, signal);
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, begin: &Begin, stdin: Option<OwnedFd>) -> io::Result<Pid> {
        let stdin = stdin.as_ref().map(AsFd::as_fd);
        // If the prepared process was killed, `begin` fails and another process is started below.
        let prepared = self.prepared.take().filter(|prepared| prepared.begin(begin, stdin).is_ok());
        if let Some(prepared) = prepared {
            return Ok(prepared.pid);
        }
        let started = Prepared::start(&self.arguments, &self.mask)?;
        started.begin(begin, stdin)?;
        Ok(started.pid)
    }

    /// Stops the command by SIGTERM, unless the command has already been stopped.
    fn stop(&mut self, is_told: bool) {
        let Some(running) = self.running.as_mut().filter(|running| !running.schedule.is_terminated()) else { return };
        running.schedule.terminated(boot_time());
        let told_group = running.group.filter(|_| is_told);
        descendants::terminate(&descendants::own().unwrap_or_default(), told_group);
    }

    fn reap(&mut self) {
        let Some(running) = &mut self.running else {
            let prepared = &mut self.prepared;
            descendants::reap_all(|pid, _| drop(prepared.take_if(|prepared| prepared.pid == pid)));
            return;
        };
        let mut end = None;
        let is_left = descendants::reap_all(|pid, status| {
            if pid == running.pid {
                end = ended(status);
            }
        });
        running.has_ended |= end.is_some();
        if running.has_ended && !running.schedule.is_terminated() {
            // The command ended by itself, so its remaining processes must not go on.
            running.schedule.kill();
        }
        if let Some(end) = end {
            self.report(&GuardianReport::Ended(end));
        }
        if !is_left {
            self.running = None;
            self.report(&GuardianReport::Gone);
        }
    }

    /// Carries out the action that is due.
    fn act(&mut self) {
        let Some(running) = &mut self.running else { return };
        match running.schedule.due(boot_time()) {
            Some(KillStep::Terminate) => {
                self.stop(false);
                self.report(&GuardianReport::Terminated);
            }
            Some(KillStep::Kill) => {
                // From now on, each round kills again, because a remaining process may start another process.
                running.schedule.kill();
                running.rounds = running.rounds.saturating_add(1);
                let is_first = running.rounds == 1;
                let processes = descendants::kill(&descendants::own().unwrap_or_default());
                if is_first {
                    self.report(&GuardianReport::Killing(processes));
                }
            }
            None => {}
        }
    }

    fn report(&self, report: &GuardianReport) {
        if let Some(link) = &self.link {
            // The socket has room for the report, because a command has few stages and few orders are
            // unacknowledged.
            let _ = link.send(report, None);
        }
    }
}

/// Returns a stream that becomes readable at each of `signals`.
///
/// The signals then have no other effect on this process.
fn signalled(signals: &[i32]) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for &signal in signals {
        pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Reads all available bytes. Returns `true` if there was a byte.
fn drain(stream: &mut UnixStream) -> bool {
    let mut buffer = [0; 64];
    let mut any = false;
    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
        any = true;
    }
    any
}

fn ended(status: WaitStatus) -> Option<CommandEnd> {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    let code = status.exit_status().map(|code| CommandEnd::Code(byte(code)));
    code.or_else(|| status.terminating_signal().map(|signal| CommandEnd::Signal(byte(signal))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::super::super::times::Times;
    use super::*;

    /// The kernel may have given the ID of a command that was reaped to another process.
    #[test]
    fn signal_after_the_end_reaches_no_process() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let (hour, pid) = (Duration::from_secs(3_600), Pid::from_child(&other));
        let times = Times { stop_timeout: hour, loss_grace: hour, kill_margin: hour };
        let schedule = KillSchedule::new(times, boot_time() + hour);
        let [(children, _), (signals, _)] = [(); 2].map(|()| UnixStream::pair().expect("a pair"));
        let running = Some(RunningCommand { pid, group: None, schedule, has_ended: true, rounds: 0 });
        let mut guardian = GuardianProcess {
            arguments: Vec::new(),
            mask: ParentMask::unblock().expect("a mask"),
            link: None,
            timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC).expect("a timer"),
            children,
            signals,
            prepared: None,
            running,
            has_asked: false,
        };
        guardian.obey(OrderKind::Signal(SIGTERM), None);
        guardian.running.as_mut().expect("a command").has_ended = false;
        guardian.obey(OrderKind::Signal(SIGUSR1), None);
        assert_eq!(other.wait().expect("a child of this test").signal(), Some(SIGUSR1));
    }
}
