//! The record in a Lease of `coordination.k8s.io/v1`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cancel::Cancel;
use crate::config::{ConfigError, check_name, check_namespace};
use crate::kube::json;
use crate::kube::{Client, Error, ErrorKind, Method, Request, Response, Status};
use crate::lock::{Call, Lock, LockError, LockErrorKind, WatchEvent};
use crate::record::{LeaderElectionRecord, MicroTime, Observed, Opaque};

const API: &str = "/apis/coordination.k8s.io/v1/namespaces";

/// How long a watch lasts at least, and at most twice that: many watches must not end at one time.
const WATCH_LASTS: Duration = Duration::from_secs(300);

/// How long opening a watch may take.
const OPENING: Duration = Duration::from_secs(10);

/// A server sends a bookmark about once a minute. Where it does not, a watch of a lease that nobody holds is opened anew.
const SILENCE: Duration = Duration::from_secs(150);

/// What may be read as a Lease. etcd refuses requests of more than 1.5 MiB (its `--max-request-bytes`), and the store holds
/// them in a binary form, of which the JSON can be longer: twice as long is taken for a Lease.
const LARGEST: usize = 3 * 1024 * 1024;

/// What the values of a Lease may take in memory while it is read. With the answer, and with the record that is copied out
/// of it, that stays below 16 MiB.
const LARGEST_VALUES: usize = 9 * 1024 * 1024;

/// A record in a Kubernetes `Lease`.
///
/// Reads carry no `resourceVersion` and are therefore linearizable; updates carry the version and the `uid` of what was
/// observed, so that the API server compares both. Labels, annotations and spec fields that others put on the Lease
/// survive.
///
/// # Examples
///
/// ```no_run
/// use leasehold::kube::{Client, ClientConfig};
/// use leasehold::{LeaderElector, LeaseLock};
///
/// let client = Client::new(ClientConfig::infer()?)?;
/// let lock = LeaseLock::new(client, "kube-system", "my-controller")?;
/// let elector = LeaderElector::builder("my-controller").start_on(lock)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct LeaseLock {
    client: Client,
    namespace: String,
    name: String,
}

impl LeaseLock {
    /// The Lease `name` in `namespace`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the API server would not take one of the names.
    pub fn new(client: Client, namespace: &str, name: &str) -> Result<Self, ConfigError> {
        check_namespace(namespace)?;
        check_name(name)?;
        Ok(Self { client, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn request(&self, verb: &'static str, body: Option<&Value>, call: &Call) -> Result<Response, LockError> {
        let Self { namespace, name, .. } = self;
        let collection = format!("{API}/{namespace}/leases");
        let (method, path) = match verb {
            "get" => (Method::Get, format!("{collection}/{name}")),
            "create" => (Method::Post, collection),
            _ => (Method::Put, format!("{collection}/{name}")),
        };
        let request = Request { method, path: &path, query: &[], body, timeout: call.time_left() };
        self.client.request_until(request, call.cancel()).map_err(|error| self.explain(verb, error))
    }

    fn read(&self, response: &Response) -> Result<Observed, LockError> {
        let object = read(&response.body).map_err(|what| self.malformed(&what))?;
        self.parse(object)
    }

    fn parse(&self, object: Value) -> Result<Observed, LockError> {
        let (record, version) = parse(&object, &self.name).map_err(|what| self.malformed(what))?;
        Ok(Observed::new(record, version, Opaque::new(object)))
    }

    /// What one line of a watch says; `None` if that is about another object.
    fn event(&self, line: &[u8]) -> Result<Option<WatchEvent>, LockError> {
        let malformed = |what: &str| {
            let message = format!("cannot watch {}: the event makes no sense: {what}", self.describe());
            LockError::new(LockErrorKind::Malformed, message)
        };
        let mut event = read(line).map_err(|what| malformed(&what))?;
        let object = event.get_mut("object").map(Value::take).ok_or_else(|| malformed("it has no object"))?;
        match event["type"].as_str() {
            Some("BOOKMARK") => {
                let version = resource_version(&object).ok_or_else(|| malformed("a bookmark without a version"))?;
                Ok(Some(WatchEvent::Bookmark { version }))
            }
            Some("ERROR") => Err(self.watch_ended(&object)),
            // A proxy, or a server that ignores selectors, may show us what we did not ask for.
            Some(_) if object["metadata"]["name"].as_str() != Some(&self.name) => Ok(None),
            Some("DELETED") => {
                let version = resource_version(&object).ok_or_else(|| malformed("a deletion without a version"))?;
                Ok(Some(WatchEvent::Deleted { version }))
            }
            Some("ADDED" | "MODIFIED") => self.parse(object).map(WatchEvent::Changed).map(Some),
            _ => Err(malformed("its type is unknown")),
        }
    }

    /// The server's last word in a watch, after it had begun with 200.
    fn watch_ended(&self, object: &Value) -> LockError {
        let status = Status::from_object(object).unwrap_or_default();
        let kind = if status.code == 410 { LockErrorKind::Expired } else { LockErrorKind::Unavailable };
        let message = format!("cannot watch {}: the server ended the watch: {status}", self.describe());
        LockError::new(kind, message).with_retry_after(status.retry_after)
    }

    fn malformed(&self, what: &str) -> LockError {
        let message = format!("{}: the answer is not a Lease: {what}", self.describe());
        LockError::new(LockErrorKind::Malformed, message)
    }

    fn explain(&self, verb: &str, error: Error) -> LockError {
        let Self { namespace, .. } = self;
        let lease = self.describe();
        let (kind, advice) = match error.kind() {
            ErrorKind::Status(status) => match (status.code, status.reason.as_str()) {
                (409, "AlreadyExists") => (LockErrorKind::AlreadyExists, None),
                (409, _) => (LockErrorKind::Conflict, None),
                (403, _) => (
                    LockErrorKind::Forbidden,
                    Some(format!(
                        "grant the verb `{verb}` on the resource `leases` of the API group `coordination.k8s.io` \
                         in the namespace `{namespace}`"
                    )),
                ),
                (410, _) => (LockErrorKind::Expired, None),
                (401, _) => (LockErrorKind::Unauthorized, None),
                (404, _) => (
                    LockErrorKind::NotFound,
                    Some(format!("check that the namespace `{namespace}` exists and that the URL is an API server's")),
                ),
                (429, _) | (500.., _) => (LockErrorKind::Unavailable, None),
                _ => (LockErrorKind::Rejected, None),
            },
            ErrorKind::Timeout => (LockErrorKind::Timeout, None),
            ErrorKind::Interrupted => (LockErrorKind::Interrupted, None),
            ErrorKind::ConnectionClosed => (LockErrorKind::ConnectionClosed, None),
            ErrorKind::TlsVerification => (LockErrorKind::Untrusted, None),
            ErrorKind::BodyTooLarge | ErrorKind::Malformed => (LockErrorKind::Malformed, None),
            ErrorKind::Credentials => (LockErrorKind::Unauthorized, None),
            _ => (LockErrorKind::Unavailable, None),
        };
        let retry_after = error.status().and_then(|status| status.retry_after);
        let message = match advice {
            Some(advice) => format!("cannot {verb} {lease}: {error}; {advice}"),
            None => format!("cannot {verb} {lease}: {error}"),
        };
        LockError::new(kind, message).with_retry_after(retry_after).with_source(error)
    }
}

impl Lock for LeaseLock {
    fn get(&self, call: &Call) -> Result<Option<Observed>, LockError> {
        match self.request("get", None, call) {
            Ok(response) => self.read(&response).map(Some),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, LockError> {
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "namespace": self.namespace, "name": self.name },
        });
        write_spec(&mut object, record);
        self.read(&self.request("create", Some(&object), call)?)
    }

    fn update(&self, base: &Observed, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, LockError> {
        self.read(&self.request("update", Some(&replacement(base, record)), call)?)
    }

    fn watch(&self, after: Option<u64>, cancel: &Cancel, tell: &mut dyn FnMut(WatchEvent)) -> Result<(), LockError> {
        let selector = format!("metadata.name={}", self.name);
        let seconds = (WATCH_LASTS.as_secs() + fastrand::u64(..WATCH_LASTS.as_secs())).to_string();
        let after = after.map(|version| version.to_string());
        let mut query = vec![
            ("watch", "true"),
            ("fieldSelector", selector.as_str()),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", seconds.as_str()),
        ];
        query.extend(after.as_deref().map(|version| ("resourceVersion", version)));
        let path = format!("{API}/{}/leases", self.namespace);
        let request = Request { method: Method::Get, path: &path, query: &query, body: None, timeout: OPENING };
        let explain = |error| self.explain("watch", error);
        let mut stream = self.client.stream(request, SILENCE, cancel).map_err(explain)?;
        tell(WatchEvent::Opened);
        while let Some(line) = stream.next_line().map_err(explain)? {
            if let Some(event) = self.event(&line)? {
                tell(event);
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("lease {}/{}", self.namespace, self.name)
    }
}

/// Whether the API server itself says that there is no such Lease: a proxy's 404 says nothing about the Lease.
fn is_absence(error: &LockError) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<Error>())
        .and_then(Error::status)
        .is_some_and(|status| {
            status.code == 404 && status.reason == "NotFound" && status.kind.as_deref() == Some("leases")
        })
}

/// The object as it was observed, with this record in it.
fn replacement(base: &Observed, record: &LeaderElectionRecord) -> Value {
    let mut object = base.rest.get::<Value>().cloned().unwrap_or_else(|| json!({}));
    // The uid turns a PUT to a lease that was deleted meanwhile into a conflict; without it, it creates one.
    object["metadata"]["uid"] = json!(base.record.uid);
    object["metadata"]["resourceVersion"] = json!(base.version.to_string());
    write_spec(&mut object, record);
    object
}

fn write_spec(object: &mut Value, record: &LeaderElectionRecord) {
    let time = |time: &Option<MicroTime>| json!(time.as_ref().map(MicroTime::as_str));
    // A spec that is absent or null becomes an object by being written to.
    let spec = &mut object["spec"];
    spec["holderIdentity"] = json!(record.holder_identity);
    spec["leaseDurationSeconds"] = json!(record.lease_duration_seconds);
    spec["acquireTime"] = time(&record.acquire_time);
    spec["renewTime"] = time(&record.renew_time);
    spec["leaseTransitions"] = json!(record.lease_transitions);
}

/// The values of an answer with a Lease in it; or why they are not read.
fn read(text: &[u8]) -> Result<Value, String> {
    match text.len() > LARGEST {
        true => Err(format!("{} bytes are more than a Lease may have", text.len())),
        false => json::read(text, LARGEST_VALUES).map_err(|unreadable| unreadable.to_string()),
    }
}

/// The record and the version in a Lease; or what is wrong with it.
fn parse(object: &Value, name: &str) -> Result<(LeaderElectionRecord, u64), &'static str> {
    let object = object.as_object().ok_or("it is no object")?;
    if object.get("kind").and_then(Value::as_str) != Some("Lease") {
        return Err("its kind is another");
    }
    let metadata = object.get("metadata").and_then(Value::as_object).ok_or("it has no metadata")?;
    if metadata.get("name").and_then(Value::as_str) != Some(name) {
        return Err("its name is another");
    }
    let version = version_in(metadata).ok_or("its resourceVersion is no positive integer")?;
    let uid = metadata.get("uid").and_then(Value::as_str).filter(|uid| !uid.is_empty()).ok_or("it has no uid")?;
    let nothing = Map::new();
    let spec = match object.get("spec") {
        None | Some(Value::Null) => &nothing,
        Some(spec) => spec.as_object().ok_or("its spec is no object")?,
    };
    let record = LeaderElectionRecord {
        uid: Some(uid.to_owned()),
        holder_identity: text(spec, "holderIdentity").map_err(|()| "holderIdentity is no text")?,
        lease_duration_seconds: number(spec, "leaseDurationSeconds")
            .map_err(|()| "leaseDurationSeconds is no 32-bit integer")?,
        acquire_time: text(spec, "acquireTime").map_err(|()| "acquireTime is no text")?.map(MicroTime::from_text),
        renew_time: text(spec, "renewTime").map_err(|()| "renewTime is no text")?.map(MicroTime::from_text),
        lease_transitions: number(spec, "leaseTransitions").map_err(|()| "leaseTransitions is no 32-bit integer")?,
    };
    Ok((record, version))
}

fn resource_version(object: &Value) -> Option<u64> {
    version_in(object.get("metadata")?.as_object()?)
}

fn version_in(metadata: &Map<String, Value>) -> Option<u64> {
    let text = metadata.get("resourceVersion")?.as_str()?;
    // In any other form ("+7", "007") it would not be what we send back, and every update would be a conflict.
    text.parse().ok().filter(|version: &u64| *version > 0 && version.to_string() == text)
}

fn text(spec: &Map<String, Value>, field: &str) -> Result<Option<String>, ()> {
    match spec.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_str().map(|text| Some(text.to_owned())).ok_or(()),
    }
}

fn number(spec: &Map<String, Value>, field: &str) -> Result<Option<i32>, ()> {
    match spec.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().and_then(|number| i32::try_from(number).ok()).map(Some).ok_or(()),
    }
}

#[cfg(all(feature = "testing", feature = "kubeconfig"))]
pub(crate) mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7" },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3 },
        });
        change(&mut object);
        object
    }

    #[test]
    fn a_lease_gives_its_record_and_version() {
        let (record, version) = parse(&lease(|_| {}), "x").unwrap();
        assert_eq!(version, 7);
        assert_eq!(record.uid.as_deref(), Some("u"));
        assert_eq!(record.holder(), Some("a"));
        assert_eq!(record.lease_duration_seconds, Some(15));
        assert_eq!(record.lease_transitions, Some(3));
    }

    #[test]
    fn a_missing_or_null_spec_and_null_fields_are_an_empty_record() {
        for spec in [json!(null), json!({}), json!({ "holderIdentity": null, "renewTime": null })] {
            let (record, _) = parse(&lease(|object| object["spec"] = spec), "x").unwrap();
            assert_eq!(record, LeaderElectionRecord { uid: Some("u".into()), ..Default::default() });
        }
        assert!(parse(&lease(|object| drop(object.as_object_mut().unwrap().remove("spec"))), "x").is_ok());
    }

    #[test]
    fn whatever_is_no_lease_is_an_error() {
        for (what, change) in [
            ("no object", (|object| *object = json!([1])) as fn(&mut Value)),
            ("kind", |object| object["kind"] = json!("Status")),
            ("no metadata", |object| object["metadata"] = json!(null)),
            ("name", |object| object["metadata"]["name"] = json!("y")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("abc")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!(7)),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("0")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("+7")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("007")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("99999999999999999999")),
            ("uid", |object| object["metadata"]["uid"] = json!("")),
            ("spec", |object| object["spec"] = json!("x")),
            ("holderIdentity", |object| object["spec"]["holderIdentity"] = json!(5)),
            ("leaseDurationSeconds", |object| object["spec"]["leaseDurationSeconds"] = json!("15")),
            ("leaseDurationSeconds", |object| object["spec"]["leaseDurationSeconds"] = json!(1e12)),
            ("leaseTransitions", |object| object["spec"]["leaseTransitions"] = json!(1u64 << 40)),
            ("renewTime", |object| object["spec"]["renewTime"] = json!({})),
        ] {
            let error = parse(&lease(change), "x").expect_err(what);
            assert!(error.contains(what), "{error} should name {what}");
        }
    }

    #[test]
    fn an_update_keeps_what_others_put_on_the_object() {
        let mut object = lease(|object| {
            object["metadata"]["labels"] = json!({ "team": "blue" });
            object["spec"]["strategy"] = json!("OldestEmulationVersion");
            object["spec"]["someday"] = json!([1, 2]);
        });
        let record = LeaderElectionRecord { holder_identity: Some("b".into()), ..Default::default() };
        write_spec(&mut object, &record);
        assert_eq!(object["metadata"]["labels"]["team"], "blue");
        assert_eq!(object["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(object["spec"]["someday"], json!([1, 2]));
        assert_eq!(object["spec"]["holderIdentity"], "b");
        assert_eq!(object["spec"]["leaseDurationSeconds"], json!(null));
    }
}
