//! The sources of a store's password: a file, or a program.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use leasehold::Password;

/// The environment variable that replaces `--store`. Its value may contain a password.
pub const STORE_VARIABLE: &str = "LEASEHOLD_STORE";

/// The longest secret in bytes, which bounds memory. Cloud tokens have about 2 KiB.
const LONGEST: u64 = 64 * 1024;

/// The password of `--password-command`, whose programs must end with this process.
static FROM_COMMAND: OnceLock<Password> = OnceLock::new();

pub fn from_file(path: PathBuf) -> Password {
    Password::from_source(move |_| {
        read_secret(&path).map_err(|error| format!("--password-file {}: {error}", path.display()))
    })
}

/// Creates a password that the program in `text` prints. The text is quoted as for a shell.
///
/// # Errors
///
/// Returns an error if `text` names no program, or has an unclosed quote.
pub fn from_command(text: &str) -> Result<Password, String> {
    let arguments = shlex::split(text).filter(|arguments| !arguments.is_empty());
    let arguments = arguments.ok_or("--password-command: give a program and its arguments, quoted as for a shell")?;
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).env_remove(STORE_VARIABLE);
    Ok(FROM_COMMAND.get_or_init(|| Password::from_command(command)).clone())
}

/// Reads a secret from a file, without a line break at its end. No error quotes the secret.
pub fn read_secret(path: &Path) -> io::Result<String> {
    // Other files are refused, because opening a named pipe may block forever.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other("longer than 64 KiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() { Err(io::Error::other("empty")) } else { Ok(line.to_owned()) }
}

/// Kills the running programs before this process exits. Afterward, no program starts.
pub fn end_programs() {
    if let Some(password) = FROM_COMMAND.get() {
        password.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_without_its_line_break() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let path = scratch.path().join("password");
        for (text, password) in [("one\n", "one"), ("two\r\n", "two"), ("three", "three"), (" a\nb ", " a\nb ")] {
            std::fs::write(&path, text).expect("a file");
            assert_eq!(read_secret(&path).expect("a password"), password);
        }
        let long = "secret".repeat(20_000);
        for (text, cause) in [(&*long, "longer than"), ("\n", "empty")] {
            std::fs::write(&path, text).expect("a file");
            let error = read_secret(&path).expect_err(cause).to_string();
            assert!(error.contains(cause) && !error.contains("secret"), "{error}");
        }
        assert!(read_secret(scratch.path()).is_err_and(|error| error.to_string().contains("not a regular file")));
        assert!(read_secret(Path::new("/there/is/none")).is_err());
    }

    #[test]
    fn command_without_a_program_or_with_an_open_quote_is_an_error() {
        assert!(from_command(" ").is_err() && from_command("'").is_err());
    }
}
