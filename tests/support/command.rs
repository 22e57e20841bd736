//! Processes of the command `leasehold`, and the commands that these processes run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Pid;
use tempfile::TempDir;

use super::cluster::{Cluster, NAMESPACE};
use super::process::built_command;
use super::run::Run;
use super::{SOON, marked, repository, scratch, wait_for};

/// Processes of `leasehold run` that compete for one lease, and the output of their commands.
pub struct Arena {
    place: Vec<OsString>,
    flags: Vec<String>,
    scratch: TempDir,
    stamps: PathBuf,
    /// The value of [`MARK`] in the environment of every process that this arena starts.
    mark: String,
}

const MARK: &str = "LEASEHOLD_TEST_MARK";

/// Flags of a lease that does not expire during a test.
pub const LONG: &[&str] = &["--lease-duration=60s", "--retry-period=250ms"];

/// Flags of a short lease, which a busy machine can still renew in time.
pub const SHORT: &[&str] =
    &["--lease-duration=8s", "--renew-deadline=6s", "--retry-period=250ms", "--release-timeout=5s"];

/// A line that a running command writes, with the time of the line.
#[derive(Debug, Clone)]
pub struct Stamp {
    pub token: u64,
    pub pid: i32,
    pub mono: f64,
    pub what: String,
}

impl Arena {
    pub fn on_a_file(flags: &[&str]) -> Self {
        let scratch = scratch();
        let url = format!("sqlite://{}", scratch.path().join("election.db").display());
        Self::new(scratch, vec!["--lease=jobs".into(), "--store".into(), url.into()], flags)
    }

    pub fn on(cluster: &Cluster, flags: &[&str]) -> Self {
        Self::by(&cluster.kubeconfig("candidate"), &cluster.lease, flags)
    }

    pub fn by(kubeconfig: &Path, lease: &str, flags: &[&str]) -> Self {
        let place: [OsString; 5] = [
            format!("--lease={lease}").into(),
            "--kubeconfig".into(),
            kubeconfig.into(),
            "--namespace".into(),
            NAMESPACE.into(),
        ];
        Self::new(scratch(), place.into(), flags)
    }

    fn new(scratch: TempDir, place: Vec<OsString>, flags: &[&str]) -> Self {
        let (mark, stamps) = (scratch.path().display().to_string(), scratch.path().join("stamps"));
        Self { place, flags: flags.iter().map(|&flag| flag.to_owned()).collect(), scratch, stamps, mark }
    }

    /// Makes the processes divide the shards of a group, instead of competing for the lease.
    pub fn of_a_group(mut self) -> Self {
        let lease = self.place[0].to_str().and_then(|flag| flag.strip_prefix("--lease=")).expect("a lease");
        self.place[0] = format!("--group={lease}").into();
        self
    }

    /// Starts `leasehold observe` for the lease or the group.
    pub fn observe(&self, flags: &[&str]) -> Run {
        let mut command = leasehold();
        self.mark(&mut command);
        Run::of(command.arg("observe").args(&self.place).args(flags).stdin(Stdio::null()))
    }

    /// Makes the commands write their stamps into the file `stamps` of another arena.
    pub fn with_stamps(mut self, stamps: &Path) -> Self {
        stamps.clone_into(&mut self.stamps);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns `leasehold run` with these flags. The flags include `--` and the command to run.
    pub fn command(&self, flags: &[&str]) -> Command {
        let mut command = leasehold();
        self.mark(&mut command);
        command.arg("run").args(&self.place).args(&self.flags).args(flags);
        command
    }

    /// Returns `leasehold run` with these flags, started by another program.
    ///
    /// `program` includes its arguments.
    pub fn command_under(&self, program: &[&str], flags: &[&str]) -> Command {
        let command = self.command(flags);
        let mut outer = untouched(Path::new(program[0]));
        outer.args(&program[1..]).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        self.mark(&mut outer);
        outer
    }

    /// Marks the processes that `command` starts, so that the test can find them.
    pub fn mark(&self, command: &mut Command) {
        command.env(MARK, &self.mark);
    }

    pub fn run(&self, flags: &[&str]) -> Run {
        Run::of(self.command(flags).stdin(Stdio::null()))
    }

    /// Starts `leasehold run` without the ignored signals of the test process.
    pub fn run_with_signals(&self, flags: &[&str]) -> Run {
        Run::of(&mut self.command_under(&["env", "--default-signal"], flags))
    }

    /// Starts `leasehold run` with a command that writes stamps.
    ///
    /// `kinds` are arguments of `worker.py`.
    pub fn work(&self, flags: &[&str], kinds: &[&str]) -> Run {
        Run::of(self.worker(flags, kinds).stdin(Stdio::null()))
    }

    /// Starts a standby, and waits until the standby has found the leader.
    pub fn standby(&self) -> Run {
        let standby = self.work(&[], &[]);
        standby.wait_for_error("new leader");
        standby
    }

    pub fn worker(&self, flags: &[&str], kinds: &[&str]) -> Command {
        let mut command = self.command(flags);
        let worker = repository().join("tests/command/worker.py");
        command.args(["--", "python3"]).arg(worker).arg(&self.stamps).args(kinds);
        command
    }

    pub fn stamps(&self) -> Vec<Stamp> {
        let text = fs::read_to_string(&self.stamps).unwrap_or_default();
        text.lines().filter_map(Stamp::parse).collect()
    }

    /// Returns the latest time among the last stamps, without reading the whole file.
    pub fn last_stamp(&self) -> f64 {
        let read = || {
            let mut file = fs::File::open(&self.stamps)?;
            file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(1_000)))?;
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        };
        let text = read().unwrap_or_default();
        // The text may begin inside a line, so the first line is skipped.
        text.lines().skip(1).filter_map(Stamp::parse).map(|stamp| stamp.mono).fold(0.0, f64::max)
    }

    /// Waits for a stamp with a greater fencing token than `token`.
    pub fn wait_for_work_after(&self, token: u64) -> Stamp {
        self.wait_for_stamp(&format!("work after {token}"), |stamp| stamp.token > token)
    }

    /// Waits until the command of the term that began with the stamp `began` has received SIGTERM.
    pub fn wait_for_sigterm(&self, began: &Stamp) -> Stamp {
        self.wait_for_stamp("a SIGTERM", |stamp| stamp.what == "sigterm" && stamp.token == began.token)
    }

    /// Returns how many seconds the command has worked since it received SIGTERM.
    pub fn worked_after(&self, sigterm: &Stamp) -> f64 {
        let stamps = self.stamps().into_iter().filter(|stamp| stamp.token == sigterm.token);
        stamps.map(|stamp| stamp.mono).fold(0.0, f64::max) - sigterm.mono
    }

    pub fn wait_for_stamp(&self, what: &str, wanted: impl Fn(&Stamp) -> bool) -> Stamp {
        wait_for(what, || self.stamps().into_iter().find(&wanted))
    }

    /// Asserts that no two terms overlap, and that fencing tokens grow.
    ///
    /// Returns the number of terms.
    pub fn assert_one_at_a_time(&self) -> usize {
        self.assert_one_at_a_time_but_for(&[])
    }

    /// Asserts that no two terms overlap, except shortly after the times in `continued`.
    ///
    /// At each of these times, the test continued a stopped process tree. Its command may then write stamps for 50 ms.
    pub fn assert_one_at_a_time_but_for(&self, continued: &[f64]) -> usize {
        let mut terms = BTreeMap::<u64, (f64, f64)>::new();
        for Stamp { token, mono, .. } in self.stamps() {
            let (first, last) = terms.entry(token).or_insert((mono, mono));
            (*first, *last) = (first.min(mono), last.max(mono));
        }
        let terms: Vec<_> = terms.into_iter().collect();
        for pair in terms.windows(2) {
            let [(token, (_, last)), (next, (first, _))] = pair else { unreachable!("pairs") };
            let is_excused = continued.iter().any(|at| first < at && last - at < 0.05);
            assert!(
                last < first || is_excused,
                "of token {token} something works until {last}, and of {next} since {first}"
            );
        }
        terms.len()
    }

    /// Returns all processes that this arena started directly or indirectly.
    pub fn processes(&self) -> Vec<Pid> {
        marked::processes(MARK, &self.mark)
    }

    pub fn assert_nothing_is_left(&self) {
        let until = Instant::now() + SOON;
        while !self.processes().is_empty() {
            let lines = self.processes().into_iter().map(|pid| {
                let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
                format!("{}: {}", stat.trim(), line(pid).replace('\0', " "))
            });
            assert!(Instant::now() < until, "processes are left: {:#?}", lines.collect::<Vec<_>>());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Ends the processes that a failed test has left behind.
        marked::end(MARK, &self.mark, SOON);
    }
}

impl Stamp {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut word = || words.next();
        let (token, pid, mono) = (word()?.parse().ok()?, word()?.parse().ok()?, word()?.parse().ok()?);
        Some(Self { token, pid, mono, what: word()?.to_owned() })
    }
}

/// Returns the command `leasehold`, without the environment variables for clusters and logs.
///
/// Tests of other packages build the command if it is missing or outdated.
pub fn leasehold() -> Command {
    let program = option_env!("CARGO_BIN_EXE_leasehold").map_or_else(built_command, PathBuf::from);
    untouched(&program)
}

fn untouched(program: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in
        ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HOME", "LEASEHOLD_LOG", "LEASEHOLD_STORE"]
    {
        command.env_remove(variable);
    }
    command
}

fn numbers(directory: impl AsRef<Path>) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the child processes of all threads of a process.
pub fn children(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let lists = numbers(format!("/proc/{pid}/task"))
        .map(move |task| fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).unwrap_or_default());
    let pids = |list: String| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>();
    lists.flat_map(pids).filter_map(Pid::from_raw).collect()
}

/// Returns `true` if a process still waits to become the command.
pub fn is_prepared(pid: Pid) -> bool {
    line(pid).split('\0').nth(1) == Some("__exec")
}

/// Returns `true` if a process is a guardian that has not ended.
pub fn is_guardian(pid: Pid) -> bool {
    line(pid).split('\0').nth(1) == Some("__guardian")
}

fn line(pid: Pid) -> String {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    String::from_utf8_lossy(&line).into_owned()
}

impl Run {
    /// Waits for the guardian, which is the only child of the supervisor.
    pub fn guardian(&self) -> Pid {
        wait_for("a guardian", || children(self.pid).first().copied())
    }

    /// Waits for the child of the guardian that later becomes the command.
    pub fn prepared(&self) -> Pid {
        let guardian = self.guardian();
        wait_for("a process that waits", || children(guardian).into_iter().find(|&child| is_prepared(child)))
    }
}

/// Sends a GET request to the address of `--http`.
///
/// Returns the status and the body of the response.
pub fn get(address: &str, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
}

/// Sends an HTTP request. Returns the status and the body of the response.
pub fn ask(address: &str, request: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).expect("it listens");
    connection.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
}

/// Returns the address on which a `leasehold run` with `--http` listens.
pub fn address(run: &Run) -> String {
    run.wait_for_error("listening on http://");
    let errors = run.errors();
    let address = errors.split("listening on http://").nth(1).and_then(|rest| rest.lines().next());
    address.expect("an address").to_owned()
}
