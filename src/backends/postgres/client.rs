//! The blocking client, which runs statements in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::abandoned::CancelTarget;
use super::config::PostgresConfig;
use super::connection::{PostgresConnection, Rows, Statement};
use super::error::Error;
use super::settings::{self, SETTINGS};
use crate::backends::password::Password;
use crate::net::MAX_WAIT;
use crate::net::calls::{ActiveCall, Exchange, MAX_IDLE_DIRECT, Pool};
use crate::net::dial::{Dialer, System};
use crate::net::error::{self as net, NetErrorKind};
use crate::net::interrupt::Interrupter;
use crate::net::tls::ClientTls;
use crate::store::CallContext;
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// Maximum number of idle connections that the client keeps open for later calls.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// Maximum `statement_timeout` for a call, as a multiple of the time that the call has left.
///
/// If a cancel request is lost, the server ends the statement after the `statement_timeout`.
const MOST_TIME: u32 = 10;

/// A blocking client for one database.
pub(crate) struct PostgresClient {
    config: PostgresConfig,
    /// `None` for unencrypted connections.
    tls: Option<ClientTls>,
    dialer: Dialer,
    idle: Pool<PostgresConnection>,
    /// `true` if each connection is known to have its own session on the server.
    has_sessions: AtomicBool,
    /// `true` once a transaction has lacked the settings of its session.
    ///
    /// From then on, the client applies the settings in each transaction, even if a watch finds that connections have
    /// sessions.
    has_lost_settings: AtomicBool,
    /// Number of cancel requests in progress.
    ending: Arc<AtomicUsize>,
}

/// Statements, with their timeout and their cancel token.
pub(crate) struct PostgresRequest<'a> {
    /// The statements of one transaction.
    pub(crate) statements: &'a [Statement<'a>],
    /// `true` if the request changes nothing.
    ///
    /// The client may repeat such a request even if the server may have received the first copy.
    pub(crate) is_read: bool,
    pub(crate) call: &'a CallContext,
}

impl PostgresClient {
    /// Creates a client without connecting.
    pub(crate) fn new(config: PostgresConfig) -> Result<Self, ConfigError> {
        config.password.check(false)?;
        let tls = config.tls_mode.client(&config.tls, &config.address)?;
        let (dialer, idle) = (Dialer::new(System), Pool::new(MAX_IDLE_CONNECTIONS, MAX_IDLE_DIRECT));
        Ok(Self {
            config,
            tls,
            dialer,
            idle,
            has_sessions: AtomicBool::new(false),
            has_lost_settings: AtomicBool::new(false),
            ending: Arc::default(),
        })
    }

    /// Returns host, port and database, without secrets.
    pub(crate) fn location(&self) -> String {
        format!("{}/{}", self.config.address, self.config.database)
    }

    pub(crate) fn password(&self) -> &Password {
        &self.config.password
    }

    pub(crate) fn poll_interval(&self) -> Duration {
        self.config.poll_interval
    }

    /// Runs statements, and returns the result of `read` on the rows.
    ///
    /// If `read` returns an error, the connection is not reused.
    pub(crate) fn run<T>(
        &self,
        request: PostgresRequest<'_>,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let call = ActiveCall::begin(request.call);
        let (deadline, mut used) = (call.deadline, None);
        let versions = [0, self.tls.as_ref().map_or(0, ClientTls::refresh)];
        let answer = call.exchange(
            Exchange { pool: &self.idle, place: &|| self.location(), versions, is_read: request.is_read },
            &mut used,
            || self.connect(deadline, request.call.cancel(), &call.interrupter),
            |connection| self.ask(connection, &request, deadline),
            |connection, error| self.keeps_nothing(connection, error),
        );
        let answer = answer.and_then(|rows| read(rows).map_err(Error::sent));
        call.end(answer, [&self.idle], used.map(|connection| (&self.idle, connection)))
    }

    /// Runs statements like [`run`](Self::run), but on a connection of the caller.
    ///
    /// A cancellation shuts down the connection.
    pub(crate) fn run_on<T>(
        &self,
        connection: &mut PostgresConnection,
        request: &PostgresRequest<'_>,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + request.call.remaining().min(MAX_WAIT);
        let mut answer = self.ask(connection, request, deadline);
        if answer.as_ref().is_err_and(|error| self.keeps_nothing(connection, error)) {
            answer = self.ask(connection, request, deadline);
        }
        answer.and_then(read)
    }

    /// Sets whether each connection has its own session on the server.
    ///
    /// Behind a pooler, each transaction may use another session. The client assumes a pooler before the first call of
    /// this method.
    pub(crate) fn set_has_sessions(&self, has_sessions: bool) {
        self.has_sessions.store(has_sessions, Ordering::Release);
    }

    /// Opens a connection for the caller.
    pub(crate) fn connect(
        &self,
        deadline: Instant,
        cancel: &CancelToken,
        interrupter: &Interrupter,
    ) -> Result<PostgresConnection, Error> {
        interrupter.check()?;
        let log_in = |password: Option<&str>| {
            ClientTls::open(self.tls.as_ref(), |files, tls| {
                let address = self.config.address.clone();
                let (dialer, under_way) = (self.dialer.clone(), Arc::clone(&self.ending));
                let place = CancelTarget { address, tls, dialer, under_way };
                PostgresConnection::open(&self.config, password, place, files, deadline, interrupter)
            })
        };
        // These codes mean that the user or the password is wrong. PgBouncer may report a wrong password as 08P01.
        let is_refused = |error: &Error| match error {
            Error::Refused(refusal) => matches!(&*refusal.sqlstate, "28000" | "28P01" | "08P01"),
            Error::Net(_) => false,
        };
        self.config.password.log_in(deadline, cancel, log_in, is_refused)
    }

    /// Returns `true` if the server executed nothing because a prepared statement was unusable.
    ///
    /// In this case, the client stops preparing statements.
    fn keeps_nothing(&self, connection: &PostgresConnection, error: &Error) -> bool {
        let is_so = connection.has_kept && matches!(error, Error::Refused(refusal) if refusal.is_of_what_is_kept());
        if is_so {
            self.set_has_sessions(false);
            self.idle.forget_idle_since(Instant::now());
        }
        is_so
    }

    /// Runs statements, and returns the rows if the transaction had the required settings.
    fn ask(
        &self,
        connection: &mut PostgresConnection,
        request: &PostgresRequest<'_>,
        deadline: Instant,
    ) -> Result<Rows, Error> {
        let kept = self.has_sessions.load(Ordering::Acquire) && !self.has_lost_settings.load(Ordering::Acquire);
        let are_proved = settings::are_proved_by(request.statements);
        let rows = self.ask_with_settings(connection, request, kept, kept && are_proved, deadline)?;
        if !are_proved || settings::are_proven(&rows) {
            return Ok(rows);
        }
        self.has_lost_settings.store(true, Ordering::Release);
        match kept && request.is_read {
            true => self.ask(connection, request, deadline),
            // The transaction may be committed, but without the settings, a crash could revert the commit.
            false => Err(without_settings().sent(true).into()),
        }
    }

    fn ask_with_settings(
        &self,
        connection: &mut PostgresConnection,
        request: &PostgresRequest<'_>,
        kept: bool,
        for_session: bool,
        deadline: Instant,
    ) -> Result<Rows, Error> {
        // The minimum is one millisecond, because a `statement_timeout` of zero means no limit.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        if for_session && connection.settings.is_some_and(|set| left <= set && set <= left * MOST_TIME) {
            return connection.run(request.statements, kept, deadline);
        }
        // The extra quarter lets a later call with slightly more time use the same setting.
        let time = if for_session { left + left / 4 } else { left };
        let milliseconds = time.as_millis().to_string();
        let settings = [Some(milliseconds.as_str()), Some(if for_session { "false" } else { "true" })];
        let settings = [Statement { sql: SETTINGS, parameters: &settings }];
        let statements = [&settings, request.statements].concat();
        let rows = connection.run(&statements, kept, deadline)?;
        if for_session {
            // The client stores the time only after a success, because a failed transaction restores the previous
            // settings.
            connection.settings = Some(time);
        }
        Ok(rows)
    }
}

fn without_settings() -> net::Error {
    let detail = "the transaction lacked the required settings: a pooler, or a trigger on the table, changed \
                  synchronous_commit, client_min_messages or lock_timeout";
    // With the kind `Io`, the client would retry on another connection. The same pooler or trigger would change the
    // settings there, too.
    net::Error::new(NetErrorKind::Connect, detail)
}
