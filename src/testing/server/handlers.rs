//! The API: from a call to what the store has to say about it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::object::key::Filter;
use crate::testing::object::key::Key;
use crate::testing::object::resource::{Api, Verb};
use crate::testing::object::status::{self, Status};
use crate::testing::object::validate;
use crate::testing::server::route::{Call, Plain, Route, check_supported, field_selector};
use crate::testing::server::shared::{ExpiredWatch, Server};
use crate::testing::server::users::Identity;
use crate::testing::store::history::Subscription;
use crate::testing::store::table::{Preconditions, UpdateRules};
use crate::testing::wire::http::{Request, Response};

pub(crate) enum Answer {
    Done(Response),
    Watch(Watch),
}

/// A watch that is about to be streamed.
pub(crate) struct Watch {
    pub api: &'static Api,
    pub opening: Opening,
    pub bookmarks: bool,
    pub timeout: Option<Duration>,
}

pub(crate) enum Opening {
    Subscribed(Subscription),
    /// One ERROR event, and the end.
    Failed(Status),
}

/// Answers a request in the name of `identity`.
pub(crate) fn handle(server: &Server, route: &Route, identity: &Identity, request: &Request) -> Result<Answer, Status> {
    let call = match route {
        Route::Plain(plain) => return Ok(Answer::Done(plain_answer(*plain))),
        Route::Resource(call) => call,
    };
    authorize(call, identity)?;
    // A refusal warns as well, but not of what may not be asked at all.
    let mut answer = answer(server, call, request).unwrap_or_else(|refusal| Answer::Done((&refusal).into()));
    if let Answer::Done(response) = &mut answer {
        response.warning = call.api.deprecation;
    }
    Ok(answer)
}

fn answer(server: &Server, call: &Call, request: &Request) -> Result<Answer, Status> {
    check_supported(call)?;
    let (code, body) = match call.verb {
        Verb::Get => (200, get(server, call)?),
        Verb::List => (200, list(server, call)?),
        Verb::Watch => return watch(server, call),
        Verb::Create => (201, create(server, call, request)?),
        Verb::Update => update(server, call, request)?,
        Verb::Delete => (200, delete(server, call, request)?),
    };
    Ok(Answer::Done(Response::json(code, &body)))
}

fn plain_answer(plain: Plain) -> Response {
    match plain {
        Plain::Health => Response::text(200, "ok"),
        Plain::Version => Response::json(
            200,
            &json!({
                "major": "1",
                "minor": "35",
                "gitVersion": "v1.35.0+leasehold",
                "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
            }),
        ),
    }
}

fn authorize(call: &Call, identity: &Identity) -> Result<(), Status> {
    if identity.may(call.verb, call.api.resource) {
        return Ok(());
    }
    let name = call.name.clone().or_else(|| call.selected_name());
    Err(Status::forbidden(
        call.api,
        call.namespace.as_deref(),
        name.as_deref().unwrap_or_default(),
        identity.name.as_deref().unwrap_or_default(),
        call.verb,
    ))
}

fn get(server: &Server, call: &Call) -> Result<Value, Status> {
    let key = key(call);
    let object = server.store.lock().get(&key);
    let object = object.ok_or_else(|| Status::not_found(call.api, &key.name))?;
    Ok(validate::present(call.api, &object))
}

fn list(server: &Server, call: &Call) -> Result<Value, Status> {
    let filter = filter(call)?;
    let (objects, revision) = {
        let store = server.store.lock();
        (store.list(&filter), store.revision())
    };
    let items = objects
        .iter()
        .map(|object| {
            let mut item = validate::present(call.api, object);
            // The list says it once for all of its items.
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
        "metadata": {"resourceVersion": revision.to_string()},
        "items": items,
    }))
}

fn watch(server: &Server, call: &Call) -> Result<Answer, Status> {
    let filter = filter(call)?;
    let after = match call.query.get("resourceVersion") {
        "" | "0" => None,
        text => Some(text.parse().map_err(|_| {
            Status::bad_request(format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
            ))
        })?),
    };
    let timeout = match call.query.get("timeoutSeconds") {
        "" | "0" => None,
        text => Some(Duration::from_secs(
            text.parse::<u32>()
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?
                .into(),
        )),
    };
    let subscribed = server.store.lock().subscribe(filter, after);
    let opening = match subscribed {
        Ok(subscription) => Opening::Subscribed(subscription),
        Err(gone) => {
            let status = Status::expired(gone.requested, gone.oldest);
            if server.expired == ExpiredWatch::Status {
                return Err(status);
            }
            Opening::Failed(status)
        }
    };
    Ok(Answer::Watch(Watch { api: call.api, opening, bookmarks: call.query.is_set("allowWatchBookmarks"), timeout }))
}

fn create(server: &Server, call: &Call, request: &Request) -> Result<Value, Status> {
    check_content_type(request)?;
    let mut object = validate::decode(call.api, &request.body)?;
    let mut key = key(call);
    let sent = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if !sent.is_empty() && sent != key.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object["metadata"]["namespace"] = json!(key.namespace);
    key.name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let created = server.store.lock().create(key.clone(), object, &|object| validate::validate(call.api, object));
    match created {
        Ok(object) => Ok(validate::present(call.api, &object)),
        Err(refusal) => Err(refusal.into_status(call.api, &key)),
    }
}

fn update(server: &Server, call: &Call, request: &Request) -> Result<(u16, Value), Status> {
    check_content_type(request)?;
    let mut object = validate::decode(call.api, &request.body)?;
    let key = key(call);
    let metadata = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (name, namespace) = (metadata("name"), metadata("namespace"));
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if name != key.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if !namespace.is_empty() && namespace != key.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            key.namespace
        )));
    }
    object["metadata"]["namespace"] = json!(key.namespace);
    let rules = UpdateRules {
        unconditional: call.api.unconditional_update,
        create: call.api.create_on_update,
        validate: &|object| validate::validate(call.api, object),
    };
    let updated = server.store.lock().update(key.clone(), object, &rules);
    match updated {
        Ok((object, created)) => {
            let code = if created { 201 } else { 200 };
            Ok((code, validate::present(call.api, &object)))
        }
        Err(refusal) => Err(refusal.into_status(call.api, &key)),
    }
}

fn delete(server: &Server, call: &Call, request: &Request) -> Result<Value, Status> {
    let options = match request.body.as_slice() {
        [] => Value::Null,
        body => serde_json::from_slice(body)
            .map_err(|error| Status::bad_request(format!("invalid DeleteOptions: {error}")))?,
    };
    let precondition = |field: &str| {
        let wanted = options["preconditions"][field].as_str();
        wanted.map(str::to_owned)
    };
    let preconditions = Preconditions { uid: precondition("uid"), resource_version: precondition("resourceVersion") };
    let key = key(call);
    let deleted = server.store.lock().delete(&key, &preconditions);
    match deleted {
        Ok(object) => {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            Ok(status::deleted(call.api, &key.name, uid))
        }
        Err(refusal) => Err(refusal.into_status(call.api, &key)),
    }
}

fn key(call: &Call) -> Key {
    Key {
        resource: call.api.resource,
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name.clone().unwrap_or_default(),
    }
}

fn filter(call: &Call) -> Result<Filter, Status> {
    let (namespace, name) = field_selector(call)?;
    Ok(Filter { resource: call.api.resource, namespace: call.namespace.clone().or(namespace), name })
}

fn check_content_type(request: &Request) -> Result<(), Status> {
    let accepted = "application/json";
    let sent = request.header("content-type").unwrap_or(accepted);
    let sent = sent.split(';').next().unwrap_or_default().trim();
    match sent.eq_ignore_ascii_case(accepted) {
        true => Ok(()),
        false => Err(Status::unsupported_media_type(accepted)),
    }
}
