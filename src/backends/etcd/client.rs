//! The blocking client of etcd, which tries one member after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::{self, HeaderName, HeaderValue, header};

use super::config::{EtcdConfig, EtcdUser};
use super::error::Error;
use super::login::{EtcdLogin, Token, refusal};
use crate::net::calls::{ActiveCall, CallError, Exchange, late};
use crate::net::confidential::Post;
use crate::net::dial::{Dialer, System};
use crate::net::endpoint::Endpoint;
use crate::net::error::{self as net, NetErrorKind};
use crate::net::http::{AgentHandle, HttpConnector, Opening, from_ureq, is_compressed, new_agent, read_body};
use crate::net::interrupt::Interrupter;
use crate::net::pool::{Demand, MAX_IDLE_DIRECT, Pool, PoolSlot};
use crate::net::redact::Redacted;
use crate::net::stream::LineStream;
use crate::net::tls::config::refuse;
use crate::net::tls::{ClientTls, TlsParts};
use crate::net::{MAX_WAIT, USER_AGENT};
use crate::store::CallContext;
use crate::util::config_error::{ConfigError, require};
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

/// Number of idle connections that the client keeps open to each member, in addition to those of a recent burst.
const KEPT_AGENTS: usize = 4;

/// The path of a login.
const LOGIN: &str = "/v3/auth/authenticate";

/// A request header that makes a member without a leader fail immediately.
///
/// Without the header, the member fails only after several seconds.
const HAS_LEADER: HeaderName = HeaderName::from_static("grpc-metadata-hasleader");

/// A blocking client for one cluster.
pub(crate) struct EtcdClient {
    members: Vec<Member>,
    /// The index of the member to try first.
    ///
    /// A success sets this index to the member that answered. A failed attempt sets this index to the next member.
    current: AtomicUsize,
    login: Option<EtcdLogin>,
    dialer: Dialer,
}

struct Member {
    endpoint: Endpoint,
    /// `None` for plain HTTP.
    tls: Option<ClientTls>,
    idle: Pool<Arc<AgentHandle>>,
}

/// A request, with its timeout and its cancel token.
#[derive(Clone, Copy)]
pub(crate) struct EtcdRequest<'a> {
    pub(crate) path: &'static str,
    pub(crate) body: &'a Value,
    /// `true` if the request changes nothing.
    ///
    /// The client may repeat a read, even if etcd may have received the first copy.
    pub(crate) is_read: bool,
    pub(crate) call: &'a CallContext,
}

/// The response to a request.
pub(crate) struct EtcdAnswer {
    pub(crate) body: Vec<u8>,
    /// `true` if etcd refused the login token of an earlier copy of the request.
    ///
    /// A comparison in this response may then have failed because etcd has applied the earlier copy.
    pub(crate) is_second: bool,
}

/// One request to one member.
#[derive(Clone, Copy)]
struct MemberAttempt<'a> {
    member: &'a Member,
    request: EtcdRequest<'a>,
    body: &'a [u8],
    /// The deadline for connecting, after which the client tries another member.
    connected_by: Instant,
    deadline: Instant,
    interrupter: &'a Interrupter,
}

impl EtcdClient {
    /// Creates a client without connecting.
    pub(crate) fn new(config: EtcdConfig) -> Result<Self, ConfigError> {
        if let Some(EtcdUser { name, password }) = &config.user {
            require(!name.is_empty(), "user", "missing", "a password needs a user, in the URL or by with_user")?;
            password.check(true)?;
        }
        config.check_secrecy()?;
        let EtcdConfig { endpoints, tls, user, .. } = config;
        let member = |endpoint: Endpoint| {
            let client_tls = || ClientTls::new(tls.settings.clone(), &endpoint.host);
            let tls = endpoint.is_https().then(client_tls).transpose().map_err(|error| refuse("tls", &error))?;
            Ok(Member { endpoint, tls, idle: Pool::new(KEPT_AGENTS, MAX_IDLE_DIRECT) })
        };
        Ok(Self {
            members: endpoints.into_iter().map(member).collect::<Result<_, ConfigError>>()?,
            current: AtomicUsize::new(0),
            login: user.map(EtcdLogin::new),
            dialer: Dialer::new(System),
        })
    }

    /// Returns the URLs of the members, without credentials.
    pub(crate) fn location(&self) -> String {
        let urls: Vec<_> = self.members.iter().map(|member| member.endpoint.url()).collect();
        urls.join(", ")
    }

    /// Sends a request, and returns the body of a successful response.
    ///
    /// If a member may have received a write, the client does not send the write to another member. After a second
    /// copy, a failed comparison could be an effect of the first copy.
    pub(crate) fn request(&self, request: EtcdRequest<'_>) -> Result<EtcdAnswer, Error> {
        let call = ActiveCall::begin(request.call);
        let body = request.body.to_string().into_bytes();
        let (interrupter, mut used) = (&call.interrupter.clone(), None);
        let ask = |number: usize, connected_by, deadline| {
            let member = &self.members[number];
            let attempt = MemberAttempt { member, request, body: &body, connected_by, deadline, interrupter };
            // A connection to the last member cannot serve this member.
            used = None;
            self.attempt(&call, attempt, &mut used)
        };
        let answer = self.on_some_member(interrupter, call.deadline, request.is_read, ask);
        call.end(answer, self.members.iter().map(|member| &member.idle), used)
    }

    /// Opens a stream, and returns once the head of a 2xx response has arrived.
    ///
    /// Returns the lines, the deadline for the first line, and the token of the request. The caller must end the
    /// deadline.
    pub(super) fn open(
        &self,
        request: EtcdRequest<'_>,
        silence: Duration,
    ) -> Result<(LineStream, Opening, Option<Token>), Error> {
        let (interrupter, hook) = Interrupter::hooked(request.call.cancel());
        let deadline = Instant::now() + request.call.remaining().min(MAX_WAIT);
        let body = request.body.to_string().into_bytes();
        let opened = self.on_some_member(&interrupter, deadline, true, |number, connected_by, deadline| {
            let (member, interrupter) = (&self.members[number], &interrupter);
            let attempt = MemberAttempt { member, request, body: &body, connected_by, deadline, interrupter };
            let opening = Opening::until(deadline);
            let token = self.token(attempt)?;
            // The slot is held until the head of the response has arrived.
            let (mut slot, _) = member.idle.take(&Demand { idle: None, deadline: connected_by, interrupter })?;
            let handle = self.new_handle(attempt, opening.clone())?;
            let (call, _hidden) = http_request(attempt, token.as_ref())?;
            let call = handle.agent.configure_request(call).timeout_per_read(Some(silence)).build();
            let answer = self.run(&handle, call, token.as_ref());
            let answer = answer.inspect_err(|error| self.forget_after(error, token.as_ref()))?;
            slot.end_request(true);
            Ok((answer.into_body(), handle, opening, token))
        });
        let (body, handle, opening, token) = opened?;
        Ok((LineStream::new(body, handle, interrupter, hook), opening, token))
    }

    /// Drops a token that etcd has refused.
    ///
    /// Returns `false` if the client has no user, and therefore cannot get another token.
    pub(super) fn forget(&self, token: Option<&Token>) -> bool {
        self.login.as_ref().zip(token).map(|(login, token)| login.forget(token)).is_some()
    }

    /// Drops a token after a timeout, so that the next call logs in again.
    ///
    /// A member that lacks the state to check the token may not answer in time.
    pub(super) fn forget_after(&self, error: &Error, token: Option<&Token>) {
        if error.net_kind() == Some(NetErrorKind::Timeout) {
            self.forget(token);
        }
    }

    /// Calls `ask` for one member after another until a call succeeds, starting with `current`.
    ///
    /// `ask` receives the index of the member, the deadline for connecting, and the deadline for the response. If
    /// `may_repeat` is `false`, the function stops after a member that may have received the request.
    fn on_some_member<T>(
        &self,
        interrupter: &Interrupter,
        deadline: Instant,
        may_repeat: bool,
        mut ask: impl FnMut(usize, Instant, Instant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let count = self.members.len();
        let first = self.current.load(Ordering::Relaxed) % count;
        for tried in 0..count {
            interrupter.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late().into());
            }
            let number = (first + tried) % count;
            let is_last = tried + 1 == count;
            // A suspended member accepts connections but never answers. Each attempt except the last may therefore use
            // only half of the remaining time.
            let half = if is_last { deadline } else { deadline - left / 2 };
            let error = match ask(number, half, if may_repeat { half } else { deadline }) {
                Ok(answer) => {
                    self.current.store(number, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if interrupter.is_interrupted() || !error.is_of_the_member() {
                return Err(error);
            }
            // Later calls start with the next member instead of waiting for the failed member again.
            self.current.store((number + 1) % count, Ordering::Relaxed);
            if is_last || (error.maybe_sent() && !may_repeat) {
                return Err(error);
            }
            log_line!(debug, target: CLIENT, "etcd: {}: {error}; trying another member", self.members[number].endpoint.url());
        }
        Err(late().into())
    }

    /// Sends a request to one member, and repeats the request with a new token if etcd refuses the token.
    fn attempt<'a>(
        &self,
        call: &ActiveCall,
        attempt: MemberAttempt<'a>,
        used: &mut Option<(PoolSlot<'a, Arc<AgentHandle>>, Arc<AgentHandle>)>,
    ) -> Result<EtcdAnswer, Error> {
        let token = self.token(attempt)?;
        let error = match self.exchange(call, attempt, used, token.as_ref()) {
            Ok(body) => return Ok(EtcdAnswer { body, is_second: false }),
            Err(error) => error,
        };
        self.forget_after(&error, token.as_ref());
        if !error.is_of_the_token() || !self.forget(token.as_ref()) {
            return Err(error);
        }
        log_line!(debug, target: CLIENT, "etcd: {}: {error}; logging in again", attempt.member.endpoint.url());
        // etcd may have applied the first copy, so every later error must report that the request may have been sent.
        let token = self.token(attempt).map_err(Error::sent)?;
        let body = self.exchange(call, attempt, used, token.as_ref()).map_err(Error::sent)?;
        Ok(EtcdAnswer { body, is_second: true })
    }

    fn token(&self, attempt: MemberAttempt<'_>) -> Result<Option<Token>, Error> {
        let Some(login) = &self.login else { return Ok(None) };
        // If the login misses the deadline for connecting, the client may try another member, because the request
        // itself is not sent yet.
        let MemberAttempt { member, request: EtcdRequest { call, .. }, connected_by: deadline, interrupter, .. } =
            attempt;
        let post = |body: &[u8]| {
            let post = Post { endpoint: &member.endpoint, tls: member.parts()?, path: LOGIN, body, deadline };
            post.send(&self.dialer, interrupter)
        };
        login.token(deadline, call.cancel(), interrupter, post).map(Some).map_err(|error| match error {
            // If the login fails, the request itself has not been sent.
            Error::Net(error) => Error::Net(error.sent(false)),
            error if error.is_of_the_member() => net::Error::new(NetErrorKind::Io, error.to_string()).into(),
            other => other,
        })
    }

    fn exchange<'a>(
        &self,
        call: &ActiveCall,
        attempt: MemberAttempt<'a>,
        used: &mut Option<(PoolSlot<'a, Arc<AgentHandle>>, Arc<AgentHandle>)>,
        token: Option<&Token>,
    ) -> Result<Vec<u8>, Error> {
        let member = attempt.member;
        let versions = [0, member.tls.as_ref().map_or(0, ClientTls::refresh)];
        let run = |handle: &mut Arc<AgentHandle>| {
            let now = Instant::now();
            let left = attempt.deadline.saturating_duration_since(now);
            let to_connect = attempt.connected_by.saturating_duration_since(now);
            if left.is_zero() || to_connect.is_zero() {
                return Err(late().into());
            }
            let (call, _hidden) = http_request(attempt, token)?;
            let call = handle.agent.configure_request(call);
            let call = call.timeout_global(Some(left)).timeout_connect(Some(to_connect)).build();
            let answer = self.run(handle, call, token)?;
            Ok(handle.read_body(answer)?)
        };
        call.exchange(
            Exchange {
                pool: &member.idle,
                place: &|| member.endpoint.url(),
                versions,
                connected_by: attempt.connected_by,
                is_read: attempt.request.is_read,
            },
            used,
            || self.new_handle(attempt, Opening::default()),
            run,
            // The exchange is repeated if newer certificate files may let the request succeed.
            |handle, error| {
                let tls = member.tls.as_ref().filter(|_| !error.maybe_sent());
                tls.is_some_and(|tls| tls.has_newer_after(error.net_kind(), handle.versions[1]))
            },
        )
    }

    /// Sends a request, and drops its token if etcd may have refused the token by closing the connection.
    fn run(
        &self,
        handle: &AgentHandle,
        request: http::Request<impl ureq::AsSendBody>,
        token: Option<&Token>,
    ) -> Result<http::Response<ureq::Body>, Error> {
        let is_new = !handle.has_answered();
        let answer = handle.agent.run(request).map_err(from_ureq).inspect(|answer| handle.note_date(answer));
        if let Some((login, token)) = self.login.as_ref().zip(token) {
            match answer.as_ref().map_err(|error| (error.kind, error.maybe_sent)) {
                Ok(_) => login.answered(),
                Err((NetErrorKind::ConnectionClosed, true)) => login.unanswered(token, is_new),
                Err((NetErrorKind::Io, _)) if is_new && !handle.has_answered() => login.unanswered(token, is_new),
                Err(_) => {}
            }
        }
        self.accept(answer?, token)
    }

    /// Returns a 2xx response, and converts any other response to an error without credentials.
    fn accept(
        &self,
        answer: http::Response<ureq::Body>,
        token: Option<&Token>,
    ) -> Result<http::Response<ureq::Body>, Error> {
        if answer.status().is_success() {
            return if is_compressed(answer.headers()) { Err(Error::malformed("compressed body")) } else { Ok(answer) };
        }
        let status = answer.status().as_u16();
        let mut body = read_body(answer.into_body()).unwrap_or_default();
        self.redact(token, &mut body);
        Err(refusal(status, &body))
    }

    /// Overwrites the token and the password wherever they occur in `text`.
    pub(super) fn redact(&self, token: Option<&Token>, text: &mut [u8]) {
        if let Some(login) = &self.login {
            login.redact(token, text);
        }
    }

    fn new_handle(&self, attempt: MemberAttempt<'_>, opening: Opening) -> Result<Arc<AgentHandle>, Error> {
        let member = attempt.member;
        let versions = [0, member.tls.as_ref().map_or(0, ClientTls::version)];
        let connector = HttpConnector {
            target: member.endpoint.clone(),
            proxy: None,
            proxy_tls: None,
            tls: member.parts()?,
            dialer: self.dialer.clone(),
            call: Arc::default(),
            opening,
        };
        Ok(new_agent(connector, versions, USER_AGENT, attempt.interrupter)?)
    }
}

impl Member {
    fn parts(&self) -> Result<Option<TlsParts>, net::Error> {
        self.tls.as_ref().map(|tls| tls.parts(None)).transpose()
    }
}

fn http_request(
    attempt: MemberAttempt<'_>,
    token: Option<&Token>,
) -> Result<(http::Request<Vec<u8>>, Redacted), Error> {
    let uri = attempt.member.endpoint.uri(attempt.request.path, &[])?;
    let mut call = http::Request::new(attempt.body.to_vec());
    *call.method_mut() = http::Method::POST;
    *call.uri_mut() = uri;
    let headers = call.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HAS_LEADER, HeaderValue::from_static("true"));
    Ok((call, Redacted::new(token, &[])))
}
