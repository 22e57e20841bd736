//! Tests of the metrics of electors and clients, as Prometheus reads them.

use std::io::{Seek, Write};
use std::process::Command;
use std::time::Duration;

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::store::MemoryStore;
use leasehold::{LeaderElector, Status};
use leasehold_testing::ApiServer;

use crate::monitoring::promtool;
use crate::support::cluster::client_of;
use crate::support::kubeconfig::{self, exec_credential};
use crate::support::memory::{Connection, Memory};

/// Returns the value of the first sample whose line starts with `begin`.
fn value(text: &str, begin: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin} is not in {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

fn text(statuses: &[Status]) -> String {
    let mut text = String::new();
    Status::write_prometheus(statuses, &mut text).expect("a String takes everything");
    text
}

fn elector(name: &str) -> LeaderElector {
    let builder = LeaderElector::builder(name).identity("me").lease_duration(Duration::from_secs(60));
    builder.renew_interval(Duration::from_millis(20)).start_on(MemoryStore::new()).expect("an elector")
}

/// Returns a client whose plugin runs once, because the credential does not expire.
fn client_with_a_plugin(server: &ApiServer) -> Client {
    let plugin = format!("command: /bin/echo, args: ['{}']", exec_credential(r#"{"token":"t"}"#));
    let user = format!("exec: {{ apiVersion: client.authentication.k8s.io/v1, {plugin} }}");
    client_of(&kubeconfig::with(&format!("server: '{}'", server.url()), &user))
}

#[test]
fn electors_that_share_a_client_write_its_counters_once() {
    let server = ApiServer::start().expect("a server");
    let client = client_with_a_plugin(&server);
    let electors = ["jobs", "mail"]
        .map(|name| LeaderElector::builder(name).start_with_client(client.clone()).expect("an elector"));
    let _guards = electors.each_ref().map(|elector| elector.block_until_leader().expect("a term"));
    let mut text = text(&electors.each_ref().map(LeaderElector::status));
    Client::write_prometheus([&client], &mut text).expect("a String takes everything");
    let labels = format!("{{server=\"{}\"}}", server.url());
    assert_eq!(value(&text, &format!("leasehold_client_plugin_runs_total{labels}")), 1.0);
    assert_eq!(value(&text, &format!("leasehold_client_plugin_failures_total{labels}")), 0.0);
    assert_eq!(text.matches("\nleasehold_client_plugin_runs_total").count(), 1);
}

/// The names contain characters that a label value must escape.
#[test]
fn prometheus_reads_them_without_a_complaint() {
    let Some(promtool) = promtool("the test of metrics by Prometheus' own parser") else { return };
    let strange = Connection::named(&Memory::default(), "a \"record\"\\\nof two lines");
    let electors =
        [elector("jobs"), elector("mail"), LeaderElector::builder("odd").start_on(strange).expect("an elector")];
    let _guard = electors[0].block_until_leader().expect("a term");
    let statuses = electors.each_ref().map(LeaderElector::status);
    let mut text = text(&statuses);
    let clients = ["http://127.0.0.1:1", "http://[::1]:1"]
        .map(|url| Client::new(ClientConfig::new(url).expect("a configuration")).expect("a client"));
    Client::write_prometheus(&clients, &mut text).expect("a String takes everything");
    assert_eq!(text.matches("# TYPE leasehold_client_plugin_runs_total counter").count(), 1);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(text.as_bytes()).and_then(|()| file.rewind()).expect("written");
    let output = Command::new(promtool).args(["check", "metrics"]).stdin(file).output().expect("promtool runs");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success() && said.iter().all(String::is_empty), "{said:?}\n{text}");
}
