//! The probe of `leasehold run`: a program that exits with 0 while this replica is fit.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never, unbounded};
use leasehold::Fitness;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::super::password::STORE_VARIABLE;
use crate::log::COMMAND;

/// The results of the probe, and the fitness that the elector reads.
///
/// While a command runs, a failed result reaches the elector only after the command has ended, because the lease must
/// be renewed until then.
pub struct Judge {
    /// The results of the probe, one per run.
    pub verdicts: Receiver<bool>,
    timeout: Duration,
    fitness: Fitness,
    latest: bool,
}

impl Judge {
    /// Starts a thread that runs the probe repeatedly, with `pause` between two runs.
    pub fn start(mut probe: Probe, pause: Duration, fitness: Fitness) -> io::Result<Self> {
        let (tell, verdicts) = unbounded();
        let timeout = probe.timeout;
        thread::Builder::new().name("probe".into()).spawn(move || {
            while tell.send(probe.run()).is_ok() {
                thread::sleep(pause);
            }
        })?;
        Ok(Self { verdicts, timeout, fitness, latest: false })
    }

    /// Records a result, and returns `true` if the replica is fit.
    ///
    /// `None` means that the probe's thread has ended, which counts as a failure.
    pub fn hear(&mut self, verdict: Option<bool>) -> bool {
        if verdict.is_none() {
            self.verdicts = never();
        }
        self.latest = verdict.unwrap_or(false);
        self.latest
    }

    /// Passes the last result on to the elector.
    pub fn tell(&mut self) {
        while let Ok(verdict) = self.verdicts.try_recv() {
            self.hear(Some(verdict));
        }
        self.fitness.set(self.latest);
    }

    /// Waits for the first result of the probe.
    pub fn wait(&mut self) {
        let patience = self.timeout.saturating_add(UNTIL_IT_ENDS);
        self.latest = self.verdicts.recv_timeout(patience).unwrap_or(false);
    }
}

/// The program and its arguments, run without a shell.
#[derive(Debug)]
pub struct Probe {
    /// The text as the user gave it.
    text: String,
    pub arguments: Vec<String>,
    timeout: Duration,
    /// A killed probe that has not ended, for example because it waits for a disk.
    ///
    /// No other probe is started before the killed probe has ended.
    hangs: Option<Child>,
    /// The last result. A change is logged.
    last: Option<Result<(), String>>,
    /// The end of the last run's stderr.
    last_words: Vec<u8>,
}

impl Probe {
    /// Creates a probe from a program and its arguments, quoted as for a shell.
    ///
    /// # Errors
    ///
    /// Returns an error if the text names no program or has an unclosed quote.
    pub fn new(text: &str, timeout: Duration) -> Result<Self, String> {
        let arguments = shlex::split(text).filter(|arguments| !arguments.is_empty());
        let arguments = arguments
            .ok_or_else(|| format!("--probe {text:?}: give a program and its arguments, quoted as for a shell"))?;
        Ok(Self { text: text.to_owned(), arguments, timeout, hangs: None, last: None, last_words: Vec::new() })
    }

    /// Runs the probe and returns `true` if it exits with 0 in time.
    pub fn run(&mut self) -> bool {
        self.last_words.clear();
        let said = match self.status() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(status.to_string()),
            Ok(None) => Err(format!("did not exit within {}", humantime::format_duration(self.timeout))),
            Err(error) => Err(error.to_string()),
        };
        let is_fit = said.is_ok();
        if self.last.as_ref() != Some(&said) {
            match &said {
                Ok(()) => log::info!(target: COMMAND, "--probe '{}': this replica is fit to lead", self.text),
                Err(why) => {
                    let last_words = String::from_utf8_lossy(&self.last_words);
                    let last_line = last_words.lines().rfind(|line| !line.trim().is_empty());
                    let last_line = last_line.map_or_else(String::new, |line| format!(": {line}"));
                    log::warn!(target: COMMAND, "--probe '{}': unfit to lead: {why}{last_line}", self.text);
                }
            }
            self.last = Some(said);
        }
        is_fit
    }

    /// Runs the probe and returns its exit status.
    ///
    /// If the probe takes too long, kills its whole process group and returns `None`.
    fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if let Some(mut child) = self.hangs.take()
            && !has_ended(&mut child, Duration::ZERO)?
        {
            self.hangs = Some(child);
            return Err(io::Error::other("the killed probe has not ended"));
        }
        let (errors, their_errors) = io::pipe()?;
        let mut command = Command::new(&self.arguments[0]);
        command.args(&self.arguments[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(their_errors);
        let mut child = command.env_remove(STORE_VARIABLE).process_group(0).spawn()?;
        // `command` holds a writing end of the pipe, which would keep the pipe open after the probe has ended.
        drop(command);
        let pid = Pid::from_child(&child);
        let ended = self.follow(&mut child, errors);
        if !matches!(ended, Ok(Some(_))) {
            // The process is also killed by its ID, because the process may have left its group. The ID is not reused
            // before the process is reaped.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
            if !has_ended(&mut child, UNTIL_IT_ENDS)? {
                self.hangs = Some(child);
            }
        }
        ended
    }

    /// Reads the probe's stderr until the probe ends. Returns `None` if the probe is too slow.
    ///
    /// The probe is polled, because a system or a sandbox may have no descriptor that reports the end of a process.
    fn follow(&mut self, child: &mut Child, mut errors: PipeReader) -> io::Result<Option<ExitStatus>> {
        // No read waits for more text, because a process that the probe leaves behind may keep the pipe open.
        ioctl_fionbio(&errors, true)?;
        let until = Instant::now() + self.timeout.min(LONGEST);
        let mut buffer = vec![0; PIPE_SIZE];
        loop {
            // The status is read first, so that the read after the end of the probe returns the rest of its text.
            let status = child.try_wait()?;
            let length = errors.read(&mut buffer).unwrap_or(0);
            self.last_words.extend(&buffer[..length]);
            self.last_words.drain(..self.last_words.len().saturating_sub(LONGEST_WORDS));
            if status.is_some() || Instant::now() >= until {
                return Ok(status);
            }
            if length == 0 {
                thread::sleep(BETWEEN_LOOKS.min(self.timeout));
            }
        }
    }
}

/// Returns `true` if the process has ended or ends within `patience`.
pub fn has_ended(child: &mut Child, patience: Duration) -> io::Result<bool> {
    let until = Instant::now() + patience;
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The time limit for a killed process to end.
const UNTIL_IT_ENDS: Duration = Duration::from_millis(200);

/// The interval between checks whether a probe has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The longest time to wait for a probe, which is short enough to add to an `Instant`.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The number of bytes at the end of stderr that are logged.
const LONGEST_WORDS: usize = 512;

/// The size of a pipe, so that one read returns all text in the pipe. Source: pipe(7).
const PIPE_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn probe(text: &str) -> Probe {
        Probe::new(text, Duration::from_millis(500)).expect("a probe")
    }

    #[test]
    fn probe_is_positive_if_it_exits_with_0_in_time() {
        assert!(probe("true").run());
        assert!(!probe("false").run());
        assert!(!probe("/there/is/no/such/program").run());
        assert!(probe("test 'a b' = 'a b'").run(), "quoted as for a shell");
        assert!(probe("sh -c 'exec test \"$1\" = \"; false\"' sh '; false'").run(), "without a shell");
        assert!(Probe::new(" ", Duration::ZERO).is_err() && Probe::new("'", Duration::ZERO).is_err());
        let began = Instant::now();
        assert!(probe("sh -c 'sleep 60 & true'").run(), "a leftover process holds its stderr");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn probe_that_ends_in_time_kills_no_process() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let file = scratch.path().join("lives");
        assert!(probe(&format!("sh -c '(sleep 0.2; echo > {}) & true'", file.display())).run());
        let until = Instant::now() + Duration::from_secs(30);
        while !file.exists() {
            assert!(Instant::now() < until, "it was killed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn judge_forgets_a_verdict_when_the_probe_is_gone() {
        let mut judge = Judge { verdicts: never(), timeout: Duration::ZERO, fitness: Fitness::new(), latest: false };
        assert!(judge.hear(Some(true)) && judge.latest);
        assert!(!judge.hear(None) && !judge.latest);
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
            assert!(Instant::now() < until, "a started process is left: {}", stat());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
