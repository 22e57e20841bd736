//! The parser of the method and URL of a request.

use serde_json::json;
use ureq_proto::http::{Method, Uri};

use crate::object::resource::{Api, Verb};
use crate::object::status::StatusObject;
use crate::util::decode_percent;
use crate::wire::http::ServedResponse;

pub(crate) enum RequestRoute {
    Resource(ResourceCall),
    /// The response to a path that is not about a resource, such as `/version`.
    Plain(ServedResponse),
}

/// A request about a resource.
#[derive(Debug)]
pub(crate) struct ResourceCall {
    pub api: &'static Api,
    pub verb: Verb,
    pub namespace: Option<String>,
    /// The name in the path.
    pub name: Option<String>,
    pub query: Query,
}

/// The decoded query.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    fn parse(query: &str) -> Query {
        let decode = |text: &str| decode(&text.replace('+', " "));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        // An invalid pair is ignored, as on the real server.
        let decoded = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            decode(key).zip(decode(value))
        });
        Query(decoded.collect())
    }

    /// Returns the value of `key`, or an empty text if the key is absent.
    pub fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value)
    }

    pub fn is_set(&self, key: &str) -> bool {
        matches!(self.get(key), "1" | "t" | "T" | "true" | "TRUE" | "True")
    }
}

impl ResourceCall {
    /// Returns the only name that the field selector matches, if the selector requires a name.
    pub fn selected_name(&self) -> Option<String> {
        field_selector(self).ok()?.1
    }
}

pub(crate) fn parse(method: &Method, uri: &Uri) -> Result<RequestRoute, StatusObject> {
    let path = uri.path();
    let segments = path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect::<Option<Vec<_>>>();
    let segments = segments.ok_or_else(|| StatusObject::bad_request("invalid URL escape"))?;
    let segments = segments.iter().map(String::as_str).collect::<Vec<_>>();
    let (group, rest) = match segments.as_slice() {
        ["version"] => return plain(method, version()),
        ["healthz" | "readyz" | "livez", ..] => {
            return plain(method, ServedResponse::new(200, "text/plain; charset=utf-8", "ok"));
        }
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, "v1", rest @ ..] if !group.is_empty() => (*group, rest),
        _ => return Err(StatusObject::unknown_path()),
    };
    let (namespace, plural, name) = match rest {
        ["namespaces", namespace, plural] => (Some(*namespace), *plural, None),
        ["namespaces", namespace, plural, name] => (Some(*namespace), *plural, Some(*name)),
        [plural] => (None, *plural, None),
        _ => return Err(StatusObject::unknown_path()),
    };
    let api = Api::find(group, plural).ok_or_else(StatusObject::unknown_path)?;
    let query = Query::parse(uri.query().unwrap_or_default());
    let verb = match (method.as_str(), name, namespace) {
        ("GET", Some(_), _) => Verb::Get,
        ("GET", None, _) if query.is_set("watch") => Verb::Watch,
        ("GET", None, _) => Verb::List,
        ("POST", None, Some(_)) => Verb::Create,
        ("PUT", Some(_), _) => Verb::Update,
        ("DELETE", Some(_), _) => Verb::Delete,
        _ => return Err(StatusObject::method_not_allowed()),
    };
    Ok(RequestRoute::Resource(ResourceCall {
        api,
        verb,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        query,
    }))
}

/// Returns the namespace and the name that the field selector requires.
pub(crate) fn field_selector(call: &ResourceCall) -> Result<(Option<String>, Option<String>), StatusObject> {
    let selector = call.query.get("fieldSelector");
    let (mut namespace, mut name) = (None, None);
    for term in selector.split(',').filter(|term| !term.is_empty()) {
        let (field, value) = term
            .split_once("==")
            .or_else(|| term.split_once('='))
            .filter(|(field, _)| !field.ends_with('!'))
            .ok_or_else(|| unsupported(call, &format!("invalid field selector: {term:?}")))?;
        match field {
            "metadata.name" => name = Some(value.to_owned()),
            "metadata.namespace" => namespace = Some(value.to_owned()),
            field => {
                let why = format!("field label not supported: {field}");
                return Err(unsupported(call, &why));
            }
        }
    }
    Ok((namespace, name))
}

/// Returns an error if the query has a parameter that this server does not support.
pub(crate) fn check_supported(call: &ResourceCall) -> Result<(), StatusObject> {
    for parameter in ["labelSelector", "dryRun"] {
        if !call.query.get(parameter).is_empty() {
            return Err(StatusObject::bad_request(format!("the testing server does not support {parameter}")));
        }
    }
    Ok(())
}

fn unsupported(call: &ResourceCall, why: &str) -> StatusObject {
    StatusObject::bad_request(format!(
        "Unable to find {:?} that match label selector \"\", field selector {:?}: {why}",
        format!("{}, Resource={}", call.api.api_version(), call.api.plural()),
        call.query.get("fieldSelector")
    ))
}

fn version() -> ServedResponse {
    let version = json!({
        "major": "1",
        "minor": "35",
        "gitVersion": "v1.35.0+leasehold",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    });
    ServedResponse::json(200, &version)
}

fn plain(method: &Method, response: ServedResponse) -> Result<RequestRoute, StatusObject> {
    match [Method::GET, Method::HEAD].contains(method) {
        true => Ok(RequestRoute::Plain(response)),
        false => Err(StatusObject::method_not_allowed()),
    }
}

/// Decodes percent-encoding. As in Go, an invalid escape is an error, but invalid UTF-8 is accepted.
fn decode(text: &str) -> Option<String> {
    decode_percent(text).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
