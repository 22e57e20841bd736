//! The kinds of faults, in tables.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use leasehold_testing::Fault;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The name and the constructor of a fault.
///
/// Some faults need the object that a correct response would contain.
pub type Case = (&'static str, fn(&Value) -> Fault);

/// A time that is longer than the timeout of any request in these tests.
pub const TOO_LONG: Duration = Duration::from_secs(10);

/// The server does not respond, and applies nothing in time.
pub const SILENCE: &[Case] = &[
    ("silence", |_| Fault::hang()),
    ("applied too late", |_| Fault::delay(TOO_LONG)),
    ("connection lost before", |_| Fault::drop_before()),
];

/// The server applies the request, but the response does not confirm the write.
pub const APPLIED: &[Case] = &[
    ("applied, then silence", |_| Fault::hang_after()),
    ("answered too late", |_| Fault::delay_answer(TOO_LONG)),
    ("connection lost after", |_| Fault::drop_after()),
    ("applied, then 500", |_| Fault::apply_then(500, "InternalError", "made up")),
    ("applied, then 504", |_| Fault::apply_then(504, "Timeout", "made up")),
];

/// The server refuses the request and applies nothing.
pub const REFUSALS: &[Case] = &[
    ("500", |_| Fault::status(500, "InternalError", "made up")),
    ("503", |_| Fault::status(503, "ServiceUnavailable", "made up")),
    ("504", |_| Fault::status(504, "Timeout", "made up")),
    ("429", |_| Fault::status(429, "TooManyRequests", "made up")),
    ("429 for a second", |_| Fault::status(429, "TooManyRequests", "made up").retry_after(1)),
    ("429 for three seconds", |_| Fault::status(429, "TooManyRequests", "made up").retry_after(3)),
    ("503 for a second", |_| Fault::status(503, "ServiceUnavailable", "made up").retry_after(1)),
    ("401", |_| Fault::status(401, "Unauthorized", "made up")),
    ("403", |_| Fault::status(403, "Forbidden", "made up")),
    ("404 of nothing in particular", |_| Fault::status(404, "NotFound", "made up")),
    ("409", |_| Fault::status(409, "Conflict", "made up")),
    ("409 already exists", |_| Fault::status(409, "AlreadyExists", "made up")),
    ("410", |_| Fault::status(410, "Gone", "made up")),
    ("422", |_| Fault::status(422, "Invalid", "made up")),
];

/// A pause that a candidate observes.
///
/// Neither a term nor a release ends because of such a pause.
pub const PAUSES: &[Case] =
    &[("429 for a day", |_| Fault::status(429, "TooManyRequests", "made up").retry_after(86_400))];

/// The server applies the request, but the response is broken or reports a conflict.
///
/// The client then reads the record, so a term survives any number of these faults.
pub const REFUTED: &[Case] = &[
    ("connection lost after the head", |_| Fault::truncate(0)),
    ("connection lost in the body", |_| Fault::truncate(20)),
    ("applied, then 409", |_| Fault::apply_then(409, "Conflict", "made up")),
    ("applied, then 409 already exists", |_| Fault::apply_then(409, "AlreadyExists", "made up")),
];

/// Responses that do not come from an API server.
pub const NOT_AN_API_SERVER: &[Case] = &[
    ("bytes", |_| Fault::garbage([0, 255, 22, 3, 1, 0, 7])),
    ("another protocol", |_| Fault::garbage("SSH-2.0-OpenSSH_9.9\r\n")),
    ("a negative length", |_| Fault::garbage("HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello")),
    ("two lengths", |_| Fault::garbage("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}")),
    ("no chunk", |_| Fault::garbage("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n")),
    ("a vast chunk", |_| Fault::garbage("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n")),
    ("a vast head", |_| Fault::garbage(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(50_000)))),
    ("a vast line", |_| Fault::garbage(format!("HTTP/1.1 200 {}\r\n\r\n", "O".repeat(300_000)))),
    ("half a head", |_| Fault::garbage("HTTP/1.1 200 OK\r\ncontent-le")),
    ("half a heading of headings", |_| Fault::garbage("HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000))),
    ("another protocol, agreed on", |_| Fault::garbage("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n")),
    ("no content", |_| Fault::garbage("HTTP/1.1 204 No Content\r\n\r\n")),
    ("a redirect", |_| redirect(302, "http://127.0.0.1:1/")),
    ("a redirect to nowhere", |_| redirect(308, "\u{7f}::")),
    ("a redirect without a place", |_| Fault::garbage("HTTP/1.1 301 Moved\r\ncontent-length: 0\r\n\r\n")),
    ("compressed", |_| Fault::garbage("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}")),
    ("a body without end", |_| Fault::endless_body()),
    ("an empty body", |_| Fault::replace_bytes(200, "application/json", "")),
    ("a proxy's 502", |_| Fault::replace_bytes(502, "text/html", HTML)),
    ("a proxy's 404", |_| Fault::replace_bytes(404, "text/html", HTML)),
    ("a portal's 200", |_| Fault::replace_bytes(200, "text/html", HTML)),
    ("protobuf", |_| Fault::replace_bytes(200, "application/vnd.kubernetes.protobuf", "k8s\0\n\x1f")),
    ("text that is no UTF-8", |object| spoil(object, b"\xff\xfe\xc3")),
    ("half a surrogate pair", |object| spoil(object, br"\ud800")),
    ("a NUL", |object| spoil(object, b"\0")),
    ("half an object", |object| {
        let text = object.to_string();
        Fault::replace_bytes(200, "application/json", &text.as_bytes()[..text.len() / 2])
    }),
    ("an object and a half", |object| Fault::replace_bytes(200, "application/json", format!("{object}{{"))),
    ("a deep object", |_| Fault::replace_bytes(200, "application/json", "{\"kind\":".repeat(100_000))),
    ("null", |_| Fault::replace(200, &Value::Null)),
    ("a number", |_| Fault::replace(200, &json!(1e300))),
    ("a list", |object| Fault::replace(200, &json!([object]))),
];

/// Objects that are not a Lease, or are another Lease.
pub const NOT_THE_LEASE: &[Case] = &[
    ("a Status", |_| Fault::replace(200, &json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))),
    ("a ConfigMap", |object| answer(object, |object| object["kind"] = json!("ConfigMap"))),
    ("a LeaseList", |object| Fault::replace(200, &json!({ "kind": "LeaseList", "metadata": {}, "items": [object] }))),
    ("no kind", |object| answer(object, |object| remove(object, "kind"))),
    ("another name", |object| answer(object, |object| object["metadata"]["name"] = json!("another"))),
    ("no metadata", |object| answer(object, |object| remove(object, "metadata"))),
    ("null metadata", |object| answer(object, |object| object["metadata"] = Value::Null)),
    ("no version", |object| answer(object, |object| remove(&mut object["metadata"], "resourceVersion"))),
    ("a version in words", |object| answer(object, |object| object["metadata"]["resourceVersion"] = json!("new"))),
    ("a version as number", |object| answer(object, |object| object["metadata"]["resourceVersion"] = json!(7))),
    ("version zero", |object| answer(object, |object| object["metadata"]["resourceVersion"] = json!("0"))),
    ("a vast version", |object| answer(object, |object| object["metadata"]["resourceVersion"] = json!("9".repeat(40)))),
    ("no uid", |object| answer(object, |object| remove(&mut object["metadata"], "uid"))),
    ("an empty uid", |object| answer(object, |object| object["metadata"]["uid"] = json!(""))),
    ("a list as spec", |object| answer(object, |object| object["spec"] = json!([]))),
    ("a number as holder", |object| answer(object, |object| object["spec"]["holderIdentity"] = json!(7))),
    ("a text as duration", |object| answer(object, |object| object["spec"]["leaseDurationSeconds"] = json!("15"))),
    ("a vast duration", |object| answer(object, |object| object["spec"]["leaseDurationSeconds"] = json!(1e12))),
    ("a vast negative", |object| answer(object, |object| object["spec"]["leaseTransitions"] = json!(i64::MIN))),
    ("an object as time", |object| answer(object, |object| object["spec"]["renewTime"] = json!({}))),
];

/// Valid Leases at a known version, without the write that the server did not apply.
pub const STALE: &[Case] = &[
    ("the object as it was", |object| answer(object, |_| {})),
    ("201 for the object as it was", |object| Fault::replace(201, object)),
    ("no spec", |object| answer(object, |object| remove(object, "spec"))),
    ("a null spec", |object| answer(object, |object| object["spec"] = Value::Null)),
    ("a spec of nulls", |object| {
        answer(object, |object| {
            for (_, value) in object["spec"].as_object_mut().expect("a spec") {
                *value = Value::Null;
            }
        })
    }),
];

/// Responses that a correct server never sends.
///
/// A term may end after such a response, but the elector must recover.
pub const LIES: &[Case] = &[
    ("a version from the future", |object| {
        answer(object, |object| {
            object["metadata"]["resourceVersion"] = json!("1000000000");
            object["spec"] = json!({});
        })
    }),
    ("another object from the future", |object| {
        answer(object, |object| {
            object["metadata"]["resourceVersion"] = json!("1000000000");
            object["metadata"]["uid"] = json!("0-0-0");
            object["spec"] = json!({ "holderIdentity": "somebody", "leaseDurationSeconds": 1 });
        })
    }),
    ("the last version of all", |object| {
        answer(object, |object| object["metadata"]["resourceVersion"] = json!(u64::MAX.to_string()))
    }),
];

pub const HTML: &str = "<html>\r\n<head><title>Made up</title></head>\r\n<body><h1>Made up</h1></body></html>\r\n";

pub fn answer(object: &Value, change: impl FnOnce(&mut Value)) -> Fault {
    let mut object = object.clone();
    change(&mut object);
    Fault::replace(200, &object)
}

pub fn remove(object: &mut Value, field: &str) {
    object.as_object_mut().expect("an object").remove(field).expect("a field to remove");
}

/// Returns a response with the object, whose holder contains `bytes`.
pub fn spoil(object: &Value, bytes: &[u8]) -> Fault {
    let mut object = object.clone();
    object["spec"]["holderIdentity"] = json!("SPOILT");
    let text = object.to_string();
    let (before, after) = text.split_once("SPOILT").expect("it is in there");
    Fault::replace_bytes(200, "application/json", [before.as_bytes(), bytes, after.as_bytes()].concat())
}

pub fn redirect(code: u16, place: &str) -> Fault {
    Fault::garbage(format!(
        "HTTP/1.1 {code} Elsewhere\r\nlocation: {place}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    ))
}

/// The number of cases that run at the same time, because they mostly wait.
///
/// With all of them at the same time, the calls of hundreds of threads time out on a machine with other work.
const AT_ONCE: usize = 12;

/// Runs each case, and panics with the names of all failed cases.
pub fn each(tables: &[&[Case]], run: impl Fn(&Case) + Sync) {
    let (cases, failed) = (Mutex::new(tables.iter().copied().flatten()), Mutex::new(Vec::new()));
    let next = || cases.lock().next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = next() {
                    if catch_unwind(AssertUnwindSafe(|| run(case))).is_err() {
                        failed.lock().push(case.0);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert!(failed.is_empty(), "these failed, each as it said: {failed:?}");
}
