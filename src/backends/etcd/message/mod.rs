//! Requests and responses of etcd's JSON gateway.
//!
//! Bytes are in base64, and 64-bit integers are JSON strings. Zero, false and empty values are absent.
//!
//! etcd ignores unknown fields, so a transaction with a misspelled `compare` would always succeed. The tests therefore
//! check whole bodies.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::backends::etcd::error::{Error, EtcdRefusal};
use crate::net::json;

/// Memory limit for the parsed values of a response, in bytes.
///
/// A response with its body of at most 4 MiB then takes less than 16 MiB.
const LARGEST_VALUES: usize = 9 * 1024 * 1024;

/// A key with its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct KeyValue {
    #[serde(deserialize_with = "bytes")]
    pub(crate) key: Vec<u8>,
    #[serde(deserialize_with = "integer")]
    pub(crate) create_revision: u64,
    #[serde(deserialize_with = "integer")]
    pub(crate) mod_revision: u64,
    #[serde(deserialize_with = "bytes")]
    pub(crate) value: Vec<u8>,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The current revision of etcd, which all keys share.
    pub(crate) revision: u64,
    pub(crate) kvs: Vec<KeyValue>,
}

/// The outcome of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Txn {
    /// etcd applied the transaction. Contains the revision of the transaction.
    Applied(u64),
    /// etcd applied nothing because a comparison failed. Contains the key's current value.
    Beaten(Option<KeyValue>),
}

/// A write of a [guarded transaction](crate::etcd::EtcdStore::guarded_txn).
///
/// The store does not add its prefix to the key.
///
/// # Examples
///
/// ```
/// use leasehold::etcd::EtcdOperation;
///
/// let write = EtcdOperation::Put { key: b"jobs/done/7".to_vec(), value: b"1".to_vec() };
/// assert_ne!(write, EtcdOperation::Delete { key: b"jobs/done/7".to_vec() });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EtcdOperation {
    /// Writes a value, and replaces the existing value of the key.
    Put {
        /// The whole key.
        key: Vec<u8>,
        /// The value, which may be any bytes.
        value: Vec<u8>,
    },
    /// Deletes a key if the key exists.
    Delete {
        /// The whole key.
        key: Vec<u8>,
    },
}

/// Keys to read or to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys<'a> {
    One(&'a [u8]),
    /// All keys with this prefix.
    Prefix(&'a [u8]),
}

/// One line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EtcdWatchLine {
    /// The watch is open. Contains the revision of the member.
    Created(u64),
    Events(Vec<EtcdEvent>),
    /// etcd has cancelled the watch. The connection stays open.
    Canceled {
        is_compacted: bool,
        reason: String,
    },
    /// The gateway has ended the watch with this error.
    Failed(EtcdRefusal),
}

/// A change of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EtcdEvent {
    /// The key and its value. In a deletion, the value is empty and `create_revision` is zero.
    pub(crate) kv: KeyValue,
    pub(crate) is_deletion: bool,
}

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Returns the exclusive end of the range of all keys with `prefix`.
///
/// If the prefix has no such end, returns `"\0"`, which means no upper limit in etcd.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

impl Keys<'_> {
    fn write(self, object: &mut Value) {
        match self {
            Keys::One(key) => object["key"] = json!(encode(key)),
            Keys::Prefix(prefix) => {
                // etcd rejects an empty key, so the range of all keys starts at the first possible key, "\0".
                object["key"] = json!(encode(if prefix.is_empty() { b"\0" } else { prefix }));
                object["range_end"] = json!(encode(&end_of(prefix)));
            }
        }
    }
}

/// Creates the body of a linearizable read.
///
/// etcd's reads are linearizable unless the body sets `serializable`.
pub(crate) fn range(keys: Keys<'_>) -> Value {
    let mut body = json!({});
    keys.write(&mut body);
    body
}

/// Creates a transaction that applies `operations` only if `key` is still at `base`.
///
/// Without a base, the key must be absent. If the comparison fails, etcd writes nothing and returns the value of the
/// key.
///
/// The transaction compares the two revisions and the value of the key. After a loss of history, etcd may give the
/// same revisions to another value.
pub(crate) fn txn(key: &[u8], base: Option<&KeyValue>, operations: &[EtcdOperation]) -> Value {
    let key = encode(key);
    let compare = |target: &str, field: &str, value: String| json!({ "key": key, "target": target, "result": "EQUAL", field: value });
    let compare = match base {
        None => vec![compare("CREATE", "create_revision", "0".to_owned())],
        Some(kv) => vec![
            compare("MOD", "mod_revision", kv.mod_revision.to_string()),
            compare("CREATE", "create_revision", kv.create_revision.to_string()),
            compare("VALUE", "value", encode(&kv.value)),
        ],
    };
    let write = |operation: &EtcdOperation| match operation {
        EtcdOperation::Put { key, value } => json!({ "request_put": { "key": encode(key), "value": encode(value) } }),
        EtcdOperation::Delete { key } => json!({ "request_delete_range": { "key": encode(key) } }),
    };
    json!({
        "compare": compare,
        "success": operations.iter().map(write).collect::<Vec<_>>(),
        "failure": [{ "request_range": { "key": key } }],
    })
}

/// Creates the body of a watch for changes from `start_revision` on.
pub(crate) fn watch(keys: Keys<'_>, start_revision: u64) -> Value {
    let mut request = json!({ "start_revision": start_revision.to_string() });
    keys.write(&mut request);
    json!({ "create_request": request })
}

pub(crate) fn authenticate(name: &str, password: &str) -> Value {
    json!({ "name": name, "password": password })
}

/// A JSON string, borrowed if possible because the string may be as long as the response.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Parses an integer of at most 63 bits from a JSON string.
///
/// etcd's integers are signed, but never negative.
fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let Text(text) = Text::deserialize(deserializer)?;
    let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    number.filter(|number| i64::try_from(*number).is_ok()).ok_or_else(|| de::Error::custom("not an integer of 63 bits"))
}

/// Parses base64.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    BASE64_STANDARD.decode(&*Text::deserialize(deserializer)?.0).map_err(|_| de::Error::custom("not base64"))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawHeader {
    #[serde(deserialize_with = "integer")]
    revision: u64,
}

/// The response to a read, either a separate read or a read in a transaction.
#[derive(Deserialize, Default)]
#[serde(default)]
struct RawRange {
    header: RawHeader,
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawTxn {
    header: RawHeader,
    succeeded: bool,
    responses: Vec<RawOperation>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawOperation {
    response_range: Option<RawRange>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: String,
    kv: KeyValue,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawWatch {
    header: RawHeader,
    created: bool,
    canceled: bool,
    #[serde(deserialize_with = "integer")]
    compact_revision: u64,
    cancel_reason: String,
    events: Vec<RawEvent>,
}

#[derive(Deserialize)]
struct RawLine {
    result: Option<RawWatch>,
    error: Option<EtcdRefusal>,
}

#[derive(Deserialize)]
struct RawToken {
    token: String,
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    // Without this check, a derived `Deserialize` would also accept a JSON array with the values of the fields.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(Error::malformed("not a JSON object"));
    }
    json::read(text, LARGEST_VALUES).map_err(Error::malformed)
}

/// Returns the revision, or an error if the revision is zero or absent.
///
/// etcd counts revisions from one. Another JSON server may answer `{}`, which must not count as an absent key.
fn revision(header: &RawHeader) -> Result<u64, Error> {
    match header.revision {
        0 => Err(Error::malformed("no revision")),
        revision => Ok(revision),
    }
}

impl KeyValue {
    /// Returns the key and its value, or an error if no existing key can have these revisions.
    fn existing(self) -> Result<Self, Error> {
        match 0 < self.create_revision && self.create_revision <= self.mod_revision {
            true => Ok(self),
            false => Err(Error::malformed("invalid revisions of a key")),
        }
    }
}

/// Returns the only value, or an error if the response contains a key other than `key`.
fn only(kvs: Vec<KeyValue>, key: &[u8]) -> Result<Option<KeyValue>, Error> {
    let mut kvs = kvs.into_iter();
    let kv = kvs.next().map(KeyValue::existing).transpose()?;
    match kvs.next().is_none() && kv.as_ref().is_none_or(|kv| kv.key == key) {
        true => Ok(kv),
        false => Err(Error::malformed("a key that was not requested")),
    }
}

/// Parses the response to [`range`].
pub(crate) fn read_range(text: &[u8], keys: Keys<'_>) -> Result<Found, Error> {
    let RawRange { header, kvs } = read(text)?;
    let revision = revision(&header)?;
    let kvs = match keys {
        Keys::One(key) => only(kvs, key)?.into_iter().collect(),
        Keys::Prefix(_) => kvs.into_iter().map(KeyValue::existing).collect::<Result<_, _>>()?,
    };
    Ok(Found { revision, kvs })
}

/// Parses the response to [`txn`] on `key`.
pub(crate) fn read_txn(text: &[u8], key: &[u8]) -> Result<Txn, Error> {
    let RawTxn { header, succeeded, responses } = read(text)?;
    let revision = revision(&header)?;
    if succeeded {
        return Ok(Txn::Applied(revision));
    }
    let range = responses.into_iter().find_map(|operation| operation.response_range);
    let range = range.ok_or_else(|| Error::malformed("the current value of the key is missing"))?;
    Ok(Txn::Beaten(only(range.kvs, key)?))
}

/// Parses a line of a watch.
pub(crate) fn read_line(text: &[u8]) -> Result<EtcdWatchLine, Error> {
    let RawLine { result, error } = read(text)?;
    if let Some(refusal) = error {
        return Ok(EtcdWatchLine::Failed(refusal));
    }
    let raw = result.ok_or_else(|| Error::malformed("no result"))?;
    // etcd reports a rejected watch as both created and cancelled, so the cancellation is checked first.
    if raw.canceled {
        return Ok(EtcdWatchLine::Canceled { is_compacted: raw.compact_revision > 0, reason: raw.cancel_reason });
    }
    if raw.created {
        return revision(&raw.header).map(EtcdWatchLine::Created);
    }
    let event = |RawEvent { kind, kv }: RawEvent| match kind.as_str() {
        "" | "PUT" => Ok(EtcdEvent { kv: kv.existing()?, is_deletion: false }),
        "DELETE" if kv.mod_revision > 0 => {
            Ok(EtcdEvent { kv: KeyValue { create_revision: 0, value: Vec::new(), ..kv }, is_deletion: true })
        }
        _ => Err(Error::malformed("unknown type of an event")),
    };
    raw.events.into_iter().map(event).collect::<Result<_, _>>().map(EtcdWatchLine::Events)
}

/// Parses an error of the gateway.
///
/// Returns `None` if the body is not from etcd.
pub(crate) fn read_refusal(text: &[u8]) -> Option<EtcdRefusal> {
    read(text).ok()
}

/// Parses the response to [`authenticate`] and returns the token.
pub(crate) fn read_token(text: &[u8]) -> Result<String, Error> {
    // The parser's error is dropped, because its text may quote the token.
    let token = read(text).ok().map(|RawToken { token }| token).filter(|token| !token.is_empty());
    token.ok_or_else(|| Error::malformed("no token"))
}

#[cfg(test)]
mod tests;
