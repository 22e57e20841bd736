//! The client: one request, one answer, from whichever member gives one.

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

/// More connections to a member than this are not kept open for the calls to come.
const MAX_IDLE_AGENTS: usize = 4;

/// Has a member without a leader say so at once, where it would wait for seconds otherwise.
const HAS_LEADER: HeaderName = HeaderName::from_static("grpc-metadata-hasleader");

/// A blocking client for one cluster.
pub(crate) struct EtcdClient {
    members: Vec<Member>,
    /// Whom to ask first: the one that answered last.
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

/// What is asked, until when, and what ends it sooner.
#[derive(Clone, Copy)]
pub(crate) struct EtcdRequest<'a> {
    pub(crate) path: &'static str,
    pub(crate) body: &'a Value,
    /// It changes nothing, so it may be sent again after it may have been received.
    pub(crate) is_read: bool,
    pub(crate) call: &'a CallContext,
}

/// What came back.
pub(crate) struct EtcdAnswer {
    pub(crate) body: Vec<u8>,
    /// An earlier copy was sent, and refused for its token: what this answer denies, that one may have done.
    pub(crate) is_second: bool,
}

/// How a request goes to one member.
#[derive(Clone, Copy)]
struct MemberAttempt<'a> {
    member: &'a Member,
    request: EtcdRequest<'a>,
    body: &'a [u8],
    /// Until a connection stands: another member is tried after that.
    connected_by: Instant,
    deadline: Instant,
    interrupter: &'a Interrupter,
}

/// The answer to a stream's request, up to its head.
pub(super) struct OpenedWatch {
    pub(super) body: ureq::Body,
    pub(super) handle: Arc<AgentHandle>,
    pub(super) opening: Opening,
    pub(super) token: Option<Token>,
}

impl EtcdClient {
    /// Makes a client. Nothing is sent yet.
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

    /// The URLs of the members, without credentials.
    pub(crate) fn location(&self) -> String {
        let urls: Vec<_> = self.members.iter().map(|member| member.endpoint.url()).collect();
        urls.join(", ")
    }

    /// Sends a request, and answers the body of a success.
    ///
    /// A write that a member may have received is not sent to another: the second copy would be judged against what the first
    /// one did.
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

    /// Opens a stream: everything up to the head of a 2xx answer.
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

    /// Forgets a token that etcd refuses. False where there is none to be had.
    pub(super) fn forget(&self, token: Option<&Token>) -> bool {
        match (&self.login, token) {
            (Some(login), Some(token)) => {
                login.forget(token);
                true
            }
            _ => false,
        }
    }

    /// Asks one member after another, beginning with the one that answered last.
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
            // A stopped member keeps its connections open and says nothing: half of the time is for the others.
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
            // Also for the calls to come: whoever is asked again first would hold up each of them.
            self.current.store((number + 1) % count, Ordering::Relaxed);
            if is_last || (error.maybe_sent() && !may_repeat) {
                return Err(error);
            }
            log_line!(debug, target: CLIENT, "etcd: {}: {error}; trying another member", self.members[number].endpoint.url());
        }
        Err(late().into())
    }

    /// One member's answer, with another token if that is what it wants.
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
        // A member may wait for ever for the state that it needs to understand a token.
        if error.net_kind() == Some(NetErrorKind::Timeout) {
            self.forget(token.as_ref());
        }
        if !error.is_of_the_token() || !self.forget(token.as_ref()) {
            return Err(error);
        }
        log_line!(debug, target: CLIENT, "etcd: {}: {error}; logging in again", attempt.member.endpoint.url());
        // Whatever becomes of this one, the first may have been sent: so it is an error of a request that was.
        let token = self.token(attempt).map_err(Error::sent)?;
        let body = self.exchange(call, attempt, used, token.as_ref()).map_err(Error::sent)?;
        Ok(EtcdAnswer { body, is_second: true })
    }

    fn token(&self, attempt: MemberAttempt<'_>) -> Result<Option<Token>, Error> {
        let Some(login) = &self.login else { return Ok(None) };
        // Nothing is sent yet, so another member may do as well.
        let MemberAttempt { member, request: EtcdRequest { call, .. }, connected_by: deadline, interrupter, .. } =
            attempt;
        let tls = member.parts()?;
        let (endpoint, dialer) = (&member.endpoint, &self.dialer);
        let at = At { endpoint, tls: tls.as_ref(), dialer, deadline, cancel: call.cancel(), interrupter };
        login.token(at).map(Some).map_err(|error| match error {
            // Of what was asked for nothing has been.
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
            // Certificates rotate.
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
        // A body that ends with the connection also ends when we shut that down ourselves.
        if !is_framed && handle.call.interrupter().is_interrupted() {
            return Err(interrupted().sent(true).into());
        }
        Ok(body)
    }

    /// Lets 2xx answers through and makes errors of all others, which do not quote what was sent to be answered.
    fn accept(
        &self,
        answer: http::Response<ureq::Body>,
        token: Option<&Token>,
    ) -> Result<http::Response<ureq::Body>, Error> {
        if answer.status().is_success() {
            return if is_compressed(answer.headers()) {
                Err(Error::malformed("it is compressed"))
            } else {
                Ok(answer)
            };
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
