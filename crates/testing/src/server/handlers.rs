//! The handlers of the API, which execute requests on the store and return responses.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::object::key::{Filter, ObjectKey};
use crate::object::resource::{Api, Verb};
use crate::object::status::{self, StatusObject};
use crate::object::validate;
use crate::server::route::{ResourceCall, check_supported, field_selector};
use crate::server::shared::{ExpiredWatch, ServerState};
use crate::server::users::RequestUser;
use crate::store::history::Subscription;
use crate::wire::http::{ServedRequest, ServedResponse, header_text};

pub(crate) enum ServerAnswer {
    Done(ServedResponse),
    Watch(StreamedWatch),
}

/// A watch, before its stream starts.
pub(crate) struct StreamedWatch {
    pub api: &'static Api,
    /// The subscription. An error is sent as the only event of the stream.
    pub opening: Result<Subscription, StatusObject>,
    pub bookmarks: bool,
    pub timeout: Option<Duration>,
}

/// Answers a request of the user `identity`.
pub(crate) fn handle(
    server: &ServerState,
    call: &ResourceCall,
    identity: &RequestUser,
    request: &ServedRequest,
) -> Result<ServerAnswer, StatusObject> {
    authorize(call, identity)?;
    // Every response carries the deprecation warning, except the refusal of `authorize`.
    let mut answer = answer(server, call, request).unwrap_or_else(|refusal| ServerAnswer::Done((&refusal).into()));
    if let ServerAnswer::Done(response) = &mut answer {
        response.warning = call.api.deprecation;
    }
    Ok(answer)
}

fn answer(server: &ServerState, call: &ResourceCall, request: &ServedRequest) -> Result<ServerAnswer, StatusObject> {
    check_supported(call)?;
    let (code, body) = match call.verb {
        Verb::Get => (200, get(server, call)?),
        Verb::List => (200, list(server, call)?),
        Verb::Watch => return watch(server, call),
        Verb::Create => (201, create(server, call, request)?),
        Verb::Update => update(server, call, request)?,
        Verb::Delete => (200, delete(server, call, request)?),
    };
    Ok(ServerAnswer::Done(ServedResponse::json(code, &body)))
}

fn authorize(call: &ResourceCall, identity: &RequestUser) -> Result<(), StatusObject> {
    if identity.may(call.verb, call.api.resource) {
        return Ok(());
    }
    let name = call.name.clone().or_else(|| call.selected_name());
    Err(StatusObject::forbidden(
        call.api,
        call.namespace.as_deref(),
        name.as_deref().unwrap_or_default(),
        identity.name.as_deref().unwrap_or_default(),
        call.verb,
    ))
}

fn get(server: &ServerState, call: &ResourceCall) -> Result<Value, StatusObject> {
    let key = key(call);
    let object = server.store.lock().get(&key);
    let object = object.ok_or_else(|| StatusObject::not_found(call.api, &key.name))?;
    Ok(validate::present(call.api, &object))
}

fn list(server: &ServerState, call: &ResourceCall) -> Result<Value, StatusObject> {
    let filter = filter(call)?;
    let limit = number(call, "limit")?.unwrap_or(usize::MAX);
    let page = server.store.lock().page(&filter, limit, call.query.get("continue"))?;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.token.is_empty() {
        metadata["continue"] = json!(page.token);
    }
    let items = page
        .objects
        .iter()
        .map(|object| {
            let mut item = validate::present(call.api, object);
            // A list has the kind once, not in each item.
            if let Some(fields) = item.as_object_mut() {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            item
        })
        .collect::<Vec<_>>();
    Ok(json!({
        "kind": format!("{}List", call.api.kind),
        "apiVersion": call.api.api_version(),
        "metadata": metadata,
        "items": items,
    }))
}

fn watch(server: &ServerState, call: &ResourceCall) -> Result<ServerAnswer, StatusObject> {
    let filter = filter(call)?;
    let after = number(call, "resourceVersion")?;
    let timeout = number::<u32>(call, "timeoutSeconds")?.map(|seconds| Duration::from_secs(seconds.into()));
    let opening = match server.store.lock().subscribe(filter, after) {
        Err(status) if server.expired == ExpiredWatch::Status => return Err(status),
        opening => opening,
    };
    Ok(ServerAnswer::Watch(StreamedWatch {
        api: call.api,
        opening,
        bookmarks: call.query.is_set("allowWatchBookmarks"),
        timeout,
    }))
}

fn create(server: &ServerState, call: &ResourceCall, request: &ServedRequest) -> Result<Value, StatusObject> {
    check_content_type(request)?;
    let mut object = validate::decode(call.api, request.body())?;
    let mut key = key(call);
    let sent = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if !sent.is_empty() && sent != key.namespace {
        let rule = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(StatusObject::bad_request(rule));
    }
    object["metadata"]["namespace"] = json!(key.namespace);
    key.name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let object = server.store.lock().create(call.api, key, object)?;
    Ok(validate::present(call.api, &object))
}

fn update(server: &ServerState, call: &ResourceCall, request: &ServedRequest) -> Result<(u16, Value), StatusObject> {
    check_content_type(request)?;
    let mut object = validate::decode(call.api, request.body())?;
    let key = key(call);
    let metadata = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (name, namespace) = (metadata("name"), metadata("namespace"));
    if name.is_empty() {
        return Err(StatusObject::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if name != key.name {
        return Err(StatusObject::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if !namespace.is_empty() && namespace != key.namespace {
        return Err(StatusObject::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            key.namespace
        )));
    }
    object["metadata"]["namespace"] = json!(key.namespace);
    let (object, created) = server.store.lock().update(call.api, key, object)?;
    Ok((if created { 201 } else { 200 }, validate::present(call.api, &object)))
}

fn delete(server: &ServerState, call: &ResourceCall, request: &ServedRequest) -> Result<Value, StatusObject> {
    let options = match request.body().as_slice() {
        [] => Value::Null,
        body => serde_json::from_slice(body)
            .map_err(|error| StatusObject::bad_request(format!("invalid DeleteOptions: {error}")))?,
    };
    let key = key(call);
    let object = server.store.lock().delete(call.api, &key, &options["preconditions"])?;
    Ok(status::deleted(call.api, &key.name, object["metadata"]["uid"].as_str().unwrap_or_default()))
}

fn key(call: &ResourceCall) -> ObjectKey {
    ObjectKey {
        resource: call.api.resource,
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name.clone().unwrap_or_default(),
    }
}

fn filter(call: &ResourceCall) -> Result<Filter, StatusObject> {
    let (namespace, name) = field_selector(call)?;
    Ok(Filter { resource: call.api.resource, namespace: call.namespace.clone().or(namespace), name })
}

/// Returns the number in a parameter of the query, or `None` if the parameter is absent or zero.
fn number<T: FromStr>(call: &ResourceCall, parameter: &str) -> Result<Option<T>, StatusObject> {
    let text = call.query.get(parameter);
    if matches!(text, "" | "0") {
        return Ok(None);
    }
    let invalid = |_| match parameter {
        "resourceVersion" => {
            format!("{parameter}: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
        }
        _ => format!("strconv.ParseInt: parsing {text:?}: invalid syntax"),
    };
    text.parse().map(Some).map_err(|error| StatusObject::bad_request(invalid(error)))
}

fn check_content_type(request: &ServedRequest) -> Result<(), StatusObject> {
    let accepted = "application/json";
    let sent = header_text(request.headers(), "content-type").unwrap_or(accepted);
    let sent = sent.split(';').next().unwrap_or_default().trim();
    match sent.eq_ignore_ascii_case(accepted) {
        true => Ok(()),
        false => {
            let why = "the body of the request was in an unknown format - accepted media types include";
            Err(StatusObject::new(415, "UnsupportedMediaType", format!("{why}: {accepted}")))
        }
    }
}
