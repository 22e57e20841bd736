//! One lease on a server, and electors for the lease.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold::{Error, LeaderElector, LeaderElectorBuilder, LeaderGuard};
use leasehold_testing::{ApiServer, Fault, FaultHandle, Resource, Verb};
use serde_json::{Value, json};

use crate::support::cluster::{NAMESPACE, client_of, version};
use crate::support::{SOON, kubeconfig, say_aloud, wait_until};

/// The number of attempts to lead.
const ATTEMPTS: u32 = 4;

/// A server and one lease on it.
pub struct Place<'a> {
    server: &'a ApiServer,
    pub lease: String,
}

pub fn server() -> ApiServer {
    ApiServer::start().expect("an in-memory server")
}

pub fn kubeconfig_for(scheme: &str, address: &SocketAddr) -> String {
    kubeconfig::with(&format!("server: '{scheme}://{address}'"), "")
}

impl<'a> Place<'a> {
    pub fn new(server: &'a ApiServer, name: &str) -> Self {
        let lease = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Self { server, lease: format!("x-{lease}-x") }
    }

    /// Returns a builder whose terms can end within a test's timeout.
    pub fn short(&self, identity: &str) -> LeaderElectorBuilder {
        self.builder(identity, 5, 4)
    }

    /// Returns a builder whose terms do not end on a machine that stalls for a moment.
    pub fn long(&self, identity: &str) -> LeaderElectorBuilder {
        self.builder(identity, 60, 45)
    }

    pub fn builder(&self, identity: &str, lease_duration: u64, renew_deadline: u64) -> LeaderElectorBuilder {
        LeaderElector::builder(&self.lease)
            .namespace(NAMESPACE)
            .identity(identity)
            .lease_duration(Duration::from_secs(lease_duration))
            .renew_deadline(Duration::from_secs(renew_deadline))
            .retry_period(Duration::from_millis(100))
            // Dozens of electors run at the same time on a small machine, so they must not renew more often.
            .renew_interval(Duration::from_millis(300))
            .release_timeout(Duration::from_secs(20))
    }

    pub fn start(&self, builder: LeaderElectorBuilder) -> LeaderElector {
        self.start_as("anybody", builder)
    }

    pub fn start_as(&self, user: &str, builder: LeaderElectorBuilder) -> LeaderElector {
        builder.start_with_client(client_of(&self.server.kubeconfig(user))).expect("an elector")
    }

    pub fn fault(&self, verb: Verb, fault: Fault) -> FaultHandle {
        self.server.fault(fault.verb(verb).resource(Resource::Leases).name(&self.lease))
    }

    pub fn get(&self) -> Option<Value> {
        self.server.get(Resource::Leases, NAMESPACE, &self.lease)
    }

    pub fn put(&self, spec: Value) -> Value {
        self.server.put(Resource::Leases, NAMESPACE, &self.lease, json!({ "spec": spec }))
    }

    pub fn version(&self) -> u64 {
        version(&self.get().expect("a lease"))
    }

    pub fn holder(&self) -> Option<String> {
        let lease = self.get()?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    /// Asserts that the store names the elector as holder if the guard is valid.
    ///
    /// The guard is checked after the read, so a valid guard was also valid during the read.
    pub fn assert_shown(&self, elector: &LeaderElector, guard: &LeaderGuard, what: &str) {
        let lease = self.get();
        if guard.is_leader() {
            let lease = lease.unwrap_or_else(|| panic!("{what}: leads without a lease"));
            assert_eq!(lease["spec"]["holderIdentity"], elector.identity(), "{what}");
            assert!(version(&lease) >= guard.fencing_token(), "{what}: {lease}");
        }
    }

    /// Acquires a term.
    ///
    /// On a machine that stalls, a term may expire, or a campaign may receive an old refusal late. The method then
    /// reports the failure and tries again. A candidate that needs many attempts is broken.
    pub fn lead(&self, elector: &LeaderElector, what: &str) -> LeaderGuard {
        let until = Instant::now() + SOON;
        for attempt in 1..=ATTEMPTS {
            let left = until.saturating_duration_since(Instant::now());
            match elector.block_until_leader_timeout(left) {
                Ok(Some(guard)) => {
                    self.assert_shown(elector, &guard, what);
                    if guard.is_leader() {
                        return guard;
                    }
                    let reason = guard.check().expect_err("it does not lead").reason;
                    say_aloud(&format!("{what}: attempt {attempt} was elected and lost the term again: {reason}"));
                }
                Ok(None) => panic!("{what}: not elected"),
                Err(Error::Store(error)) => say_aloud(&format!("{what}: attempt {attempt} was refused: {error}")),
                Err(error) => panic!("{what}: {error}"),
            }
        }
        panic!("{what}: no term in {ATTEMPTS} attempts");
    }

    /// Waits for one renewal at a time, because versions also count the writes to other leases.
    pub fn wait_for_renewals(&self, count: usize, what: &str) {
        for _ in 0..count {
            let version = self.version();
            wait_until(what, || self.version() != version);
        }
    }
}

/// Returns a Lease that the server has never stored, with the least content of a free lease.
pub fn some_lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": NAMESPACE, "uid": "1-2-3", "resourceVersion": "1" },
        "spec": free(),
    })
}

pub fn free() -> Value {
    json!({
        "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 3,
        "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z",
    })
}
