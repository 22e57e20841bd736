//! The fields of the objects, the JSON types of the fields, and the decoder.
//!
//! A real API server decodes into Go structs: unknown fields are dropped, `null` is an absent field, and a value of
//! the wrong type is refused before any other check.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::object::microtime::{self, Layout};
use crate::object::resource::Resource;

/// The type of a field.
pub(crate) enum FieldShape {
    String,
    Bool,
    Int32,
    Time(Layout),
    /// Bytes, as base64 text.
    Bytes,
    /// A JSON object without a schema.
    Open,
    Map(&'static FieldShape),
    List(&'static FieldShape),
    /// The name of a Go type, which error messages quote, and the fields of the type.
    Struct(&'static str, &'static [(&'static str, FieldShape)]),
}

use FieldShape::{Bool, Bytes, Int32, List, Open, String as Text, Struct, Time};

/// The fields of `metadata`, except `managedFields` and `generation`, which this server does not track.
const METADATA: FieldShape = Struct(
    "ObjectMeta",
    &[
        ("name", Text),
        ("generateName", Text),
        ("namespace", Text),
        ("uid", Text),
        ("resourceVersion", Text),
        ("creationTimestamp", Time(Layout::Seconds)),
        ("labels", FieldShape::Map(&Text)),
        ("annotations", FieldShape::Map(&Text)),
        ("ownerReferences", List(&Open)),
        ("finalizers", List(&Text)),
    ],
);

const LEASE_SPEC: FieldShape = Struct(
    "LeaseSpec",
    &[
        ("holderIdentity", Text),
        ("leaseDurationSeconds", Int32),
        ("acquireTime", Time(Layout::Micro)),
        ("renewTime", Time(Layout::Micro)),
        // A server whose feature gate `CoordinatedLeaderElection` is off, as by default, drops `strategy` and
        // `preferredHolder` like unknown fields.
        ("leaseTransitions", Int32),
    ],
);

/// The fields of every object.
static COMMON: [(&str, FieldShape); 3] = [("kind", Text), ("apiVersion", Text), ("metadata", METADATA)];

static LEASE: FieldShape = Struct("Lease", &[("spec", LEASE_SPEC)]);

static CONFIG_MAP: FieldShape = Struct(
    "ConfigMap",
    &[("immutable", Bool), ("data", FieldShape::Map(&Text)), ("binaryData", FieldShape::Map(&Bytes))],
);

static ENDPOINTS: FieldShape = Struct("Endpoints", &[("subsets", List(&Open))]);

static EVENT: FieldShape = Struct(
    "Event",
    &[
        ("involvedObject", Open),
        ("related", Open),
        ("source", Open),
        ("series", Open),
        ("reason", Text),
        ("message", Text),
        ("type", Text),
        ("action", Text),
        ("count", Int32),
        ("firstTimestamp", Time(Layout::Seconds)),
        ("lastTimestamp", Time(Layout::Seconds)),
        ("eventTime", Time(Layout::Micro)),
        ("reportingComponent", Text),
        ("reportingInstance", Text),
    ],
);

impl FieldShape {
    pub fn of(resource: Resource) -> &'static FieldShape {
        match resource {
            Resource::Leases => &LEASE,
            Resource::ConfigMaps => &CONFIG_MAP,
            Resource::Endpoints => &ENDPOINTS,
            Resource::Events => &EVENT,
        }
    }

    /// Converts `value` into this shape.
    ///
    /// # Errors
    ///
    /// Returns the error text of the real server's decoder.
    pub fn decode(&self, value: Value) -> Result<Value, String> {
        self.decode_at(value, "", "")
    }

    /// Converts the value of one field. `owner` is the Go type that has the field. `path` is the field's path in the
    /// object.
    fn decode_at(&self, value: Value, owner: &str, path: &str) -> Result<Value, String> {
        match (self, value) {
            (Struct(name, fields), Value::Object(mut object)) => {
                let mut kept = Map::new();
                let common = if path.is_empty() { &COMMON[..] } else { &[] };
                for (field, shape) in common.iter().chain(*fields) {
                    let Some(value) = object.remove(*field).filter(|value| !value.is_null()) else { continue };
                    let path = match path {
                        "" => (*field).to_owned(),
                        path => format!("{path}.{field}"),
                    };
                    kept.insert((*field).to_owned(), shape.decode_at(value, name, &path)?);
                }
                Ok(Value::Object(kept))
            }
            (FieldShape::Map(shape), Value::Object(object)) => object
                .into_iter()
                .map(|(key, value)| {
                    // Go decodes `null` in a map of strings as an empty string.
                    let value = if value.is_null() { "".into() } else { value };
                    Ok((key, shape.decode_at(value, owner, path)?))
                })
                .collect::<Result<Map<_, _>, String>>()
                .map(Value::Object),
            (List(shape), Value::Array(items)) => items
                .into_iter()
                .map(|item| shape.decode_at(item, owner, path))
                .collect::<Result<Vec<_>, String>>()
                .map(Value::Array),
            (Time(layout), Value::String(text)) => microtime::normalize(&text, *layout).map(Value::String),
            (Bytes, Value::String(text)) => match BASE64_STANDARD.decode(&text) {
                Ok(_) => Ok(Value::String(text)),
                Err(_) => Err("illegal base64 data at input byte 0".to_owned()),
            },
            (Int32, Value::Number(number)) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {
                Ok(Value::Number(number))
            }
            (Text, value @ Value::String(_)) | (Bool, value @ Value::Bool(_)) | (Open, value @ Value::Object(_)) => {
                Ok(value)
            }
            (Time(_), value) => {
                Err(format!("json: cannot unmarshal {} into Go value of type string", describe(&value)))
            }
            (shape, value) => Err(format!(
                "json: cannot unmarshal {} into Go struct field {owner}.{path} of type {}",
                describe(&value),
                shape.go_type()
            )),
        }
    }

    fn go_type(&self) -> &'static str {
        match self {
            Text | Time(_) => "string",
            Bool => "bool",
            Int32 => "int32",
            Bytes => "[]uint8",
            Open => "struct",
            FieldShape::Map(_) => "map[string]string",
            List(_) => "[]struct",
            Struct(name, _) => name,
        }
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}
