//! The sources of a store's password: a file, or a program.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use crossbeam_channel::bounded;
use leasehold::PasswordSource;
use leasehold::store::CallContext;
use leasehold::util::program::{Programs, RunFailure};

/// The environment variable that replaces `--store`. Its value may contain a password.
pub const STORE_VARIABLE: &str = "LEASEHOLD_STORE";

/// The longest password in bytes, which bounds memory. Cloud tokens have about 2 KiB.
const LONGEST: u64 = 64 * 1024;

/// The running programs. None starts after this process has begun to exit.
static PROGRAMS: LazyLock<Programs> = LazyLock::new(Programs::default);

pub fn from_file(path: PathBuf) -> PasswordSource {
    source(format!("--password-file {}", path.display()), move |_| {
        // Other files are refused, because opening a named pipe may block forever.
        match path.metadata()?.is_file() {
            true => read(File::open(&path)?),
            false => Err(io::Error::other("not a regular file")),
        }
    })
}

/// Creates a source that runs the program in `text`, which is quoted as for a shell.
///
/// # Errors
///
/// Returns an error if `text` names no program, or has an unclosed quote.
pub fn from_command(text: &str) -> Result<PasswordSource, String> {
    let arguments = shlex::split(text).filter(|arguments| !arguments.is_empty());
    let arguments = arguments.ok_or("--password-command: give a program and its arguments, quoted as for a shell")?;
    // Errors name only the program, because its arguments may contain a secret.
    let name = format!("--password-command {}", arguments[0]);
    Ok(source(name, move |call| run(&arguments, call)))
}

fn source(name: String, get: impl Fn(&CallContext) -> io::Result<String> + Send + Sync + 'static) -> PasswordSource {
    Arc::new(move |call| match get(call) {
        Ok(password) if password.is_empty() => Err(format!("{name}: the password is empty")),
        other => other.map_err(|error| format!("{name}: {error}")),
    })
}

/// Reads a password. No error quotes the password.
fn read(source: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST { Err(too_long()) } else { line(bytes) }
}

fn too_long() -> io::Error {
    io::Error::other("the password is longer than 64 KiB")
}

/// Returns a text without a line break at its end.
fn line(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("the password is not UTF-8"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Runs the program and returns its output.
fn run(arguments: &[String], call: &CallContext) -> io::Result<String> {
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).env_remove(STORE_VARIABLE);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (cancel, cancelled) = bounded::<Infallible>(0);
    let _hook = call.cancel().on_cancel(move || drop(cancel));
    match PROGRAMS.run(&mut command, LONGEST, call.remaining(), &cancelled) {
        Ok((status, output)) if status.success() => line(output),
        Ok((status, _)) => Err(io::Error::other(format!("{status}; run the program manually to see its messages"))),
        Err(RunFailure::NotStarted(error) | RunFailure::Failed(_, error)) => Err(error),
        Err(RunFailure::TooLong) => Err(too_long()),
        Err(RunFailure::Late | RunFailure::Abandoned) => {
            Err(io::Error::other("killed, because the call ended before the program"))
        }
        Err(RunFailure::Closed) => Err(io::Error::other("ended, because leasehold ends")),
    }
}

/// Kills the running programs before this process exits. Afterward, no program starts.
pub fn end_programs() {
    PROGRAMS.close();
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use leasehold::store::CancelToken;

    use super::*;

    fn ask(source: &PasswordSource) -> Result<String, String> {
        source(&CallContext::new(Duration::from_secs(60), CancelToken::new()))
    }

    #[test]
    fn file_is_read_again_without_its_line_break() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let path = scratch.path().join("password");
        let source = from_file(path.clone());
        for (text, password) in [("one\n", "one"), ("two\r\n", "two"), ("three", "three"), (" a\nb ", " a\nb ")] {
            std::fs::write(&path, text).expect("a file");
            assert_eq!(ask(&source).as_deref(), Ok(password));
        }
        let long = "secret".repeat(20_000);
        for (text, cause) in [(&*long, "longer than"), ("\n", "empty")] {
            std::fs::write(&path, text).expect("a file");
            let error = ask(&source).expect_err(cause);
            assert!(error.contains(cause) && error.contains(&path.display().to_string()), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(ask(&from_file(scratch.path().to_owned())).is_err_and(|error| error.contains("not a regular file")));
        assert!(ask(&from_file("/there/is/none".into())).is_err_and(|error| error.contains("/there/is/none")));
    }

    #[test]
    #[cfg(unix)]
    fn program_is_run_without_a_shell_and_never_quoted() {
        let run = |text: &str| ask(&from_command(text).expect("a program"));
        assert_eq!(run("printf '%s\\n' 'a b; $HOME'").as_deref(), Ok("a b; $HOME"));
        for (text, cause) in [
            ("sh -c 'echo secret; echo secret >&2; exit 3' secret", "exit status: 3"),
            ("sh -c 'yes secret'", "longer than"),
            ("true", "empty"),
            ("/there/is/none secret", "No such file"),
        ] {
            let error = run(text).expect_err(cause);
            assert!(error.contains(cause) && !error.contains("secret"), "{error}");
        }
        assert!(from_command(" ").is_err() && from_command("'").is_err());
    }

    #[test]
    #[cfg(unix)]
    fn program_is_killed_with_its_children_when_the_call_ends() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let pid = scratch.path().join("pid");
        let text = format!("sh -c 'sleep 3600 & echo $! > {0}.new; mv {0}.new {0}; wait'", pid.display());
        for is_cancelled in [true, false] {
            let timeout = if is_cancelled { 3600 } else { 4 };
            let call = CallContext::new(Duration::from_secs(timeout), CancelToken::new());
            let source = from_command(&text).expect("a program");
            let error = thread::scope(|scope| {
                let asked = scope.spawn(|| source(&call));
                while is_cancelled && !pid.exists() {
                    thread::sleep(Duration::from_millis(1));
                }
                if is_cancelled {
                    call.cancel().cancel();
                }
                asked.join().expect("no panic")
            });
            assert!(error.is_err_and(|error| error.contains("killed")));
            let child = std::fs::read_to_string(&pid).expect("a number");
            std::fs::remove_file(&pid).expect("removed");
            let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            let until = Instant::now() + Duration::from_secs(30);
            while stat().contains("(sleep)") && !stat().contains(") Z") {
                assert!(Instant::now() < until, "{}", stat());
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
