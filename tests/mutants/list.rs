//! What is broken, why that is deadly, and which check catches it. `list` has a file for each topic.
//!
//! Equivalent, and therefore not here:
//!
//! - the latest of several open writes that match is adopted instead of the earliest: no two of them match one record,
//!   for `renewTime` moves with every write;
//! - an open write is closed when a version at its base is learned: a write's base is never above what is known, so
//!   nothing that is news is at the base of an open write. (A read at the base is no news, and is here.)

mod client;
mod cluster;
mod elector;
mod exec;
mod handles;
mod heads;
mod network;
mod order;
mod schedule;
mod terms;
mod threads;
mod tls;
mod watches;
mod writes;

use std::fmt;

use Check::{Simulation, Test, Threads, Unit};

pub const MUTANTS: &[&[Mutant]] = &[
    terms::MUTANTS,
    writes::MUTANTS,
    order::MUTANTS,
    watches::MUTANTS,
    schedule::MUTANTS,
    elector::MUTANTS,
    handles::MUTANTS,
    threads::MUTANTS,
    client::MUTANTS,
    cluster::MUTANTS,
    exec::MUTANTS,
    heads::MUTANTS,
    network::MUTANTS,
    tls::MUTANTS,
];

const CALLBACKS: &str = "src/callbacks.rs";
const CAMPAIGN: &str = "src/campaign.rs";
const CLIENT: &str = "src/kube/client.rs";
const CONFIG: &str = "src/config.rs";
const CONNECT: &str = "src/kube/proxy/connect.rs";
const ECHO: &str = "src/kube/credentials/echo.rs";
const CREDENTIALS: &str = "src/kube/credentials.rs";
const DEADLINE: &str = "src/deadline.rs";
const DIAL: &str = "src/kube/dial.rs";
const DRIVER: &str = "src/driver.rs";
const ELECTION: &str = "src/election.rs";
const ELECTOR: &str = "src/elector.rs";
const ENCODING: &str = "src/kube/kubeconfig/encoding.rs";
const ENDPOINT: &str = "src/kube/endpoint.rs";
const EXEC_CREDENTIAL: &str = "src/kube/exec/credential.rs";
const EXEC_RUN: &str = "src/kube/exec/run.rs";
const EXEC_SCHEDULE: &str = "src/kube/exec/schedule.rs";
const EXEC_SOURCE: &str = "src/kube/exec/source.rs";
const EXEC_STDERR: &str = "src/kube/exec/stderr.rs";
const EXEMPT: &str = "src/kube/proxy/exempt.rs";
const FAILURE_LOG: &str = "src/failure_log.rs";
const GUARD: &str = "src/guard.rs";
const HEALTH: &str = "src/health.rs";
const IN_CLUSTER: &str = "src/kube/in_cluster.rs";
const JSON: &str = "src/kube/json.rs";
const KUBE_CONFIG: &str = "src/kube/config.rs";
const LEARNING: &str = "src/election/learning.rs";
const LEASE: &str = "src/lock/lease.rs";
const LINES: &str = "src/kube/stream/lines.rs";
const LINK: &str = "src/link.rs";
const MASK: &str = "src/kube/mask.rs";
const NETWORK: &str = "src/kube/dial/network.rs";
const OPEN_WRITES: &str = "src/election/open_writes.rs";
const OUTGOING: &str = "src/kube/outgoing.rs";
const PROXY: &str = "src/kube/proxy.rs";
const REQUEST_LOG: &str = "src/kube/request_log.rs";
const RESOLVE: &str = "src/kube/kubeconfig/resolve.rs";
const REUSED: &str = "src/kube/reused.rs";
const ROUND_TRIP: &str = "src/election/round_trip.rs";
const ROUTE: &str = "src/kube/dial/route.rs";
const SENDING: &str = "src/election/sending.rs";
const SOCKS: &str = "src/kube/proxy/socks.rs";
const STATUS: &str = "src/kube/status.rs";
const TLS: &str = "src/kube/tls.rs";
const TRANSITION: &str = "src/transition.rs";
const TRANSPORT: &str = "src/kube/transport.rs";
const WATCHER: &str = "src/watcher.rs";
const WATCHING: &str = "src/election/watching.rs";

pub struct Mutant {
    pub name: &'static str,
    pub why: &'static str,
    pub edits: &'static [Edit],
    pub caught_by: Check,
}

/// Somewhere in the body of a function. `old` stands in the file exactly once; what comes before and after the change, and
/// only makes it so, may lie outside of that function.
pub struct Edit {
    pub file: &'static str,
    pub old: &'static str,
    pub new: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A suite of the simulation.
    Simulation(&'static str),
    /// A test of the library itself.
    Unit(&'static str),
    /// A test in a file of `tests`.
    Test(&'static str, &'static str),
    /// A model of the threads, in `tests/shuttle`.
    Threads(&'static str),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Simulation(test) => write!(f, "simulation, {test}"),
            Unit(test) => f.write_str(test),
            Test(file, test) => write!(f, "tests/{file}, {test}"),
            Threads(model) => write!(f, "threads, {model}"),
        }
    }
}
