//! The `Status` object of every refusal.
//!
//! The texts follow the real server, because programs and people search for these texts.

use serde_json::{Map, Value, json};

use crate::object::resource::{Api, Verb};

/// A refusal that the server sends as a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusObject {
    pub code: u16,
    /// Empty if the real server gives no reason.
    pub reason: String,
    pub message: String,
    pub details: Map<String, Value>,
}

/// A violated rule of one field, as in `details.causes`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cause {
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

impl Cause {
    pub fn invalid(field: &str, value: &Value, rule: &str) -> Cause {
        Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {rule}"),
            field: field.to_owned(),
        }
    }

    pub fn required(field: &str, rule: &str) -> Cause {
        let message = match rule {
            "" => "Required value".to_owned(),
            rule => format!("Required value: {rule}"),
        };
        Cause { reason: "FieldValueRequired", message, field: field.to_owned() }
    }
}

impl StatusObject {
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> StatusObject {
        StatusObject { code, reason: reason.to_owned(), message: message.into(), details: Map::new() }
    }

    pub fn bad_request(message: impl Into<String>) -> StatusObject {
        StatusObject::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> StatusObject {
        StatusObject::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn unknown_path() -> StatusObject {
        let message = "the server could not find the requested resource";
        StatusObject::new(404, "NotFound", message)
    }

    pub fn method_not_allowed() -> StatusObject {
        let message = "the server does not allow this method on the requested resource";
        StatusObject::new(405, "MethodNotAllowed", message)
    }

    pub fn not_found(api: &Api, name: &str) -> StatusObject {
        let message = format!("{} {name:?} not found", api.qualified());
        StatusObject::new(404, "NotFound", message).about(api, name)
    }

    pub fn namespace_not_found(namespace: &str) -> StatusObject {
        let message = format!("namespaces {namespace:?} not found");
        StatusObject::new(404, "NotFound", message).detail("name", namespace).detail("kind", "namespaces")
    }

    pub fn already_exists(api: &Api, name: &str) -> StatusObject {
        let message = format!("{} {name:?} already exists", api.qualified());
        StatusObject::new(409, "AlreadyExists", message).about(api, name)
    }

    pub fn conflict(api: &Api, name: &str, why: &str) -> StatusObject {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", api.qualified());
        StatusObject::new(409, "Conflict", message).about(api, name)
    }

    /// Returns the response 422 to an object that violates rules.
    ///
    /// `subject` is the qualified kind. If `resourceVersion` is missing, `subject` is the qualified plural, as on the
    /// real server.
    pub fn invalid(api: &Api, subject: &str, name: &str, causes: &[Cause]) -> StatusObject {
        let all = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>();
        let list = match all.as_slice() {
            [one] => one.clone(),
            more => format!("[{}]", more.join(", ")),
        };
        let kind = subject.split('.').next().unwrap_or(subject);
        let causes = causes
            .iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect::<Vec<_>>();
        StatusObject::new(422, "Invalid", format!("{subject} {name:?} is invalid: {list}"))
            .detail("name", name)
            .detail("group", api.group)
            .detail("kind", kind)
            .detail("causes", causes)
    }

    pub fn forbidden(api: &Api, namespace: Option<&str>, name: &str, user: &str, verb: Verb) -> StatusObject {
        let subject = match name {
            "" => api.qualified(),
            name => format!("{} {name:?}", api.qualified()),
        };
        let place = match namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{subject} is forbidden: User {user:?} cannot {verb} resource {:?} in API group {:?} {place}",
            api.plural(),
            api.group,
        );
        StatusObject::new(403, "Forbidden", message).about(api, name)
    }

    pub fn cannot_impersonate(user: &str, other: &str) -> StatusObject {
        let message = format!(
            "users {other:?} is forbidden: User {user:?} cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        );
        StatusObject::new(403, "Forbidden", message).detail("name", other).detail("kind", "users")
    }

    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }

    fn about(self, api: &Api, name: &str) -> StatusObject {
        self.detail("name", name).detail("group", api.group).detail("kind", api.plural())
    }

    fn detail(mut self, key: &str, value: impl Into<Value>) -> StatusObject {
        let value = value.into();
        // The real server leaves out empty fields.
        if value.as_str() != Some("") {
            self.details.insert(key.to_owned(), value);
        }
        self
    }
}

/// Returns the `Status` of a successful DELETE.
pub(crate) fn deleted(api: &Api, name: &str, uid: &str) -> Value {
    let details = StatusObject::new(200, "", "").about(api, name).detail("uid", uid).details;
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
