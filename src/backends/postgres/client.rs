//! The client: some statements, one answer, on a connection that no other call has.

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

/// More connections than this are not kept open for the calls to come.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// What is given up may go on for so many times as long on a server that cannot be told.
const MOST_TIME: u32 = 10;

/// A blocking client for one database.
pub(crate) struct PostgresClient {
    config: PostgresConfig,
    /// `None` for connections that are not encrypted.
    tls: Option<ClientTls>,
    dialer: Dialer,
    idle: Pool<PostgresConnection>,
    /// Whether each connection is known to have a session of the server to itself.
    has_sessions: AtomicBool,
    /// Whether a transaction was without the settings of its session. Then no watch's finding counts any more.
    has_lost_settings: AtomicBool,
    /// How many calls that were given up the server is being asked to end.
    ending: Arc<AtomicUsize>,
}

/// What is run, until when, and what ends it sooner.
pub(crate) struct PostgresRequest<'a> {
    /// In one transaction.
    pub(crate) statements: &'a [Statement<'a>],
    /// It changes nothing, so it may be sent again after it may have been received.
    pub(crate) is_read: bool,
    pub(crate) call: &'a CallContext,
}

impl PostgresClient {
    /// Makes a client. Nothing is sent yet.
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

    /// Host, port and database, and nothing secret.
    pub(crate) fn location(&self) -> String {
        format!("{}/{}", self.config.address, self.config.database)
    }

    pub(crate) fn password(&self) -> &Password {
        &self.config.password
    }

    pub(crate) fn poll_interval(&self) -> Duration {
        self.config.poll_interval
    }

    /// Runs statements, and answers what `read` makes of its rows; a connection whose rows it does not take is not used again.
    pub(crate) fn run<T>(
        &self,
        request: PostgresRequest<'_>,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let call = ActiveCall::begin(request.call.remaining(), request.call.cancel());
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

    /// As [`run`](Self::run), on a connection of the caller's own, which is shut down when the request is cancelled.
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

    /// Says whether each connection has a session of the server to itself. Behind a pooler it may be another one in each
    /// transaction; until it is said statements are sent as if that were so.
    pub(crate) fn set_has_sessions(&self, has_sessions: bool) {
        self.has_sessions.store(has_sessions, Ordering::Release);
    }

    /// A connection of the caller's own.
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
        // The user or the password is wrong. PgBouncer may send 08P01.
        let is_refused = |error: &Error| match error {
            Error::Refused(refusal) => matches!(&*refusal.sqlstate, "28000" | "28P01" | "08P01"),
            Error::Net(_) => false,
        };
        self.config.password.log_in(deadline, cancel, log_in, is_refused)
    }

    /// Whether this failed for a statement that was to be kept: then certainly nothing was done. From then on nothing is.
    fn keeps_nothing(&self, connection: &PostgresConnection, error: &Error) -> bool {
        let is_so = connection.has_kept && matches!(error, Error::Refused(refusal) if refusal.is_of_what_is_kept());
        if is_so {
            self.set_has_sessions(false);
            self.idle.forget_idle_since(Instant::now());
        }
        is_so
    }

    /// Answers rows whose settings are proved.
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
            // It may be committed, and lost in a crash.
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
        // Zero would be for ever.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        if for_session && connection.settings.is_some_and(|set| left <= set && set <= left * MOST_TIME) {
            return connection.run(request.statements, kept, deadline);
        }
        // The next call may have a little more.
        let time = if for_session { left + left / 4 } else { left };
        let milliseconds = time.as_millis().to_string();
        let settings = [Some(milliseconds.as_str()), Some(if for_session { "false" } else { "true" })];
        let settings = [Statement { sql: SETTINGS, parameters: &settings }];
        let statements = [&settings, request.statements].concat();
        let rows = connection.run(&statements, kept, deadline)?;
        if for_session {
            // What failed has taken its settings back, to those that stood before.
            connection.settings = Some(time);
        }
        Ok(rows)
    }
}

fn without_settings() -> net::Error {
    let detail = "the transaction was without the settings that this library makes: a pooler, or a trigger on the table, has \
                  changed synchronous_commit, client_min_messages or lock_timeout";
    // Not `Io`: another connection through the same pooler or trigger has no better settings.
    net::Error::new(NetErrorKind::Connect, detail)
}
