//! Faults while a leader releases.

use std::io::ErrorKind as IoErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::TryRecvError;
use leasehold::Error;
use leasehold_testing::{Fault, Resource, Verb};
use serde_json::json;

use crate::faults::kinds::{APPLIED, NOT_AN_API_SERVER, NOT_THE_LEASE, REFUSALS, REFUTED, SILENCE, STALE, each};
use crate::faults::place::{Place, free, kubeconfig_for, server};
use crate::support::cluster::{NAMESPACE, client_of};
use crate::support::{A_WHILE, SOON, wait_until};

#[test]
fn a_guard_returns_when_the_release_timeout_is_over() {
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

/// A guard that is dropped during an outage releases when the outage is over.
#[test]
fn a_release_is_repeated_until_it_is_written() {
    let server = server();
    each(&[SILENCE, APPLIED, REFUSALS, REFUTED, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE], |(name, fault)| {
        let place = Place::new(&server, name);
        let elector = place.start(place.builder("me", 60, 6).release_timeout(A_WHILE));
        let guard = place.lead(&elector, name);
        let fault = place.fault(Verb::Update, fault(&place.get().expect("a lease")));
        // The drop may or may not get a confirmation, because some faults apply the write.
        drop(guard);
        fault.remove();
        wait_until(&format!("{name}: not released"), || place.holder().is_none());
    });
}

/// A server that neither accepts nor refuses connections.
struct BlackHole {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    /// Creates a listener whose queue of connections is full.
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
fn dropping_an_elector_or_a_campaign_is_prompt() {
    /// A limit below the renew deadline of 20 s, at which a hanging request ends by itself.
    const PROMPT: Duration = Duration::from_secs(10);
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
            for act in ["drop", "withdraw", "time out"] {
                let (hole, deaf) = (&hole.address, &deaf.0);
                scope.spawn(move || {
                    let server = server();
                    let place = Place::new(&server, what);
                    place.put(free());
                    let mut kubeconfig = server.kubeconfig("anybody");
                    let mut fault = None;
                    match what {
                        "GET" => {
                            // A watch could report all that the elector needs for a PUT, so the watch is refused.
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
                    let elector =
                        place.builder("me", 24, 20).start_with_client(client_of(&kubeconfig)).expect("an elector");
                    let transitions = elector.transitions();
                    let campaign = elector.campaign().expect("a campaign");
                    match &fault {
                        Some(fault) => assert!(fault.wait_for_hits(1, SOON), "{what}: no request"),
                        None if is_standby => wait_until(&what, || elector.current_leader().is_some()),
                        // The test cannot observe a request to the black hole, so it waits.
                        None => thread::sleep(A_WHILE),
                    }
                    let since = Instant::now();
                    match act {
                        "drop" => {}
                        "withdraw" => drop(campaign),
                        _ => {
                            drop(campaign);
                            let none = elector.block_until_leader_timeout(Duration::from_millis(10));
                            assert!(matches!(none, Ok(None) | Err(Error::Store(_))), "{what}: {none:?}");
                        }
                    }
                    drop(elector);
                    assert!(since.elapsed() < PROMPT, "{what}: {:?}", since.elapsed());
                    // The elector's thread ends soon after the elector was dropped.
                    let until = Instant::now() + SOON;
                    while transitions.recv_deadline(until).is_ok() {}
                    let end = transitions.try_recv();
                    assert_eq!(end, Err(TryRecvError::Disconnected), "{what}: the thread stays");
                });
            }
        }
    });
}
