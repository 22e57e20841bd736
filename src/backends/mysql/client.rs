//! The blocking client, which sends one statement and returns one result.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::config::MySqlConfig;
use super::connection::{LOCK_WAIT, MySqlConnection, StatementResult};
use super::error::Error;
use super::handshake::shake_hands;
use super::packet::malformed;
use super::session;
use crate::net::calls::{ActiveCall, Exchange};
use crate::net::database_url::Address;
use crate::net::dial::{Dialer, System};
use crate::net::pool::{MAX_IDLE_DIRECT, Pool};
use crate::net::secret::Secret;
use crate::net::tls::ClientTls;
use crate::store::CallContext;
use crate::util::cancel::CancelToken;
use crate::util::config_error::{ConfigError, require};

/// Number of idle connections that the client keeps open for later calls, in addition to those of a recent burst.
const KEPT_CONNECTIONS: usize = 4;

/// A blocking client for one server.
pub(crate) struct MySqlClient {
    pub(super) config: MySqlConfig,
    /// `true` once the columns of the store's table were correct.
    is_checked: AtomicBool,
    /// `None` for unencrypted connections.
    tls: Option<ClientTls>,
    dialer: Dialer,
    idle: Pool<MySqlConnection>,
}

impl MySqlClient {
    /// Creates a client without connecting.
    pub(crate) fn new(config: MySqlConfig) -> Result<Self, ConfigError> {
        let mode = config.tls_mode()?;
        let missing = || ConfigError::new("user", "missing", "set a user in the URL or with with_user");
        let user = config.user.as_deref().ok_or_else(missing)?;
        config.password.check(false)?;
        let fixed = config.password.fixed.as_ref().map_or("", Secret::expose);
        for (field, text) in [("user", user), ("password", fixed), ("database", &config.database)] {
            require(!text.contains('\0'), field, "unusable", "a NUL character is not allowed")?;
        }
        let tls = mode.client(&config.tls.clone().unwrap_or_default(), config.address.host())?;
        let (dialer, idle) = (Dialer::new(System), Pool::new(KEPT_CONNECTIONS, MAX_IDLE_DIRECT));
        Ok(Self { config, is_checked: AtomicBool::new(false), tls, dialer, idle })
    }

    /// Returns the server and the database, without secrets.
    pub(crate) fn location(&self) -> String {
        let MySqlConfig { address, database, .. } = &self.config;
        match address {
            Address::Tcp { .. } => format!("{address}/{database}"),
            Address::Unix(_) => format!("{address}, database {database}"),
        }
    }

    /// Sends a statement and returns its result.
    ///
    /// `is_read` is `true` if the statement changes nothing. The client may repeat such a statement, even if the server
    /// may have received the first copy.
    pub(crate) fn query(&self, sql: &str, is_read: bool, call: &CallContext) -> Result<StatementResult, Error> {
        self.run(is_read, call, |connection, deadline| {
            if is_read {
                return connection.query(sql, deadline).map_err(Error::sent);
            }
            session::prepare_write(connection, LOCK_WAIT, deadline)?;
            write(connection, sql, deadline)
        })
    }

    /// Runs statements on a connection of the pool.
    pub(super) fn run<T>(
        &self,
        is_read: bool,
        call: &CallContext,
        run: impl Fn(&mut MySqlConnection, Instant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (cancel, call, mut used) = (call.cancel(), ActiveCall::begin(call), None);
        let versions = [0, self.tls.as_ref().map_or(0, ClientTls::refresh)];
        let exchange =
            Exchange { pool: &self.idle, place: &|| self.location(), versions, connected_by: call.deadline, is_read };
        let open = || self.open(&call, cancel);
        let run = |connection: &mut MySqlConnection| run(connection, call.deadline);
        let answer = call.exchange(exchange, &mut used, open, run, |_, _| false);
        call.end(answer, [&self.idle], used)
    }

    /// Opens a connection with a session for this call.
    fn open(&self, call: &ActiveCall, cancel: &CancelToken) -> Result<MySqlConnection, Error> {
        let log_in = |password: Option<&str>| {
            ClientTls::open(self.tls.as_ref(), |files, tls| {
                let (socket, mut route) = self.config.address.open(&self.dialer, call.deadline, &call.interrupter)?;
                let mut connection = MySqlConnection::new(socket, files);
                shake_hands(&mut connection, &self.config, password.unwrap_or_default(), tls.as_ref(), call.deadline)?;
                if let Some(route) = &mut route {
                    route.answered();
                }
                session::set_up(&mut connection, &self.is_checked, call.deadline)?;
                Ok(connection)
            })
        };
        // The codes 1045 and 1698 mean that the server denies access to the user, usually because of the password.
        let is_refused = |error: &Error| matches!(error.code(), Some(1045 | 1698));
        self.config.password.log_in(call.deadline, cancel, log_in, is_refused)
    }
}

/// Sends a write.
pub(super) fn write(connection: &mut MySqlConnection, sql: &str, deadline: Instant) -> Result<StatementResult, Error> {
    match connection.query(sql, deadline) {
        // A write returns no rows. If the server returns rows, the outcome of the write is therefore unknown.
        Ok(answer) if answer.is_rows => Err(malformed("rows for a write").sent(true).into()),
        other => other.map_err(Error::sent),
    }
}
