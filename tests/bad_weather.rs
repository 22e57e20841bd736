//! Electors against the in-memory server while it does whatever a server, a proxy or a network can do to a request.
//!
//! The tables below name what goes wrong; the tests say when it goes wrong and what must hold then. Whatever happens,
//! nobody leads whom the store does not show, and as soon as it is over somebody leads again.

mod support;

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, TryRecvError};
use leasehold::kube::{Client, ErrorKind, Kubeconfig, Method, Request};
use leasehold::testing::{ApiServer, Fault, FaultHandle, Resource, User, Verb};
use leasehold::{Error, LeaderElector, LeaderElectorBuilder, LeaderGuard, LockErrorKind, StopReason, Transition};
use serde_json::{Value, json};
use support::cluster::{NAMESPACE, version};
use support::{A_WHILE, SOON, wait_until};

// ---- what goes wrong ----

/// A name for failures, and the fault; some need the object that the answer would have shown.
type Case = (&'static str, fn(&Value) -> Fault);

/// Longer than any request of these tests is waited for.
const TOO_LONG: Duration = Duration::from_secs(10);

/// No answer, and nothing done in time.
const SILENCE: &[Case] = &[
    ("silence", |_| Fault::hang()),
    ("applied too late", |_| Fault::delay(TOO_LONG)),
    ("connection lost before", |_| Fault::drop_before()),
];

/// Done, but the answer does not say so.
const APPLIED: &[Case] = &[
    ("applied, then silence", |_| Fault::hang_after()),
    ("answered too late", |_| Fault::delay_answer(TOO_LONG)),
    ("connection lost after", |_| Fault::drop_after()),
    ("applied, then 500", |_| Fault::apply_then(500, "InternalError", "made up")),
    ("applied, then 504", |_| Fault::apply_then(504, "Timeout", "made up")),
];

/// The server says no, and does nothing.
const REFUSALS: &[Case] = &[
    ("500", |_| Fault::status(500, "InternalError", "made up")),
    ("503", |_| Fault::status(503, "ServiceUnavailable", "made up")),
    ("504", |_| Fault::status(504, "Timeout", "made up")),
    ("429", |_| Fault::status(429, "TooManyRequests", "made up")),
    ("429 for a second", |_| Fault::status(429, "TooManyRequests", "made up").retry_after(1)),
    ("429 for a day", |_| Fault::status(429, "TooManyRequests", "made up").retry_after(86_400)),
    ("503 for a second", |_| Fault::status(503, "ServiceUnavailable", "made up").retry_after(1)),
    ("401", |_| Fault::status(401, "Unauthorized", "made up")),
    ("403", |_| Fault::status(403, "Forbidden", "made up")),
    ("404 of nothing in particular", |_| Fault::status(404, "NotFound", "made up")),
    ("409", |_| Fault::status(409, "Conflict", "made up")),
    ("409 already exists", |_| Fault::status(409, "AlreadyExists", "made up")),
    ("410", |_| Fault::status(410, "Gone", "made up")),
    ("422", |_| Fault::status(422, "Invalid", "made up")),
];

/// Refusals of what was done, and answers that are whole enough to say that the next attempt came too late: these make
/// the client look, and so a term goes on through any number of them.
const REFUTED: &[Case] = &[
    ("connection lost after the head", |_| Fault::truncate(0)),
    ("connection lost in the body", |_| Fault::truncate(20)),
    ("applied, then 409", |_| Fault::apply_then(409, "Conflict", "made up")),
    ("applied, then 409 already exists", |_| Fault::apply_then(409, "AlreadyExists", "made up")),
];

/// What is no answer of an API server.
const NOT_AN_API_SERVER: &[Case] = &[
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

/// Objects that are no Lease, or not this one.
const NOT_THE_LEASE: &[Case] = &[
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

/// Good Leases, but nothing was done and they do not show it: all at the version that is known already.
const STALE: &[Case] = &[
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

/// No server that keeps its promises says this, and a term does not outlive it; all that is asked is to get over it.
const LIES: &[Case] = &[
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

const HTML: &str = "<html>\r\n<head><title>Made up</title></head>\r\n<body><h1>Made up</h1></body></html>\r\n";

fn answer(object: &Value, change: impl FnOnce(&mut Value)) -> Fault {
    let mut object = object.clone();
    change(&mut object);
    Fault::replace(200, &object)
}

fn remove(object: &mut Value, field: &str) {
    object.as_object_mut().expect("an object").remove(field).expect("a field to remove");
}

/// The object with these bytes in its holder.
fn spoil(object: &Value, bytes: &[u8]) -> Fault {
    let mut object = object.clone();
    object["spec"]["holderIdentity"] = json!("SPOILT");
    let text = object.to_string();
    let (before, after) = text.split_once("SPOILT").expect("it is in there");
    Fault::replace_bytes(200, "application/json", [before.as_bytes(), bytes, after.as_bytes()].concat())
}

fn redirect(code: u16, place: &str) -> Fault {
    Fault::garbage(format!(
        "HTTP/1.1 {code} Elsewhere\r\nlocation: {place}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    ))
}

/// Runs every case on a thread of its own, for most of them wait most of the time, and names all that failed.
fn each(tables: &[&[Case]], run: impl Fn(&Case) + Sync) {
    let run = &run;
    let failed: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            tables.iter().copied().flatten().map(|case| (case.0, scope.spawn(move || run(case)))).collect();
        threads.into_iter().filter_map(|(name, thread)| thread.join().err().map(|_| name)).collect()
    });
    assert!(failed.is_empty(), "these failed, each as it said: {failed:?}");
}

// ---- whom it befalls ----

/// A server and one lease on it.
struct Place<'a> {
    server: &'a ApiServer,
    lease: String,
}

fn server() -> ApiServer {
    ApiServer::start().expect("an in-memory server")
}

fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_text(kubeconfig, "/").expect("a kubeconfig");
    Client::new(kubeconfig.client_config(None).expect("a configuration")).expect("a client")
}

fn kubeconfig_for(scheme: &str, address: &SocketAddr) -> String {
    format!(
        "{{clusters: [{{name: a, cluster: {{server: '{scheme}://{address}'}}}}], current-context: a, \
         contexts: [{{name: a, context: {{cluster: a, user: ''}}}}]}}"
    )
}

impl<'a> Place<'a> {
    fn new(server: &'a ApiServer, name: &str) -> Self {
        let lease = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Self { server, lease: format!("x-{lease}-x") }
    }

    /// Terms that end within a test's patience.
    fn short(&self, identity: &str) -> LeaderElectorBuilder {
        self.builder(identity, 5, 4)
    }

    /// Terms that do not end by themselves on a machine that stalls now and then.
    fn long(&self, identity: &str) -> LeaderElectorBuilder {
        self.builder(identity, 60, 45)
    }

    fn builder(&self, identity: &str, lease_duration: u64, renew_deadline: u64) -> LeaderElectorBuilder {
        LeaderElector::builder(&self.lease)
            .namespace(NAMESPACE)
            .identity(identity)
            .lease_duration(Duration::from_secs(lease_duration))
            .renew_deadline(Duration::from_secs(renew_deadline))
            .retry_period(Duration::from_millis(100))
            // Dozens of electors at a time share the cores of a small machine.
            .renew_interval(Duration::from_millis(300))
            .release_timeout(Duration::from_secs(20))
    }

    fn start(&self, builder: LeaderElectorBuilder) -> LeaderElector {
        self.start_as("anybody", builder)
    }

    fn start_as(&self, user: &str, builder: LeaderElectorBuilder) -> LeaderElector {
        builder.start_with(client(&self.server.kubeconfig(user))).expect("an elector")
    }

    fn fault(&self, verb: Verb, fault: Fault) -> FaultHandle {
        self.server.fault(fault.verb(verb).resource(Resource::Leases).name(&self.lease))
    }

    fn get(&self) -> Option<Value> {
        self.server.get(Resource::Leases, NAMESPACE, &self.lease)
    }

    fn put(&self, spec: Value) -> Value {
        self.server.put(Resource::Leases, NAMESPACE, &self.lease, json!({ "spec": spec }))
    }

    fn edit(&self, change: impl FnOnce(&mut Value)) -> Value {
        self.server.edit(Resource::Leases, NAMESPACE, &self.lease, change).expect("a lease to edit")
    }

    fn version(&self) -> u64 {
        version(&self.get().expect("a lease"))
    }

    fn holder(&self) -> Option<String> {
        let lease = self.get()?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    /// Nobody leads whom the store does not show. Asked after the store was read: who leads now did so then.
    fn assert_shown(&self, elector: &LeaderElector, guard: &LeaderGuard, what: &str) {
        let lease = self.get();
        if guard.is_leader() {
            let lease = lease.unwrap_or_else(|| panic!("{what}: leads without a lease"));
            assert_eq!(lease["spec"]["holderIdentity"], elector.identity(), "{what}");
            assert!(version(&lease) >= guard.fencing_token(), "{what}: {lease}");
        }
    }

    /// A term, as often as it takes: a term may run out on a machine that stalls, and a campaign may hear late of a
    /// refusal that is over.
    fn lead(&self, elector: &LeaderElector, what: &str) -> LeaderGuard {
        let until = Instant::now() + SOON;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match elector.block_until_leader_timeout(left) {
                Ok(Some(guard)) => {
                    self.assert_shown(elector, &guard, what);
                    if guard.is_leader() {
                        return guard;
                    }
                }
                Ok(None) => panic!("{what}: not elected"),
                Err(Error::Lock(_)) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }

    /// Each is seen by itself: versions also count what is written to other leases.
    fn wait_for_renewals(&self, count: usize, what: &str) {
        for _ in 0..count {
            let version = self.version();
            wait_until(what, || self.version() != version);
        }
    }
}

/// What a lease that was never there would look like, and the least that stands in one that is free.
fn some_lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": NAMESPACE, "uid": "1-2-3", "resourceVersion": "1" },
        "spec": free(),
    })
}

fn free() -> Value {
    json!({
        "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 3,
        "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z",
    })
}

fn lost(guard: &LeaderGuard, what: &str) -> StopReason {
    assert_eq!(guard.lost().recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "{what}: not lost");
    assert!(!guard.is_leader(), "{what}");
    guard.check().expect_err(what).reason
}

// ---- while campaigning ----

#[test]
fn a_campaign_survives_bad_answers_to_get() {
    a_campaign_survives(Verb::Get);
}

#[test]
fn a_campaign_survives_bad_answers_to_create() {
    a_campaign_survives(Verb::Create);
}

#[test]
fn a_campaign_survives_bad_answers_to_update() {
    a_campaign_survives(Verb::Update);
}

fn a_campaign_survives(verb: Verb) {
    let server = server();
    let tables = [SILENCE, APPLIED, REFUSALS, REFUTED, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE, LIES];
    each(&tables, |(name, fault)| {
        let what = format!("{verb}: {name}");
        let place = Place::new(&server, name);
        let object = match verb {
            Verb::Update => place.put(free()),
            _ => some_lease(&place.lease),
        };
        let fault = place.fault(verb, fault(&object));
        let elector = place.start(place.builder("me", 8, 6));

        // Until it was tried again in vain; or it was done, and that came out; or was refused for good.
        let campaign = elector.campaign().expect("a campaign");
        wait_until(&format!("{what}: not tried again"), || fault.hits() >= 2 || !campaign.receiver().is_empty());
        match campaign.receiver().try_recv() {
            Ok(Ok(guard)) => place.assert_shown(&elector, &guard, &what),
            Ok(Err(Error::Lock(_))) | Err(_) => {}
            Ok(Err(error)) => panic!("{what}: {error}"),
        }
        drop(campaign);
        fault.remove();

        let guard = place.lead(&elector, &what);
        place.wait_for_renewals(2, &format!("{what}: not renewed"));
        guard.release().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(place.holder(), None, "{what}");
    });
}

/// What cannot mend itself ends a campaign with words for whoever can mend it.
#[test]
fn what_cannot_mend_itself_is_said_to_the_caller() {
    let server = server();
    const HOPELESS: &[Case] = &[
        ("403: grant the verb `get`", |_| Fault::status(403, "Forbidden", "made up")),
        ("401: credentials", |_| Fault::status(401, "Unauthorized", "made up")),
        ("404: namespace", |_| Fault::replace_bytes(404, "text/html", HTML)),
        ("302: redirects are not followed", |_| redirect(302, "http://127.0.0.1:1/")),
    ];
    each(&[HOPELESS], |(name, fault)| {
        let place = Place::new(&server, name);
        let _fault = place.fault(Verb::Get, fault(&Value::Null));
        let elector = place.start(place.short("me"));
        let error = elector.block_until_leader().expect_err(name);
        assert!(matches!(&error, Error::Lock(lock) if !lock.can_mend_itself()), "{name}: {error:?}");
        for word in name.split(": ") {
            assert!(error.to_string().contains(word), "{name}: {error}");
        }
        assert_eq!(error.to_string().lines().count(), 1, "{name}: {error}");
    });
}

// ---- while leading ----

#[test]
fn one_bad_answer_does_not_cost_the_term() {
    let server = server();
    each(&[SILENCE, APPLIED, REFUSALS, REFUTED, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE], |(name, fault)| {
        let place = Place::new(&server, name);
        // A hanging request costs half of what is left of the term, and a pause that was asked for a half again.
        let elector = place.start(place.builder("me", 24, 16));
        let guard = place.lead(&elector, name);
        let transitions = elector.transitions();
        let fault = place.fault(Verb::Update, fault(&place.get().expect("a lease")).first(1));
        assert!(fault.wait_for_hits(1, SOON), "{name}: no renewal");
        place.wait_for_renewals(3, &format!("{name}: not renewed"));
        place.assert_shown(&elector, &guard, name);
        assert!(guard.is_leader(), "{name}: {:?}", guard.check());
        assert!(!transitions.try_iter().any(|it| matches!(it, Transition::StoppedLeading { .. })), "{name}");
    });
}

/// Answers that never come, for longer than the renew deadline: the term ends before another begins, also where every
/// write was applied, for these leaders have no watch that would tell them.
#[test]
fn lasting_bad_weather_ends_the_term_before_another_begins() {
    let rival = [Verb::Get, Verb::Create, Verb::Update]
        .into_iter()
        .fold(User::new("rival", "rival-token"), |user, verb| user.grant(verb, Resource::Leases));
    let server = ApiServer::builder().user(User::no_watch()).user(rival).start().expect("an in-memory server");
    each(&[SILENCE, APPLIED, REFUSALS, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE, LIES], |(name, fault)| {
        let place = Place::new(&server, name);
        let elector = place.start_as("no-watch", place.short("me"));
        let rival = place.start_as("rival", place.short("rival"));
        let transitions = elector.transitions();
        let guard = place.lead(&elector, name);
        let campaign = rival.campaign().expect("a campaign");
        let fault = place.fault(Verb::Update, fault(&place.get().expect("a lease")).user("no-watch"));

        let won = campaign.receiver().recv_timeout(SOON).unwrap_or_else(|_| panic!("{name}: no other leader"));
        let rivals = won.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!guard.is_leader() || !rivals.is_leader(), "{name}: two lead");
        assert!(rivals.fencing_token() > guard.fencing_token(), "{name}");
        lost(&guard, name);

        fault.remove();
        drop(guard);
        let token = rivals.fencing_token();
        drop(rivals);
        assert!(place.lead(&elector, name).fencing_token() > token, "{name}");
        // Each start has exactly one stop, in this order.
        drop(elector);
        let mut leading = false;
        for transition in transitions.iter() {
            match transition {
                Transition::StartedLeading { .. } => assert!(!std::mem::replace(&mut leading, true), "{name}"),
                Transition::StoppedLeading { .. } => assert!(std::mem::take(&mut leading), "{name}"),
                _ => {}
            }
        }
        assert!(!leading, "{name}: a term without an end");
    });
}

/// Who looks is told by a GET or by the watch that the renewal stands in the store.
#[test]
fn a_term_goes_on_though_no_renewal_is_confirmed() {
    let server = server();
    each(&[REFUTED, APPLIED], |(name, fault)| {
        let place = Place::new(&server, name);
        let elector = place.start(place.builder("me", 24, 6));
        let guard = place.lead(&elector, name);
        let _fault = place.fault(Verb::Update, fault(&Value::Null));
        // Longer than it would be valid without: adoption keeps it.
        let until = Instant::now() + Duration::from_secs(7);
        wait_until(name, || Instant::now() > until || !guard.is_leader());
        assert!(guard.is_leader(), "{name}: {:?}", guard.check());
        place.assert_shown(&elector, &guard, name);
    });
}

#[test]
fn cut_connections_do_not_cost_the_term() {
    let server = server();
    let place = Place::new(&server, "cut");
    let elector = place.start(place.long("me"));
    let guard = place.lead(&elector, "cut");
    for _ in 0..20 {
        server.disconnect_all();
        place.wait_for_renewals(1, "renewed after a cut");
    }
    assert!(guard.is_leader(), "{:?}", guard.check());
}

#[test]
fn a_restarted_server_costs_a_short_term_and_no_long_one() {
    let server = server();
    let (patient, hasty) = (Place::new(&server, "long"), Place::new(&server, "short"));
    let patients = patient.start(patient.long("me"));
    let hastys = hasty.start(hasty.short("me"));
    let (long, short) = (patient.lead(&patients, "long"), hasty.lead(&hastys, "short"));
    server.stop();
    assert_eq!(lost(&short, "short"), StopReason::Expired);
    server.restart().expect("the port is still ours");
    patient.wait_for_renewals(2, "renewed after the restart");
    assert!(long.is_leader(), "{:?}", long.check());
    let token = short.fencing_token();
    drop(short);
    assert!(hasty.lead(&hastys, "short").fencing_token() > token);
}

#[test]
fn a_restored_store_ends_the_term() {
    let server = server();
    let place = Place::new(&server, "restored");
    let elector = place.start(place.long("me"));
    let guard = place.lead(&elector, "restored");
    let before = server.snapshot();
    place.wait_for_renewals(3, "renewed");
    server.restore(&before);
    assert_eq!(lost(&guard, "restored"), StopReason::StoreRestored);
}

// ---- other hands on the lease ----

#[test]
fn what_others_put_on_the_lease_survives() {
    let server = server();
    let place = Place::new(&server, "edited");
    let elector = place.start(place.long("me"));
    let guard = place.lead(&elector, "edited");
    for round in 0..10 {
        place.edit(|lease| {
            lease["metadata"]["labels"] = json!({ "team": "blue", "round": round.to_string() });
            lease["metadata"]["annotations"] = json!({ "note": "Grüße\n", "round": round.to_string() });
        });
        place.wait_for_renewals(2, "renewed after an edit");
        let lease = place.get().expect("a lease");
        assert_eq!(lease["metadata"]["labels"], json!({ "team": "blue", "round": round.to_string() }));
        assert_eq!(lease["metadata"]["annotations"], json!({ "note": "Grüße\n", "round": round.to_string() }));
    }
    assert!(guard.is_leader(), "{:?}", guard.check());
    let transitions = place.get().expect("a lease")["spec"]["leaseTransitions"].clone();
    assert_eq!(transitions, 0, "it was one term");
    guard.release().expect("released");
    let lease = place.get().expect("a lease");
    assert_eq!(lease["metadata"]["labels"]["team"], "blue");
    assert_eq!(lease["spec"]["holderIdentity"], "");
}

#[test]
fn a_deleted_lease_ends_the_term_and_the_next_has_a_greater_token() {
    let server = server();
    let place = Place::new(&server, "deleted");
    let elector = place.start(place.long("me"));
    let guard = place.lead(&elector, "deleted");
    server.delete(Resource::Leases, NAMESPACE, &place.lease).expect("a lease to delete");
    assert_eq!(lost(&guard, "deleted"), StopReason::Deleted);
    assert_eq!(place.get(), None, "no late renewal makes it anew");
    let token = guard.fencing_token();
    drop(guard);
    assert!(place.lead(&elector, "deleted").fencing_token() > token);
}

#[test]
fn a_lease_that_was_deleted_and_made_anew_ends_the_term() {
    let server = server();
    let place = Place::new(&server, "anew");
    let elector = place.start(place.long("me"));
    let guard = place.lead(&elector, "anew");
    // As one from a backup, with our own record in it, as if nothing had happened.
    let spec = place.get().expect("a lease")["spec"].clone();
    server.delete(Resource::Leases, NAMESPACE, &place.lease).expect("a lease to delete");
    place.put(spec);
    let reason = lost(&guard, "anew");
    assert_ne!(reason, StopReason::Expired, "it was lost for what stands in the store");
}

#[test]
fn another_holder_written_by_hand_supersedes() {
    let server = server();
    let place = Place::new(&server, "superseded");
    let elector = place.start(place.long("me"));
    for (holder, by) in [(json!("kubectl"), Some("kubectl".to_owned())), (json!(""), None), (Value::Null, None)] {
        let guard = place.lead(&elector, "superseded");
        place.edit(|lease| {
            lease["spec"]["holderIdentity"] = holder.clone();
            lease["spec"]["leaseDurationSeconds"] = json!(1);
        });
        assert_eq!(lost(&guard, "superseded"), StopReason::Superseded { by: by.clone() });
        drop(guard);
        assert_eq!(place.holder(), by, "what is another's is not released");
    }
}

#[test]
fn our_identity_written_by_hand_is_a_conflict() {
    let server = server();
    for (what, change) in [
        ("renewed", (|spec| spec["renewTime"] = json!("2026-01-02T03:04:05.000006Z")) as fn(&mut Value)),
        ("acquired", |spec| spec["acquireTime"] = json!("2026-01-02T03:04:05.000006Z")),
        ("counted", |spec| spec["leaseTransitions"] = json!(7)),
        ("shortened", |spec| spec["leaseDurationSeconds"] = json!(1)),
    ] {
        let place = Place::new(&server, what);
        let elector = place.start(place.long("me"));
        let guard = place.lead(&elector, what);
        place.edit(|lease| change(&mut lease["spec"]));
        assert_eq!(lost(&guard, what), StopReason::IdentityConflict, "{what}");
        drop(guard);
        assert_eq!(place.holder().as_deref(), Some("me"), "{what}: a twin's lease is not released");
    }
}

#[test]
fn rotated_tokens_do_not_cost_the_term() {
    let server = ApiServer::builder().tls(true).user(User::candidate()).start().expect("an in-memory server");
    let dir = tempfile::tempdir().expect("a scratch directory");
    let token = dir.path().join("token");
    let write = |text: &str| std::fs::write(&token, text).expect("a token file");
    write("candidate-token");
    let kubeconfig = server.kubeconfig("candidate").replace("token: \"candidate-token\"", "tokenFile: token");
    assert!(kubeconfig.contains("tokenFile"), "{kubeconfig}");
    let kubeconfig = Kubeconfig::from_text(&kubeconfig, dir.path()).expect("a kubeconfig");
    let client = Client::new(kubeconfig.client_config(None).expect("a configuration")).expect("a client");

    let place = Place::new(&server, "rotated");
    let elector = place.long("me").start_with(client).expect("an elector");
    let guard = place.lead(&elector, "rotated");
    for round in 0..5 {
        let new = format!("token-{round}");
        // Half of the time the server is first, and the client holds nothing that it takes.
        if round % 2 == 0 {
            write(&format!("{new}\n"));
            server.set_token("candidate", &new);
        } else {
            server.clear_requests();
            server.set_token("candidate", &new);
            wait_until("it is refused", || server.requests().iter().any(|request| request.status == Some(401)));
            write(&new);
        }
        place.wait_for_renewals(2, "renewed with the new token");
    }
    assert!(guard.is_leader(), "{:?}", guard.check());
    guard.release().expect("released");
}

// ---- letting go ----

#[test]
fn a_hanging_renewal_does_not_hold_up_the_release() {
    let server = server();
    each(&[&SILENCE[..2], &APPLIED[..2]], |(name, fault)| {
        let place = Place::new(&server, name);
        let elector = place.start(place.long("me"));
        let guard = place.lead(&elector, name);
        let fault = place.fault(Verb::Update, fault(&Value::Null).first(1));
        assert!(fault.wait_for_hits(1, SOON), "{name}: no renewal");
        let since = Instant::now();
        guard.release().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(since.elapsed() < Duration::from_secs(20), "{name}: within the release timeout");
        assert_eq!(place.holder(), None, "{name}");
        // What hung lands late, and must not bring the holder back.
        fault.remove();
        let other = place.start(place.long("other"));
        let _guard = place.lead(&other, name);
        thread::sleep(A_WHILE);
        assert_eq!(place.holder().as_deref(), Some("other"), "{name}");
    });
}

#[test]
fn a_guard_is_let_go_when_the_release_timeout_is_over() {
    let timeout = Duration::from_secs(1);
    for what in ["release", "drop"] {
        let server = server();
        let place = Place::new(&server, what);
        let elector = place.start(place.long("me").release_timeout(timeout));
        let guard = place.lead(&elector, what);
        let view = guard.leadership();
        server.pause();
        let since = Instant::now();
        if what == "release" {
            let error = guard.release().expect_err("no confirmation");
            assert!(matches!(error, Error::ReleaseTimeout { waited } if waited == timeout), "{error:?}");
        } else {
            drop(guard);
        }
        let waited = since.elapsed();
        assert!(waited >= timeout, "{what}: {waited:?}: nobody could have confirmed it");
        assert!(waited < timeout + Duration::from_secs(5), "{what}: {waited:?}");
        assert!(!view.is_leader(), "{what}");
        server.resume();
        wait_until(what, || place.holder().is_none());
    }
}

/// A guard that is dropped during an outage releases as soon as the outage is over, whatever the outage was.
#[test]
fn a_release_is_repeated_until_it_is_written() {
    let server = server();
    each(&[SILENCE, APPLIED, REFUSALS, REFUTED, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE], |(name, fault)| {
        let place = Place::new(&server, name);
        let elector = place.start(place.builder("me", 60, 6).release_timeout(A_WHILE));
        let guard = place.lead(&elector, name);
        let fault = place.fault(Verb::Update, fault(&place.get().expect("a lease")));
        // Confirmed or not: some of these do apply it.
        drop(guard);
        fault.remove();
        wait_until(&format!("{name}: not released"), || place.holder().is_none());
    });
}

/// Does not accept connections: what is sent to it is not even refused.
struct BlackHole {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    /// A listener whose queue of connections is full.
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut queue = Vec::new();
        let full = loop {
            match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
                Ok(stream) => queue.push(stream),
                Err(error) => break error,
            }
            assert!(queue.len() < 900, "the queue of a listener has no end here");
        };
        assert_eq!(full.kind(), IoErrorKind::TimedOut, "{full}");
        Self { address, _listener: listener, _queue: queue }
    }
}

#[test]
fn letting_go_of_an_elector_or_a_campaign_is_prompt() {
    /// Generous: nothing of it waits for anything.
    const PROMPT: Duration = Duration::from_secs(2);
    let hole = BlackHole::new();
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a port");
    let deaf = deaf.local_addr().map(|address| (address, deaf)).expect("an address");
    thread::scope(|scope| {
        for what in [
            "GET",
            "POST",
            "PUT",
            "WATCH",
            "a standby",
            "a pause",
            "a black hole",
            "a deaf port",
            "a deaf port with TLS",
        ] {
            for act in ["drop", "stop", "withdraw", "time out"] {
                let (hole, deaf) = (&hole.address, &deaf.0);
                scope.spawn(move || {
                    let server = server();
                    let place = Place::new(&server, what);
                    place.put(free());
                    let mut kubeconfig = server.kubeconfig("anybody");
                    let mut fault = None;
                    match what {
                        "GET" => {
                            // Or it may learn from the watch all that it needs for a PUT.
                            place.fault(Verb::Watch, Fault::status(403, "Forbidden", "made up"));
                            fault = Some(place.fault(Verb::Get, Fault::hang()));
                        }
                        "POST" => {
                            server.delete(Resource::Leases, NAMESPACE, &place.lease);
                            fault = Some(place.fault(Verb::Create, Fault::hang()));
                        }
                        "PUT" => fault = Some(place.fault(Verb::Update, Fault::hang())),
                        "WATCH" => {
                            place.put(json!({ "holderIdentity": "another", "leaseDurationSeconds": 3600 }));
                            fault = Some(place.fault(Verb::Watch, Fault::hang()));
                        }
                        "a standby" => {
                            place.put(json!({ "holderIdentity": "another", "leaseDurationSeconds": 3600 }));
                        }
                        "a pause" => server.pause(),
                        "a black hole" => kubeconfig = kubeconfig_for("http", hole),
                        "a deaf port" => kubeconfig = kubeconfig_for("http", deaf),
                        _ => kubeconfig = kubeconfig_for("https", deaf),
                    }
                    let is_standby = what == "a standby";
                    let what = format!("{what}, {act}");
                    let elector = place.short("me").start_with(client(&kubeconfig)).expect("an elector");
                    let transitions = elector.transitions();
                    let campaign = elector.campaign().expect("a campaign");
                    match &fault {
                        Some(fault) => assert!(fault.wait_for_hits(1, SOON), "{what}: no request"),
                        None if is_standby => wait_until(&what, || elector.current_leader().is_some()),
                        // What arrives nowhere is seen nowhere.
                        None => thread::sleep(A_WHILE),
                    }
                    let since = Instant::now();
                    match act {
                        "drop" => {}
                        "stop" => {
                            elector.stop();
                            assert!(matches!(campaign.receiver().try_recv(), Ok(Err(Error::Stopped))), "{what}");
                        }
                        "withdraw" => drop(campaign),
                        _ => {
                            drop(campaign);
                            let none = elector.block_until_leader_timeout(Duration::from_millis(10));
                            assert!(matches!(none, Ok(None)), "{what}: {none:?}");
                        }
                    }
                    drop(elector);
                    assert!(since.elapsed() < PROMPT, "{what}: {:?}", since.elapsed());
                    // And the thread does not outlive it for long.
                    let until = Instant::now() + SOON;
                    while transitions.recv_deadline(until).is_ok() {}
                    let end = transitions.try_recv();
                    assert_eq!(end, Err(TryRecvError::Disconnected), "{what}: the thread lingers");
                });
            }
        }
    });
}

// ---- strangers ----

#[test]
fn a_redirect_is_not_followed() {
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    trap.set_nonblocking(true).expect("a mode");
    let place = format!("http://{}/", trap.local_addr().expect("an address"));
    let server = ApiServer::builder().user(User::candidate()).start().expect("an in-memory server");
    let client = client(&server.kubeconfig("candidate"));
    for code in [300, 301, 302, 303, 307, 308] {
        for method in [Method::Get, Method::Post, Method::Put] {
            let fault = server.fault(redirect(code, &place));
            let body = json!({});
            let body = (method != Method::Get).then_some(&body);
            let error = client
                .request(Request { method, path: "/version", query: &[], body, timeout: SOON })
                .expect_err("no answer");
            assert_eq!(error.status().map(|status| status.code), Some(code), "{error}");
            assert!(error.to_string().contains("redirects are not followed"), "{error}");
            fault.remove();
        }
    }
    let nobody = trap.accept().expect_err("a visitor with our credentials");
    assert_eq!(nobody.kind(), IoErrorKind::WouldBlock);
}

#[test]
fn a_server_with_a_wrong_certificate_gets_no_credentials_and_is_named() {
    let [right, wrong] =
        [0, 1].map(|_| ApiServer::builder().tls(true).user(User::candidate()).start().expect("an in-memory server"));
    // The authority of the one, and the address of the other.
    let kubeconfig = right.kubeconfig("candidate").replace(&right.url(), &wrong.url());
    let place = Place::new(&wrong, "untrusted");
    let elector = place.short("me").start_with(client(&kubeconfig)).expect("an elector");
    let error = elector.block_until_leader().expect_err("a stranger");
    assert!(matches!(&error, Error::Lock(lock) if lock.kind() == LockErrorKind::Untrusted), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(wrong.requests().is_empty(), "it was told something");
}

/// Answers one request with a head and then, over and over, a filler; gives back how much the client let it send.
fn pour(listener: &TcpListener, head: &str, filler: &[u8], at_most: usize) -> usize {
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_write_timeout(Some(SOON)).expect("a time-out");
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    let mut poured = 0;
    let mut next = head.as_bytes();
    while poured < at_most {
        match stream.write(next) {
            Ok(0) | Err(_) => break,
            Ok(written) => poured += written,
        }
        next = filler;
    }
    poured
}

/// No answer fills the memory: of a body 4 MiB are read, of a head less. The rest of the bound is what the system's
/// buffers hold.
#[test]
fn endless_answers_are_cut_off() {
    const BUFFERS: usize = 32 << 20;
    let spaces = vec![b' '; 64 << 10];
    let chunk = [b"10000\r\n".as_slice(), &spaces, b"\r\n"].concat();
    let headers = b"x: y\r\n".repeat(10_000);
    let continues = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
    let (ok, no) = ("HTTP/1.1 200 OK\r\n", "HTTP/1.1 500 No\r\n");
    for (what, head, filler, kind) in [
        ("chunks", format!("{ok}transfer-encoding: chunked\r\n\r\n"), &chunk, Some(ErrorKind::BodyTooLarge)),
        ("a length", format!("{ok}content-length: 99999999999\r\n\r\n"), &spaces, Some(ErrorKind::BodyTooLarge)),
        ("until the end", format!("{ok}\r\n"), &spaces, Some(ErrorKind::BodyTooLarge)),
        ("a refusal", format!("{no}transfer-encoding: chunked\r\n\r\n"), &chunk, None),
        ("headers", ok.to_owned(), &headers, None),
        ("continues", String::new(), &continues, None),
        ("a chunk's length", format!("{ok}transfer-encoding: chunked\r\n\r\n"), &b"0".repeat(64 << 10), None),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = client(&kubeconfig_for("http", &address));
        let poured = thread::scope(|scope| {
            let pouring = scope.spawn(|| pour(&listener, &head, filler, 2 * BUFFERS));
            let body = json!({});
            // A GET may be sent twice.
            let request = Request { method: Method::Put, path: "/", query: &[], body: Some(&body), timeout: SOON };
            let error = client.request(request).expect_err(what);
            if let Some(kind) = &kind {
                assert_eq!(error.kind(), kind, "{what}: {error}");
            }
            assert_ne!(error.kind(), &ErrorKind::Timeout, "{what}: {error}");
            drop(client);
            pouring.join().expect("no panic")
        });
        assert!(poured < BUFFERS, "{what}: {poured} bytes were taken");
    }
}

/// An answer that comes byte by byte is not waited for longer than one that does not come.
#[test]
fn a_dripping_answer_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let client = client(&kubeconfig_for("http", &address));
    for head in ["HTTP/1.1 200 OK\r\nx: ", "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"] {
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                let _ = stream.write_all(head.as_bytes());
                let until = Instant::now() + SOON;
                while Instant::now() < until && stream.write_all(b" ").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let (timeout, since) = (Duration::from_millis(500), Instant::now());
            let body = json!({});
            let request = Request { method: Method::Put, path: "/", query: &[], body: Some(&body), timeout };
            let error = client.request(request).expect_err("no answer");
            assert_eq!(error.kind(), &ErrorKind::Timeout, "{error}");
            assert!(since.elapsed() < timeout + Duration::from_secs(5), "{:?}", since.elapsed());
        });
    }
}
