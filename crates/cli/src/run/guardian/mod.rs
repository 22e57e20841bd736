//! The supervisor's side of the guardian.

pub mod process;

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::net::{Shutdown, shutdown};
use rustix::process::Pid;

use super::super::password::STORE_VARIABLE;
use super::descendants;
use super::messages::{GuardianLink, GuardianReport, Order, OrderKind};
use super::probe::has_ended;
use crate::log::COMMAND;

/// The time limit for the start and for the end of a guardian.
const PATIENCE: Duration = Duration::from_secs(10);

/// The interval between checks of a process that is being killed.
const ROUND: Duration = Duration::from_millis(1);

/// The command that a guardian starts on order.
pub struct Guarded {
    pub arguments: Vec<OsString>,
    /// The variables that are added to the environment of this process.
    pub environment: Vec<(&'static str, String)>,
}

/// A handle of the guardian process.
///
/// When the handle is dropped, the guardian ends the command and then itself.
pub struct Guardian {
    process: Child,
    link: Arc<GuardianLink>,
    /// The reports of the guardian. Disconnected if the guardian is gone.
    pub reports: Receiver<GuardianReport>,
    last: u64,
    acknowledged: u64,
    /// The number of the order that must be acknowledged next.
    ///
    /// `silent` is the number of ticks without this acknowledgement.
    before: u64,
    silent: u32,
}

/// The error that the guardian does not answer or is gone, with the reason.
#[derive(Debug)]
pub struct Lost(pub String);

impl Guardian {
    /// Starts a guardian for a command.
    ///
    /// The calling thread must drop the handle. A guardian that outlives its thread would look like an adopted orphan.
    pub fn start(guarded: &Guarded) -> io::Result<Self> {
        let (link, theirs) = GuardianLink::pair()?;
        let process = Command::new("/proc/self/exe")
            .arg0("leasehold")
            .arg(process::NAME)
            .args(&guarded.arguments)
            .env_remove(STORE_VARIABLE)
            .envs(guarded.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(theirs))
            .process_group(0)
            .spawn()?;
        let link = Arc::new(link);
        let (sender, reports) = unbounded();
        thread::Builder::new().name("guardian".into()).spawn({
            let link = Arc::clone(&link);
            move || listen(&link, &sender)
        })?;
        let guardian = Self { process, link, reports, last: 0, acknowledged: 0, before: 0, silent: 0 };
        match guardian.reports.recv_timeout(PATIENCE) {
            Ok(GuardianReport::Ready) => Ok(guardian),
            _ => Err(io::Error::other("the guardian did not start")),
        }
    }

    /// Returns a handle of a process that is not a guardian, and the other end of the socket.
    #[cfg(test)]
    pub fn fake(reports: Receiver<GuardianReport>) -> (Self, std::os::fd::OwnedFd) {
        let process = Command::new("true").spawn().expect("a process");
        let (link, theirs) = GuardianLink::pair().expect("a pair");
        (Self { process, link: Arc::new(link), reports, last: 0, acknowledged: 0, before: 0, silent: 0 }, theirs)
    }

    pub fn order(&mut self, what: OrderKind) -> Result<(), Lost> {
        self.order_with(what, None)
    }

    pub fn order_with(&mut self, what: OrderKind, attached: Option<BorrowedFd<'_>>) -> Result<(), Lost> {
        let number = self.last + 1;
        let sent = self.link.send(&Order { number, what }, attached);
        sent.map_err(|error| Lost(format!("cannot be reached: {error}")))?;
        self.last = number;
        Ok(())
    }

    /// Orders the preparation of a command, so that its start takes less time.
    ///
    /// An error is ignored, because the next order also detects a lost guardian.
    pub fn prepare(&mut self) {
        let _ = self.order(OrderKind::Prepare);
    }

    /// Orders the end of the guardian and the command. Dropping the handle waits for the end.
    pub fn dismiss(&self) {
        let _ = shutdown(&*self.link, Shutdown::Both);
    }

    pub fn acknowledged(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number);
    }

    /// Checks that the guardian acknowledges orders. Called once per tick, after an order.
    ///
    /// Returns an error after `patience` more calls without an acknowledgement. Calls are counted instead of time,
    /// because this process may have been stopped.
    pub fn tick(&mut self, patience: u32) -> Result<(), Lost> {
        let is_silent = self.acknowledged < self.before;
        self.silent = if is_silent { self.silent + 1 } else { 0 };
        if !is_silent {
            self.before = self.last;
        }
        if self.silent >= patience {
            return Err(Lost("does not answer".to_owned()));
        }
        Ok(())
    }

    /// Kills the guardian, the command, and all orphans that this process has adopted.
    ///
    /// Returns `false` if a process is left after `limit`. The limit is counted in rounds, because this process may be
    /// stopped.
    pub fn kill(&mut self, limit: Duration) -> bool {
        // The guardian is killed last. If this process is killed in between, the guardian still kills the command.
        descendants::kill(&descendants::children(Pid::from_child(&self.process)));
        let _ = self.process.kill();
        for _ in 0..=limit.as_nanos() / ROUND.as_nanos() {
            // This process adopts the children of the guardian, and of other killed processes, only after their parent
            // has ended. Therefore a search without a result is final only if the guardian has ended.
            let has_ended = !matches!(self.process.try_wait(), Ok(None));
            match self.adopted() {
                Ok(left) if left.is_empty() && has_ended => return true,
                Ok(left) => {
                    descendants::kill(&left);
                    descendants::reap(&left);
                }
                Err(error) => {
                    log::warn!(target: COMMAND, "cannot find the remaining processes of the command in /proc: {error}")
                }
            }
            thread::sleep(ROUND);
        }
        false
    }

    /// Reaps the ended orphans that this process has adopted.
    pub fn reap_adopted(&self) {
        descendants::reap(&self.adopted().unwrap_or_default());
    }

    fn adopted(&self) -> io::Result<Vec<Pid>> {
        let guardian = Pid::from_child(&self.process);
        Ok(descendants::own()?.into_iter().filter(|&pid| pid != guardian).collect())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // The shutdown of the socket also ends the thread that receives the reports.
        self.dismiss();
        match has_ended(&mut self.process, PATIENCE) {
            Ok(false) => _ = self.kill(PATIENCE),
            _ => self.reap_adopted(),
        }
    }
}

fn listen(link: &GuardianLink, sender: &Sender<GuardianReport>) {
    loop {
        let report = match link.next() {
            Ok(Some((report, _))) => report,
            Ok(None) => return,
            Err(error) => return log::error!(target: COMMAND, "cannot read from the guardian: {error}"),
        };
        if sender.send(report).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::never;

    use super::super::term::TICKS;
    use super::*;

    #[test]
    fn guardian_that_answers_each_order_late_is_not_lost() {
        let (mut guardian, _link) = Guardian::fake(never());
        for number in 0..50 {
            guardian.order(OrderKind::Ping).expect("an order");
            guardian.tick(TICKS).expect("it answers");
            guardian.acknowledged(number);
        }
    }
}
