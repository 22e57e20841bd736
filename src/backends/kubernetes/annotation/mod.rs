//! The record as JSON in an annotation.
//!
//! client-go's locks on ConfigMaps and Endpoints, and the Python client, use the same annotation.
//!
//! If two candidates read one annotation differently, both may lead. Any text that client-go might read differently is
//! therefore an error, and the store never overwrites such a text.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::backends::record_fields;
use crate::net::json;
use crate::store::record::LeaderElectionRecord;

/// The name of the annotation, as in client-go (`LeaderElectionRecordAnnotationKey`).
pub(super) const KEY: &str = "control-plane.alpha.kubernetes.io/leader";

const FIELDS: [&str; 5] = ["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaderTransitions"];

/// Memory limit for the parsed record, in addition to the parsed object.
///
/// A record without foreign fields needs a thousandth of the limit.
const LARGEST_VALUES: usize = 1024 * 1024;

/// Returns the record in the annotation, or an empty record if there is no annotation.
pub(super) fn read(object: &Map<String, Value>) -> Result<LeaderElectionRecord, String> {
    let fields = fields(object)?;
    record_fields::read(&fields, FIELDS, seconds, integer).map_err(|what| wrong(&format!("has a record whose {what}")))
}

/// Returns an error text: the name of the annotation, the violated rule, and the remedy.
fn wrong(what: &str) -> String {
    format!("annotation {KEY} {what}: correct the annotation, or remove it while no candidate runs")
}

/// Writes the record into the annotation, and keeps fields that no record has.
pub(super) fn write(object: &mut Value, record: &LeaderElectionRecord) {
    let mut fields = object.as_object().and_then(|object| fields(object).ok()).unwrap_or_default();
    for (name, value) in FIELDS.into_iter().zip(record_fields::values(record)) {
        match value {
            Some(value) => drop(fields.insert(name.to_owned(), value)),
            None => drop(fields.remove(name)),
        }
    }
    object["metadata"]["annotations"][KEY] = json!(Value::Object(fields).to_string());
}

/// Returns the fields in the annotation, or none if the annotation is absent or empty.
fn fields(object: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let annotations = match object.get("metadata").and_then(|metadata| metadata.get("annotations")) {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(annotations) => annotations.as_object().ok_or("metadata.annotations is not an object")?,
    };
    let text = match annotations.get(KEY) {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(text) => text.as_str().ok_or_else(|| wrong("is not a text"))?,
    };
    if text.is_empty() {
        return Ok(Map::new());
    }
    match json::read(text.as_bytes(), LARGEST_VALUES) {
        Ok(Value::Object(fields)) => check_names(&fields, text).map(|()| fields),
        Ok(Value::Null) => Ok(Map::new()),
        _ => Err(wrong("is not a record in JSON")),
    }
}

/// Returns an error if the text, which has `fields`, has ambiguous field names.
///
/// Go ignores the case of field names. If a field is repeated, Go reads its last non-null value.
fn check_names(fields: &Map<String, Value>, text: &str) -> Result<(), String> {
    for field in FIELDS {
        if fields.keys().any(|name| name != field && folded(name) == folded(field)) {
            return Err(wrong("has a field that differs from a record's field only in case"));
        }
    }
    serde_json::from_str(text).map(|UnrepeatedFields { .. }| ()).map_err(|_| wrong("repeats a field of the record"))
}

/// Folds case as Go's `encoding/json` does: U+017F equals `s`, and U+212A equals `k`.
fn folded(name: &str) -> String {
    let fold = |c| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    name.chars().map(fold).collect()
}

/// The fields of a record, which the parser accepts only once.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only the names matter")]
struct UnrepeatedFields {
    holder_identity: Option<IgnoredAny>,
    lease_duration_seconds: Option<IgnoredAny>,
    acquire_time: Option<IgnoredAny>,
    renew_time: Option<IgnoredAny>,
    leader_transitions: Option<IgnoredAny>,
}

/// Reads a 64-bit integer, as Go does, and clamps the value to 32 bits.
///
/// As a number of seconds, the largest value is 68 years.
fn integer(value: &Value) -> Result<i32, &'static str> {
    value.as_i64().map(|number| number.clamp(i32::MIN.into(), i32::MAX.into()) as i32).ok_or("is not an integer")
}

/// Reads a number of seconds, and rounds a fraction up because a longer wait is safe.
///
/// The Python client writes the number as a text.
fn seconds(value: &Value) -> Result<i32, &'static str> {
    let fractional = match value {
        Value::String(text) => text.trim().parse().ok(),
        _ => value.as_f64(),
    };
    let fractional = fractional.filter(|seconds: &f64| seconds.is_finite()).ok_or("is not a number");
    integer(value).or_else(|_| Ok(fractional?.ceil() as i32))
}

#[cfg(feature = "_internals")]
pub(crate) mod properties;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::MicroTime;

    fn object(annotation: Value) -> Value {
        json!({ "metadata": { "name": "x", "annotations": { KEY: annotation, "other": "kept" } }, "data": { "a": "b" } })
    }

    fn record(annotation: impl Into<Value>) -> Result<LeaderElectionRecord, String> {
        read(object(annotation.into()).as_object().expect("an object"))
    }

    fn annotation(object: &Value) -> Value {
        let text = object["metadata"]["annotations"][KEY].as_str().expect("a text");
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn record_of_client_go_is_read() {
        let record = record(
            r#"{"holderIdentity":"A","leaseDurationSeconds":3,"acquireTime":"2026-11-21T11:01:10Z","renewTime":"2026-11-21T11:01:11Z","leaderTransitions":7}"#,
        )
        .unwrap();
        let expected = LeaderElectionRecord {
            uid: None,
            holder_identity: Some("A".into()),
            lease_duration_seconds: Some(3),
            acquire_time: Some(MicroTime::from_text("2026-11-21T11:01:10Z")),
            renew_time: Some(MicroTime::from_text("2026-11-21T11:01:11Z")),
            lease_transitions: Some(7),
        };
        assert_eq!(record, expected);
    }

    #[test]
    fn record_of_python_is_read_with_fractions_rounded_up() {
        let python = |seconds: &str| {
            format!(
                r#"{{"holderIdentity": "py1", "leaseDurationSeconds": {seconds}, "acquireTime": "2026-11-21 11:07:56.574492", "renewTime": "2026-11-21 11:07:57"}}"#
            )
        };
        for (written, expected) in
            [("\"5\"", 5), ("\"2.5\"", 3), ("\" 2.0001 \"", 3), ("2.5", 3), ("4.0", 4), ("\"1e30\"", i32::MAX)]
        {
            let record = record(python(written)).unwrap();
            assert_eq!(record.lease_duration_seconds, Some(expected), "{written}");
            assert_eq!(record.holder(), Some("py1"));
            assert_eq!(record.renew_time.unwrap().as_str(), "2026-11-21 11:07:57");
        }
    }

    #[test]
    fn missing_or_empty_annotation_has_no_holder() {
        for empty in [json!(null), json!(""), json!("{}"), json!("null"), json!(r#"{"holderIdentity":null}"#)] {
            assert_eq!(record(empty.clone()), Ok(LeaderElectionRecord::default()), "{empty}");
        }
        for metadata in [json!({}), json!({ "annotations": null }), json!({ "annotations": {} })] {
            let object = json!({ "metadata": metadata });
            assert_eq!(read(object.as_object().unwrap()), Ok(LeaderElectionRecord::default()));
        }
    }

    /// client-go accepts the large text, repeated fields, and names in another case.
    #[test]
    fn invalid_record_is_an_error_that_names_the_annotation() {
        let deep = "[".repeat(200_000);
        let large = format!(r#"{{"a":[{}]}}"#, vec!["{}"; 60_000].join(","));
        for text in [
            " ",
            "[]",
            "x",
            "\"A\"",
            "{",
            "{}{}",
            &deep,
            &large,
            r#"{"holderIdentity":5}"#,
            r#"{"leaseDurationSeconds":"soon"}"#,
            r#"{"leaseDurationSeconds":"inf"}"#,
            r#"{"leaseDurationSeconds":[]}"#,
            r#"{"leaderTransitions":1.5}"#,
            r#"{"leaderTransitions":"1"}"#,
            r#"{"renewTime":7}"#,
            r#"{"acquireTime":{}}"#,
            r#"{"HolderIdentity":"A"}"#,
            r#"{"holderIdentity":"","holderidentity":"A"}"#,
            r#"{"leaſeDurationSeconds":3600,"leaseDurationSeconds":1}"#,
            r#"{"leaderTran\u017fitions":1}"#,
            r#"{"holderIdentity":"A","holderIdentity":null}"#,
            r#"{"holderIdentity":"","holderIdentity":""}"#,
        ] {
            let error = record(text).expect_err(&text[..text.len().min(99)]);
            assert!(error.contains(KEY), "{error}");
        }
        let object = json!({ "metadata": { "annotations": "x" } });
        assert!(read(object.as_object().unwrap()).is_err());
        assert!(record(json!(5)).is_err());
    }

    #[test]
    fn numbers_that_only_go_can_hold_are_the_largest() {
        let record = record(r#"{"leaseDurationSeconds":1099511627776,"leaderTransitions":-1099511627776}"#).unwrap();
        assert_eq!(record.lease_duration_seconds, Some(i32::MAX));
        assert_eq!(record.lease_transitions, Some(i32::MIN));
    }

    #[test]
    fn write_keeps_foreign_content() {
        let mut object = object(json!(r#"{"holderIdentity":"A","strategy":"x","leaderTransitions":7}"#));
        let record = LeaderElectionRecord {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime::from_unix_micros(1)),
            ..Default::default()
        };
        write(&mut object, &record);
        let expected = json!({
            "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "1970-01-01T00:00:00.000001Z", "strategy": "x",
        });
        assert_eq!(annotation(&object), expected);
        assert_eq!(object["metadata"]["annotations"]["other"], "kept");
        assert_eq!(object["data"]["a"], "b");
        assert_eq!(read(object.as_object().unwrap()), Ok(record));
    }

    #[test]
    fn a_write_makes_the_annotation_where_there_is_none() {
        for mut object in [json!({}), json!({ "metadata": { "annotations": null } })] {
            write(&mut object, &LeaderElectionRecord { holder_identity: Some("A".into()), ..Default::default() });
            assert_eq!(annotation(&object), json!({ "holderIdentity": "A" }));
        }
    }
}
