//! Connections that are closed during a write: the next attempt is sent at once.
//!
//! Servers and proxies may close a connection at any time. The elector tries again at once even if the first write was
//! applied. The second attempt causes neither a new term nor an identity conflict.
//!
//! An elector that waited for the retry period would wait for twenty seconds.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderElectorBuilder};
use leasehold_testing::{ApiServer, Fault, RequestLog, Verb};

use crate::elector::listener::{errors_of, lines_of, listen};
use crate::support::{AT_ONCE, SOON, wait_until};

/// The moments at which a connection is closed: before or after the write is applied.
const CLOSED: [Close; 2] = [("before", Fault::drop_before), ("after", Fault::drop_after)];

type Close = (&'static str, fn() -> Fault);

fn builder(lease: &str, identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder(lease)
        .namespace("default")
        .identity(identity)
        .lease_duration(Duration::from_secs(180))
        .renew_deadline(Duration::from_secs(120))
        .retry_period(Duration::from_secs(20))
        .release_timeout(Duration::from_secs(100))
}

fn start(server: &ApiServer, builder: LeaderElectorBuilder) -> LeaderElector {
    let client = Client::new(ClientConfig::new(&server.url()).unwrap()).unwrap();
    builder.start_with_client(client).expect("an elector")
}

fn writes(server: &ApiServer) -> Vec<RequestLog> {
    server.requests().into_iter().filter(|request| request.verb == Some(Verb::Update)).collect()
}

#[test]
fn a_release_is_sent_again_at_once() {
    listen();
    for (what, closed) in CLOSED {
        let server = ApiServer::start().unwrap();
        let lease = format!("release-{what}");
        let elector = start(&server, builder(&lease, "a"));
        let guard = elector.block_until_leader().unwrap();
        let fault = server.fault(closed().verb(Verb::Update).first(1));
        let began = Instant::now();
        guard.release().unwrap();
        assert!(began.elapsed() < AT_ONCE, "{what}: {:?}", began.elapsed());
        assert_eq!(fault.hits(), 1, "{what}");
        assert!(writes(&server).len() <= 2, "{what}: {:?}", writes(&server));
        // The lease is free, so the next term begins at once.
        drop(elector.try_acquire().unwrap().expect("a term"));
        let record = format!("default/{lease}");
        assert_eq!(errors_of(&record), 0, "{what}: {:?}", lines_of(&record));
    }
}

/// Several electors of one program share a client.
#[test]
fn release_during_a_renewal_leaves_other_leases_alone() {
    let server = ApiServer::start().unwrap();
    let client = Client::new(ClientConfig::new(&server.url()).unwrap()).unwrap();
    let start = |lease| {
        let builder = builder(lease, "a").renew_interval(Duration::from_millis(200));
        builder.start_with_client(client.clone()).expect("an elector")
    };
    let (one, other) = (start("one"), start("other"));
    const RELEASES: usize = 10;
    let (mut guard, kept) = (one.block_until_leader().unwrap(), other.block_until_leader().unwrap());
    let watches = || server.requests().iter().filter(|request| request.verb == Some(Verb::Watch)).count();
    wait_until("both watch", || watches() == 2);
    // Renewals of the other lease are so slow that one renewal is always under way.
    let slow = server.fault(Fault::delay_answer(Duration::from_millis(300)).verb(Verb::Update).name("other"));
    for _ in 0..RELEASES {
        let hanging = server.fault(Fault::hang().verb(Verb::Update).name("one").first(1));
        assert!(hanging.wait_for_hits(1, SOON), "a renewal hangs");
        let hits = slow.hits();
        assert!(slow.wait_for_hits(hits + 1, SOON), "one of the other is under way");
        let began = Instant::now();
        guard.release().unwrap();
        assert!(began.elapsed() < AT_ONCE, "the one that hung was interrupted");
        guard = one.block_until_leader().unwrap();
    }
    let of_other = |request: &&RequestLog| request.path.ends_with("/other") && request.verb == Some(Verb::Update);
    let requests = server.requests();
    let renewals: Vec<_> = requests.iter().filter(of_other).collect();
    let failed = renewals.iter().rev().skip(1).filter(|renewal| renewal.status != Some(200)).count();
    assert_eq!(failed, 0, "renewals of the other: {renewals:?}");
    assert!(kept.is_leader());
    let asked = requests.iter().filter(|request| request.verb != Some(Verb::Watch));
    let connections: BTreeSet<u64> = asked.map(|request| request.connection).collect();
    assert!(connections.len() <= 2 + RELEASES, "one is closed for each release: {connections:?}");
}
