//! The blocking client of etcd, which tries one member after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::{self, HeaderName, HeaderValue, header};

use super::config::EtcdConfig;
use super::error::Error;
use super::login::{At, EtcdLogin, Token, refusal};
use crate::net::calls::{ActiveCall, CallError, Exchange, MAX_IDLE_DIRECT, Pool, late};
use crate::net::dial::{Dialer, System};
use crate::net::endpoint::Endpoint;
use crate::net::error::{self as net, NetErrorKind};
use crate::net::http::{
    AgentHandle, CurrentCall, HttpConnector, Opening, from_ureq, is_compressed, is_framed, new_agent, read_body,
};
use crate::net::interrupt::{Interrupter, interrupted};
use crate::net::redact::Redacted;
use crate::net::tls::config::refuse;
use crate::net::tls::{ClientTls, TlsParts};
use crate::net::{MAX_WAIT, USER_AGENT};
use crate::store::CallContext;
use crate::util::config_error::ConfigError;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

/// Maximum number of idle connections to a member that the client keeps open for later calls.
const MAX_IDLE_AGENTS: usize = 4;

/// Makes a member without a leader fail immediately instead of after seconds.
const HAS_LEADER: HeaderName = HeaderName::from_static("grpc-metadata-hasleader");

/// A blocking client for one cluster.
pub(crate) struct EtcdClient {
    members: Vec<Member>,
    /// The member to try first: the last one that answered.
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
    /// `true` if the request changes nothing. The client may repeat such a request after etcd may have received it.
    pub(crate) is_read: bool,
    pub(crate) call: &'a CallContext,
}

/// The response to a request.
pub(crate) struct EtcdAnswer {
    pub(crate) body: Vec<u8>,
    /// `true` if an earlier copy was sent and its token was refused. A failed comparison proves nothing about that
    /// copy.
    pub(crate) is_second: bool,
}

/// One request to one member.
#[derive(Clone, Copy)]
struct MemberAttempt<'a> {
    member: &'a Member,
    request: EtcdRequest<'a>,
    body: &'a [u8],
    /// The deadline for the connection. After that, the client tries another member.
    connected_by: Instant,
    deadline: Instant,
    interrupter: &'a Interrupter,
}

/// The response to a stream's request, up to its head.
pub(super) struct OpenedWatch {
    pub(super) body: ureq::Body,
    pub(super) handle: Arc<AgentHandle>,
    pub(super) opening: Opening,
    pub(super) token: Option<Token>,
}

impl EtcdClient {
    /// Creates a client. Sends nothing.
    pub(crate) fn new(config: EtcdConfig) -> Result<Self, ConfigError> {
        config.check_secrecy()?;
        config.user.as_ref().map_or(Ok(()), |user| user.password.check(true))?;
        let EtcdConfig { endpoints, tls, user, .. } = config;
        let member = |endpoint: Endpoint| {
            let tls = match endpoint.is_https() {
                true => {
                    Some(ClientTls::new(tls.settings.clone(), endpoint.host()).map_err(|error| refuse("tls", &error))?)
                }
                false => None,
            };
            Ok(Member { endpoint, tls, idle: Pool::new(MAX_IDLE_AGENTS, MAX_IDLE_DIRECT) })
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
    /// The client never sends a write to a second member after the first may have received it. The second copy would be
    /// compared with the result of the first.
    pub(crate) fn request(&self, request: EtcdRequest<'_>) -> Result<EtcdAnswer, Error> {
        let call = ActiveCall::begin(request.call.remaining(), request.call.cancel());
        let body = request.body.to_string().into_bytes();
        let (interrupter, mut used) = (&call.interrupter, None);
        let ask = |number: usize, connected_by, deadline| {
            let (member, mut agent): (&Member, _) = (&self.members[number], None);
            let attempt = MemberAttempt { member, request, body: &body, connected_by, deadline, interrupter };
            let answer = self.attempt(&call, attempt, &mut agent);
            used = agent.map(|agent| (&member.idle, agent));
            answer
        };
        let answer = self.on_some_member(interrupter, call.deadline, request.is_read, ask);
        call.end(answer, self.members.iter().map(|member| &member.idle), used)
    }

    /// Opens a stream and returns once the head of a 2xx response has arrived.
    pub(super) fn open(
        &self,
        request: EtcdRequest<'_>,
        silence: Duration,
        interrupter: &Interrupter,
    ) -> Result<OpenedWatch, Error> {
        let deadline = Instant::now() + request.call.remaining().min(MAX_WAIT);
        let body = request.body.to_string().into_bytes();
        self.on_some_member(interrupter, deadline, true, |number, connected_by, deadline| {
            let member = &self.members[number];
            let attempt = MemberAttempt { member, request, body: &body, connected_by, deadline, interrupter };
            let opening = Opening::until(deadline);
            let handle = self.new_handle(attempt, opening.clone())?;
            let token = self.token(attempt)?;
            let (call, _masked) = http_request(attempt, token.as_ref())?;
            let call = handle.agent.configure_request(call).timeout_per_read(Some(silence)).build();
            let answer = handle.agent.run(call).map_err(from_ureq)?;
            let answer = self.accept(answer, token.as_ref())?;
            Ok(OpenedWatch { body: answer.into_body(), handle: Arc::clone(&handle), opening, token })
        })
    }

    /// Drops a token that etcd refuses. Returns `false` if the client cannot get another one.
    pub(super) fn forget(&self, token: Option<&Token>) -> bool {
        match (&self.login, token) {
            (Some(login), Some(token)) => {
                login.forget(token);
                true
            }
            _ => false,
        }
    }

    /// Tries one member after another, starting with the last one that answered.
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
            // A stopped member keeps connections open and sends nothing, so the first try gets only half of the time.
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
            // Later calls must not wait for this member again.
            self.current.store((number + 1) % count, Ordering::Relaxed);
            if is_last || (error.maybe_sent() && !may_repeat) {
                return Err(error);
            }
            log_line!(debug, target: CLIENT, "etcd: {}: {error}; trying another member", self.members[number].endpoint.url());
        }
        Err(late().into())
    }

    /// Sends a request to one member, and repeats the request with a new token if etcd refuses the token.
    fn attempt(
        &self,
        call: &ActiveCall,
        attempt: MemberAttempt<'_>,
        used: &mut Option<Arc<AgentHandle>>,
    ) -> Result<EtcdAnswer, Error> {
        let token = self.token(attempt)?;
        let error = match self.exchange(call, attempt, used, token.as_ref()) {
            Ok(body) => return Ok(EtcdAnswer { body, is_second: false }),
            Err(error) => error,
        };
        // A member may wait forever for the state that it needs to check a token.
        if error.net_kind() == Some(NetErrorKind::Timeout) {
            self.forget(token.as_ref());
        }
        if !error.is_of_the_token() || !self.forget(token.as_ref()) {
            return Err(error);
        }
        log_line!(debug, target: CLIENT, "etcd: {}: {error}; logging in again", attempt.member.endpoint.url());
        // The first copy may have been applied, so any later failure must count as sent.
        let token = self.token(attempt).map_err(Error::sent)?;
        let body = self.exchange(call, attempt, used, token.as_ref()).map_err(Error::sent)?;
        Ok(EtcdAnswer { body, is_second: true })
    }

    fn token(&self, attempt: MemberAttempt<'_>) -> Result<Option<Token>, Error> {
        let Some(login) = &self.login else { return Ok(None) };
        // No request has been sent yet, so the client may still try another member.
        let MemberAttempt { member, request: EtcdRequest { call, .. }, connected_by: deadline, interrupter, .. } =
            attempt;
        let tls = member.parts()?;
        let (endpoint, dialer) = (&member.endpoint, &self.dialer);
        let at = At { endpoint, tls: tls.as_ref(), dialer, deadline, cancel: call.cancel(), interrupter };
        login.token(at).map(Some).map_err(|error| match error {
            // A failed login has not sent the request itself.
            Error::Net(error) => Error::Net(error.sent(false)),
            error if error.is_of_the_member() => net::Error::new(NetErrorKind::Io, error.to_string()).into(),
            other => other,
        })
    }

    fn exchange(
        &self,
        call: &ActiveCall,
        attempt: MemberAttempt<'_>,
        used: &mut Option<Arc<AgentHandle>>,
        token: Option<&Token>,
    ) -> Result<Vec<u8>, Error> {
        let member = attempt.member;
        let versions = [0, member.tls.as_ref().map_or(0, ClientTls::refresh)];
        call.exchange(
            Exchange {
                pool: &member.idle,
                place: &|| member.endpoint.url(),
                versions,
                is_read: attempt.request.is_read,
            },
            used,
            || self.new_handle(attempt, Opening::default()),
            |handle| self.exchange_on(handle, attempt, token),
            // The certificate files may have changed.
            |handle, error| {
                let tls = member.tls.as_ref().filter(|_| !error.maybe_sent());
                tls.is_some_and(|tls| tls.has_newer_after(error.net_kind(), handle.versions[1]))
            },
        )
    }

    fn exchange_on(
        &self,
        handle: &AgentHandle,
        attempt: MemberAttempt<'_>,
        token: Option<&Token>,
    ) -> Result<Vec<u8>, Error> {
        let now = Instant::now();
        let left = attempt.deadline.saturating_duration_since(now);
        let to_connect = attempt.connected_by.saturating_duration_since(now);
        if left.is_zero() || to_connect.is_zero() {
            return Err(late().into());
        }
        let (call, _masked) = http_request(attempt, token)?;
        let call = handle.agent.configure_request(call);
        let call = call.timeout_global(Some(left)).timeout_connect(Some(to_connect)).build();
        let answer = handle.agent.run(call).map_err(from_ureq)?;
        let answer = self.accept(answer, token)?;
        let is_framed = is_framed(answer.headers());
        let body = read_body(answer.into_body()).map_err(|error| error.sent(true))?;
        // Our own shutdown also ends a body that has no length, so the body may be incomplete.
        if !is_framed && handle.call.interrupter().is_interrupted() {
            return Err(interrupted().sent(true).into());
        }
        Ok(body)
    }

    /// Returns 2xx responses, and an error without any credentials for every other response.
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
            call: CurrentCall::default(),
            opening,
        };
        let handle = Arc::new(new_agent(connector, versions, USER_AGENT, MAX_IDLE_DIRECT));
        handle.use_for(attempt.interrupter)?;
        Ok(handle)
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
    let target = uri.to_string().len();
    let mut call = http::Request::new(attempt.body.to_vec());
    *call.method_mut() = http::Method::POST;
    *call.uri_mut() = uri;
    let headers = call.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HAS_LEADER, HeaderValue::from_static("true"));
    let (masked, mask) = Redacted::new(target, token.map(Token::header), &[]);
    headers.extend(mask);
    Ok((call, masked))
}
