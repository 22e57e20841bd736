//! Faults: what goes wrong, and for whom.

use std::time::Duration;

use serde_json::Value;

use crate::testing::object::resource::{Resource, Verb};
use crate::testing::object::status::StatusObject;
use crate::testing::server::log::RequestLog;
use crate::testing::wire::http::ServedResponse;

/// A rule that spoils matching requests.
///
/// Begin with what is to happen ([`Fault::hang`], [`Fault::status`], …) and narrow it down with
/// [`verb`](Fault::verb), [`name`](Fault::name), [`first`](Fault::first) and so on; a rule that is
/// not narrowed matches every request. Hand it to
/// [`ApiServer::fault`](crate::testing::ApiServer::fault).
///
/// *Apply* means that the request takes effect in the store as it would without the fault. Rules
/// are tried in the order in which they were added and the first match wins, except that delays
/// add up. "Watch faults" work on streams, also on those that are open already.
///
/// ```
/// use leasehold::testing::{ApiServer, Fault, Resource, Verb};
///
/// let server = ApiServer::start()?;
/// // The first renewal takes effect, but its answer gets lost.
/// let lost = server.fault(
///     Fault::drop_after().verb(Verb::Update).resource(Resource::Leases).name("x").first(1),
/// );
/// // … the code under test …
/// assert_eq!(lost.hits(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing until it is given to ApiServer::fault"]
pub struct Fault {
    pub(crate) action: Action,
    pub(crate) matcher: Matcher,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Delay(Duration),
    DelayAnswer(Duration),
    Hang,
    HangAfter,
    Answer(ServedResponse),
    ApplyThen(StatusObject),
    Refuse(StatusObject),
    DropBefore,
    DropAfter,
    Garbage(Vec<u8>),
    Truncate(usize),
    EndlessBody,
    StallWatch,
    CloseWatch,
    CutWatch,
    WatchBytes(Vec<u8>),
    DelayEvents(Duration),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    verbs: Vec<Verb>,
    resource: Option<Resource>,
    namespace: Option<String>,
    name: Option<String>,
    user: Option<String>,
    pub skip: u64,
    pub first: Option<u64>,
    pub every: Option<u64>,
    pub probability: Option<f64>,
    pub after_events: u64,
}

/// What happens.
impl Fault {
    /// Waits before applying. The request is applied even if its client has given up by then, like
    /// a write that waits in etcd's queue.
    pub fn delay(time: Duration) -> Fault {
        Fault::new(Action::Delay(time))
    }

    /// Applies at once, and answers later.
    pub fn delay_answer(time: Duration) -> Fault {
        Fault::new(Action::DelayAnswer(time))
    }

    /// Reads the request and then stays silent, until [released](crate::testing::FaultHandle::release): then
    /// the request is applied, even if its client has given up, and answered. Until then it
    /// occupies a thread.
    pub fn hang() -> Fault {
        Fault::new(Action::Hang)
    }

    /// Applies, and then stays silent until [released](crate::testing::FaultHandle::release).
    pub fn hang_after() -> Fault {
        Fault::new(Action::HangAfter)
    }

    /// Answers with a `Status`, without applying. `reason` may be empty.
    pub fn status(code: u16, reason: &str, message: &str) -> Fault {
        Fault::new(Action::Refuse(StatusObject::new(code, reason, message)))
    }

    /// Applies, and then answers with a `Status` all the same, as a real server does with 500, 504
    /// and 409 when its etcd stalls.
    pub fn apply_then(code: u16, reason: &str, message: &str) -> Fault {
        Fault::new(Action::ApplyThen(StatusObject::new(code, reason, message)))
    }

    /// Answers with `body` as JSON, without applying.
    pub fn replace(code: u16, body: &Value) -> Fault {
        Fault::new(Action::Answer(ServedResponse::json(code, body)))
    }

    /// Answers with any bytes as body, without applying. The head is sound.
    pub fn replace_bytes(code: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Fault {
        Fault::new(Action::Answer(ServedResponse::new(code, content_type, body)))
    }

    /// Closes the connection without applying.
    pub fn drop_before() -> Fault {
        Fault::new(Action::DropBefore)
    }

    /// Applies, and then closes the connection without an answer. A watch is closed before its
    /// first byte.
    pub fn drop_after() -> Fault {
        Fault::new(Action::DropAfter)
    }

    /// Sends these bytes in place of an HTTP answer, without applying, and closes the connection.
    pub fn garbage(bytes: impl Into<Vec<u8>>) -> Fault {
        Fault::new(Action::Garbage(bytes.into()))
    }

    /// Applies, and then closes the connection after the first `bytes` of the answer's body; the
    /// head is sent in full. A watch is cut after that many bytes of its events.
    pub fn truncate(bytes: usize) -> Fault {
        Fault::new(Action::Truncate(bytes))
    }

    /// Sends 200 and a body of spaces that never ends, without applying, until
    /// [released](crate::testing::FaultHandle::release) or the client goes away.
    pub fn endless_body() -> Fault {
        Fault::new(Action::EndlessBody)
    }

    /// Watch fault: the stream stays open and falls silent until
    /// [released](crate::testing::FaultHandle::release); what was held back is then sent. A stream that
    /// lags more than some ten thousand events behind is ended, as a real server does with slow
    /// readers.
    pub fn stall_watch() -> Fault {
        Fault::new(Action::StallWatch)
    }

    /// Watch fault: the stream ends in order, as if its time were up.
    pub fn close_watch() -> Fault {
        Fault::new(Action::CloseWatch)
    }

    /// Watch fault: the connection breaks in the middle of the stream.
    pub fn cut_watch() -> Fault {
        Fault::new(Action::CutWatch)
    }

    /// Watch fault: puts these bytes into the stream, once a stream. Add the newline yourself.
    pub fn watch_bytes(bytes: impl Into<Vec<u8>>) -> Fault {
        Fault::new(Action::WatchBytes(bytes.into()))
    }

    /// Watch fault: every event goes out this much later.
    pub fn delay_events(time: Duration) -> Fault {
        Fault::new(Action::DelayEvents(time))
    }

    fn new(action: Action) -> Fault {
        Fault { action, matcher: Matcher::default() }
    }
}

/// For whom.
impl Fault {
    /// Only this verb; called again, this one too.
    pub fn verb(mut self, verb: Verb) -> Fault {
        self.matcher.verbs.push(verb);
        self
    }

    /// Only this resource.
    pub fn resource(mut self, resource: Resource) -> Fault {
        self.matcher.resource = Some(resource);
        self
    }

    /// Only this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Fault {
        self.matcher.namespace = Some(namespace.into());
        self
    }

    /// Only the object of this name: in the path, in the field selector of a list or watch, or in
    /// the body of a POST.
    pub fn name(mut self, name: impl Into<String>) -> Fault {
        self.matcher.name = Some(name.into());
        self
    }

    /// Only requests of this user. Needs a server with users.
    pub fn user(mut self, name: impl Into<String>) -> Fault {
        self.matcher.user = Some(name.into());
        self
    }

    /// Spares the first `count` requests that match otherwise.
    pub fn skip(mut self, count: u64) -> Fault {
        self.matcher.skip = count;
        self
    }

    /// Hits at most `count` times. Watch faults count streams.
    pub fn first(mut self, count: u64) -> Fault {
        self.matcher.first = Some(count);
        self
    }

    /// Hits one in `nth` requests that match otherwise, the first of them included. Zero counts
    /// as one.
    pub fn every(mut self, nth: u64) -> Fault {
        self.matcher.every = Some(nth.max(1));
        self
    }

    /// Hits with this probability, between 0 and 1.
    pub fn probability(mut self, probability: f64) -> Fault {
        self.matcher.probability = Some(probability);
        self
    }

    /// For watch faults: lets a stream send `count` events before.
    pub fn after_events(mut self, count: u64) -> Fault {
        self.matcher.after_events = count;
        self
    }

    /// For [`Fault::status`] and [`Fault::apply_then`]: adds `details.retryAfterSeconds` and, as
    /// the real server does with it, a `Retry-After` header.
    pub fn retry_after(mut self, seconds: u64) -> Fault {
        if let Action::Refuse(status) | Action::ApplyThen(status) = &mut self.action {
            *status = status.clone().retry_after(seconds);
        }
        self
    }
}

impl Action {
    pub fn is_delay(&self) -> bool {
        matches!(self, Action::Delay(_) | Action::DelayAnswer(_))
    }

    pub fn is_watch_fault(&self) -> bool {
        matches!(
            self,
            Action::StallWatch | Action::CloseWatch | Action::CutWatch | Action::WatchBytes(_) | Action::DelayEvents(_)
        )
    }
}

impl Matcher {
    /// Whether the request is one of those meant, the counting left aside.
    pub fn matches(&self, request: &RequestLog) -> bool {
        let agrees = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.verbs.is_empty() || request.verb.is_some_and(|verb| self.verbs.contains(&verb)))
            && (self.resource.is_none() || self.resource == request.resource)
            && agrees(&self.namespace, &request.namespace)
            && agrees(&self.name, &request.name)
            && agrees(&self.user, &request.user)
    }
}
