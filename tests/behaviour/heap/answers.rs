//! Reading a response takes less than 16 MiB of memory, whatever a server sends.
//!
//! The last test reads the largest Lease that a server accepts.

use std::time::Duration;

use leasehold::etcd::{EtcdConfig, EtcdStore};
use leasehold::kubernetes::Client;
use leasehold::kubernetes::LeaseStore;
use leasehold::store::{CallContext, CancelToken, LeaderElectionRecord, Store, StoreErrorKind, WatchEvent, WatchScope};
use leasehold_testing::{ApiServer, Fault, Resource, Verb};
use serde_json::{Value, json};

use crate::allocation::measure;
use crate::client_config::config_of;

pub const SOON: Duration = Duration::from_secs(60);

fn call() -> CallContext {
    CallContext::new(SOON, CancelToken::new())
}
const MOST: usize = 16 << 20;

/// The memory limit for a refused response.
///
/// Counting a text with escapes takes twice the size of the text, beside the response.
const MOST_OF_A_REFUSAL: usize = 13 << 20;

const NAMESPACE: &str = "default";
const LEASE: &str = "locked";

/// The longest response that the client reads.
const LONGEST: usize = 4 << 20;

/// The longest response that the store reads as a Lease.
const LONGEST_LEASE: usize = 3 << 20;

fn client(server: &ApiServer) -> Client {
    Client::new(config_of(&server.kubeconfig("admin")).expect("a configuration")).expect("a client")
}

fn store(server: &ApiServer) -> LeaseStore {
    LeaseStore::new(client(server), NAMESPACE).expect("a store")
}

/// Makes the server answer the next request with `body`.
fn answer_with(server: &ApiServer, code: u16, body: String) {
    server.fault(Fault::replace_bytes(code, "application/json", body).first(1));
}

/// JSON of at most a given size that takes as much memory as possible for its form.
type Shape = (&'static str, fn(usize) -> String);

fn array_of(element: &str, size: usize) -> String {
    let count = size.saturating_sub(2) / (element.len() + 1);
    format!("[{}]", vec![element; count].join(","))
}

fn object_of(member: impl Fn(usize) -> String, size: usize) -> String {
    let mut text = "{".to_owned();
    for number in 0.. {
        let member = member(number);
        if text.len() + member.len() + 2 > size {
            break;
        }
        if number > 0 {
            text.push(',');
        }
        text.push_str(&member);
    }
    text + "}"
}

const SHAPES: &[Shape] = &[
    ("empty arrays", |size| array_of("[]", size)),
    ("arrays of one", |size| array_of("[0]", size)),
    ("arrays of five", |size| array_of("[0,0,0,0,0]", size)),
    ("arrays in arrays", |size| array_of("[[[[[[0]]]]]]", size)),
    ("empty objects", |size| array_of("{}", size)),
    ("objects of one", |size| array_of("{\"\":0}", size)),
    ("objects of twelve", |size| array_of(&object_of(|number| format!("\"{number:x}\":0"), 12 * 6 + 2), size)),
    ("objects in objects", |size| array_of("{\"\":{\"\":{\"\":{\"\":0}}}}", size)),
    ("numbers", |size| array_of("0", size)),
    ("empty texts", |size| array_of("\"\"", size)),
    ("short texts", |size| array_of("\"x\"", size)),
    ("short texts with escapes", |size| array_of("\"\\n\"", size)),
    ("one object, in order", |size| object_of(|number| format!("\"{number:07x}\":0"), size)),
    ("one object, in disorder", |size| {
        object_of(|number| format!("\"{:x}\":0", number.wrapping_mul(0x9e37_79b9) & 0xfff_ffff), size)
    }),
    ("one text", |size| format!("\"{}\"", "x".repeat(size - 2))),
    ("one text with an escape", |size| format!("\"\\n{}\"", "x".repeat(size - 4))),
    ("one text with an escape at its end", |size| format!("\"{}\\n\"", "x".repeat(size - 4))),
    ("one text of escapes", |size| format!("\"{}\"", "\\n".repeat(size / 2 - 1))),
    ("one key", |size| format!("{{\"{}\":0}}", "x".repeat(size - 6))),
];

/// Tries each shape at `longest`, then at shorter sizes, until `read` returns `true`.
///
/// `prepare` gives the text to the server, and is not measured.
fn try_all(longest: usize, prepare: impl Fn(String), read: impl Fn() -> bool) {
    for (name, make) in SHAPES {
        let mut most = 0;
        let mut size = longest;
        loop {
            let text = make(size);
            assert!(text.len() <= size && text.len() + 200 > size, "{name}: {} of {size} bytes", text.len());
            prepare(text);
            let mut accepted = false;
            let peak = measure(|| accepted = read()).peak;
            assert!(peak < MOST, "{name}: {peak} bytes for {size}, accepted: {accepted}");
            most = most.max(peak);
            if accepted {
                break println!("{name}: {size} bytes are read; at most {:.1} MiB", most as f64 / 1048576.0);
            }
            size -= size / 3;
            assert!(size > 16 * 1024, "{name}: nothing is accepted");
        }
    }
}

fn lease_with(holder: &str, more: &str) -> String {
    format!(
        "{{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{{\"name\":\"{LEASE}\",\
         \"namespace\":\"{NAMESPACE}\",\"uid\":\"u\",\"resourceVersion\":\"7\"}},\
         \"spec\":{{\"holderIdentity\":\"{holder}\",\"someday\":{more}}}}}"
    )
}

/// The size of a Lease without the text under test, in bytes.
const AROUND: usize = 300;

/// A list of leases is read as JSON.
#[test]
fn an_answer_takes_less_than_16_mib_as_json() {
    let server = ApiServer::start().expect("an in-memory server");
    let leases = store(&server);
    try_all(
        LONGEST,
        |text| answer_with(&server, 200, text),
        || {
            let cancel = CancelToken::new();
            let result = leases.watch(WatchScope::All, None, &cancel, &mut |_| cancel.cancel());
            let error = result.expect_err("an error");
            // After an answer that needs too much memory, the store requests a smaller page, and opens the watch.
            let is_read = error.kind() == StoreErrorKind::Malformed && error.to_string().contains("invalid list");
            assert!(is_read || error.kind() == StoreErrorKind::Interrupted, "{error}");
            is_read
        },
    );
}

#[test]
fn a_lease_takes_less_than_16_mib() {
    let server = ApiServer::start().expect("an in-memory server");
    let leases = store(&server);
    let read = || match leases.get(LEASE, &call()) {
        Ok(lease) => lease.is_some(),
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
            assert!(error.to_string().contains("more memory than"), "{error}");
            false
        }
    };
    try_all(LONGEST_LEASE - AROUND, |text| answer_with(&server, 200, lease_with("a", &text)), read);
    // The store copies the record out of the response, so both take memory.
    for more in ["0".to_owned(), array_of("{\"\":0}", 40_000)] {
        let holder = "x".repeat(LONGEST_LEASE - AROUND - more.len());
        answer_with(&server, 200, lease_with(&holder, &more));
        let peak = measure(|| assert!(read())).peak;
        assert!(peak < MOST, "{peak}");
        println!("a long holder: {:.1} MiB", peak as f64 / 1048576.0);
    }
}

#[test]
fn response_longer_than_a_lease_is_refused() {
    let server = ApiServer::start().expect("an in-memory server");
    let leases = store(&server);
    for (length, is_read) in [(LONGEST_LEASE, true), (LONGEST_LEASE + 1, false), (LONGEST, false)] {
        let empty = lease_with("", "0").len();
        let text = lease_with(&"x".repeat(length - empty), "0");
        assert_eq!(text.len(), length);
        answer_with(&server, 200, text);
        match leases.get(LEASE, &call()) {
            Ok(_) => assert!(is_read, "{length}"),
            Err(error) => {
                assert!(!is_read && error.kind() == StoreErrorKind::Malformed, "{error}");
                assert!(error.to_string().contains("exceed the size limit of an object"), "{error}");
            }
        }
    }
}

#[test]
fn a_watch_takes_less_than_16_mib() {
    let server = ApiServer::start().expect("an in-memory server");
    let leases = store(&server);
    let prepare = |text: String| {
        let line = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", lease_with("a", &text));
        server.fault(Fault::watch_bytes(line).first(1));
    };
    try_all(LONGEST_LEASE - AROUND - 100, prepare, || {
        let cancel = CancelToken::new();
        let mut changed = false;
        let ended = leases.watch(WatchScope::Key(LEASE), None, &cancel, &mut |event| {
            if let WatchEvent::Changed { .. } = event {
                changed = true;
                cancel.cancel();
            }
        });
        let kind = ended.expect_err("stopped, or refused").kind();
        assert_eq!(kind, if changed { StoreErrorKind::Interrupted } else { StoreErrorKind::Malformed });
        changed
    });
}

#[test]
fn a_refusal_takes_less_than_13_mib() {
    let server = ApiServer::start().expect("an in-memory server");
    let leases = store(&server);
    for (name, make) in SHAPES {
        for field in ["message", "someday"] {
            let text = format!("{{\"kind\":\"Status\",\"{field}\":{}}}", make(LONGEST - 64));
            answer_with(&server, 503, text);
            let peak = measure(|| {
                let error = leases.get(LEASE, &call()).expect_err("refused");
                assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            })
            .peak;
            assert!(peak < MOST_OF_A_REFUSAL, "{name} as {field}: {peak}");
        }
    }
}

#[test]
fn etcd_answer_is_read_without_copies() {
    for (fields, most) in [
        (format!("\"kvs\":[{{\"value\":\"{}\"}}]", "AAAA".repeat(LONGEST / 4 - 100)), 8 << 20),
        (format!("\"responses\":{}", array_of("{}", 3 * 131_000)), 1 << 20),
    ] {
        let gateway = tiny_http::Server::http("127.0.0.1:0").expect("a gateway");
        let url = format!("http://{}", gateway.server_addr().to_ip().expect("an address"));
        let body = tiny_http::Response::from_string(format!("{{\"header\":{{\"revision\":\"1\"}},{fields}}}"));
        std::thread::spawn(move || gateway.recv().expect("a request").respond(body));
        let etcd = EtcdStore::new(EtcdConfig::new([url]).expect("a URL")).expect("a store");
        let peak = measure(|| assert_eq!(etcd.get("jobs", &call()).is_ok(), most == 1 << 20)).peak;
        assert!((most / 16..most).contains(&peak), "{peak} of {most}");
    }
}

/// The Lease has a thousand annotations, with as many bytes as a server accepts.
///
/// Each of two dozen managers owns all annotations.
#[test]
fn largest_lease_of_a_server_is_held_and_kept() {
    let server = ApiServer::start().expect("an in-memory server");
    let key = |number: usize| format!("example.com/a-word-on-the-matter-{number:04}");
    let annotations: Value =
        (0..1000).map(|number| (key(number), json!("v".repeat(220)))).collect::<Vec<_>>().into_iter().collect();
    let owned: Value = (0..1000).map(|number| (format!("f:{}", key(number)), json!({}))).collect();
    let managers: Vec<_> = (0..24)
        .map(|number| {
            json!({
                "manager": format!("manager-{number}"), "operation": "Apply", "apiVersion": "coordination.k8s.io/v1",
                "time": "2026-11-21T12:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:annotations": owned } },
            })
        })
        .collect();
    let metadata = json!({ "annotations": annotations, "managedFields": managers });
    let object = json!({ "metadata": metadata, "spec": { "holderIdentity": "them" } });
    let length = object.to_string().len();
    assert!(length > 1_300_000 && length < 1_500_000, "{length}");
    server.put(Resource::Leases, NAMESPACE, LEASE, object);

    let leases = store(&server);
    let mut read = None;
    let peak = measure(|| read = leases.get(LEASE, &call()).expect("an answer")).peak;
    assert!(peak < MOST, "{peak}");
    println!("{length} bytes: {:.1} MiB", peak as f64 / 1048576.0);
    let base = read.expect("a lease");
    let record = LeaderElectionRecord { holder_identity: Some("us".into()), ..base.record.clone() };
    let written = leases.update(LEASE, &base, record.as_write(), &call()).expect("an update");
    assert_eq!(written.record.holder(), Some("us"));
    let stored = server.get(Resource::Leases, NAMESPACE, LEASE).expect("a lease");
    assert_eq!(stored["metadata"]["annotations"], metadata["annotations"]);
    assert_eq!(stored["spec"]["holderIdentity"], "us");
    let updates = server.requests().into_iter().filter(|request| request.verb == Some(Verb::Update)).count();
    assert_eq!(updates, 1);
}
