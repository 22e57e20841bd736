//! Serves the requests of a connection, with the faults that hit them.

use std::time::{Duration, Instant};

use ureq_proto::http::Method;

use crate::fault::kind::Action;
use crate::fault::rules::Hit;
use crate::object::resource::Verb;
use crate::object::status::StatusObject;
use crate::server::connection::ServedConnection;
use crate::server::handlers::{self, ServerAnswer, StreamedWatch};
use crate::server::log::RequestLog;
use crate::server::route::{self, RequestRoute, ResourceCall};
use crate::server::stream;
use crate::server::users::RequestUser;
use crate::util::OnDrop;
use crate::wire::http::{
    ReadError, RequestReader, ServedRequest, ServedResponse, chunk, chunked_head, header_text, wants_close,
};
use crate::wire::transport::Disconnected;

/// The actions of faults after the request has been applied.
#[derive(Default)]
struct PostActions {
    delay: Duration,
    hold: Option<Hit>,
    drop: bool,
    answer: Option<ServedResponse>,
    truncate: Option<usize>,
}

impl ServedConnection {
    /// Serves the connection until it ends.
    pub fn run(mut self) {
        let mut reader = RequestReader::default();
        loop {
            // The first read performs the TLS handshake, which a paused server must delay, too.
            if self.wait_while_paused().is_err() {
                return self.transport.cut();
            }
            match reader.read(&mut self.transport) {
                Ok(request) => match self.serve(&request) {
                    Ok(()) if wants_close(&request) => return self.transport.close(),
                    Ok(()) => {}
                    Err(Disconnected) => return self.transport.cut(),
                },
                Err(ReadError::Disconnected) => return self.transport.cut(),
                Err(ReadError::Bad(status)) => return self.reject(&status),
            }
        }
    }

    fn serve(&mut self, request: &ServedRequest) -> Result<(), Disconnected> {
        let server = self.server.clone();
        let route = route::parse(request.method(), request.uri());
        let identity = self.identify(request);
        let facts = self.describe(&route, &identity, request);
        let entry = server.log.begin(facts.clone());
        self.wait_while_paused()?;

        let mut after = PostActions::default();
        for hit in server.rules.pick(&facts) {
            server.signal.notify();
            match hit.action() {
                Action::Delay(time) => {
                    let deadline = Instant::now().checked_add(*time);
                    self.hold(deadline, || !hit.holds())?;
                }
                Action::Hang => self.hold(None, || !hit.holds())?,
                Action::DropBefore => return Err(Disconnected),
                Action::Refuse(status) => return self.answer(entry, request, &status.into(), None),
                Action::Answer(response) => return self.answer(entry, request, response, None),
                Action::Garbage(bytes) => {
                    self.transport.write(bytes)?;
                    return Err(Disconnected);
                }
                Action::EndlessBody => {
                    server.log.answered(entry, 200);
                    return self.never_end(&hit);
                }
                Action::DelayAnswer(time) => after.delay = after.delay.saturating_add(*time),
                Action::HangAfter => after.hold = Some(hit),
                Action::DropAfter => after.drop = true,
                Action::ApplyThen(status) => after.answer = Some(status.into()),
                Action::Truncate(bytes) => after.truncate = Some(*bytes),
                // The streams evaluate watch faults themselves.
                _ => {}
            }
        }

        let answer = match (&route, &identity) {
            // Health and version need no credentials, as on the real server.
            (Ok(RequestRoute::Plain(response)), _) => Ok(ServerAnswer::Done(response.clone())),
            (_, Err(refusal)) | (Err(refusal), _) => Err(refusal.clone()),
            (Ok(RequestRoute::Resource(call)), Ok(identity)) => handlers::handle(&server, call, identity, request),
        };
        let answer = answer.unwrap_or_else(|refusal| ServerAnswer::Done((&refusal).into()));
        self.finish(entry, request, answer, &facts, after)
    }

    fn finish(
        &mut self,
        entry: u64,
        request: &ServedRequest,
        answer: ServerAnswer,
        facts: &RequestLog,
        after: PostActions,
    ) -> Result<(), Disconnected> {
        // Unsubscribes the watch when this function returns, even if no stream was sent.
        let _subscription = match &answer {
            ServerAnswer::Watch(StreamedWatch { opening: Ok(subscription), .. }) => {
                let (server, id) = (self.server.clone(), subscription.id);
                Some(OnDrop(move || server.store.lock().history.unsubscribe(id)))
            }
            _ => None,
        };
        if !after.delay.is_zero() {
            self.hold_client(Instant::now().checked_add(after.delay), || false)?;
        }
        if let Some(hit) = after.hold {
            self.hold_client(None, || !hit.holds())?;
        }
        if after.drop {
            return Err(Disconnected);
        }
        match after.answer.map_or(answer, ServerAnswer::Done) {
            ServerAnswer::Done(response) => self.answer(entry, request, &response, after.truncate),
            ServerAnswer::Watch(watch) => {
                self.wait_while_paused()?;
                self.server.log.answered(entry, 200);
                stream::stream(self, watch, facts, after.truncate)
            }
        }
    }

    fn answer(
        &mut self,
        entry: u64,
        request: &ServedRequest,
        response: &ServedResponse,
        truncate: Option<usize>,
    ) -> Result<(), Disconnected> {
        self.wait_while_paused()?;
        self.server.log.answered(entry, response.code);
        let mut bytes = response.head(wants_close(request));
        let body = match *request.method() == Method::HEAD {
            true => &[],
            false => response.body.as_slice(),
        };
        let cut = truncate.filter(|cut| *cut < body.len());
        bytes.extend_from_slice(&body[..cut.unwrap_or(body.len())]);
        self.transport.write(&bytes)?;
        match cut {
            Some(_) => Err(Disconnected),
            None => Ok(()),
        }
    }

    /// Answers an invalid request, and closes the connection.
    fn reject(&mut self, status: &StatusObject) {
        let response = ServedResponse::from(status);
        let bytes = [response.head(true), response.body].concat();
        if self.transport.write(&bytes).is_ok() {
            self.transport.close_early();
        }
    }

    fn never_end(&mut self, hit: &Hit) -> Result<(), Disconnected> {
        self.transport.write(&chunked_head(200, None))?;
        let filler = chunk(&[b' '; 16 * 1024]);
        while hit.holds() {
            self.transport.write(&filler)?;
            // Without a pause, the endless body would occupy a CPU core.
            let pause = Instant::now() + Duration::from_millis(1);
            self.hold_client(Some(pause), || !hit.holds())?;
        }
        self.transport.write(&chunk(&[]))
    }

    fn identify(&self, request: &ServedRequest) -> Result<RequestUser, StatusObject> {
        let certificate = self.transport.client_certificate();
        let certified =
            certificate.zip(self.server.tls.as_ref()).and_then(|(certificate, tls)| tls.user_of(certificate));
        let users = &self.server.users;
        users.authenticate(request.headers(), certified.as_deref())
    }

    fn describe(
        &self,
        route: &Result<RequestRoute, StatusObject>,
        identity: &Result<RequestUser, StatusObject>,
        request: &ServedRequest,
    ) -> RequestLog {
        let call = match route {
            Ok(RequestRoute::Resource(call)) => Some(call),
            _ => None,
        };
        let name = |call: &ResourceCall| match call.verb {
            Verb::Create => {
                let body: serde_json::Value = serde_json::from_slice(request.body()).ok()?;
                Some(body["metadata"]["name"].as_str()?.to_owned())
            }
            Verb::List | Verb::Watch => call.selected_name(),
            _ => call.name.clone(),
        };
        RequestLog {
            at: Instant::now(),
            connection: self.number,
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            verb: call.map(|call| call.verb),
            resource: call.map(|call| call.api.resource),
            namespace: call.and_then(|call| call.namespace.clone()),
            name: call.and_then(name),
            user: identity.as_ref().ok().and_then(|it| it.name.clone()),
            user_agent: header_text(request.headers(), "user-agent").map(str::to_owned),
            status: None,
        }
    }
}
