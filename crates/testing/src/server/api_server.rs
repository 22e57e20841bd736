//! The public type of the server.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde_json::json;

use crate::fault::kind::Fault;
use crate::fault::rules::FaultHandle;
use crate::server::listener::{Reserved, RunningServer};
use crate::server::log::RequestLog;
use crate::server::shared::ServerState;
use crate::server::users::User;
use crate::util::debug_fields;

/// An in-memory Kubernetes API server on a port of 127.0.0.1.
///
/// All methods may be called from any thread at any time. Dropping the server cuts every connection and ends its
/// threads.
///
/// # Examples
/// ```
/// use leasehold_testing::ApiServer;
///
/// let server = ApiServer::start()?;
/// assert!(server.url().starts_with("http://127.0.0.1:"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ApiServer {
    pub(crate) server: Arc<ServerState>,
    running: Mutex<Option<RunningServer>>,
    reserved: Reserved,
}

/// The start of a server, and the data that clients need to connect.
impl ApiServer {
    pub(crate) fn launch(server: ServerState) -> io::Result<ApiServer> {
        let server = Arc::new(server);
        let reserved = Reserved::new()?;
        let running = RunningServer::start(&server, reserved.port)?;
        Ok(ApiServer { server, running: Mutex::new(Some(running)), reserved })
    }

    /// Returns the server's URL without a trailing slash: `https://127.0.0.1:…` or `http://…`.
    ///
    /// The URL stays the same after [`restart`](ApiServer::restart). The certificate is also valid for `localhost`,
    /// `kubernetes.default` and `kubernetes.default.svc`.
    pub fn url(&self) -> String {
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.reserved.port)
    }

    /// Returns the certificate authority to trust, as PEM, or `None` without TLS.
    pub fn ca_pem(&self) -> Option<String> {
        self.server.tls.as_ref().map(|tls| tls.ca_pem.clone())
    }

    /// Returns a kubeconfig (YAML) with one context, in the namespace `default`, for `user`.
    ///
    /// The kubeconfig contains the current token of the user. If the server has no users, any name is valid and no
    /// credentials are written.
    ///
    /// # Panics
    ///
    /// Panics if the server has users, and `user` is not among them.
    pub fn kubeconfig(&self, user: &str) -> String {
        let has_users = !self.server.users.is_empty();
        let token = has_users.then(|| ("token", quoted(self.expect_user(user).token())));
        self.render(user, token.as_slice())
    }

    /// Returns a kubeconfig with a new client certificate instead of the token.
    ///
    /// # Panics
    ///
    /// Panics without TLS, or if the server has users, and `user` is not among them.
    pub fn kubeconfig_with_certificate(&self, user: &str) -> String {
        let (certificate, key) = self.client_certificate(user);
        let [certificate, key] = [certificate, key].map(|pem| BASE64_STANDARD.encode(pem));
        self.render(user, &[("client-certificate-data", certificate), ("client-key-data", key)])
    }

    /// Returns a kubeconfig in YAML. `credentials` are pairs of a name and a value in YAML.
    fn render(&self, user: &str, credentials: &[(&str, String)]) -> String {
        let mut cluster = vec![("server", quoted(&self.url()))];
        cluster.extend(self.ca_pem().map(|pem| ("certificate-authority-data", BASE64_STANDARD.encode(pem))));
        let written = |members: &[(&str, String)]| -> String {
            members.iter().map(|(name, value)| format!("    {name}: {value}\n")).collect()
        };
        let cluster = written(&cluster);
        let credentials = match credentials {
            [] => "  user: {}\n".to_owned(),
            members => format!("  user:\n{}", written(members)),
        };
        let user = quoted(user);
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: testing\n  cluster:\n{cluster}\
             users:\n\
             - name: {user}\n{credentials}\
             contexts:\n\
             - name: testing\n  context:\n    cluster: testing\n    user: {user}\n    namespace: default\n\
             current-context: testing\n"
        )
    }

    /// Writes [`kubeconfig`](ApiServer::kubeconfig) to a file.
    ///
    /// Replaces the whole file atomically, so that a process never reads a partial file.
    ///
    /// # Panics
    ///
    /// Panics if the server has users, and `user` is not among them.
    ///
    /// # Errors
    ///
    /// Returns an error if the file, or a second file in the same directory, cannot be written.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>, user: &str) -> io::Result<()> {
        let mut new = path.as_ref().as_os_str().to_owned();
        new.push(format!(".{:x}.new", fastrand::u64(..)));
        std::fs::write(&new, self.kubeconfig(user))?;
        std::fs::rename(new, path)
    }

    /// Returns a new client certificate for a user and its private key, both as PEM.
    ///
    /// # Panics
    ///
    /// Panics without TLS, or if the server has users, and `user` is not among them.
    pub fn client_certificate(&self, user: &str) -> (String, String) {
        if !self.server.users.is_empty() {
            self.expect_user(user);
        }
        let tls = self.server.tls.as_ref();
        let tls = tls.expect("client certificates need a server with TLS");
        tls.issue(user).expect("a certificate can be issued")
    }

    fn expect_user(&self, name: &str) -> User {
        let user = self.server.users.find(name);
        user.unwrap_or_else(|| panic!("unknown user {name:?} of the testing server"))
    }
}

/// Changes to the users of a running server.
impl ApiServer {
    /// Adds a user, or replaces the user of the same name.
    ///
    /// Requests in flight and open watches are not affected.
    pub fn set_user(&self, user: User) {
        self.server.users.set(user);
    }

    /// Gives a user another token. The old token is no longer accepted.
    ///
    /// # Panics
    ///
    /// Panics if there is no such user.
    pub fn set_token(&self, user: &str, token: impl Into<String>) {
        self.server.users.set(self.expect_user(user).with_token(token));
    }
}

/// The request log, faults, pauses and stops.
impl ApiServer {
    /// Returns the requests so far, in order of arrival; at most the latest hundred thousand.
    pub fn requests(&self) -> Vec<RequestLog> {
        self.server.log.all()
    }

    /// Removes all requests from the log.
    pub fn clear_requests(&self) {
        self.server.log.clear();
    }

    /// Adds a fault, which stays active until it is removed.
    ///
    /// [`FaultHandle::remove`] or [`clear_faults`](ApiServer::clear_faults) removes the fault. Dropping the handle does
    /// not remove the fault.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        let rule = self.server.rules.add(fault);
        let server = Arc::downgrade(&self.server);
        let wake = move || server.upgrade().iter().for_each(|server| server.wake());
        wake();
        FaultHandle::new(rule, self.server.signal.clone(), Arc::new(wake))
    }

    /// Ends all faults, and releases the requests that they hold.
    pub fn clear_faults(&self) {
        self.server.rules.clear();
        self.server.wake();
    }

    /// Cuts every open connection. New connections are accepted.
    ///
    /// A request that a fault delays during this call may still be applied later.
    pub fn disconnect_all(&self) {
        self.server.disconnect_all();
    }

    /// Makes the server hang until [`resume`](ApiServer::resume).
    ///
    /// Open connections stay open and new connections are accepted, but no request is applied or answered. On resume,
    /// all pending requests are applied, including the requests of clients that have disconnected.
    pub fn pause(&self) {
        self.server.paused.store(true, Ordering::SeqCst);
        self.server.wake();
    }

    /// Ends a [`pause`](ApiServer::pause).
    pub fn resume(&self) {
        self.server.paused.store(false, Ordering::SeqCst);
        self.server.wake();
    }

    /// Closes the port and every connection, and ends the threads.
    ///
    /// The content of the store stays and remains accessible. Does nothing if the server is stopped.
    pub fn stop(&self) {
        if let Some(running) = self.running.lock().take() {
            running.stop(&self.server);
        }
    }

    /// Stops the server, if it runs, and starts it again on the same port.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread can be started, or, except on Linux, if another socket has taken the port.
    pub fn restart(&self) -> io::Result<()> {
        let mut running = self.running.lock();
        if let Some(running) = running.take() {
            running.stop(&self.server);
        }
        *running = Some(RunningServer::start(&self.server, self.reserved.port)?);
        Ok(())
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns a text quoted as in JSON, which is also valid YAML.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

debug_fields!(impl Debug for ApiServer { self => url: self.url(), .. });
