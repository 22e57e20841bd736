//! Requests and answers of etcd's JSON gateway.
//!
//! Bytes are in base64 and 64-bit integers are texts; what is zero, false or empty is absent. etcd ignores a field that it does
//! not know, so a misspelt comparison would succeed: the tests compare whole bodies.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::{self, DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::net::json;

/// What the values of an answer may take in memory. With the longest body, which is 4 MiB, that stays below 16 MiB.
const LARGEST_VALUES: usize = 9 * 1024 * 1024;

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyValue {
    pub(crate) key: Vec<u8>,
    pub(crate) create_revision: u64,
    pub(crate) mod_revision: u64,
    pub(crate) value: Vec<u8>,
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Of the store as a whole.
    pub(crate) revision: u64,
    pub(crate) kvs: Vec<KeyValue>,
}

/// What became of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Txn {
    /// It was applied, as this revision.
    Applied(u64),
    /// A comparison failed, and nothing was written; what stands under its first key instead.
    Beaten(Option<KeyValue>),
}

/// What a write is to be applied onto.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected<'a> {
    Absent,
    /// All three: after lost history the same revisions may have been given again, to another value.
    Exactly(&'a KeyValue),
}

/// A write of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
}

/// Keys that are read or watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys<'a> {
    One(&'a [u8]),
    /// All that begin with it.
    Prefix(&'a [u8]),
}

/// What a line of a watch says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EtcdWatchLine {
    /// It stands, on a member that has come to this revision.
    Created(u64),
    Events(Vec<EtcdEvent>),
    /// The server has ended it. The connection stays open all the same.
    Canceled {
        is_compacted: bool,
        reason: String,
    },
    /// The gateway has ended it.
    Failed(EtcdRefusal),
}

/// A change of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EtcdEvent {
    /// The value is empty and `create_revision` zero where it was deleted.
    pub(crate) kv: KeyValue,
    pub(crate) is_deletion: bool,
}

/// An error as etcd says it: a gRPC code, and a message. The HTTP status differs from version to version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcdRefusal {
    pub(crate) code: u32,
    pub(crate) message: String,
}

/// What a request is to be read as, and is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The first key after all that begin with `prefix`. `"\0"` is etcd's word for the end of all keys.
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
                // An empty key is none; the first of all keys is "\0".
                object["key"] = json!(encode(if prefix.is_empty() { b"\0" } else { prefix }));
                object["range_end"] = json!(encode(&end_of(prefix)));
            }
        }
    }
}

/// A read. It is linearizable: nothing says `serializable`.
pub(crate) fn range(keys: Keys<'_>) -> Value {
    let mut body = json!({});
    keys.write(&mut body);
    body
}

/// Writes onto what is `expected` under `key`; otherwise nothing is written, and what stands there is read.
pub(crate) fn txn(key: &[u8], expected: Expected<'_>, writes: &[Write<'_>]) -> Value {
    let key = encode(key);
    let compare = |target: &str, field: &str, value: String| json!({ "key": key, "target": target, "result": "EQUAL", field: value });
    let compare = match expected {
        Expected::Absent => vec![compare("CREATE", "create_revision", "0".to_owned())],
        Expected::Exactly(kv) => vec![
            compare("MOD", "mod_revision", kv.mod_revision.to_string()),
            compare("CREATE", "create_revision", kv.create_revision.to_string()),
            compare("VALUE", "value", encode(&kv.value)),
        ],
    };
    let write = |write: &Write<'_>| match write {
        Write::Put(key, value) => json!({ "request_put": { "key": encode(key), "value": encode(value) } }),
        Write::Delete(key) => json!({ "request_delete_range": { "key": encode(key) } }),
    };
    json!({
        "compare": compare,
        "success": writes.iter().map(write).collect::<Vec<_>>(),
        "failure": [{ "request_range": { "key": key } }],
    })
}

/// Changes of `keys`, from that revision on.
pub(crate) fn watch(keys: Keys<'_>, start_revision: u64) -> Value {
    let mut request = json!({ "start_revision": start_revision.to_string() });
    keys.write(&mut request);
    json!({ "create_request": request })
}

pub(crate) fn authenticate(name: &str, password: &str) -> Value {
    json!({ "name": name, "password": password })
}

/// A 64-bit integer, as text; etcd's are never negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Int(u64);

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Int;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer of 63 bits, as text or number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Int, E> {
                let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse().ok().filter(|_| is_plain);
                number.map_or_else(|| Err(E::custom("no integer")), |number| self.visit_u64(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Int, E> {
                match i64::try_from(number) {
                    Ok(_) => Ok(Int(number)),
                    Err(_) => Err(E::custom("more than 63 bits")),
                }
            }
        }
        deserializer.deserialize_any(Digits)
    }
}

/// Bytes in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64;
        impl Visitor<'_> for Base64 {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes in base64")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                BASE64_STANDARD.decode(text).map(Bytes).map_err(|_| E::custom("no base64"))
            }
        }
        deserializer.deserialize_str(Base64)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawHeader {
    revision: Int,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawKeyValue {
    key: Bytes,
    create_revision: Int,
    mod_revision: Int,
    value: Bytes,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawRange {
    header: RawHeader,
    kvs: Vec<RawKeyValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawOperation {
    response_range: Option<RawRange>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawTxn {
    header: RawHeader,
    succeeded: bool,
    responses: Vec<RawOperation>,
}

#[derive(Deserialize)]
struct RawRefusal {
    /// As a stream of 3.4 calls it: `grpc_code`.
    #[serde(alias = "grpc_code")]
    code: u32,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: String,
    kv: RawKeyValue,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawWatch {
    header: RawHeader,
    created: bool,
    canceled: bool,
    compact_revision: Int,
    cancel_reason: String,
    events: Vec<RawEvent>,
}

#[derive(Deserialize)]
struct RawLine {
    result: Option<RawWatch>,
    error: Option<RawRefusal>,
}

#[derive(Deserialize)]
struct RawToken {
    token: String,
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, Malformed> {
    json::read(text, LARGEST_VALUES).map_err(|unreadable| Malformed(unreadable.to_string()))
}

/// Whatever speaks JSON may answer `{}`, which must not be read as an absent key: etcd says its revision, which begins at one.
fn revision(header: &RawHeader) -> Result<u64, Malformed> {
    match header.revision.0 {
        0 => Err(Malformed("it names no revision".to_owned())),
        revision => Ok(revision),
    }
}

impl RawKeyValue {
    /// What stands in the store.
    fn existing(self) -> Result<KeyValue, Malformed> {
        let (created, modified) = (self.create_revision.0, self.mod_revision.0);
        match 0 < created && created <= modified {
            true => {
                Ok(KeyValue { key: self.key.0, create_revision: created, mod_revision: modified, value: self.value.0 })
            }
            false => Err(Malformed("the revisions of a key make no sense".to_owned())),
        }
    }
}

/// What stands under the one key that was asked for.
fn only(kvs: Vec<RawKeyValue>, key: &[u8]) -> Result<Option<KeyValue>, Malformed> {
    let mut kvs = kvs.into_iter();
    let kv = kvs.next().map(RawKeyValue::existing).transpose()?;
    match kvs.next().is_none() && kv.as_ref().is_none_or(|kv| kv.key == key) {
        true => Ok(kv),
        false => Err(Malformed("it tells of another key".to_owned())),
    }
}

/// Reads the answer to [`range`].
pub(crate) fn read_range(text: &[u8], keys: Keys<'_>) -> Result<Found, Malformed> {
    let RawRange { header, kvs } = read(text)?;
    let revision = revision(&header)?;
    let kvs = match keys {
        Keys::One(key) => only(kvs, key)?.into_iter().collect(),
        Keys::Prefix(_) => kvs.into_iter().map(RawKeyValue::existing).collect::<Result<_, _>>()?,
    };
    Ok(Found { revision, kvs })
}

/// Reads the answer to [`txn`] on `key`.
pub(crate) fn read_txn(text: &[u8], key: &[u8]) -> Result<Txn, Malformed> {
    let RawTxn { header, succeeded, responses } = read(text)?;
    let revision = revision(&header)?;
    if succeeded {
        return Ok(Txn::Applied(revision));
    }
    let range = responses.into_iter().find_map(|operation| operation.response_range);
    let range = range.ok_or_else(|| Malformed("it does not say what stands there instead".to_owned()))?;
    Ok(Txn::Beaten(only(range.kvs, key)?))
}

/// Reads a line of a watch.
pub(crate) fn read_line(text: &[u8]) -> Result<EtcdWatchLine, Malformed> {
    let RawLine { result, error } = read(text)?;
    if let Some(refusal) = error {
        return Ok(EtcdWatchLine::Failed(EtcdRefusal { code: refusal.code, message: refusal.message }));
    }
    let raw = result.ok_or_else(|| Malformed("it has no result".to_owned()))?;
    // One that was refused is both created and cancelled.
    if raw.canceled {
        return Ok(EtcdWatchLine::Canceled { is_compacted: raw.compact_revision.0 > 0, reason: raw.cancel_reason });
    }
    if raw.created {
        return revision(&raw.header).map(EtcdWatchLine::Created);
    }
    let event = |RawEvent { kind, kv }: RawEvent| match kind.as_str() {
        "" | "PUT" => Ok(EtcdEvent { kv: kv.existing()?, is_deletion: false }),
        "DELETE" if kv.mod_revision.0 > 0 => {
            let kv = KeyValue { key: kv.key.0, create_revision: 0, mod_revision: kv.mod_revision.0, value: Vec::new() };
            Ok(EtcdEvent { kv, is_deletion: true })
        }
        _ => Err(Malformed("the type of an event is unknown".to_owned())),
    };
    raw.events.into_iter().map(event).collect::<Result<_, _>>().map(EtcdWatchLine::Events)
}

/// Reads what an answer that is none of success says; `None` where it is not etcd's.
pub(crate) fn read_refusal(text: &[u8]) -> Option<EtcdRefusal> {
    let RawRefusal { code, message } = read(text).ok()?;
    Some(EtcdRefusal { code, message })
}

/// Reads the answer to [`authenticate`]: the token.
pub(crate) fn read_token(text: &[u8]) -> Result<String, Malformed> {
    // What is wrong is not said: it may quote the token.
    let wrong = || Malformed("it has no token".to_owned());
    let RawToken { token } = read(text).map_err(|_| wrong())?;
    if token.is_empty() { Err(wrong()) } else { Ok(token) }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;
