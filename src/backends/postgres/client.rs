//! The blocking client, which runs statements in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::abandoned::CancelTarget;
use super::config::PostgresConfig;
use super::connection::{PostgresConnection, Rows, Statement};
use super::error::Error;
use super::login;
use super::settings::{self, SETTINGS};
use super::wire::Wire;
use crate::backends::sql::blockers::Blockers;
use crate::net::calls::{ActiveCall, Exchange};
use crate::net::dial::{Dialer, System};
use crate::net::error::{self as net, NetErrorKind};
use crate::net::interrupt::Interrupter;
use crate::net::pool::{MAX_IDLE_DIRECT, Pool};
use crate::net::tls::ClientTls;
use crate::store::CallContext;
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// Number of idle connections that the client keeps open for later calls, in addition to those of a recent burst.
const KEPT_CONNECTIONS: usize = 4;

/// A blocking client for one database.
pub(crate) struct PostgresClient {
    pub(super) config: PostgresConfig,
    /// `None` for unencrypted connections.
    tls: Option<ClientTls>,
    dialer: Dialer,
    pub(super) idle: Pool<PostgresConnection>,
    /// `true` if each connection is known to have its own session on the server.
    has_sessions: AtomicBool,
    /// Number of cancel requests in progress.
    ending: Arc<AtomicUsize>,
}

impl PostgresClient {
    /// Creates a client without connecting.
    pub(crate) fn new(config: PostgresConfig) -> Result<Self, ConfigError> {
        config.password.check(false)?;
        let name = config.server_name.as_deref().unwrap_or(config.address.host());
        let tls = config.tls_mode.client(&config.tls, name)?;
        let (dialer, idle) = (Dialer::new(System), Pool::new(KEPT_CONNECTIONS, MAX_IDLE_DIRECT));
        Ok(Self { config, tls, dialer, idle, has_sessions: AtomicBool::new(false), ending: Arc::default() })
    }

    /// Returns host, port and database, without secrets.
    pub(crate) fn location(&self) -> String {
        format!("{}/{}", self.config.address, self.config.database)
    }

    /// Runs statements in one transaction, and returns the result of `read` on the rows.
    ///
    /// If `read` returns an error, the connection is not reused. `is_read` is `true` if the statements change nothing.
    /// The client may repeat such statements even if the server may have received the first copy. If there is no answer
    /// for long, `blockers` looks up the transactions that block the statements.
    pub(crate) fn run<T>(
        &self,
        statements: &[Statement<'_>],
        is_read: bool,
        blockers: Option<&Blockers<'_>>,
        call: &CallContext,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (cancel, call) = (call.cancel(), ActiveCall::begin(call));
        let (deadline, mut used) = (call.deadline, None);
        let versions = [0, self.tls.as_ref().map_or(0, ClientTls::refresh)];
        let answer = call.exchange(
            Exchange { pool: &self.idle, place: &|| self.location(), versions, connected_by: deadline, is_read },
            &mut used,
            || self.connect(deadline, cancel, &call.interrupter),
            |connection| self.ask(connection, statements, blockers, deadline),
            |connection, error| self.keeps_nothing(connection, error),
        );
        let answer = answer.and_then(|rows| read(rows).map_err(Error::sent));
        call.end(answer, [&self.idle], used)
    }

    /// Runs statements like [`run`](Self::run), but on a connection of the caller.
    ///
    /// A cancellation shuts down the connection.
    pub(crate) fn run_on<T>(
        &self,
        connection: &mut PostgresConnection,
        statements: &[Statement<'_>],
        deadline: Instant,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut answer = self.ask(connection, statements, None, deadline);
        if answer.as_ref().is_err_and(|error| self.keeps_nothing(connection, error)) {
            answer = self.ask(connection, statements, None, deadline);
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

    /// Opens a connection for the caller, who must hold a slot of the pool. An interrupt shuts the connection down.
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
                let (mut socket, mut route) = address.open(&self.dialer, deadline, interrupter)?;
                if let Some(parts) = &tls {
                    login::encrypt(&mut socket, parts, deadline)?;
                }
                let mut wire = Wire::new(socket);
                let cancel = login::log_in(&mut wire, &self.config, password, deadline)?;
                if let Some(route) = &mut route {
                    route.answered();
                }
                let (dialer, under_way) = (self.dialer.clone(), Arc::clone(&self.ending));
                Ok(PostgresConnection::new(wire, files, CancelTarget { address, tls, dialer, under_way }, cancel))
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

    /// Runs statements with the required settings, and returns the rows if they prove the settings.
    fn ask(
        &self,
        connection: &mut PostgresConnection,
        statements: &[Statement<'_>],
        blockers: Option<&Blockers<'_>>,
        deadline: Instant,
    ) -> Result<Rows, Error> {
        // The minimum is one millisecond, because a `statement_timeout` of zero means no limit.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let milliseconds = left.as_millis().to_string();
        let settings = [Statement { sql: SETTINGS, parameters: &[Some(&milliseconds)] }];
        let kept = self.has_sessions.load(Ordering::Acquire);
        let rows = connection.run(&[&settings[..], statements].concat(), kept, blockers, deadline)?;
        match settings::are_proven(statements, &rows) {
            true => Ok(rows),
            // The transaction may be committed, but without the settings, a crash could revert the commit.
            false => Err(without_settings().sent(true).into()),
        }
    }
}

fn without_settings() -> net::Error {
    let detail = "the transaction lacked the required settings: a trigger on the table, or a pooler, changed \
                  synchronous_commit, client_min_messages or lock_timeout";
    // With the kind `Io`, the client would retry on another connection. The same trigger or pooler would change the
    // settings there, too.
    net::Error::new(NetErrorKind::Connect, detail)
}
