//! Measures the terms that many electors of one process lose in a hang of the API server, and the connections they
//! open.
//!
//! The server is the in-memory server with TLS. A proxy holds all bytes back during a hang. The proxy also delays the
//! first bytes of each side, as if both sides had one processor and a handshake took several milliseconds.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold::kubernetes::Client;
use leasehold::kubernetes::LeaseStore;
use leasehold::{LeaderElector, LeaderGuard};
use leasehold_testing::{Fault, Verb};

use crate::support::SOON;
use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::proxy::{Faults, Proxy};

struct Case {
    name: &'static str,
    electors: usize,
    /// Lease duration, renew deadline and retry period, in seconds.
    durations: [u64; 3],
    handshake: Duration,
    answer: Duration,
    hang: Hang,
    rounds: usize,
}

#[derive(Clone, Copy)]
enum Hang {
    None,
    All(Duration),
    /// From the start of the hang, one in ten new connections loses all bytes.
    WithDeadConnections(Duration),
}

const DEFAULTS: [u64; 3] = [15, 10, 2];

/// Measures the cases whose titles contain `chosen`, such as `200 electors, hang of 5 s`.
pub fn measure(chosen: Option<&str>) {
    let (seconds, milliseconds) = (Duration::from_secs, Duration::from_millis);
    let mut cases = Vec::new();
    for (electors, rounds) in [(1, 3), (200, 1)] {
        for (name, hang) in [
            ("hang of 5 s", Hang::All(seconds(5))),
            ("hang of 7 s", Hang::All(seconds(7))),
            ("hang of 5 s, dead connections", Hang::WithDeadConnections(seconds(5))),
            ("hang of 7 s, dead connections", Hang::WithDeadConnections(seconds(7))),
        ] {
            let (handshake, answer) = (milliseconds(5), milliseconds(5));
            cases.push(Case { name, electors, durations: DEFAULTS, handshake, answer, hang, rounds });
        }
    }
    for (name, answer) in [("steady, 20 ms an answer", 20), ("steady, 100 ms an answer", 100)] {
        let (handshake, answer) = (milliseconds(5), milliseconds(answer));
        cases.push(Case { name, electors: 200, durations: DEFAULTS, handshake, answer, hang: Hang::None, rounds: 1 });
    }
    cases.push(Case {
        name: "short leases, hang of 3 s",
        electors: 60,
        durations: [8, 5, 1],
        handshake: milliseconds(20),
        answer: milliseconds(5),
        hang: Hang::All(seconds(3)),
        rounds: 5,
    });
    for case in cases.iter().filter(|case| chosen.is_none_or(|chosen| case.title().contains(chosen))) {
        for _ in 0..case.rounds {
            case.measure();
        }
    }
}

impl Case {
    fn title(&self) -> String {
        format!("{} electors, {}", self.electors, self.name)
    }

    fn measure(&self) {
        let cluster = Cluster::in_memory("bench-many-hangs");
        let kubeconfig = std::fs::read_to_string(cluster.kubeconfig("admin")).expect("a kubeconfig");
        let (proxy, config) = Proxy::computing(&kubeconfig, self.handshake);
        let client = Client::new(config).expect("a client");
        let server = cluster.in_memory_server().expect("the in-memory server");
        server.fault(Fault::delay_answer(self.answer).verb(Verb::Create).verb(Verb::Update).verb(Verb::Get));
        let store = Arc::new(LeaseStore::new(client, NAMESPACE).expect("a store"));
        let [lease, deadline, retry] = self.durations.map(Duration::from_secs);
        let start = |number: usize| {
            let builder = LeaderElector::builder(format!("{}-{number}", cluster.lease));
            let builder = builder.lease_duration(lease).renew_deadline(deadline).retry_period(retry);
            builder.start_on(Arc::clone(&store)).expect("an elector")
        };
        let electors: Vec<_> = (0..self.electors).map(start).collect();
        let campaigns: Vec<_> = electors.iter().map(|it| it.campaign().expect("a campaign")).collect();
        let won = campaigns.iter().map(|it| it.receiver().recv_timeout(SOON).expect("soon").expect("a term"));
        let guards: Vec<_> = won.collect();
        let at_start = proxy.connections();
        // Renewals become regular, and the pool has its usual connections.
        thread::sleep(10 * retry);
        let steady = proxy.connections();
        print!("{}: {at_start} connections to lead", self.title());
        let (Hang::All(time) | Hang::WithDeadConnections(time)) = self.hang else {
            thread::sleep(Duration::from_secs(10));
            let opened = proxy.connections() - steady;
            println!(", {} until steady, {opened} in 10 s", steady - at_start);
            return assert_eq!(lost(&guards), 0);
        };
        proxy.set(Faults::HeldBack);
        if let Hang::WithDeadConnections(_) = self.hang {
            proxy.lose_one_in(10);
        }
        thread::sleep(time);
        let at_end = proxy.connections();
        proxy.set(Faults::Fair);
        thread::sleep(Duration::from_secs(3));
        let after = proxy.connections();
        thread::sleep(deadline);
        println!(", {} in the hang, {} in 3 s after; {} terms lost", at_end - steady, after - at_end, lost(&guards));
    }
}

fn lost(guards: &[LeaderGuard]) -> usize {
    guards.iter().filter(|guard| !guard.is_leader()).count()
}
