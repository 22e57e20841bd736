//! The command to run: the search for its file, and its exit code.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

pub use super::super::say::{FAILED, Failure};
use super::messages::CommandEnd;

/// The exit codes that `leasehold run` adds to those of the command.
///
/// Sources: env(1), timeout(1), `EX_TEMPFAIL` of sysexits.h.
pub const NOT_ACQUIRED: u8 = 75;
pub const TERM_ENDED: u8 = 124;
pub const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

pub fn not_started(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

impl CommandEnd {
    pub fn exit_code(self) -> u8 {
        match self {
            CommandEnd::Code(code) => code,
            CommandEnd::Signal(signal) => by_signal(signal.into()),
        }
    }
}

/// Returns the exit code that shells report for a process that a signal ended.
pub fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).ok().and_then(|signal| signal.checked_add(128)).unwrap_or(FAILED)
}

/// Finds `program` as execvp(3) does, and checks that the file is executable.
///
/// # Errors
///
/// Returns the exit code and the message.
pub fn check(program: &OsStr) -> Result<(), Failure> {
    let found = find(program, env::var_os("PATH"));
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let advice = if is_path { "check the path" } else { "check the name and PATH" };
    let program = program.display();
    let found = found.map_err(|error| match not_started(&error) {
        NOT_FOUND => Failure(NOT_FOUND, format!("{program}: command not found; {advice}")),
        code => Failure(code, format!("{program}: cannot be executed: {error}")),
    })?;
    match interpreter(&found) {
        Some(interpreter) if !interpreter.exists() => {
            Err(Failure(NOT_FOUND, format!("{program}: interpreter {} not found", interpreter.display())))
        }
        _ => Ok(()),
    }
}

/// Returns the interpreter in the first line of a script. Source: execve(2).
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let length = File::open(program).and_then(|mut file| file.read(&mut head)).ok()?;
    let line = head[..length].strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.next().map(|word| Path::new(OsStr::from_bytes(word)).to_owned())
}

fn find(program: &OsStr, path: Option<OsString>) -> io::Result<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return executable(program.into());
    }
    let path = path.unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for directory in env::split_paths(&path) {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
        match executable(directory.join(program)) {
            Ok(found) => return Ok(found),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

fn executable(path: PathBuf) -> io::Result<PathBuf> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "is a directory"));
    }
    accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_is_found_as_the_system_finds_it() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let put = |directory: &str, name: &str, mode| {
            let directory = scratch.path().join(directory);
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(directory.join(name), "#!/bin/sh\n").expect("a file");
            fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).expect("its mode");
        };
        put("first", "tool", 0o644);
        put("second", "tool", 0o755);
        put("first", "text", 0o644);
        let path =
            || Some(env::join_paths(["none", "first", "second"].map(|it| scratch.path().join(it))).expect("a path"));
        let code = |program: &OsStr| find(program, path()).map_err(|error| not_started(&error));
        assert_eq!(code("tool".as_ref()), Ok(scratch.path().join("second/tool")), "the first is not executable");
        assert_eq!(code("text".as_ref()), Err(126));
        assert_eq!(code("nothing".as_ref()), Err(127));
        assert_eq!(code(scratch.path().join("first/text").as_os_str()), Err(126));
        assert_eq!(code(scratch.path().as_os_str()), Err(126), "a directory");
        assert_eq!(code("./nothing".as_ref()), Err(127));
        assert!(find("sh".as_ref(), None).is_ok(), "without PATH");
        let script = scratch.path().join("script");
        for (line, program) in [("#!\t/bin/sh\t-x\n", Some("/bin/sh")), ("#! \n", None), ("/bin/sh", None)] {
            fs::write(&script, line).expect("a file");
            assert_eq!(interpreter(&script), program.map(PathBuf::from), "{line:?}");
        }
    }
}
