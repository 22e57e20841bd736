//! The password of a store's user: fixed, or returned by a source before each login.
//!
//! A client for PostgreSQL or MySQL keeps no token. After a server has closed a connection, the next call opens another
//! connection, and thus logs in with the present password. The client for etcd keeps a token, and decides by itself
//! when it logs in again.

mod command;

use std::error::Error as StdError;
use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use command::{PasswordCommand, without_line_break};
use parking_lot::Mutex;

use crate::net::echo;
use crate::net::error::{Error, NetErrorKind};
use crate::net::secret::Secret;
use crate::net::text::clean;
use crate::store::CallContext;
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;
use crate::util::panics::caught;

/// Maximum number of returned passwords that the client remembers for redaction.
///
/// The limit exceeds the number of a client's connections, each of which may have logged in with another password.
const REMEMBERED: usize = 16;

/// Maximum length of a password source's error in a log line, in characters.
const LONGEST_CAUSE: usize = 300;

/// Maximum length of a server's message in a log line, in characters.
#[cfg(feature = "_sql_server")]
pub(crate) const LONGEST_MESSAGE: usize = 600;

type Source = dyn Fn(&CallContext) -> Result<String, Box<dyn StdError + Send + Sync>> + Send + Sync;

/// The password of a store's user, or a source that returns the password before each login.
///
/// The client queries a source before each login. If the server refuses the login, the client queries the source once
/// more before the call fails. The source runs on the thread of the call and must return within
/// [`CallContext::remaining`].
///
/// A clone is the same password. `Debug` does not show the password.
///
/// # Examples
///
/// The first source reads a mounted Secret. The second source prints a token of RDS IAM, which is valid for 15 minutes:
///
/// ```
/// use std::process::Command;
/// use leasehold::Password;
///
/// let secret = Password::from_source(|_| std::fs::read_to_string("/run/secrets/database/password"));
/// let mut aws = Command::new("aws");
/// aws.args(["rds", "generate-db-auth-token", "--hostname=db.example", "--port=5432", "--username=jobs"]);
/// let token = Password::from_command(aws);
/// ```
#[derive(Clone, Default)]
pub struct Password {
    pub(crate) fixed: Option<Secret>,
    source: Option<Arc<Source>>,
    command: Option<Arc<PasswordCommand>>,
    /// The passwords that the source has returned last, from the oldest to the newest.
    returned: Arc<Mutex<Vec<Secret>>>,
}

impl Password {
    /// Creates a password that `source` returns.
    ///
    /// A line break at the end of the text is not a part of the password.
    /// An error or a panic of `source` fails the call with [`Unauthorized`](crate::store::StoreErrorKind::Unauthorized).
    pub fn from_source<F, E>(source: F) -> Self
    where
        F: Fn(&CallContext) -> Result<String, E> + Send + Sync + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let source: Arc<Source> = Arc::new(move |call: &CallContext| {
            source(call).map(|text| without_line_break(&text).to_owned()).map_err(Into::into)
        });
        Self { source: Some(source), ..Self::default() }
    }

    /// Creates a password that a program prints to its standard output.
    ///
    /// The password is the output without a line break at its end. The output has at most 64 KiB. The program receives
    /// no input, and its standard error is discarded. If the call ends first, the program is killed; on Unix with its
    /// children. Errors contain the name of the program, but neither its arguments nor its output.
    pub fn from_command(command: Command) -> Self {
        let command = Arc::new(PasswordCommand::new(command));
        let source = Arc::clone(&command);
        let source: Arc<Source> = Arc::new(move |call: &CallContext| source.run(call).map_err(Into::into));
        Self { source: Some(source), command: Some(command), ..Self::default() }
    }

    /// Kills the running programs of [`from_command`](Self::from_command).
    ///
    /// Afterward, no program starts. Call this method before [`std::process::exit`], which leaves programs running.
    pub fn close(&self) {
        if let Some(command) = &self.command {
            command.close();
        }
    }

    /// Replaces the text or the source, but leaves the other one.
    pub(crate) fn set(&mut self, password: Self) {
        match password.source {
            Some(_) => *self = Self { fixed: self.fixed.take(), ..password },
            None => self.fixed = password.fixed,
        }
    }

    /// Checks that the password is neither set twice nor missing.
    ///
    /// Returns an error if there are both a fixed password and a source, or if a required password is missing.
    pub(crate) fn check(&self, is_required: bool) -> Result<(), ConfigError> {
        let refuse = |value, rule| Err(ConfigError::new("password", value, rule));
        match (&self.fixed, &self.source) {
            (Some(_), Some(_)) => refuse("given twice", "remove the source or the fixed password"),
            (None, None) if is_required => refuse("missing", "put a password into the URL, or use with_password"),
            _ => Ok(()),
        }
    }

    /// Runs `log_in` with the password.
    ///
    /// If the server refuses a password from the source, the function queries the source again. If the source then
    /// returns another password, the function runs `log_in` again.
    pub(crate) fn log_in<T, E: From<Error>>(
        &self,
        deadline: Instant,
        cancel: &CancelToken,
        log_in: impl Fn(Option<&str>) -> Result<T, E>,
        is_refused: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let Some(source) = &self.source else { return log_in(self.fixed.as_ref().map(Secret::expose)) };
        let first = self.ask(&**source, deadline, cancel)?;
        let refused = match log_in(Some(first.expose())) {
            Err(error) if is_refused(&error) => error,
            other => return other,
        };
        let second = self.ask(&**source, deadline, cancel)?;
        // The client does not retry the same password, because a server may lock a user after several refused logins.
        if second == first { Err(refused) } else { log_in(Some(second.expose())) }
    }

    fn ask(&self, source: &Source, deadline: Instant, cancel: &CancelToken) -> Result<Secret, Error> {
        let call = CallContext::new(deadline.saturating_duration_since(Instant::now()), cancel.clone());
        let password = caught(|| source(&call)).unwrap_or_else(|| Err("the password source panicked".into()));
        let password = password.map_err(|error| {
            let cause = clean(&error.to_string(), LONGEST_CAUSE);
            Error::new(NetErrorKind::Credentials, format!("cannot get the password: {cause}"))
        });
        let password = Secret::new(password?);
        let mut returned = self.returned.lock();
        returned.retain(|other| *other != password);
        returned.push(password.clone());
        let excess = returned.len().saturating_sub(REMEMBERED);
        returned.drain(..excess);
        Ok(password)
    }

    /// Returns a server's message as one line without passwords.
    ///
    /// The function redacts the message before it shortens the message, so that no part of a password remains.
    #[cfg(feature = "_sql_server")]
    pub(crate) fn clean(&self, message: &impl fmt::Display) -> String {
        let mut text = message.to_string().into_bytes();
        self.redact(&mut text, 1);
        clean(&String::from_utf8_lossy(&text), LONGEST_MESSAGE)
    }

    /// Overwrites each known password of at least `shortest` bytes in `text`.
    pub(crate) fn redact(&self, text: &mut [u8], shortest: usize) {
        let returned = self.returned.lock();
        let known = self.fixed.iter().chain(&*returned).map(|secret| secret.expose().as_bytes());
        known.filter(|secret| secret.len() >= shortest).for_each(|secret| echo::redact(secret, text));
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self::from(Some(Secret::new(text)))
    }
}

impl From<Option<Secret>> for Password {
    fn from(fixed: Option<Secret>) -> Self {
        Self { fixed, ..Self::default() }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
