//! The blocking client: sends one request and returns one response.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::http::{self, HeaderName, HeaderValue, header};

use super::auth::{Auth, Credentials, Limits};
use super::config::ClientConfig;
use super::counters::{ClientCounters, write_prometheus};
use super::error::{ClientError, ErrorKind};
use super::request::{Method, Request};
use super::request_log::ApiRequestLog;
use super::response::{Response, accept};
use super::stream::Stream;
use crate::net::MAX_WAIT;
use crate::net::calls::{ActiveCall, CallError, Exchange};
use crate::net::dial::{Dialer, Network, System};
use crate::net::endpoint::Endpoint;
use crate::net::http::{AgentHandle, HttpConnector, Opening, from_ureq, new_agent};
use crate::net::interrupt::{Interrupter, interrupted};
use crate::net::pool::{Demand, MAX_IDLE, Pool, Versions};
use crate::net::proxy::Proxy;
use crate::net::redact::Redacted;
use crate::net::stream::LineStream;
use crate::net::tls::ClientTls;
use crate::store::CallContext;
use crate::util::debug_fields::debug_fields;

/// A blocking client for one cluster.
///
/// Clones are cheap and share connections and credentials. A client is thread-safe.
///
/// # Examples
///
/// ```no_run
/// use leasehold::LeaderElector;
/// use leasehold::kubernetes::{Client, ClientConfig};
///
/// // Two electors share the connections of a client.
/// let client = Client::new(ClientConfig::infer()?)?;
/// let jobs = LeaderElector::builder("jobs").start_with_client(client.clone())?;
/// let reports = LeaderElector::builder("reports").start_with_client(client)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<ClientShared>,
}

struct ClientShared {
    source: String,
    endpoint: Endpoint,
    user_agent: String,
    default_namespace: String,
    /// `None` for plain HTTP.
    tls: Option<ClientTls>,
    proxy: Option<Proxy>,
    proxy_tls: Option<ClientTls>,
    auth: Auth,
    impersonation: Vec<(HeaderName, HeaderValue)>,
    dialer: Dialer,
    log: ApiRequestLog,
    idle: Pool<Arc<AgentHandle>>,
}

/// Number of idle connections that the client keeps open for later calls, in addition to those of a recent burst.
const KEPT_AGENTS: usize = 8;

/// The versions of the certificate files for the server and for the proxy.
type FileVersions = [u64; 2];

/// The parts of a request that stay the same when the client repeats the request.
struct ApiAttempt<'a> {
    request: &'a Request<'a>,
    body: Option<Vec<u8>>,
    deadline: Instant,
    place: String,
}

impl Client {
    /// Creates a client from `config`.
    ///
    /// Does not connect.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] in these cases:
    ///
    /// - Certificates, keys or headers of the configuration are unusable.
    /// - A token or password would go to another machine without TLS.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        Self::with_network(config, System)
    }

    /// Sets the rules for idle connections.
    #[cfg(test)]
    pub(super) fn set_idle(&mut self, max_idle: Duration, far: crate::net::pool::FarIdle) {
        let idle = &mut Arc::get_mut(&mut self.shared).expect("no clones").idle;
        *idle = Pool::new(KEPT_AGENTS, max_idle);
        idle.far = far;
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> &Pool<Arc<AgentHandle>> {
        &self.shared.idle
    }

    pub(super) fn with_network(config: ClientConfig, network: impl Network) -> Result<Self, ClientError> {
        config.check_secrecy(str::to_owned)?;
        let has_certificate = config.tls.identity.is_some();
        let https_proxy = config.proxy.as_ref().filter(|proxy| proxy.endpoint.is_https());
        let proxy_tls = https_proxy.map(|proxy| {
            let tls = ClientTls::new(config.tls.for_proxy(), &proxy.endpoint.host);
            tls.map_err(|e| e.during(&proxy.place()))
        });
        let proxy_tls = proxy_tls.transpose()?;
        let is_https = config.endpoint.is_https();
        let tls = is_https.then(|| ClientTls::new(config.tls, &config.endpoint.host)).transpose()?;
        // Adds the proxy, because the same address behind two proxies may be two clusters.
        let source = match &config.proxy {
            Some(proxy) => format!("{}, through {}", config.source, proxy.place()),
            None => config.source,
        };
        let shared = ClientShared {
            auth: Auth::new(config.auth, has_certificate)?,
            impersonation: config.impersonation.headers()?,
            source,
            endpoint: config.endpoint,
            user_agent: config.user_agent,
            default_namespace: config.default_namespace,
            tls,
            proxy: config.proxy,
            proxy_tls,
            dialer: Dialer::new(network),
            log: ApiRequestLog::default(),
            idle: Pool::new(KEPT_AGENTS, MAX_IDLE),
        };
        Ok(Client { shared: Arc::new(shared) })
    }

    /// Returns the namespace of the kubeconfig context, else of the pod, else `default`.
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }

    /// Returns the URL of the server, without credentials.
    pub(crate) fn server(&self) -> String {
        self.shared.endpoint.url()
    }

    /// Writes the counters of several clients as metrics in the text format of Prometheus.
    ///
    /// The metrics count the runs of credential plugins, and the reloads of certificate and token files. Each client
    /// must have a different server, which is the label `server`. Several electors may share a client, so these metrics
    /// do not belong to an elector. Never blocks.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// let client = Client::new(ClientConfig::new("http://127.0.0.1:8001")?)?;
    /// let mut text = String::new();
    /// Client::write_prometheus([&client], &mut text).expect("writing to a String does not fail");
    /// assert!(text.contains("leasehold_client_plugin_runs_total{server=\"http://127.0.0.1:8001\"} 0"));
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn write_prometheus<'a>(clients: impl IntoIterator<Item = &'a Self>, out: &mut impl fmt::Write) -> fmt::Result {
        let counters: Vec<_> = clients.into_iter().map(Self::counters).collect();
        write_prometheus(&counters, out)
    }

    pub(super) fn counters(&self) -> ClientCounters {
        let ClientShared { auth, tls, proxy_tls, .. } = &*self.shared;
        let mut counters = ClientCounters { server: self.server(), ..ClientCounters::default() };
        auth.count(&mut counters);
        // The server and the proxy share the file of authorities. Adding both counters would count a reload twice.
        if let Some(tls) = tls.as_ref().or(proxy_tls.as_ref()) {
            counters.certificate_reloads = tls.version();
            counters.certificate_reload_failures = tls.refusals();
        }
        counters
    }

    /// Returns the place where the configuration was found, for messages.
    pub(crate) fn source(&self) -> &str {
        &self.shared.source
    }

    /// Sends a request and blocks until the response arrives.
    ///
    /// The client repeats a request at most once per cause:
    ///
    /// - After a 401, the client searches for newer credentials, including client certificate files, and repeats the
    ///   request with the newer credentials. A server sends a 401 before it executes the request.
    /// - If the client rejects the server's certificate, or TLS fails before anything was sent, the client reads the
    ///   certificate files again. If a file has changed, the client repeats the request.
    /// - If the connection of a `GET` breaks, the client repeats the `GET` on a new connection.
    /// - If the connection was closed before the request, the client repeats the request on a new connection.
    ///
    /// The client never repeats a write if any part of the write may have been sent.
    ///
    /// The timeout of `context` includes credentials, name lookup, connect, TLS, sending and receiving.
    ///
    /// After cancellation the method returns [`ErrorKind::Interrupted`] without delay and closes its connection.
    /// Cancellation also ends a name lookup, a connect, or the wait for a credential plugin; the plugin itself
    /// continues. If the server has already answered, even with a 401, the method returns this response. Cancellation
    /// does not affect other requests and their connections.
    pub(crate) fn request(&self, request: Request<'_>, context: &CallContext) -> Result<Response, ClientError> {
        let attempt = ApiAttempt::new(&request, context)?;
        let (shared, call, mut used) = (&*self.shared, ActiveCall::begin(context), None);
        let result = shared.repeat_when_rejected(&attempt, &call.interrupter, |credentials| {
            let versions = shared.versions(credentials);
            let exchange = Exchange {
                pool: &shared.idle,
                place: &|| attempt.place.clone(),
                versions,
                connected_by: call.deadline,
                is_read: request.method == Method::Get,
            };
            let open = || shared.new_handle(credentials, &call.interrupter, Opening::default());
            let run = |handle: &mut Arc<AgentHandle>| shared.exchange(&attempt, credentials, handle);
            call.exchange(exchange, &mut used, open, run, |_, _| false)
        });
        let result = call.end(result, [&shared.idle], used);
        result.map_err(|e| e.during(&attempt.place))
    }

    /// Opens a stream, such as a watch.
    ///
    /// The timeout of `context` limits everything before the first line: credentials, name lookup, connect, TLS and the
    /// head of the response. After that, `silence` is the longest time between two pieces of data. Any thread may
    /// cancel the stream, even while this method opens it.
    pub(crate) fn stream(
        &self,
        request: Request<'_>,
        silence: Duration,
        context: &CallContext,
    ) -> Result<Stream, ClientError> {
        let (interrupter, hook) = Interrupter::hooked(context.cancel());
        let silence = silence.clamp(Duration::from_millis(1), MAX_WAIT);
        let attempt = ApiAttempt::new(&request, context)?;
        let opening = Opening::until(attempt.deadline);
        let opened = self.shared.repeat_when_rejected(&attempt, &interrupter, |credentials| {
            // The slot is held until the head of the response has arrived.
            let demand = Demand { idle: None, deadline: attempt.deadline, interrupter: &interrupter };
            let (mut slot, _) = self.shared.idle.take(&demand)?;
            let handle = self.shared.new_handle(credentials, &interrupter, opening.clone())?;
            let agent = handle.agent.clone();
            let (call, _hidden) = self.shared.http_request(&attempt, credentials)?;
            let call = agent.configure_request(call).timeout_per_read(Some(silence)).build();
            let began = Instant::now();
            let answer = agent.run(call).map_err(|e| ClientError::from(from_ureq(e)));
            self.shared.log.note(&attempt.place, began, &answer, credentials);
            slot.end_request(answer.is_ok());
            Ok((accept(answer?, credentials)?.into_body(), handle, credentials.clone()))
        });
        opening.finish();
        let (body, handle, credentials) = opened.map_err(|e| attempt.explain(e, &interrupter))?;
        let lines = LineStream::new(body, handle, interrupter, hook);
        Ok(Stream { lines, credentials, place: format!("{} (stream)", attempt.place) })
    }
}

impl ClientShared {
    /// Calls `run`, and again if a newer certificate file or newer credentials may let the request succeed.
    ///
    /// After a TLS failure, `run` is called again only if no part of the request was sent.
    fn repeat_when_rejected<T>(
        &self,
        attempt: &ApiAttempt<'_>,
        interrupter: &Interrupter,
        mut run: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let limits = Limits { deadline: attempt.deadline, interrupter };
        let credentials = self.auth.current(limits)?;
        let files = self.files(ClientTls::refresh);
        let result = run(&credentials).or_else(|e| {
            let has_newer_file = self.has_newer_file(files, |tls, used| tls.has_newer_after(e.net_kind(), used));
            if has_newer_file && !e.maybe_sent() { run(&credentials) } else { Err(e) }
        });
        let rejection = match result {
            Err(e) if e.status().is_some_and(|s| s.code == 401) => e,
            other => return other,
        };
        let has_newer_file = self.has_newer_file(files, ClientTls::has_newer_identity);
        match self.auth.after_rejection(&credentials, limits) {
            Ok(Some(newer)) => run(&newer),
            Ok(None) | Err(_) if has_newer_file => run(&credentials),
            Ok(None) => Err(rejection),
            // The caller cancelled the search for newer credentials, so there is no failure to log.
            Err(_) if interrupter.is_interrupted() => Err(rejection),
            // The caller must get the 401. The log has the reason why no newer credentials exist.
            Err(e) => {
                self.log.rejected(Instant::now(), &e);
                Err(rejection)
            }
        }
    }

    /// Returns the result of `of` for the TLS settings of server and proxy, or 0 without TLS.
    fn files(&self, of: impl Fn(&ClientTls) -> u64) -> FileVersions {
        [&self.tls, &self.proxy_tls].map(|tls| tls.as_ref().map_or(0, &of))
    }

    fn has_newer_file(&self, files: FileVersions, is_newer: impl Fn(&ClientTls, u64) -> bool) -> bool {
        let [server, proxy] = [(&self.tls, files[0]), (&self.proxy_tls, files[1])]
            .map(|(tls, files)| tls.as_ref().is_some_and(|tls| is_newer(tls, files)));
        server || proxy
    }

    fn versions(&self, credentials: &Credentials) -> Versions {
        [credentials.identity_version, self.files(ClientTls::version).iter().sum()]
    }

    fn new_handle(
        &self,
        credentials: &Credentials,
        interrupter: &Interrupter,
        opening: Opening,
    ) -> Result<Arc<AgentHandle>, ClientError> {
        let versions = self.versions(credentials);
        let tls = self.tls.as_ref().map(|tls| tls.parts(credentials.identity.as_ref())).transpose()?;
        let connector = HttpConnector {
            target: self.endpoint.clone(),
            proxy: self.proxy.clone(),
            proxy_tls: self.proxy_tls.as_ref().map(|tls| tls.parts(None)).transpose()?,
            tls,
            dialer: self.dialer.clone(),
            call: Arc::default(),
            opening,
        };
        Ok(new_agent(connector, versions, &self.user_agent, interrupter)?)
    }

    fn http_request(
        &self,
        attempt: &ApiAttempt<'_>,
        credentials: &Credentials,
    ) -> Result<(http::Request<Vec<u8>>, Redacted), ClientError> {
        let uri = self.endpoint.uri(attempt.request.path, attempt.request.query)?;
        let mut call = http::Request::new(attempt.body.clone().unwrap_or_default());
        *call.method_mut() = attempt.request.method.to_http();
        *call.uri_mut() = uri;
        if attempt.body.is_some() {
            call.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok((call, Redacted::new(credentials.authorization.as_ref(), &self.impersonation)))
    }

    fn exchange(
        &self,
        attempt: &ApiAttempt<'_>,
        credentials: &Credentials,
        handle: &AgentHandle,
    ) -> Result<Response, ClientError> {
        let left = attempt.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::new(ErrorKind::Timeout, "no time was left to send the request"));
        }
        let (call, _hidden) = self.http_request(attempt, credentials)?;
        let empty = attempt.body.is_none();
        let call = handle.agent.configure_request(call).timeout_global(Some(left)).build();
        let began = Instant::now();
        let answer = match empty {
            true => handle.agent.run(call.map(|_| ())),
            false => handle.agent.run(call),
        };
        let answer = answer.map_err(|e| ClientError::from(from_ureq(e)));
        self.log.note(&attempt.place, began, &answer, credentials);
        let answer = answer?;
        handle.note_date(&answer);
        let answer = accept(answer, credentials)?;
        Ok(Response { status: answer.status().as_u16(), body: handle.read_body(answer)? })
    }
}

impl<'a> ApiAttempt<'a> {
    fn new(request: &'a Request<'a>, context: &CallContext) -> Result<Self, ClientError> {
        let place = format!("{} {}", request.method, request.path);
        let invalid = |_| ClientError::config(place.clone(), "the body is not representable as JSON");
        let body = request.body.map(|value| serde_json::to_vec(value).map_err(invalid)).transpose()?;
        Ok(ApiAttempt { request, body, deadline: Instant::now() + context.remaining().min(MAX_WAIT), place })
    }

    /// Adds the request to the error.
    ///
    /// If an interrupt has broken the connection, returns an interrupt instead of the error.
    fn explain(&self, error: ClientError, interrupter: &Interrupter) -> ClientError {
        let error = match error.status() {
            None if interrupter.is_interrupted() => interrupted().sent(error.maybe_sent()).into(),
            _ => error,
        };
        error.during(&self.place)
    }
}

debug_fields!(impl Debug for Client {
    self => server: self.shared.endpoint.url(), default_namespace: self.shared.default_namespace, ..
});
