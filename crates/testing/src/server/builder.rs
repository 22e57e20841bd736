//! The builder of a server.

use std::collections::BTreeSet;
use std::io;

use crate::server::api_server::ApiServer;
use crate::server::shared::{ExpiredWatch, ServerState};
use crate::server::users::{User, Users};
use crate::store::table::ObjectTable;
use crate::util::setters;
use crate::wire::tls::Tls;

const NAMESPACES: [&str; 3] = ["default", "kube-system", "leasehold-tests"];
const HISTORY: usize = 1000;

/// A builder of an [`ApiServer`]; see [`ApiServer::builder`].
///
/// # Examples
/// ```
/// use leasehold_testing::{ApiServer, User};
///
/// let server = ApiServer::builder()
///     .tls(true)
///     .user(User::candidate())
///     .namespace("batch")
///     .start()?;
/// assert!(server.url().starts_with("https://127.0.0.1:"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct ApiServerBuilder {
    tls: bool,
    users: Vec<User>,
    namespaces: BTreeSet<String>,
    history: usize,
    expired: ExpiredWatch,
}

/// Methods that start a server.
impl ApiServer {
    /// Starts a server without TLS and without users.
    ///
    /// # Errors
    ///
    /// Returns an error if no socket or no thread is available.
    pub fn start() -> io::Result<ApiServer> {
        ApiServer::builder().start()
    }

    /// Returns a builder of a server.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder {
            tls: false,
            users: Vec::new(),
            namespaces: NAMESPACES.map(str::to_owned).into(),
            history: HISTORY,
            expired: ExpiredWatch::default(),
        }
    }
}

setters! {
    impl ApiServerBuilder;

    /// Sets whether the server uses HTTPS.
    ///
    /// Each server creates its own certificate authority ([`ApiServer::ca_pem`]).
    ///
    /// Defaults to plain HTTP.
    pub fn tls(mut self, tls: bool) { self.tls = tls }

    /// Adds a user, or replaces the user of the same name.
    ///
    /// A server with users requires credentials. A request without credentials returns 401. A request without the
    /// required right returns 403.
    ///
    /// Defaults to no users and no restrictions.
    pub fn user(mut self, user: User) { self.users.push(user) }

    /// Adds a namespace.
    ///
    /// Defaults to the namespaces `default`, `kube-system` and `leasehold-tests`.
    pub fn namespace(mut self, name: impl Into<String>) { self.namespaces.insert(name.into()) }

    /// Sets the number of changes that the server keeps for watches that resume.
    ///
    /// A watch that resumes from before the oldest change is [expired](ExpiredWatch).
    ///
    /// Defaults to 1000.
    pub fn history(mut self, changes: usize) { self.history = changes }

    /// Sets how the server refuses a watch whose version is too old.
    ///
    /// Defaults to [`ExpiredWatch::Event`].
    pub fn expired_watch(mut self, expired: ExpiredWatch) { self.expired = expired }
}

impl ApiServerBuilder {
    /// Starts the server on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Returns an error if no socket or no thread is available.
    pub fn start(self) -> io::Result<ApiServer> {
        let users = Users::default();
        for user in self.users {
            users.set(user);
        }
        let tls = self.tls.then(Tls::new).transpose()?;
        let store = ObjectTable::new(self.namespaces, self.history);
        ApiServer::launch(ServerState::new(store, users, tls, self.expired))
    }
}
