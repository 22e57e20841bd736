//! The supervisor's hold on the guardian.

pub mod process;

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::net::{Shutdown, shutdown};
use rustix::process::Pid;

use super::super::password::STORE_VARIABLE;
use super::descendants;
use super::messages::{GuardianLink, GuardianReport, Order, OrderKind};
use crate::log::COMMAND;

/// How long a process of ours may take to begin, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at what is being ended.
const ROUND: Duration = Duration::from_millis(1);

/// What a guardian is to start when it is told to.
pub struct Guarded {
    pub arguments: Vec<OsString>,
    /// Beside what is in our environment.
    pub environment: [(&'static str, String); 2],
}

/// A guardian, which ends what it guards and then itself when this is dropped.
pub struct Guardian {
    process: Child,
    link: Arc<GuardianLink>,
    /// What it says. Disconnected: it is gone.
    pub reports: Receiver<GuardianReport>,
    last: u64,
    acknowledged: u64,
    /// The last order at the tick before, and for how many ticks one is not acknowledged.
    before: u64,
    silent: u32,
}

/// The guardian does not answer, or is gone, and why that is thought.
#[derive(Debug)]
pub struct Lost(pub String);

impl Guardian {
    /// Starts one for a command. From the main thread, whose children are known by that.
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
            _ => Err(io::Error::other("the guardian did not begin")),
        }
    }

    pub fn order(&mut self, what: OrderKind) -> Result<(), Lost> {
        self.order_with(what, None)
    }

    pub fn order_with(&mut self, what: OrderKind, attached: Option<BorrowedFd<'_>>) -> Result<(), Lost> {
        let number = self.last + 1;
        let sent = self.link.send(&Order { number, what }, attached);
        sent.map_err(|error| Lost(format!("it cannot be told anything: {error}")))?;
        self.last = number;
        Ok(())
    }

    /// Has it be ready for a start, which is sooner done then. That it is lost shows at the next order.
    pub fn prepare(&mut self) {
        let _ = self.order(OrderKind::Prepare);
    }

    /// Has it end, with what it guards. Dropping this waits for that.
    pub fn dismiss(&self) {
        let _ = shutdown(&*self.link, Shutdown::Both);
    }

    pub fn acknowledged(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number);
    }

    /// To be called again and again, each time after an order: after `patience` of these calls more without its acknowledgement it is
    /// lost. Calls are counted, and not time, because this process may have been stopped in the meantime.
    pub fn tick(&mut self, patience: u32) -> Result<(), Lost> {
        let is_silent = self.acknowledged < self.before;
        self.silent = if is_silent { self.silent + 1 } else { 0 };
        if !is_silent {
            self.before = self.last;
        }
        if self.silent >= patience {
            return Err(Lost("it does not answer".to_owned()));
        }
        Ok(())
    }

    /// Ends the guardian with all that it guards, and what it has left to this process. False if something is left after `limit`, which
    /// is counted in rounds, because this process may be stopped in the meantime.
    pub fn kill(&mut self, limit: Duration) -> bool {
        // While there is still one of us that would do so if this process were killed now.
        descendants::kill_below(Pid::from_child(&self.process));
        let _ = self.process.kill();
        for _ in 0..=limit.as_nanos() / ROUND.as_nanos() {
            // Only when it has ended is all that it had adopted left to us, and whoever ends here leaves its own children to us: so
            // there is nothing any more only when there is nothing to be ended.
            let has_ended = !matches!(self.process.try_wait(), Ok(None));
            match self.adopted() {
                Ok(left) if left.is_empty() && has_ended => return true,
                Ok(left) => {
                    descendants::kill(&left);
                    descendants::reap(&left);
                }
                Err(error) => log::warn!(target: COMMAND, "what is left of the command is not known: /proc: {error}"),
            }
            thread::sleep(ROUND);
        }
        false
    }

    /// Takes note of the end of processes that others have left to this one.
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
        // Who listens to it ends as well.
        self.dismiss();
        let until = Instant::now() + PATIENCE;
        while let Ok(None) = self.process.try_wait() {
            if Instant::now() >= until {
                self.kill(PATIENCE);
                return;
            }
            thread::sleep(ROUND);
        }
        self.reap_adopted();
    }
}

fn listen(link: &GuardianLink, sender: &Sender<GuardianReport>) {
    loop {
        let report = match link.next() {
            Ok(Some((report, _))) => report,
            Ok(None) => return,
            Err(error) => return log::error!(target: COMMAND, "the guardian cannot be heard: {error}"),
        };
        if sender.send(report).is_err() {
            return;
        }
    }
}
