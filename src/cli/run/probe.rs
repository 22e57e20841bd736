//! A program that says whether this replica is fit to lead: by ending with 0, in time.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::super::election::STORE_VARIABLE;

/// An argv, which is run without a shell.
#[derive(Debug, Clone)]
pub struct Probe {
    arguments: Vec<String>,
    timeout: Duration,
    /// What it said last, which is told when it changes.
    last: Option<Result<(), String>>,
}

impl Probe {
    /// # Errors
    ///
    /// When it names no program, or a quotation in it does not end.
    pub fn new(text: &str, timeout: Duration) -> Result<Self, String> {
        let arguments = shlex::split(text).filter(|arguments| !arguments.is_empty());
        let arguments = arguments
            .ok_or_else(|| format!("--probe {text:?}: give a program and its arguments, quoted as for a shell"))?;
        Ok(Self { arguments, timeout, last: None })
    }

    pub fn program(&self) -> &str {
        &self.arguments[0]
    }

    /// Whether it says yes.
    pub fn run(&mut self) -> bool {
        let said = match self.status() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(format!("{status}")),
            Ok(None) => Err(format!("it did not end within {}", humantime::format_duration(self.timeout))),
            Err(error) => Err(error.to_string()),
        };
        let is_fit = said.is_ok();
        if self.last.as_ref() != Some(&said) {
            match &said {
                Ok(()) => log::info!("{}: this replica is fit to lead", self.program()),
                Err(why) => log::warn!("{}: this replica is not fit to lead: {why}", self.program()),
            }
            self.last = Some(said);
        }
        is_fit
    }

    /// `None` when it was ended, with all of its group, because it took too long.
    fn status(&self) -> io::Result<Option<ExitStatus>> {
        let mut command = Command::new(&self.arguments[0]);
        command.args(&self.arguments[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.env_remove(STORE_VARIABLE).process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).and_then(|process| {
            let timeout = Timespec::try_from(self.timeout).ok();
            poll(&mut [PollFd::new(&process, PollFlags::IN)], timeout.as_ref())
        });
        if !matches!(ended, Ok(1..)) {
            // Its number is its own until it is waited for.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = child.wait()?;
        ended.map(|ended| (ended > 0).then_some(status)).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn probe(text: &str) -> Probe {
        Probe::new(text, Duration::from_millis(500)).expect("a probe")
    }

    #[test]
    fn it_says_yes_by_ending_with_0_in_time() {
        assert!(probe("true").run());
        assert!(!probe("false").run());
        assert!(!probe("/there/is/no/such/program").run());
        assert!(probe("test 'a b' = 'a b'").run(), "quoted as for a shell");
        assert!(probe("sh -c 'exec test \"$1\" = \"; false\"' sh '; false'").run(), "without a shell");
        assert!(Probe::new(" ", Duration::ZERO).is_err() && Probe::new("'", Duration::ZERO).is_err());
    }

    #[test]
    fn one_that_takes_too_long_is_ended_with_its_group() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let file = scratch.path().join("pid");
        let began = Instant::now();
        assert!(!probe(&format!("sh -c 'sleep 3600 & echo $! > {}; wait'", file.display())).run());
        assert!(began.elapsed() < Duration::from_secs(1_000));
        let pid: i32 = std::fs::read_to_string(file).expect("it began").trim().parse().expect("a number");
        let until = Instant::now() + Duration::from_secs(30);
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        while stat().contains("(sleep)") && !stat().contains(") Z") {
            assert!(Instant::now() < until, "what it started is left: {}", stat());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
