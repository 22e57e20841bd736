//! The conversion of a request body to a valid object.
//!
//! Like the real server, this server works in two stages. *Decoding* precedes every access to the store and fails with
//! 400. *Validation* follows the check of the version and fails with 422.

use serde_json::{Map, Value, json};

use crate::object::resource::{APIS, Api, EVENTS_K8S, Resource};
use crate::object::schema::FieldShape;
use crate::object::status::{Cause, StatusObject};
use crate::util::is_dns_subdomain;

/// The names of event fields in `events.k8s.io/v1` and in `v1`. The server stores events with the `v1` names.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Decodes an object that was sent to `api`, and returns the storage form.
pub(crate) fn decode(api: &Api, body: &[u8]) -> Result<Value, StatusObject> {
    let mut object = match serde_json::from_slice(body) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) => return Err(unrecognized(api, "json: cannot unmarshal into Go value")),
        Err(error) => return Err(unrecognized(api, &error.to_string())),
    };
    check_type(api, &object)?;
    if let (true, Some(fields)) = (is_events_k8s(api), object.as_object_mut()) {
        rename(fields, EVENT_FIELDS);
    }
    let mut object = FieldShape::of(api.resource).decode(object).map_err(|why| {
        let kind = api.kind;
        StatusObject::bad_request(format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}"))
    })?;
    let stored_as = api.resource.storage_api();
    object["kind"] = json!(stored_as.kind);
    object["apiVersion"] = json!(stored_as.api_version());
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    if api.resource == Resource::Leases && !object["spec"].is_object() {
        object["spec"] = json!({});
    }
    Ok(object)
}

/// Returns a stored object in the form of `api`.
pub(crate) fn present(api: &Api, stored: &Value) -> Value {
    let mut object = stored.clone();
    if let (true, Some(fields)) = (is_events_k8s(api), object.as_object_mut()) {
        rename(fields, EVENT_FIELDS.map(|(new, old)| (old, new)));
        fields.insert("apiVersion".into(), json!(api.api_version()));
    }
    object
}

/// Checks a decoded object. Returns an error that lists every broken rule.
pub(crate) fn check(api: &Api, name: &str, object: &Value) -> Result<(), StatusObject> {
    let mut causes = Vec::new();
    check_name(object, &mut causes);
    match api.resource {
        Resource::Leases => check_lease(object, &mut causes),
        Resource::Events => check_event(api, object, &mut causes),
        Resource::ConfigMaps | Resource::Endpoints => {}
    }
    match causes.is_empty() {
        true => Ok(()),
        false => Err(StatusObject::invalid(api, &api.qualified_kind(), name, &causes)),
    }
}

fn is_events_k8s(api: &Api) -> bool {
    *api == EVENTS_K8S
}

fn rename(fields: &mut Map<String, Value>, names: [(&str, &str); EVENT_FIELDS.len()]) {
    for (from, to) in names {
        // The source version has no field named `to`, so an input field of this name is dropped.
        fields.remove(to);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

fn unrecognized(api: &Api, why: &str) -> StatusObject {
    StatusObject::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why}",
        api.kind
    ))
}

/// Checks `kind` and `apiVersion`, which may be absent but not wrong.
fn check_type(api: &Api, object: &Value) -> Result<(), StatusObject> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    let known = APIS.into_iter().any(|api| api.kind == kind && api.api_version() == version);
    if (kind.is_empty() || kind == api.kind) && !version.is_empty() && version != api.api_version() {
        return Err(StatusObject::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            api.api_version()
        )));
    }
    if !kind.is_empty() && kind != api.kind {
        let why = if known {
            format!("converting {kind} to {} is not possible", api.kind)
        } else {
            format!("no kind {kind:?} is registered for version {version:?}")
        };
        return Err(StatusObject::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {why}",
            api.kind
        )));
    }
    Ok(())
}

fn check_name(object: &Value, causes: &mut Vec<Cause>) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if !is_dns_subdomain(name) {
        causes.push(Cause::invalid(
            "metadata.name",
            &json!(name),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        ));
    }
}

fn check_lease(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let duration = &spec["leaseDurationSeconds"];
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.push(Cause::invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"));
    }
    let transitions = &spec["leaseTransitions"];
    if transitions.as_i64().is_some_and(|count| count < 0) {
        causes.push(Cause::invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"));
    }
}

fn check_event(api: &Api, object: &Value, causes: &mut Vec<Cause>) {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let involved = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let expected = if involved.is_empty() { "default" } else { involved };
    if namespace != expected {
        causes.push(Cause::invalid("involvedObject.namespace", &json!(involved), "does not match event.namespace"));
    }
    // The rules below apply to `events.k8s.io/v1`, and to `v1` events with `eventTime`.
    if !is_events_k8s(api) && object["eventTime"].is_null() {
        return;
    }
    for (stored, shown) in [
        ("eventTime", "eventTime"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if object[stored].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(shown, ""));
        }
    }
    let kind = &object["type"];
    if !matches!(kind.as_str(), Some("Normal" | "Warning")) {
        causes.push(Cause::invalid("type", kind, "has invalid value"));
    }
}
