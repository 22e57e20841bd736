//! The faults that tests inject, and the requests that they match.

use std::time::Duration;

use serde_json::Value;

use crate::object::resource::{Resource, Verb};
use crate::object::status::StatusObject;
use crate::server::log::RequestLog;
use crate::util::setters;
use crate::wire::http::ServedResponse;

/// A rule that injects a fault into matching requests.
///
/// Start with the fault ([`Fault::hang`], [`Fault::status`], …) and narrow the rule down with [`verb`](Fault::verb),
/// [`name`](Fault::name), [`first`](Fault::first) and so on. A rule without conditions matches every request. Pass the
/// rule to [`ApiServer::fault`](crate::ApiServer::fault).
///
/// *Apply* means that the store executes the request as it would without the fault. Rules are tried in the order in
/// which they were added. The first match wins, except that delays add up. A *watch fault* acts on the streams of
/// watches, including streams that are already open.
///
/// # Examples
///
/// ```
/// use leasehold_testing::{ApiServer, Fault, Resource, Verb};
///
/// let server = ApiServer::start()?;
/// // The first renewal takes effect, but its response is lost.
/// let lost = server.fault(
///     Fault::drop_after().verb(Verb::Update).resource(Resource::Leases).name("x").first(1),
/// );
/// // … run the code under test …
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

/// Defines constructors of faults. The body of a constructor is the action of the fault.
macro_rules! constructors {
    ($($(#[$attribute:meta])* pub fn $name:ident($($argument:ident: $type:ty),*) $action:block)+) => {
        /// Constructors, one for each fault.
        impl Fault {$(
            $(#[$attribute])*
            pub fn $name($($argument: $type),*) -> Fault {
                Fault { action: $action, matcher: Matcher::default() }
            }
        )+}
    };
}

constructors! {
    /// Applies the request after a delay.
    ///
    /// The request is applied even if its client disconnects during the delay, like a write that waits in etcd's queue.
    pub fn delay(time: Duration) { Action::Delay(time) }

    /// Applies the request at once, and delays the response.
    pub fn delay_answer(time: Duration) { Action::DelayAnswer(time) }

    /// Hangs until [released](crate::FaultHandle::release), without a response.
    ///
    /// The request is read at once. After the release, the request is applied and answered, even if its client has
    /// disconnected. A request that hangs occupies a thread.
    pub fn hang() { Action::Hang }

    /// Applies the request, and hangs until [released](crate::FaultHandle::release).
    pub fn hang_after() { Action::HangAfter }

    /// Responds with a `Status`, without applying the request. `reason` may be empty.
    pub fn status(code: u16, reason: &str, message: &str) { Action::Refuse(StatusObject::new(code, reason, message)) }

    /// Applies the request, but responds with a `Status`.
    ///
    /// A real server sends such responses with code 500, 504 or 409 when its etcd stalls.
    pub fn apply_then(code: u16, reason: &str, message: &str) {
        Action::ApplyThen(StatusObject::new(code, reason, message))
    }

    /// Responds with `body` as JSON, without applying the request.
    pub fn replace(code: u16, body: &Value) { Action::Answer(ServedResponse::json(code, body)) }

    /// Responds with a valid head and `body`, without applying the request.
    pub fn replace_bytes(code: u16, content_type: &str, body: impl Into<Vec<u8>>) {
        Action::Answer(ServedResponse::new(code, content_type, body))
    }

    /// Closes the connection without applying the request.
    pub fn drop_before() { Action::DropBefore }

    /// Applies the request, and closes the connection without a response.
    ///
    /// The connection of a watch is closed before the first byte of the response.
    pub fn drop_after() { Action::DropAfter }

    /// Sends these bytes instead of an HTTP response, and closes the connection.
    ///
    /// The request is not applied.
    pub fn garbage(bytes: impl Into<Vec<u8>>) { Action::Garbage(bytes.into()) }

    /// Applies the request, and closes the connection after `bytes` bytes of the response body.
    ///
    /// The head is sent in full. A watch is cut after `bytes` bytes of events.
    pub fn truncate(bytes: usize) { Action::Truncate(bytes) }

    /// Sends 200 and an endless body of spaces, without applying the request.
    ///
    /// The body ends when the fault is [released](crate::FaultHandle::release), or when the client
    /// disconnects.
    pub fn endless_body() { Action::EndlessBody }

    /// Sends no events of a watch until [released](crate::FaultHandle::release).
    ///
    /// A watch fault. After the release, the delayed events are sent. A stream with about ten thousand delayed events
    /// ends, because a real server also ends the watches of slow readers.
    pub fn stall_watch() { Action::StallWatch }

    /// Ends a watch stream without an error, as after its timeout. A watch fault.
    pub fn close_watch() { Action::CloseWatch }

    /// Breaks the connection in the middle of a watch stream. A watch fault.
    pub fn cut_watch() { Action::CutWatch }

    /// Inserts these bytes into a watch stream, once per stream.
    ///
    /// A watch fault. `bytes` must include the newline.
    pub fn watch_bytes(bytes: impl Into<Vec<u8>>) { Action::WatchBytes(bytes.into()) }

    /// Delays every event of a watch stream. A watch fault.
    pub fn delay_events(time: Duration) { Action::DelayEvents(time) }
}

setters! {
    /// Setters for the conditions of a fault.
    impl Fault;

    /// Matches only this verb. Further calls add verbs.
    pub fn verb(mut self, verb: Verb) { self.matcher.verbs.push(verb) }

    /// Matches only this resource.
    pub fn resource(mut self, resource: Resource) { self.matcher.resource = Some(resource) }

    /// Matches only this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) { self.matcher.namespace = Some(namespace.into()) }

    /// Matches only the object of this name.
    ///
    /// The name is in the path, in the field selector of a list or watch, or in the body of a POST.
    pub fn name(mut self, name: impl Into<String>) { self.matcher.name = Some(name.into()) }

    /// Matches only requests of this user. Needs a server with users.
    pub fn user(mut self, name: impl Into<String>) { self.matcher.user = Some(name.into()) }

    /// Skips the first `count` matching requests.
    pub fn skip(mut self, count: u64) { self.matcher.skip = count }

    /// Hits at most `count` requests. A watch fault counts streams.
    pub fn first(mut self, count: u64) { self.matcher.first = Some(count) }

    /// Hits one in `nth` matching requests, starting with the first.
    ///
    /// If `nth` is zero, the fault hits every matching request.
    pub fn every(mut self, nth: u64) { self.matcher.every = Some(nth.max(1)) }

    /// Hits with this probability, between 0 and 1.
    pub fn probability(mut self, probability: f64) { self.matcher.probability = Some(probability) }

    /// Lets a stream send `count` events before a watch fault.
    pub fn after_events(mut self, count: u64) { self.matcher.after_events = count }

    /// Adds `details.retryAfterSeconds` and a `Retry-After` header.
    ///
    /// Has an effect on [`Fault::status`] and [`Fault::apply_then`] only.
    pub fn retry_after(mut self, seconds: u64) {
        if let Action::Refuse(status) | Action::ApplyThen(status) = &mut self.action {
            status.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
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
    /// Returns `true` if the request matches, without regard to the counters.
    pub fn matches(&self, request: &RequestLog) -> bool {
        let agrees = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.verbs.is_empty() || request.verb.is_some_and(|verb| self.verbs.contains(&verb)))
            && (self.resource.is_none() || self.resource == request.resource)
            && agrees(&self.namespace, &request.namespace)
            && agrees(&self.name, &request.name)
            && agrees(&self.user, &request.user)
    }
}
