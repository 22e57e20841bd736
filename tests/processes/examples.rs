//! Tests of the output of the examples.

#![cfg(unix)]

use crate::programs::after;
use crate::support::command::ask;
use crate::support::postgres::Postgres;
use crate::support::process::example;
use crate::support::run::Run;
use crate::support::sql::{PASSWORD, SqlServer};
use crate::support::wait_until;

fn output_of(name: &'static str) -> String {
    output_with(name, &[])
}

fn output_with(name: &'static str, flags: &[&str]) -> String {
    let output = example(name).args(flags).output().expect("the example runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}: {printed}{}", output.status, String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
fn quickstart_reports_three_terms() {
    let printed = output_of("quickstart");
    assert_eq!(printed.matches("fencing token").count(), 3, "{printed}");
}

#[test]
fn quickstart_on_a_file_reports_three_terms() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let url = format!("sqlite://{}/election.db", scratch.path().display());
    let printed = output_with("quickstart", &["--store", &url]);
    assert_eq!(printed.matches("fencing token").count(), 3, "{printed}");
    let output = example("quickstart").args(["--store", "paper://wall"]).output().expect("the example runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown store"), "{output:?}");
}

#[test]
fn quickstart_on_a_server_reports_terms_and_no_password() {
    let Some(postgres) = Postgres::start(&[]) else { return };
    let printed = output_with("quickstart", &["--store", &postgres.url("postgres", "postgres")]);
    assert_eq!(printed.matches("fencing token").count(), 3, "{printed}");
    assert!(printed.contains("records in 127.0.0.1:") && !printed.contains(PASSWORD), "{printed}");
    let wrong = postgres.url("postgres", "nowhere");
    let output = example("quickstart").args(["--store", &wrong]).output().expect("the example runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("nowhere") && !said.contains(PASSWORD), "{said}");
}

#[test]
fn sharded_workers_share_again_after_each_departure() {
    let printed = output_of("sharded_workers");
    let shares: Vec<_> = printed.lines().filter_map(|line| line.split_once("shares: ")).map(|it| it.1).collect();
    assert_eq!(shares, ["anna 2, boris 2, clara 2", "anna 0, boris 3, clara 3", "anna 0, boris 0, clara 6"]);
    let leaves = printed.find("anna   leaves").unwrap_or_else(|| panic!("{printed}"));
    let works = printed.rfind("works on shard").unwrap_or_else(|| panic!("{printed}"));
    assert!(printed.ends_with("clara  has left\n") && leaves < works, "{printed}");
}

#[test]
fn fenced_writes_refuses_a_leader_paused_before_its_write() {
    let printed = output_of("fenced_writes");
    let refused = printed.find("its write is refused: token").unwrap_or_else(|| panic!("{printed}"));
    let stopped = printed.find("---- anna is stopped").unwrap_or_else(|| panic!("{printed}"));
    assert!(stopped < refused, "{printed}");
}

#[test]
fn component_takes_the_flags_of_kubernetes() {
    let lock = ["--in-memory", "--leader-elect", "--leader-elect-resource-lock=configmaps"];
    let printed = output_with("component", &[&lock[..], &["--leader-elect-resource-name", "jobs"]].concat());
    assert!(printed.contains("as the leader by config map default/jobs"), "{printed}");
    let printed = output_with("component", &["--leader-elect=false"]);
    assert!(printed.contains("without a leader being elected"), "{printed}");
    let help = output_with("component", &["--help"]);
    for flag in leasehold::client_go::LeaderElectionConfig::FLAGS {
        assert!(help.contains(&format!("--{}", flag.name)), "{help}");
    }
}

/// Returns the status and the body of the response of an HTTP server.
pub fn get(address: &str, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

#[test]
fn threaded_service_answers_probes_and_scrapes() {
    let mut command = example("threaded_service");
    let service = Run::of(command.args(["--in-memory", "--seconds", "60", "--listen", "127.0.0.1:0"]));
    let address = after(&service, "metrics at http://");
    let get = |path: &str| get(&address, path);
    wait_until("it is ready", || get("/readyz").0 == 200);
    let says_that_it_leads = |line: &str| line.starts_with("leader_election_master_status{") && line.ends_with(" 1");
    wait_until("it leads", || get("/metrics").1.lines().any(says_that_it_leads));
    assert!(get("/metrics").1.contains("\nleasehold_client_plugin_runs_total{server=\"http://127.0.0.1:"));
    assert_eq!((get("/healthz").0, get("/nothing").0), (200, 404));
}
