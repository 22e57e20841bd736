//! What an elector's status is as metrics, as Prometheus itself reads them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::{LeaderElector, MemoryStore, Status};

use crate::support::memory::{Connection, Memory};
use crate::support::{is_built, wait_until};

/// What a sample says, by how its line begins.
fn value(text: &str, begin: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin} is not in {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

fn text(statuses: &[Status]) -> String {
    let mut text = String::new();
    Status::write_prometheus_all(statuses, &mut text).expect("a String takes everything");
    text
}

fn elector(name: &str) -> LeaderElector {
    let builder = LeaderElector::builder(name).identity("me").lease_duration(Duration::from_secs(60));
    builder.renew_interval(Duration::from_millis(20)).start_on(MemoryStore::new()).expect("an elector")
}

#[test]
fn metrics_say_what_happened() {
    let elector = elector("jobs");
    let labels = "{name=\"jobs\",record=\"jobs in memory\",identity=\"me\"";
    let before = text(&[elector.status()]);
    assert_eq!(value(&before, &format!("leader_election_master_status{labels}}}")), 0.0);
    let guard = elector.block_until_leader().expect("a term");
    wait_until("renewals", || elector.status().counters.renewals.count() >= 3);
    let during = text(&[elector.status()]);
    for (metric, least) in [
        ("leader_election_master_status{labels}}", 1.0),
        ("leasehold_terms_total{labels}}", 1.0),
        ("leasehold_renewal_duration_seconds_count{labels}}", 3.0),
        ("leasehold_renewal_duration_seconds_bucket{labels},le=\"+Inf\"}", 3.0),
        ("leasehold_requests_total{labels},operation=\"update\"}", 3.0),
        ("leasehold_requests_total{labels},operation=\"create\"}", 1.0),
        ("leasehold_validity_seconds{labels}}", 1.0),
    ] {
        let begin = metric.replace("{labels}", labels);
        assert!(value(&during, &begin) >= least, "{begin}: {during}");
    }
    drop(guard);
    let after = text(&[elector.status()]);
    assert_eq!(value(&after, &format!("leader_election_master_status{labels}}}")), 0.0);
    assert_eq!(value(&after, &format!("leasehold_terms_lost_total{labels}}}")), 0.0);
    assert_eq!(value(&after, &format!("leasehold_validity_seconds{labels}}}")), 0.0);
}

/// With names that a label's value cannot hold as they are.
#[test]
fn prometheus_reads_them_without_a_complaint() {
    let promtool = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let promtool = promtool.join("promtool/usr/bin/promtool");
    if !is_built(&promtool, "the test of metrics by Prometheus' own parser", "tests/promtool/build") {
        return;
    }
    let strange = Connection::named(&Memory::default(), "a \"record\"\\\nof two lines");
    let electors =
        [elector("jobs"), elector("mail"), LeaderElector::builder("odd").start_on(strange).expect("an elector")];
    let _guard = electors[0].block_until_leader().expect("a term");
    let statuses = electors.each_ref().map(LeaderElector::status);
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    child.stdin.take().expect("piped").write_all(text(&statuses).as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success() && said.iter().all(String::is_empty), "{said:?}\n{}", text(&statuses));
}
