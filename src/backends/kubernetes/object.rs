//! Records in objects of an API server.
//!
//! Each [`Codec`] supports one kind of object.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::metadata::Metadata;
use super::{annotation, notes};
use crate::backends::kubernetes::client::{ApiStatus, Client, ClientError, Method, Request, Response};
use crate::backends::kubernetes::events::EventRecorder;
use crate::net::calls::CallError;
use crate::net::json;
use crate::store::record::{LeaderElectionRecord, RecordWrite, StoreData, VersionedRecord};
use crate::store::{
    CallContext, Cursor, MAX_VERSION, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope, check_watch,
};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;
use crate::util::log_fields::STORE;
use crate::util::names::{check_name, check_namespace};
use crate::util::panics::log_line;

mod list;

/// Minimum duration of a watch.
///
/// A random part of the same length is added, so that the watches of many candidates do not end together.
const WATCH_LASTS: Duration = Duration::from_secs(300);

/// Time limit for opening a watch.
const OPENING: Duration = Duration::from_secs(10);

/// Maximum time without data, after which a watch ends with an error.
///
/// A server sends a bookmark about once a minute. Without bookmarks, the watch of a lease without a holder restarts
/// after this time.
const SILENCE: Duration = Duration::from_secs(150);

/// Maximum size of an object's JSON, which is twice the 1.5 MiB that etcd accepts.
///
/// The limit of etcd is its `--max-request-bytes`.
///
/// etcd stores objects in a binary form, and the JSON form can be longer.
const LARGEST: usize = 3 * 1024 * 1024;

/// Memory limit for a parsed object.
///
/// Together with the response and the copied record, the total stays below 16 MiB.
const LARGEST_VALUES: usize = 9 * 1024 * 1024;

/// A kind of object that can hold a record.
pub trait Codec: Send + Sync + 'static {
    /// The `apiVersion` of the objects: the API group and its version, or the version alone for the core group.
    const API_VERSION: &'static str;
    /// The `kind` of the objects.
    const KIND: &'static str;
    /// The name of the kind in messages.
    const NAME: &'static str;
    /// The name of the kind in paths and RBAC rules.
    const RESOURCE: &'static str;

    /// Returns the record without its uid, or the reason why the object is invalid.
    ///
    /// The default implementation reads the annotation.
    fn read(object: &Map<String, Value>) -> Result<LeaderElectionRecord, String> {
        annotation::read(object)
    }

    /// Writes the record into the object and changes nothing else.
    ///
    /// The default implementation writes the annotation.
    fn write(object: &mut Value, record: &LeaderElectionRecord) {
        annotation::write(object, record);
    }
}

/// A store that keeps records in the objects of one kind in a namespace.
///
/// Use one of the aliases [`LeaseStore`](crate::kubernetes::LeaseStore),
/// [`ConfigMapStore`](crate::kubernetes::ConfigMapStore) and [`EndpointsStore`](crate::kubernetes::EndpointsStore).
///
/// # Watches
///
/// A watch of a prefix or of all keys first lists all objects of the kind in the namespace, because an API server
/// cannot select by prefix. The list has pages of at most 500 objects, and smaller pages if a page would exceed the 4
/// MiB of the client. The role must grant the verbs `list` and `watch` without `resourceNames`. A watch of one key
/// needs no list and does not send [`WatchEvent::Synced`](crate::store::WatchEvent::Synced).
///
/// # Examples
///
/// ```no_run
/// use leasehold::kubernetes::{Client, ClientConfig};
/// use leasehold::kubernetes::ConfigMapStore;
/// use leasehold::LeaderElector;
///
/// let client = Client::new(ClientConfig::infer()?)?;
/// let store = ConfigMapStore::new(client, "kube-system")?;
/// let elector = LeaderElector::builder("jobs").start_on(store)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct ObjectStore<C> {
    client: Client,
    namespace: String,
    metadata: Metadata,
    /// `true` after the store reported that an object has no room for notes.
    has_reported_full: AtomicBool,
    codec: PhantomData<fn() -> C>,
}

impl<C: Codec> ObjectStore<C> {
    /// Creates a store of the objects in `namespace`.
    ///
    /// Does not connect.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if the API server would reject the namespace.
    pub fn new(client: Client, namespace: &str) -> Result<Self, ConfigError> {
        Self::with_metadata(client, namespace, Metadata::default())
    }

    pub(crate) fn with_metadata(client: Client, namespace: &str, metadata: Metadata) -> Result<Self, ConfigError> {
        check_namespace(namespace)?;
        let has_reported_full = AtomicBool::new(false);
        Ok(Self { client, namespace: namespace.to_owned(), metadata, has_reported_full, codec: PhantomData })
    }

    /// Creates an observer that records a candidate's terms as events of the object `key`.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if `key` is not a valid object name.
    pub(crate) fn event_recorder(&self, key: &str, identity: &str) -> Result<EventRecorder, ConfigError> {
        check_name(key)?;
        Ok(EventRecorder {
            client: self.client.clone(),
            identity: identity.to_owned(),
            api_version: C::API_VERSION,
            kind: C::KIND,
            namespace: self.namespace.clone(),
            name: key.to_owned(),
            path: self.path(Some(key)),
            is_failing: AtomicBool::new(false),
        })
    }

    fn describe_scope(&self, scope: WatchScope<'_>) -> String {
        match scope {
            WatchScope::Key(key) => self.describe(key),
            WatchScope::Prefix(prefix) => format!("{} {prefix}* in {}", C::RESOURCE, self.namespace),
            WatchScope::All => format!("{} in {}", C::RESOURCE, self.namespace),
        }
    }

    fn path(&self, key: Option<&str>) -> String {
        let api = if C::API_VERSION.contains('/') { "apis" } else { "api" };
        let collection = format!("/{api}/{}/namespaces/{}/{}", C::API_VERSION, self.namespace, C::RESOURCE);
        match key {
            Some(key) => format!("{collection}/{key}"),
            None => collection,
        }
    }

    fn request(
        &self,
        verb: &'static str,
        key: &str,
        body: Option<&Value>,
        call: &CallContext,
    ) -> Result<Response, StoreError> {
        let (method, path) = match verb {
            "get" => (Method::Get, self.path(Some(key))),
            "create" => (Method::Post, self.path(None)),
            _ => (Method::Put, self.path(Some(key))),
        };
        let request = Request { method, path: &path, query: &[], body };
        self.client.request(request, call).map_err(|error| self.explain(verb, WatchScope::Key(key), error))
    }

    /// Writes the record, its notes and the configured metadata into an object.
    fn write(&self, key: &str, object: &mut Value, write: RecordWrite<'_>) {
        self.metadata.write(object);
        C::write(object, write.record);
        if !notes::write(object, &write) && !self.has_reported_full.swap(true, Ordering::Relaxed) {
            let what = self.describe(key);
            let rule = "all annotations together must have at most 262144 bytes";
            let remedy = "remove annotations of other programs";
            log_line!(warn, target: STORE, "{what}: notes of the term left out: {rule}; {remedy}");
        }
    }

    /// Returns the observed object with this record and the configured metadata.
    fn replacement(&self, key: &str, base: &VersionedRecord, write: RecordWrite<'_>) -> Value {
        let mut object = base.data.get::<Value>().cloned().unwrap_or_else(|| json!({}));
        self.write(key, &mut object, write);
        // The uid turns a PUT to a deleted object into a conflict. Without the uid, the PUT creates the object.
        object["metadata"]["uid"] = json!(base.record.uid);
        object["metadata"]["resourceVersion"] = json!(base.version.to_string());
        object
    }

    fn read(&self, key: &str, response: &Response) -> Result<VersionedRecord, StoreError> {
        let object = read(&response.body).map_err(|what| self.malformed(key, &what))?;
        self.parse(key, object)
    }

    fn parse(&self, key: &str, mut object: Value) -> Result<VersionedRecord, StoreError> {
        let (record, version) = parse::<C>(&object, key).map_err(|what| self.malformed(key, &what))?;
        let notes = object.as_object().map(|object| notes::read(object, &record)).unwrap_or_default();
        // `managedFields` is the longest part of many objects. The server keeps `managedFields` if a PUT has none.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Ok(VersionedRecord { notes: Box::new(notes), ..VersionedRecord::new(record, version, StoreData::new(object)) })
    }

    /// Parses one line of a watch into the version of the line and the event, if any.
    fn event(&self, scope: WatchScope<'_>, line: &[u8]) -> Result<(Option<u64>, Option<WatchEvent>), StoreError> {
        let malformed = |what: &str| {
            let message = format!("cannot watch {}: invalid event: {what}", self.describe_scope(scope));
            StoreError::new(StoreErrorKind::Malformed, message)
        };
        let mut event = read(line).map_err(|what| malformed(&what))?;
        let object = event.get_mut("object").map(Value::take).ok_or_else(|| malformed("no object"))?;
        let version = resource_version(&object);
        let key = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let event = match event["type"].as_str() {
            Some("BOOKMARK") => {
                version.ok_or_else(|| malformed("bookmark without a version"))?;
                None
            }
            Some("ERROR") => return Err(self.watch_ended(scope, &object)),
            // A server cannot select by prefix. A proxy, or a server that ignores selectors, may send other objects.
            Some(_) if key.is_empty() || !scope.includes(&key) => return Ok((None, None)),
            Some("DELETED") => {
                let version = version.ok_or_else(|| malformed("deletion without a version"))?;
                Some(WatchEvent::Deleted { key: key.into(), version })
            }
            Some("ADDED" | "MODIFIED") => Some(WatchEvent::read(scope, &key, self.parse(&key, object))?),
            _ => return Err(malformed("unknown type")),
        };
        Ok((version, event))
    }

    /// Returns the error that the server sent as an event of a watch.
    fn watch_ended(&self, scope: WatchScope<'_>, object: &Value) -> StoreError {
        let status = ApiStatus::from_object(object).unwrap_or_default();
        let kind = if status.code == 410 { StoreErrorKind::Expired } else { StoreErrorKind::Unavailable };
        let message = format!("cannot watch {}: the server ended the watch: {status}", self.describe_scope(scope));
        StoreError::new(kind, message).with_retry_after(status.retry_after)
    }

    fn malformed(&self, key: &str, what: &str) -> StoreError {
        let message = format!("{}: not a valid {}: {what}", self.describe(key), C::KIND);
        StoreError::new(StoreErrorKind::Malformed, message)
    }

    fn explain(&self, verb: &str, scope: WatchScope<'_>, error: ClientError) -> StoreError {
        let (status, namespace, what) = (error.status(), &self.namespace, self.describe_scope(scope));
        let kind = match status.map(|status| (status.code, status.reason.as_str())) {
            Some((409, "AlreadyExists")) => StoreErrorKind::AlreadyExists,
            Some((409, _)) => StoreErrorKind::Conflict,
            Some((403, _)) => StoreErrorKind::Forbidden,
            Some((410, _)) => StoreErrorKind::Expired,
            Some((401, _)) => StoreErrorKind::Unauthorized,
            Some((404, _)) => StoreErrorKind::NotFound,
            Some((429 | 500.., _)) => StoreErrorKind::Unavailable,
            Some(_) => StoreErrorKind::Rejected,
            None => error.net_kind().map_or(StoreErrorKind::Unavailable, StoreErrorKind::from),
        };
        let advice = match status {
            // Quotas, policies and terminating namespaces also cause a 403. Only a 403 for missing rights contains
            // the words `cannot VERB resource`.
            Some(it) if it.code == 403 && it.message.contains(&format!(" cannot {verb} resource ")) => format!(
                "; grant the verb `{verb}` on the resource `{}` of the API group `{}` in the namespace `{namespace}`{}",
                C::RESOURCE,
                C::API_VERSION.split_once('/').map_or("\"\"", |(group, _)| group),
                if scope.is_one() { "" } else { " without `resourceNames`" }
            ),
            Some(it) if it.code == 404 => {
                format!("; check that the namespace `{namespace}` exists and that the URL is an API server's")
            }
            _ => String::new(),
        };
        let retry_after = status.and_then(|status| status.retry_after);
        let message = format!("cannot {verb} {what}: {error}{advice}");
        StoreError::new(kind, message).with_retry_after(retry_after).with_source(error)
    }
}

impl<C: Codec> Store for ObjectStore<C> {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        match self.request("get", key, None, call) {
            Ok(response) => self.read(key, &response).map(Some),
            Err(error) if is_absence(&error, C::RESOURCE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        let mut object = json!({
            "apiVersion": C::API_VERSION,
            "kind": C::KIND,
            "metadata": { "namespace": self.namespace, "name": key },
        });
        self.write(key, &mut object, write);
        self.read(key, &self.request("create", key, Some(&object), call)?)
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        match self.request("update", key, Some(&self.replacement(key, base, write)), call) {
            Ok(response) => self.read(key, &response),
            // Depending on the kind, the server answers an update of a deleted object with a conflict or with a 404.
            Err(error) if is_absence(&error, C::RESOURCE) => {
                let message = format!("cannot update {}: the object was deleted", self.describe(key));
                Err(StoreError::new(StoreErrorKind::Conflict, message))
            }
            Err(error) => Err(error),
        }
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let selector = scope.is_one().then(|| format!("metadata.name={}", scope.text()));
        let seconds = (WATCH_LASTS.as_secs() + fastrand::u64(..WATCH_LASTS.as_secs())).to_string();
        let mut after = from.and_then(Cursor::get::<u64>).copied();
        let is_listed = after.is_none() && !scope.is_one();
        let list = is_listed.then(|| self.list(scope, cancel)).transpose()?;
        after = after.or(list.as_ref().map(|list| list.version));
        let from = after.map(|version| version.to_string());
        let mut query = vec![("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", seconds.as_str())];
        query.extend(selector.as_deref().map(|selector| ("fieldSelector", selector)));
        query.extend(from.as_deref().map(|version| ("resourceVersion", version)));
        let path = self.path(None);
        let request = Request { method: Method::Get, path: &path, query: &query, body: None };
        let explain = |error| check_watch(cancel).err().unwrap_or_else(|| self.explain("watch", scope, error));
        let mut stream =
            self.client.stream(request, SILENCE, &CallContext::new(OPENING, cancel.clone())).map_err(explain)?;
        on_event(WatchEvent::Opened);
        if let Some(list) = list {
            let version = list.version;
            self.deliver(list, on_event)?;
            on_event(WatchEvent::Bookmark(Cursor::new(version)));
        }
        while let Some(line) = stream.next_line().map_err(explain)? {
            let (version, event) = self.event(scope, &line)?;
            if let Some(event) = event {
                on_event(event);
            }
            if let Some(version) = version {
                let newest = *after.insert(after.map_or(version, |after| after.max(version)));
                on_event(WatchEvent::Bookmark(Cursor::new(newest)));
            }
        }
        Ok(())
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        check_name(key)?;
        self.metadata.check()
    }

    fn location(&self) -> Option<String> {
        Some(format!("{} ({})", self.client.server(), self.client.source()))
    }

    fn keeps_notes(&self) -> bool {
        true
    }

    fn may_campaign(&self, key: &str, exists: bool, call: &CallContext) -> Option<bool> {
        let group = C::API_VERSION.split_once('/').map_or("", |(group, _)| group);
        let is_allowed = |verb| {
            // A rule for names does not apply to a create, because its request has no name.
            let name = Some(key).filter(|_| verb != "create");
            let attributes = json!({
                "namespace": self.namespace, "verb": verb, "group": group, "resource": C::RESOURCE, "name": name,
            });
            let kind = "SelfSubjectAccessReview";
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": { "resourceAttributes": attributes },
            });
            let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            let request = Request { method: Method::Post, path, query: &[], body: Some(&review) };
            let answer = self.client.request(request, call).ok()?.json::<Value>().ok()?;
            answer["status"]["allowed"].as_bool()
        };
        let answers: Vec<_> =
            ["get", "update", "create"].into_iter().take(if exists { 2 } else { 3 }).map(is_allowed).collect();
        match answers.contains(&Some(false)) {
            true => Some(false),
            false => answers.into_iter().collect::<Option<Vec<_>>>().map(|_| true),
        }
    }

    fn describe(&self, key: &str) -> String {
        format!("{} {}/{key}", C::NAME, self.namespace)
    }
}

/// Returns `true` if the API server itself reports that the object is absent.
///
/// A 404 without these details may come from a proxy.
fn is_absence(error: &StoreError, resource: &str) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<ClientError>())
        .and_then(ClientError::status)
        .is_some_and(|status| {
            status.code == 404 && status.reason == "NotFound" && status.kind.as_deref() == Some(resource)
        })
}

/// Parses an object, or returns the reason for failure.
fn read(text: &[u8]) -> Result<Value, String> {
    match text.len() > LARGEST {
        true => Err(format!("{} bytes exceed the size limit of an object", text.len())),
        false => json::read(text, LARGEST_VALUES).map_err(|unreadable| unreadable.to_string()),
    }
}

/// Returns the record and the version of an object, or the reason why the object is invalid.
pub(super) fn parse<C: Codec>(object: &Value, name: &str) -> Result<(LeaderElectionRecord, u64), String> {
    let object = object.as_object().ok_or("not a JSON object")?;
    if object.get("kind").and_then(Value::as_str) != Some(C::KIND) {
        return Err("wrong kind".into());
    }
    let metadata = object.get("metadata").and_then(Value::as_object).ok_or("no metadata")?;
    if metadata.get("name").and_then(Value::as_str) != Some(name) {
        return Err("wrong name".into());
    }
    let version = version_in(metadata).ok_or("resourceVersion is not an integer between 1 and 2^63 - 1")?;
    let uid = metadata.get("uid").and_then(Value::as_str).filter(|uid| !uid.is_empty()).ok_or("no uid")?;
    Ok((LeaderElectionRecord { uid: Some(uid.to_owned()), ..C::read(object)? }, version))
}

fn resource_version(object: &Value) -> Option<u64> {
    version_in(object.get("metadata")?.as_object()?)
}

fn version_in(metadata: &Map<String, Value>) -> Option<u64> {
    let text = metadata.get("resourceVersion")?.as_str()?;
    // The next update sends the version as text. A text such as "+7" or "007" would change on the way, and every update
    // would conflict.
    text.parse().ok().filter(|version: &u64| (1..=MAX_VERSION).contains(version) && version.to_string() == text)
}

#[cfg(feature = "_internals")]
#[path = "properties.rs"]
pub(crate) mod properties;

#[cfg(test)]
mod tests {
    use super::super::lease::LeaseKind;
    use super::*;
    use crate::backends::kubernetes::client::{ClientConfig, ErrorKind};

    #[test]
    fn each_answer_and_error_is_a_kind_of_failure() {
        use StoreErrorKind::*;
        let client = Client::new(ClientConfig::new("http://127.0.0.1:1").unwrap()).unwrap();
        let objects = ObjectStore::<LeaseKind>::new(client, "team").unwrap();
        let kind = |kind: ErrorKind| objects.explain("get", WatchScope::All, ClientError::new(kind, "made up")).kind();
        for (code, reason, expected) in [
            (301, "", Rejected),
            (400, "BadRequest", Rejected),
            (401, "Unauthorized", Unauthorized),
            (403, "Forbidden", Forbidden),
            (404, "NotFound", NotFound),
            (409, "AlreadyExists", AlreadyExists),
            (409, "Conflict", Conflict),
            (410, "Expired", Expired),
            (413, "RequestEntityTooLarge", Rejected),
            (422, "Invalid", Rejected),
            (429, "TooManyRequests", Unavailable),
            (499, "", Rejected),
            (500, "InternalError", Unavailable),
            (504, "Timeout", Unavailable),
        ] {
            let status = ApiStatus { code, reason: reason.to_owned(), ..ApiStatus::default() };
            assert_eq!(kind(ErrorKind::Status(status)), expected, "{code} {reason}");
        }
        // `net/error.rs` tests the other kinds of failures without a response.
        assert_eq!(kind(ErrorKind::TlsVerification), Untrusted);
        // The error event that ends a watch.
        for (code, expected) in [(410, Expired), (429, Unavailable), (500, Unavailable)] {
            let status = json!({"kind": "Status", "code": code, "details": {"retryAfterSeconds": 7}});
            let ended = objects.watch_ended(WatchScope::All, &status);
            assert_eq!((ended.kind(), ended.retry_after()), (expected, Some(Duration::from_secs(7))), "{code}");
        }
    }
}
