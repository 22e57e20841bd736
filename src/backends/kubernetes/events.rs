//! Events about terms, which `kubectl describe` shows for the object with the record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::backends::kubernetes::client::{Client, ClientError, Method, Request};
use crate::election::stop_reason::StopReason;
use crate::net::json as limited;
use crate::observe::observer::{Event, Observer, beginning};
use crate::store::CallContext;
use crate::store::record::MicroTime;
use crate::util::cancel::CancelToken;
use crate::util::log_fields::STORE;
use crate::util::panics::log_line;

/// Timeout for each of the two requests for an event.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Limits of the API: `reportingInstance` in characters, `note` and names in bytes.
const LONGEST_INSTANCE: usize = 128;
const LONGEST_NOTE: usize = 1024;
const LONGEST_NAME: usize = 253;

/// Memory limit for the parsed object from which the recorder reads the uid.
const LARGEST_VALUES: usize = 9 * 1024 * 1024;

/// An [`Observer`] that records `became leader` and `stopped leading` as Kubernetes events.
///
/// [`LeaderElectorBuilder::events`](crate::LeaderElectorBuilder::events) describes the events.
#[derive(Debug)]
pub(crate) struct EventRecorder {
    pub(super) client: Client,
    pub(super) identity: String,
    // The object that the events belong to, and its path.
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) is_failing: AtomicBool,
}

impl EventRecorder {
    fn record(&self, what: &str) {
        match self.create(what) {
            Ok(()) => self.is_failing.store(false, Ordering::SeqCst),
            Err(error) => {
                let Self { kind, namespace, name, .. } = self;
                let level =
                    if self.is_failing.swap(true, Ordering::SeqCst) { log::Level::Debug } else { log::Level::Warn };
                let is_forbidden = error.status().is_some_and(|status| status.code == 403);
                let grant = "; grant the verb `create` on the resource `events` of the API group `events.k8s.io`, or \
                             disable events";
                let advice = if is_forbidden { grant } else { "" };
                log_line!(log, target: STORE, level, "{kind} {namespace}/{name}: event `{what}` lost: {error}{advice}");
            }
        }
    }

    fn create(&self, what: &str) -> Result<(), ClientError> {
        let Self { api_version, kind, namespace, name, path, .. } = self;
        let request = Request { method: Method::Get, path, query: &[], body: None };
        let call = || CallContext::new(TIMEOUT, CancelToken::new());
        let object = self.client.request(request, &call())?;
        // The server accepts an event without a uid. Clients that search for the events of the object do not find such
        // an event.
        let object: Option<Value> = limited::read(&object.body, LARGEST_VALUES).ok();
        let uid = object.as_ref().and_then(|object| object.get("metadata")?.get("uid"));
        let now = SystemTime::now();
        let nanos = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let suffix = format!(".{nanos:x}");
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}{suffix}", beginning(name, LONGEST_NAME - suffix.len()).trim_end_matches(['-', '.'])),
                "namespace": namespace,
            },
            "eventTime": MicroTime::from(now).as_str(),
            "reportingController": "leasehold",
            "reportingInstance": beginning(&self.identity, LONGEST_INSTANCE),
            "action": "LeaderElection",
            "reason": "LeaderElection",
            "type": "Normal",
            "note": beginning(&format!("{} {what}", beginning(&self.identity, LONGEST_NOTE / 2)), LONGEST_NOTE),
            "regarding": { "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid },
        });
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let request = Request { method: Method::Post, path: &path, query: &[], body: Some(&event) };
        self.client.request(request, &call()).map(drop)
    }
}

impl Observer for EventRecorder {
    fn on_event(&self, event: &Event) {
        match event {
            Event::StartedLeading { .. } => self.record("became leader"),
            Event::StoppedLeading { reason: reason @ StopReason::Requested } => {
                self.record(&format!("stopped leading: {reason}"));
            }
            Event::StoppedLeading { .. } => self.record("stopped leading"),
            _ => {}
        }
    }
}
