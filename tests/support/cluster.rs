//! A common interface to the in-memory API server and the real API server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderElectorBuilder};
use leasehold_testing::{ApiServer, User};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::api::{Api, ApiError, Method};
use super::client_config::config_of;
use super::real::Real;

pub const NAMESPACE: &str = "leasehold-tests";

/// An API server, and the name of a lease that only one test uses.
pub struct Cluster {
    server: Server,
    admin: Api,
    pub lease: String,
}

pub enum Server {
    InMemory { server: Box<ApiServer>, kubeconfigs: TempDir },
    Real(&'static Real),
}

/// Defines two tests for each function: on the in-memory server, and on the real server.
#[macro_export]
macro_rules! on_both_servers {
    ($($test:ident),* $(,)?) => {
        mod in_memory {
            $(#[test] fn $test() { super::$test(&$crate::support::cluster::Cluster::in_memory(stringify!($test))); })*
        }
        mod real {
            $(#[test] fn $test() {
                if let Some(cluster) = $crate::support::cluster::Cluster::real(stringify!($test)) {
                    super::$test(&cluster);
                }
            })*
        }
    };
}

impl Cluster {
    pub fn in_memory(test: &str) -> Cluster {
        let server = ApiServer::builder()
            .tls(true)
            .namespace(NAMESPACE)
            .user(User::admin())
            .user(User::candidate())
            .user(User::no_watch())
            .user(User::nobody())
            .start()
            .expect("an in-memory server");
        let kubeconfigs = tempfile::tempdir().expect("a scratch directory");
        Cluster::new(Server::InMemory { server: Box::new(server), kubeconfigs }, test)
    }

    /// Returns `None` and reports a skipped test if the real server is not built.
    pub fn real(test: &str) -> Option<Cluster> {
        Some(Cluster::new(Server::Real(Real::shared()?), test))
    }

    fn new(server: Server, test: &str) -> Cluster {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut lease = test.replace('_', "-");
        lease.truncate(200);
        let lease = format!("{lease}-{}", COUNTER.fetch_add(1, Ordering::SeqCst));
        let admin = Api::new(&kubeconfig(&server, "admin"));
        Cluster { server, admin, lease }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn in_memory_server(&self) -> Option<&ApiServer> {
        match &self.server {
            Server::InMemory { server, .. } => Some(server),
            Server::Real(_) => None,
        }
    }

    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        kubeconfig(&self.server, user)
    }

    pub fn client(&self, user: &str) -> Client {
        client(self.kubeconfig(user))
    }

    pub fn api(&self, user: &str) -> Api {
        Api::new(&self.kubeconfig(user))
    }

    /// Returns the builder of a candidate for the lease of this test, with short durations.
    pub fn builder(&self, identity: &str) -> LeaderElectorBuilder {
        brief(&self.lease, identity).namespace(NAMESPACE)
    }

    pub fn elector(&self, identity: &str) -> LeaderElector {
        self.builder(identity).start_with_client(self.client("candidate")).expect("an elector")
    }

    // ---- changes by an operator ----

    pub fn lease(&self) -> Option<Value> {
        match self.request(Method::GET, true, None) {
            Ok(lease) => Some(lease),
            Err(error) if error.code() == Some(404) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn holder(&self) -> Option<String> {
        let lease = self.lease()?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    pub fn version(&self) -> u64 {
        version(&self.lease().expect("a lease"))
    }

    /// Returns the body of a request that creates the lease of this test with `spec`.
    pub fn new_lease(&self, spec: Value) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": self.lease, "namespace": NAMESPACE }, "spec": spec,
        })
    }

    pub fn create(&self, spec: Value) -> Value {
        let lease = self.new_lease(spec);
        self.request(Method::POST, false, Some(&lease)).expect("a lease made by hand")
    }

    /// Edits the current lease, as `kubectl edit` does, and retries after conflicts.
    pub fn edit(&self, change: impl Fn(&mut Value)) -> Value {
        loop {
            let mut lease = self.lease().expect("a lease to edit");
            change(&mut lease);
            match self.request(Method::PUT, true, Some(&lease)) {
                Ok(edited) => return edited,
                Err(error) if error.code() == Some(409) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub fn delete(&self) {
        self.request(Method::DELETE, true, None).expect("a lease to delete");
    }

    /// Sends a request of the administrator to the lease of this test, or to its collection.
    pub fn request(&self, method: Method, to_the_lease: bool, body: Option<&Value>) -> Result<Value, ApiError> {
        self.admin.request(method, &self.path(to_the_lease), body)
    }

    pub fn path(&self, to_the_lease: bool) -> String {
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        if to_the_lease { format!("{collection}/{}", self.lease) } else { collection }
    }
}

/// Returns the builder of a candidate for `lease`, with short durations.
pub fn brief(lease: &str, identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder(lease)
        .identity(identity)
        .lease_duration(Duration::from_secs(4))
        .renew_deadline(Duration::from_secs(3))
        .retry_period(Duration::from_millis(250))
        .release_timeout(Duration::from_secs(5))
}

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number")
}

fn kubeconfig(server: &Server, user: &str) -> PathBuf {
    match server {
        Server::InMemory { server, kubeconfigs } => {
            let path = kubeconfigs.path().join(user);
            server.write_kubeconfig(&path, user).expect("a kubeconfig");
            path
        }
        Server::Real(real) => real.ready.kubeconfigs[user].clone(),
    }
}

pub fn client_of(kubeconfig: &str) -> Client {
    Client::new(config_of(kubeconfig).expect("a configuration")).expect("a client")
}

pub fn client(kubeconfig: PathBuf) -> Client {
    let config = ClientConfig::from_kubeconfig(Some(&kubeconfig), None).expect("a configuration");
    Client::new(config).expect("a client")
}
