//! A program that says whether this replica is fit to lead: by ending with 0, in time.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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
        let mut last_words = Vec::new();
        let said = match self.status(&mut last_words) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(status.to_string()),
            Ok(None) => Err(format!("it did not end within {}", humantime::format_duration(self.timeout))),
            Err(error) => Err(error.to_string()),
        };
        let is_fit = said.is_ok();
        if self.last.as_ref() != Some(&said) {
            match &said {
                Ok(()) => log::info!("--probe {}: this replica is fit to lead", self.program()),
                Err(why) => {
                    let last_words = String::from_utf8_lossy(&last_words);
                    let last_line = last_words.lines().rfind(|line| !line.trim().is_empty());
                    let colon = if last_line.is_some() { ": " } else { "" };
                    let last_line = last_line.unwrap_or_default();
                    log::warn!("--probe {}: this replica is not fit to lead: {why}{colon}{last_line}", self.program());
                }
            }
            self.last = Some(said);
        }
        is_fit
    }

    /// `None` when it was ended, with all of its group, because it took too long.
    fn status(&self, last_words: &mut Vec<u8>) -> io::Result<Option<ExitStatus>> {
        let (errors, their_errors) = io::pipe()?;
        let mut command = Command::new(&self.arguments[0]);
        command.args(&self.arguments[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(their_errors);
        let mut child = command.env_remove(STORE_VARIABLE).process_group(0).spawn()?;
        // It holds the other end of the pipe.
        drop(command);
        let pid = Pid::from_child(&child);
        let ended = self.follow(pid, errors, last_words);
        if !matches!(ended, Ok(true)) {
            // Its number is its own until it is waited for.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = child.wait()?;
        ended.map(|ended| ended.then_some(status))
    }

    /// Reads what it says on stderr. False if it has not ended in its time.
    fn follow(&self, pid: Pid, errors: PipeReader, last_words: &mut Vec<u8>) -> io::Result<bool> {
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let until = Instant::now() + self.timeout;
        let (mut errors, mut has_ended) = (Some(errors), false);
        loop {
            // What it said before its end is there then.
            let left = if has_ended { Duration::ZERO } else { until.saturating_duration_since(Instant::now()) };
            let mut polled = vec![PollFd::new(&process, PollFlags::IN)];
            polled.extend(errors.as_ref().map(|errors| PollFd::new(errors, PollFlags::IN)));
            match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let has_said = polled.get(1).is_some_and(|errors| !errors.revents().is_empty());
            let was_ended = has_ended;
            has_ended |= !polled[0].revents().is_empty();
            if has_said {
                let mut buffer = [0; LONGEST_WORDS];
                let length = errors.as_mut().map_or(Ok(0), |errors| errors.read(&mut buffer))?;
                last_words.extend(&buffer[..length]);
                last_words.drain(..last_words.len().saturating_sub(LONGEST_WORDS));
                if length == 0 {
                    errors = None;
                }
            } else if was_ended {
                return Ok(true);
            }
            if !has_ended && Instant::now() >= until || has_ended && Instant::now() >= until + LAST_READ {
                return Ok(has_ended);
            }
        }
    }
}

/// So much of what it said last is told.
const LONGEST_WORDS: usize = 512;

/// How long what it has left behind may go on to write, before it is listened to no more.
const LAST_READ: Duration = Duration::from_millis(100);

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
