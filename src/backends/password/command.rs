//! A program that prints the password.

use std::convert::Infallible;
use std::io;
use std::process::{Command, ExitStatus, Stdio};

use parking_lot::Mutex;

use crate::store::CallContext;
use crate::util::program::{Programs, RunFailure};
use crate::util::sync::channel::bounded;

/// The longest output in bytes, which bounds memory. Cloud tokens have about 2 KiB.
const LONGEST: u64 = 64 * 1024;

/// A command, and its running programs.
pub(super) struct PasswordCommand {
    /// The name of the program, for errors. The arguments may contain a secret.
    name: String,
    command: Mutex<Command>,
    programs: Programs,
}

impl PasswordCommand {
    pub(super) fn new(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let name = command.get_program().to_string_lossy().into_owned();
        Self { name, command: Mutex::new(command), programs: Programs::default() }
    }

    /// Runs the program, and returns its output without a line break at the end.
    pub(super) fn run(&self, call: &CallContext) -> Result<String, String> {
        let (cancel, cancelled) = bounded::<Infallible>(0);
        let _hook = call.cancel().on_cancel(move || drop(cancel));
        let ended = self.programs.run(self.command.lock(), LONGEST, call.remaining(), &cancelled);
        password(ended).map_err(|error| format!("program {}: {error}", self.name))
    }

    /// Kills the running programs. Afterward, no program starts.
    pub(super) fn close(&self) {
        self.programs.close();
    }
}

impl Drop for PasswordCommand {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the password from the result of a run. No error quotes the output.
fn password(ended: Result<(ExitStatus, Vec<u8>), RunFailure>) -> io::Result<String> {
    match ended {
        Ok((status, output)) if status.success() => {
            let text = String::from_utf8(output).map_err(|_| io::Error::other("the password is not UTF-8"))?;
            let line = without_line_break(&text);
            if line.is_empty() { Err(io::Error::other("the password is empty")) } else { Ok(line.to_owned()) }
        }
        Ok((status, _)) => Err(io::Error::other(format!("{status}; run the program manually to see its messages"))),
        Err(RunFailure::NotStarted(error)) => Err(error),
        Err(RunFailure::Failed(what, error)) => Err(io::Error::other(format!("{what}: {error}"))),
        Err(RunFailure::TooLong) => Err(io::Error::other("the password is longer than 64 KiB")),
        Err(RunFailure::Late | RunFailure::Abandoned) => {
            Err(io::Error::other("killed, because the call ended before the program"))
        }
        Err(RunFailure::Closed) => Err(io::Error::other("not run, because the password is closed")),
    }
}

/// Returns a text without a line break at its end, with which files and programs end a text.
pub(super) fn without_line_break(text: &str) -> &str {
    let line = text.strip_suffix('\n').unwrap_or(text);
    line.strip_suffix('\r').unwrap_or(line)
}

#[cfg(all(test, unix))]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::util::cancel::CancelToken;

    fn command(arguments: &[&str]) -> PasswordCommand {
        let mut command = Command::new(arguments[0]);
        command.args(&arguments[1..]);
        PasswordCommand::new(command)
    }

    #[test]
    fn program_is_run_without_a_shell_and_never_quoted() {
        let call = CallContext::new(Duration::from_secs(60), CancelToken::new());
        let run = |arguments: &[&str]| command(arguments).run(&call);
        assert_eq!(run(&["printf", "%s\\r\\n", "a b; $HOME"]).as_deref(), Ok("a b; $HOME"));
        for (arguments, cause) in [
            (&["sh", "-c", "echo secret; echo secret >&2; exit 3", "secret"][..], "exit status: 3"),
            (&["sh", "-c", "yes secret"], "longer than"),
            (&["true"], "empty"),
            (&["/there/is/none", "secret"], "No such file"),
        ] {
            let error = run(arguments).expect_err(cause);
            assert!(error.contains(cause) && error.contains(arguments[0]) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn cancelled_late_or_closed_program_is_killed_with_its_children() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let pid = scratch.path().join("pid");
        let script = format!("sleep 3600 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
        for end in ["cancelled", "closed", "late"] {
            let timeout = if end == "late" { 4 } else { 3600 };
            let call = CallContext::new(Duration::from_secs(timeout), CancelToken::new());
            let password = command(&["sh", "-c", &script]);
            let error = thread::scope(|scope| {
                let asked = scope.spawn(|| password.run(&call));
                while !pid.exists() {
                    thread::sleep(Duration::from_millis(1));
                }
                match end {
                    "cancelled" => call.cancel().cancel(),
                    "closed" => password.close(),
                    _ => (),
                }
                asked.join().expect("no panic")
            });
            assert!(error.is_err(), "{end}");
            let child = std::fs::read_to_string(&pid).expect("a number");
            std::fs::remove_file(&pid).expect("removed");
            let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            let until = Instant::now() + Duration::from_secs(30);
            while stat().contains("(sleep)") && !stat().contains(") Z") {
                assert!(Instant::now() < until, "{end}: {}", stat());
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
