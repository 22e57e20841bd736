//! One connection: request after request, with the faults that hit them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ureq_proto::http::Method;

use super::api::{self, Answer};
use super::fault::{Action, Facts};
use super::http::{ReadError, Reader, Request, Response, chunk, chunked_head};
use super::log::{Entry, RequestLog};
use super::resource::Verb;
use super::route::{self, Route};
use super::rules::Hit;
use super::server::Server;
use super::status::Status;
use super::transport::{Gone, Transport};
use super::users::Identity;
use super::watch;

/// How often a waiting thread looks whether its client is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Connection {
    pub server: Arc<Server>,
    pub transport: Transport,
    number: u64,
    stopping: Arc<AtomicBool>,
}

/// What is to happen once the request has been applied.
#[derive(Default)]
struct Aftermath {
    delay: Duration,
    hold: Option<Hit>,
    drop: bool,
    answer: Option<Status>,
    truncate: Option<usize>,
}

impl Connection {
    pub fn new(server: Arc<Server>, transport: Transport, number: u64, stopping: Arc<AtomicBool>) -> Connection {
        Connection { server, transport, number, stopping }
    }

    /// Serves the connection to its end.
    pub fn run(mut self) {
        let mut reader = Reader::default();
        loop {
            // Before the first read there is the TLS handshake, which a paused server owes too.
            if self.wait_while_paused().is_err() {
                return self.transport.cut();
            }
            match reader.read(&mut self.transport) {
                Ok(request) => match self.serve(&request) {
                    Ok(()) if request.last => return self.transport.close(),
                    Ok(()) => {}
                    Err(Gone) => return self.transport.cut(),
                },
                Err(ReadError::Gone) => return self.transport.cut(),
                Err(ReadError::Bad(status)) => return self.reject(&status),
            }
        }
    }

    /// Waits until `deadline`, or until `done` (which needs the server's bell to be rung), also when
    /// the client has left: a write that waits in a real server's queue lands all the same.
    fn hold(&self, deadline: Option<Instant>, done: impl Fn() -> bool) -> Result<(), Gone> {
        let stopping = || self.stopping.load(Ordering::SeqCst);
        let patience = match deadline {
            None => Duration::MAX,
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        };
        self.server.bell.wait(patience, || done() || stopping());
        match stopping() {
            true => Err(Gone),
            false => Ok(()),
        }
    }

    /// [`hold`](Connection::hold), as long as the client is there: for when only the answer is
    /// waited for.
    pub fn hold_client(&mut self, deadline: Option<Instant>, done: impl Fn() -> bool) -> Result<(), Gone> {
        loop {
            self.check()?;
            let now = Instant::now();
            if done() || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(());
            }
            let look = now + LOOK_AGAIN;
            let wake = deadline.map_or(look, |deadline| deadline.min(look));
            self.hold(Some(wake), &done)?;
        }
    }

    pub fn wait_while_paused(&self) -> Result<(), Gone> {
        self.hold(None, || !self.server.paused.load(Ordering::SeqCst))
    }

    /// Whether the connection may live on.
    pub fn check(&mut self) -> Result<(), Gone> {
        match self.stopping.load(Ordering::SeqCst) || self.transport.is_gone() {
            true => Err(Gone),
            false => Ok(()),
        }
    }

    fn serve(&mut self, request: &Request) -> Result<(), Gone> {
        let server = self.server.clone();
        let route = route::parse(&request.method, &request.uri);
        let identity = self.identify(request);
        let facts = facts(&route, &identity, request);
        let entry = server.log.begin(self.describe(request, &facts));
        self.wait_while_paused()?;

        let mut after = Aftermath::default();
        for hit in server.rules.pick(&facts) {
            server.bell.ring();
            match hit.action() {
                Action::Delay(time) => {
                    let deadline = Instant::now().checked_add(*time);
                    self.hold(deadline, || !hit.holds())?;
                }
                Action::Hang => self.hold(None, || !hit.holds())?,
                Action::DropBefore => return Err(Gone),
                Action::Refuse(status) => {
                    return self.answer(entry, request, &status.into(), None);
                }
                Action::Answer(response) => return self.answer(entry, request, response, None),
                Action::Garbage(bytes) => {
                    self.transport.write(bytes)?;
                    return Err(Gone);
                }
                Action::EndlessBody => {
                    server.log.answered(entry, 200);
                    return self.never_end(&hit);
                }
                Action::DelayAnswer(time) => after.delay = after.delay.saturating_add(*time),
                Action::HangAfter => after.hold = Some(hit),
                Action::DropAfter => after.drop = true,
                Action::ApplyThen(status) => after.answer = Some(status.clone()),
                Action::Truncate(bytes) => after.truncate = Some(*bytes),
                // Watch faults are looked for by the streams themselves.
                _ => {}
            }
        }

        let answer = match (&route, &identity) {
            // Health and version are open to everybody, as on the real server.
            (Ok(Route::Plain(_)), Err(_)) => {
                let anybody = Identity::anonymous();
                route.and_then(|route| api::handle(&server, &route, &anybody, request))
            }
            (_, Err(refusal)) => Err(refusal.clone()),
            (Err(unknown), _) => Err(unknown.clone()),
            (Ok(route), Ok(identity)) => api::handle(&server, route, identity, request),
        };
        self.finish(entry, request, answer, &facts, after)
    }

    fn finish(
        &mut self,
        entry: Entry,
        request: &Request,
        answer: Result<Answer, Status>,
        facts: &Facts,
        after: Aftermath,
    ) -> Result<(), Gone> {
        // Whatever happens to the answer, a watch must not stay subscribed without a stream.
        let subscription = match &answer {
            Ok(Answer::Watch(watch)) => watch.subscription_guard(&self.server),
            _ => None,
        };
        if !after.delay.is_zero() {
            self.hold_client(Instant::now().checked_add(after.delay), || false)?;
        }
        if let Some(hit) = after.hold {
            self.hold_client(None, || !hit.holds())?;
        }
        if after.drop {
            return Err(Gone);
        }
        if let Some(status) = after.answer {
            return self.answer(entry, request, &(&status).into(), after.truncate);
        }
        match answer {
            Ok(Answer::Done(response)) => self.answer(entry, request, &response, after.truncate),
            Err(status) => self.answer(entry, request, &(&status).into(), after.truncate),
            Ok(Answer::Watch(watch)) => {
                self.wait_while_paused()?;
                self.server.log.answered(entry, 200);
                let streamed = watch::stream(self, watch, facts, after.truncate);
                drop(subscription);
                streamed
            }
        }
    }

    fn answer(
        &mut self,
        entry: Entry,
        request: &Request,
        response: &Response,
        truncate: Option<usize>,
    ) -> Result<(), Gone> {
        self.wait_while_paused()?;
        self.server.log.answered(entry, response.code);
        let mut bytes = response.head(request.last);
        let body = match request.method == Method::HEAD {
            true => &[],
            false => response.body.as_slice(),
        };
        let cut = truncate.filter(|cut| *cut < body.len());
        bytes.extend_from_slice(&body[..cut.unwrap_or(body.len())]);
        self.transport.write(&bytes)?;
        match cut {
            Some(_) => Err(Gone),
            None => Ok(()),
        }
    }

    /// Answers what could not be read as a request, and closes.
    fn reject(&mut self, status: &Status) {
        let response = Response::from(status);
        let bytes = [response.head(true), response.body].concat();
        if self.transport.write(&bytes).is_ok() {
            self.transport.close_early();
        }
    }

    fn never_end(&mut self, hit: &Hit) -> Result<(), Gone> {
        self.transport.write(&chunked_head(200))?;
        let filler = chunk(&[b' '; 16 * 1024]);
        while hit.holds() {
            self.transport.write(&filler)?;
            // Endless, but not at the price of a core.
            let pause = Instant::now() + Duration::from_millis(1);
            self.hold_client(Some(pause), || !hit.holds())?;
        }
        self.transport.write(&chunk(&[]))
    }

    fn identify(&self, request: &Request) -> Result<Identity, Status> {
        let certificate = self.transport.client_certificate();
        let certified =
            certificate.zip(self.server.tls.as_ref()).and_then(|(certificate, tls)| tls.user_of(certificate));
        let users = &self.server.users;
        users.authenticate(&request.headers, certified.as_deref())
    }

    fn describe(&self, request: &Request, facts: &Facts) -> RequestLog {
        RequestLog {
            at: Instant::now(),
            connection: self.number,
            method: request.method.to_string(),
            path: request.uri.path().to_owned(),
            query: request.uri.query().unwrap_or_default().to_owned(),
            verb: facts.verb,
            resource: facts.resource,
            namespace: facts.namespace.clone(),
            name: facts.name.clone(),
            user: facts.user.clone(),
            user_agent: request.header("user-agent").map(str::to_owned),
            status: None,
        }
    }
}

fn facts(route: &Result<Route, Status>, identity: &Result<Identity, Status>, request: &Request) -> Facts {
    let user = identity.as_ref().ok().and_then(|it| it.name.clone());
    let Ok(Route::Resource(call)) = route else {
        return Facts { user, ..Facts::default() };
    };
    let name = match call.verb {
        Verb::Create => serde_json::from_slice::<serde_json::Value>(&request.body)
            .ok()
            .and_then(|body| Some(body["metadata"]["name"].as_str()?.to_owned())),
        Verb::List | Verb::Watch => call.selected_name(),
        _ => call.name.clone(),
    };
    Facts { verb: Some(call.verb), resource: Some(call.api.resource), namespace: call.namespace.clone(), name, user }
}
