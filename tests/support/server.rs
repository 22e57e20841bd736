//! Servers that a test starts, pauses, kills and restarts.
//!
//! A server ends with the test process. If root runs the tests, the user `nobody` runs the database servers.

use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::geteuid;
use tempfile::TempDir;

use super::SOON;

/// A server on a port of its own.
///
/// The server ends when this value is dropped, and when the test process ends.
pub struct Server {
    port: u16,
    scratch: Arc<Scratch>,
    arguments: Vec<String>,
    log: PathBuf,
    is_ready: Box<dyn Fn(&Server) -> bool + Send + Sync>,
    running: Option<Mutex<Running>>,
}

/// The shell that runs the server, and ends the server at the end of the shell's input.
struct Running {
    shell: Child,
    answers: BufReader<ChildStdout>,
    server: u32,
}

/// A shell script that ends the server when the test process ends.
///
/// In Rust, the tests would need unsafe code for this.
const UNTIL_THE_END_OF_INPUT: &str = include_str!("server.sh");

impl Server {
    /// Creates a server that is not started yet.
    pub fn new(
        scratch: &Arc<Scratch>,
        log: &str,
        port: u16,
        arguments: Vec<String>,
        is_ready: impl Fn(&Server) -> bool + Send + Sync + 'static,
    ) -> Server {
        let (scratch, log) = (Arc::clone(scratch), scratch.path().join(log));
        Server { port, scratch, arguments, log, is_ready: Box::new(is_ready), running: None }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Returns the directory of a database's data.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Starts the server for the first time or after a kill, and waits until the server is ready.
    pub fn start_again(&mut self) {
        self.launch();
        self.wait_until_ready();
    }

    /// Starts the server without waiting.
    pub fn launch(&mut self) {
        assert!(self.running.is_none(), "it runs already");
        // The shell outlives the test, so signals to the test's process group must not reach the shell. A separate
        // group in the same session is not enough: when the parent of such a group ends, the system resumes a stopped
        // server.
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", UNTIL_THE_END_OF_INPUT, "sh"]);
        command.arg(&self.log).arg(self.scratch.path()).args(&self.arguments);
        let mut shell = run_by(command, self.scratch.user)
            .current_dir(self.scratch.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut answers = BufReader::new(shell.stdout.take().expect("piped"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("a number");
        let server = line.trim().parse().expect("a process");
        self.running = Some(Mutex::new(Running { shell, answers, server }));
    }

    /// Waits until the launched server is ready.
    ///
    /// If the server ends instead, panics with the server's log.
    pub fn wait_until_ready(&self) {
        let until = Instant::now() + SOON;
        while !(self.is_ready)(self) {
            let complaint = if self.has_ended() { "it ended" } else { "it is not ready" };
            let is_hopeless = self.has_ended() || Instant::now() > until;
            assert!(!is_hopeless, "{}: {complaint}: {}", self.arguments[0], self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn process(&self) -> u32 {
        self.running.as_ref().expect("it runs").lock().server
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Kills the server and all its processes with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            let mut running = running.into_inner();
            let _ = writeln!(running.shell.stdin.take().expect("piped"), "kill");
            let _ = running.shell.wait();
        }
    }

    /// Stops all processes of the server. Connections stay open, but receive no response.
    pub fn pause(&self) {
        self.ask("pause");
    }

    pub fn resume(&self) {
        self.ask("resume");
    }

    fn ask(&self, request: &str) {
        let mut running = self.running.as_ref().expect("it runs").lock();
        writeln!(running.shell.stdin.as_mut().expect("piped"), "{request}").expect("a shell that reads");
        let mut line = String::new();
        running.answers.read_line(&mut line).expect("an answer");
        assert_eq!(line, "done\n");
    }

    fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process()));
        // If the shell has reaped the server, the file does not exist.
        stat.map_or(true, |stat| stat.contains(") Z "))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = if self.running.is_some() && self.has_ended() { ", which has ended," } else { "" };
            eprintln!("{}{ended} logged: {}", self.arguments[0], self.log());
        }
        self.kill();
    }
}

/// A directory for the files of a server. The user that runs the server owns the directory.
pub struct Scratch {
    directory: TempDir,
    user: Option<User>,
}

/// The user that runs a database server if root runs the tests.
///
/// Database servers refuse to run as root.
#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl Scratch {
    /// Creates a directory for a server that root may run.
    pub fn new(of: &str) -> Scratch {
        let directory = tempfile::Builder::new().prefix(&format!("leasehold-{of}-")).tempdir().expect("a directory");
        Scratch { directory, user: None }
    }

    /// Creates a directory for a server that refuses to run as root.
    pub fn unprivileged(of: &str) -> Scratch {
        let user = geteuid().is_root().then(User::nobody);
        let scratch = Scratch { user, ..Scratch::new(of) };
        scratch.hand_over(scratch.path());
        scratch
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of a file or directory in this directory, for a command line.
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    /// Writes a file that only the server's user can read, such as a key.
    ///
    /// Returns the path of the file.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("a file");
        set_permissions(&path, Permissions::from_mode(0o600)).expect("a file of ours");
        self.hand_over(&path);
        self.file(name)
    }

    /// Returns a command that runs `program` as the server's user, in this directory.
    ///
    /// The command has no environment variables of the test process except `PATH`.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = run_by(Command::new(program), self.user);
        command.env_clear().env("HOME", self.path()).current_dir(self.path());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// Packs all files below a directory, for [`Scratch::unpack`].
    pub fn pack(&self, directory: &str) -> Vec<u8> {
        let mut tar = self.command(Path::new("tar"));
        output_of(tar.args(["-c", directory]), &[])
    }

    /// Unpacks files that another [`Scratch`] packed.
    pub fn unpack(&self, packed: &[u8]) {
        output_of(self.command(Path::new("tar")).arg("-x"), packed);
    }

    fn hand_over(&self, path: &Path) {
        if let Some(User { uid, gid }) = self.user {
            chown(path, Some(uid), Some(gid)).expect("root may");
        }
    }
}

impl User {
    fn nobody() -> User {
        let users = std::fs::read_to_string("/etc/passwd").expect("the system's users");
        let nobody = users.lines().find_map(|line| line.strip_prefix("nobody:")).expect("the user nobody");
        let mut numbers = nobody.split(':').skip(1).map_while(|number| number.parse().ok());
        let mut number = || numbers.next().expect("a number");
        User { uid: number(), gid: number() }
    }
}

fn run_by(mut command: Command, user: Option<User>) -> Command {
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// Runs a program that must succeed. Returns its output as text.
pub fn text_of(command: &mut Command, input: &str) -> String {
    String::from_utf8(output_of(command, input.as_bytes())).expect("text").trim_end_matches('\n').to_owned()
}

/// Runs a program that must succeed. Returns its output as bytes.
pub fn output_of(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A program that fails early does not read all input. Its own error is more useful than the error of this write.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}, {}: {complaint}", output.status);
    output.stdout
}

/// Returns a free port below the system's ephemeral ports.
///
/// The system assigns no such port to another program, so a restarted server finds its port free.
pub fn free_port() -> u16 {
    let mut some = std::iter::repeat_with(|| fastrand::u16(10_000..32_000));
    some.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port")
}

/// Returns the path of a program in one of these directories or in the `PATH`.
///
/// If the program is missing, reports the test as skipped.
pub fn installed(program: &str, directories: &[PathBuf], what_needs_it: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = directories.iter().cloned().chain(std::env::split_paths(&path));
    let found = places.map(|place| place.join(program)).find(|program| program.is_file() && super::may_use_servers());
    if found.is_none() {
        super::skip(&format!("{program} is not installed"), what_needs_it, "`tests/run --all` installs it");
    }
    found
}
