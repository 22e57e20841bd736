//! The alert rules, the dashboard and docs/OPERATIONS.md name only exported metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::store::MemoryStore;
use leasehold::{Fitness, LeaderElector, Status};
use serde_json::Value;

use crate::support::command::{Arena, address, get};
use crate::support::manifests::Manifests;
use crate::support::{is_built, wait_for};

/// Labels that Prometheus adds.
const TARGET_LABELS: [&str; 4] = ["instance", "job", "namespace", "pod"];

/// Values for the dashboard's variables.
const VARIABLES: [(&str, &str); 3] = [("$__rate_interval", "2m"), ("$record", ".+"), ("${datasource}", "prometheus")];

const OPERATIONS: &str = include_str!("../../docs/OPERATIONS.md");

/// The exported metrics, each with its labels.
type Exported = BTreeMap<String, BTreeSet<String>>;

fn add(exported: &mut Exported, text: &str) {
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            // A metric without a value is exported without labels. Expressions use only the samples of a histogram,
            // which have other names.
            if kind != "histogram" {
                exported.entry(name.to_owned()).or_default();
            }
            continue;
        }
        let Some((name, rest)) = line.split_once(['{', ' ']).filter(|_| !line.starts_with('#')) else { continue };
        let labels = exported.entry(name.to_owned()).or_default();
        if line[name.len()..].starts_with('{') {
            let (pairs, _) = rest.rsplit_once('}').expect("labels");
            labels.extend(pairs.split("\",").map(|pair| pair.split('=').next().expect("a label").to_owned()));
        }
    }
}

/// Returns the metrics that an elector in each state, a client and the command export.
fn exported() -> Exported {
    let mut exported = Exported::new();
    let fitness = Fitness::new();
    let builder = LeaderElector::builder("jobs").lease_duration(Duration::from_secs(60)).fitness(&fitness);
    let builder = builder.progress_timeout(Duration::from_secs(60));
    let elector = builder.start_on(MemoryStore::new()).expect("an elector");
    let mut note = |metric: &str| {
        let text = wait_for(metric, || {
            let mut text = String::new();
            Status::write_prometheus([&elector.status()], &mut text).expect("a String takes everything");
            text.contains(&format!("\n{metric}{{")).then_some(text)
        });
        add(&mut exported, &text);
    };
    note("leasehold_unfit_seconds");
    fitness.set(true);
    let guard = elector.block_until_leader().expect("a term");
    note("leasehold_progress_age_seconds");
    note("leasehold_last_contact_age_seconds");
    drop(guard);
    fitness.set(false);
    note("leasehold_unfit_seconds");
    fitness.set(true);
    note("leasehold_may_acquire_in_seconds");

    let client = Client::new(ClientConfig::new("http://127.0.0.1:1").expect("a configuration")).expect("a client");
    let mut text = String::new();
    Client::write_prometheus([&client], &mut text).expect("a String takes everything");
    add(&mut exported, &text);

    let arena = Arena::on_a_file(&["--lease-duration=60s"]);
    let run = arena.run(&["--restart", "--http=127.0.0.1:0", "--", "sh", "-c", "exit 3"]);
    let address = address(&run);
    let text = wait_for("an exit code", || {
        Some(get(&address, "/metrics").1).filter(|text| text.contains("\nleasehold_command_last_exit_code "))
    });
    add(&mut exported, &text);
    exported
}

/// Returns the words, texts and signs of an expression, without ranges in brackets.
fn tokens(expression: &str) -> Vec<String> {
    let is_word = |it: char| it.is_alphanumeric() || ['_', ':', '.'].contains(&it);
    let (mut tokens, mut rest) = (Vec::new(), expression.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => 2 + rest[1..].find('"').expect("the end of a text"),
            '[' => 1 + rest.find(']').expect("the end of a range"),
            _ if is_word(first) => rest.find(|it| !is_word(it)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        tokens.extend(Some(rest[..length].to_owned()).filter(|_| first != '['));
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Names that an expression uses.
#[derive(Debug, Default)]
struct Used {
    /// Each metric with the labels by which it is selected.
    metrics: Vec<(String, Vec<String>)>,
    /// The labels in `by`, `on` and the like.
    grouped: BTreeSet<String>,
}

impl Used {
    fn by(expression: &str) -> Self {
        let tokens = tokens(expression);
        let tokens: Vec<_> = tokens.iter().map(String::as_str).collect();
        let (mut used, mut at) = (Self::default(), 0);
        while at < tokens.len() {
            match tokens[at..] {
                ["by" | "without" | "on" | "ignoring" | "group_left" | "group_right", "(", ..] => {
                    let end = at + tokens[at..].iter().position(|it| *it == ")").expect("the end of a list");
                    used.grouped.extend(tokens[at + 2..end].iter().filter(|it| **it != ",").map(|it| (*it).to_owned()));
                    at = end;
                }
                ["and" | "or" | "unless" | "bool" | "offset", ..] | [_, "(" | "by" | "without", ..] => {}
                [name, ref rest @ ..] if name.starts_with(|it: char| it.is_alphabetic() || it == '_') => {
                    let mut labels = Vec::new();
                    if rest.first() == Some(&"{") {
                        let end = rest.iter().position(|it| *it == "}").expect("the end of a selection");
                        let of_labels = rest[1..end].split(|it| *it == ",").filter(|it| !it.is_empty());
                        labels.extend(of_labels.map(|it| it[0].to_owned()));
                        at += end + 1;
                    }
                    used.metrics.push((name.to_owned(), labels));
                }
                _ => {}
            }
            at += 1;
        }
        used
    }

    /// Returns the used names that are not exported.
    fn unknown(&self, exported: &Exported, shown: &BTreeSet<String>) -> Vec<String> {
        let mut unknown = Vec::new();
        let has = |metric: &str, label: &String| {
            TARGET_LABELS.contains(&label.as_str()) || exported.get(metric).is_some_and(|labels| labels.contains(label))
        };
        for (metric, labels) in &self.metrics {
            if !exported.contains_key(metric) {
                unknown.push(metric.clone());
                continue;
            }
            let labels = labels.iter().chain(&self.grouped).filter(|label| !has(metric, label));
            unknown.extend(labels.map(|label| format!("{metric}: {label}")));
        }
        // A text can show only labels that the expression keeps.
        let is_left = |label: &&String| match self.grouped.is_empty() {
            true => self.metrics.iter().any(|(metric, _)| has(metric, label)),
            false => self.grouped.contains(*label),
        };
        unknown.extend(shown.iter().filter(|label| !is_left(label)).map(|label| format!("shown: {label}")));
        unknown
    }
}

/// Returns the names that follow each `begin` in a text.
fn names_after(text: &str, begin: &str) -> BTreeSet<String> {
    let names = text.split(begin).skip(1).map(|rest| rest.trim_start());
    names
        .map(|rest| rest.split(|it: char| !it.is_alphanumeric() && it != '_').next().expect("a name").to_owned())
        .collect()
}

struct Rule {
    alert: String,
    expression: String,
    /// The section of the runbook that the description names.
    section: String,
    /// The labels that the texts of the rule show.
    shown: BTreeSet<String>,
}

fn rules() -> Vec<Rule> {
    let file = Manifests::of("").read("alerts.yaml").remove(0);
    let groups = file["groups"].as_array().expect("groups").iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().expect("rules").clone());
    rules
        .map(|rule| Rule {
            alert: rule["alert"].as_str().expect("a name").to_owned(),
            expression: rule["expr"].as_str().expect("an expression").to_owned(),
            section: {
                let description = rule["annotations"]["description"].as_str().expect("a description");
                description.split('"').nth(1).expect("a section in quotes").to_owned()
            },
            shown: names_after(&rule["annotations"].to_string(), "$labels."),
        })
        .collect()
}

fn with_values(text: &str) -> String {
    let text = VARIABLES.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    assert!(!text.contains('$'), "a variable without a value: {text}");
    text
}

/// Returns the expressions of the dashboard, each with the labels of its legend.
///
/// Values replace the variables of the expressions.
fn dashboard() -> Vec<(String, BTreeSet<String>)> {
    let text = fs::read_to_string(Manifests::of("").path("dashboard.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let (mut found, mut left) = (Vec::new(), vec![&dashboard]);
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(expression) = fields.get("expr").and_then(Value::as_str) {
                    let legend = fields.get("legendFormat").and_then(Value::as_str).unwrap_or_default();
                    found.push((with_values(expression), names_after(legend, "{{")));
                }
                left.extend(fields.values());
            }
            Value::Array(values) => left.extend(values),
            Value::String(text) => {
                if let Some(arguments) = text.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')) {
                    let (expression, label) = arguments.rsplit_once(',').expect("a metric and a label");
                    found.push((with_values(expression), [label.trim().to_owned()].into()));
                }
            }
            _ => {}
        }
    }
    assert_eq!(found.len(), text.matches("\"expr\"").count() + text.matches("\"label_values(").count());
    found
}

/// Returns names in backticks from the first column of the tables of a section.
///
/// Only names that start with one of `begins` are returned.
fn listed(section: &str, begins: &[&str]) -> Vec<String> {
    let rows = section_of_operations(section).lines().filter_map(|line| line.strip_prefix('|'));
    let cells = rows.map(|row| row.split('|').next().expect("a cell"));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(|name| begins.iter().any(|it| name.starts_with(it))).map(str::to_owned).collect()
}

/// Returns the text of a section of docs/OPERATIONS.md.
fn section_of_operations(section: &str) -> &'static str {
    let text = OPERATIONS.split(&format!("\n## {section}\n")).nth(1).and_then(|it| it.split("\n## ").next());
    text.expect("a section")
}

#[test]
fn alerts_and_dashboard_name_exported_metrics() {
    let mut exported = exported();
    // Only `MetricsObserver` exports this metric. Its users replace the labels in all rules alike.
    exported.insert("leasehold_shards_owned".to_owned(), exported["leader_election_master_status"].clone());
    // `leasehold status --prometheus` exports the metrics of jobs.
    let jobs = names_after(include_str!("../../crates/cli/src/job.rs"), "\"leasehold_job_");
    let jobs = jobs.into_iter().map(|name| (format!("leasehold_job_{name}"), BTreeSet::from(["lease".to_owned()])));
    exported.extend(jobs);
    for name in ["leader_election_master_status", "leasehold_renewal_duration_seconds_bucket"] {
        assert!(exported[name].contains("record"), "{exported:?}");
    }
    let rules = rules().into_iter().map(|rule| (rule.alert, rule.expression, rule.shown));
    let panels = dashboard().into_iter().map(|(expression, shown)| ("a panel".to_owned(), expression, shown));
    for (place, expression, shown) in rules.chain(panels) {
        let used = Used::by(&expression);
        assert!(!used.metrics.is_empty(), "{place}: {expression}");
        let unknown = used.unknown(&exported, &shown);
        assert!(unknown.is_empty(), "{place}: {expression}: not exported: {unknown:?}");
    }

    let of_histogram = |name: &String| match name.strip_suffix("_bucket") {
        Some(name) => Some(name.to_owned()),
        None => Some(name.clone()).filter(|it| !it.starts_with("leasehold_renewal_duration_seconds_")),
    };
    let source = include_str!("../../src/observe/metrics_observer.rs");
    let kinds = ["describe_gauge!(\"", "describe_counter!(\"", "describe_histogram!(\""];
    let described: BTreeSet<_> = kinds.iter().flat_map(|kind| names_after(source, kind)).collect();
    // Only the observer exports the metrics of shards.
    let names: BTreeSet<_> = exported.keys().filter_map(of_histogram).chain(described.iter().cloned()).collect();
    let listed = listed("Metrics", &["leasehold_", "leader_election_"]);
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), names, "docs/OPERATIONS.md lists each metric");
    assert!(OPERATIONS.contains("`MetricsObserver` exports the first twelve,"));
    assert_eq!(listed[..12].iter().cloned().collect::<BTreeSet<_>>(), described);
}

#[test]
fn names_that_are_not_exported_are_found() {
    let label = |name: &str| name.to_owned();
    let exported: Exported = [("a_total", vec!["kind"]), ("b", vec!["le", "kind"]), ("c", vec![])]
        .map(|(name, labels)| (name.to_owned(), labels.into_iter().map(label).collect()))
        .into();
    for (expression, shown, expected) in [
        (
            "sum by (kind) (rate(a_total{kind=~\"x|y\",job!=\"c{\"}[5m] offset 1h)) > 0.5 and on (pod) b",
            "kind",
            &[][..],
        ),
        ("histogram_quantile(0.9, sum(b) by (le)) or 1 - (c unless b) * bool_c", "", &["bool_c", "c: le"]),
        ("x{kind=\"a\"}", "", &["x"]),
        ("a_total{kin=\"a\", kind=\"b\"}", "le", &["a_total: kin", "shown: le"]),
        ("max without (le) (a_total)", "", &["a_total: le"]),
        ("sum by (kind) (b)", "le", &["shown: le"]),
    ] {
        let mut unknown = Used::by(expression).unknown(&exported, &shown.split_whitespace().map(label).collect());
        unknown.sort();
        assert_eq!(unknown, expected, "{expression}");
    }
}

#[test]
fn operations_page_lists_every_alert() {
    let alerts: BTreeSet<_> = rules().into_iter().map(|rule| rule.alert).collect();
    let runbook = section_of_operations("Runbook");
    let named = runbook.split('`').filter(|text| text.starts_with("Leasehold")).map(str::to_owned);
    assert_eq!(named.collect::<BTreeSet<_>>(), alerts, "the runbook names each alert");
    for Rule { alert, section, .. } in rules() {
        let text = runbook.split(&format!("\n### {section}\n")).nth(1).and_then(|it| it.split("\n### ").next());
        let text = text.unwrap_or_else(|| panic!("{alert} names the section {section:?}"));
        assert!(text.contains(&format!("`{alert}`")), "the section {section:?} does not name {alert}");
    }
}

#[test]
fn each_alert_is_tested_to_fire_and_to_stay_silent() {
    let file = Manifests::of("").read("alerts_test.yaml").remove(0);
    let (mut fires, mut is_silent) = (BTreeSet::new(), BTreeSet::new());
    for test in file["tests"].as_array().expect("tests") {
        for asked in test["promql_expr_test"].as_array().expect("expressions") {
            let expression = asked["expr"].as_str().expect("an expression");
            let alert = names_after(expression, "alertname=\"").pop_first().expect("an alert");
            let expected = asked["exp_samples"].as_array().expect("samples");
            let tested = if expected.is_empty() { &mut is_silent } else { &mut fires };
            tested.insert(alert);
        }
    }
    let alerts: BTreeSet<_> = rules().into_iter().map(|rule| rule.alert).collect();
    assert_eq!((&fires, &is_silent), (&alerts, &alerts));
}

#[test]
fn promtool_accepts_alerts_and_dashboard() {
    let Some(promtool) = promtool("the test of the alerts") else { return };
    let deploy = Manifests::of("");
    for (what, file) in [("check", "alerts.yaml"), ("test", "alerts_test.yaml")] {
        run(Command::new(&promtool).args([what, "rules"]).arg(deploy.path(file)));
    }
    let expressions = dashboard().into_iter().map(|(expression, _)| expression);
    let rules = expressions
        .enumerate()
        .map(|(number, expression)| serde_json::json!({ "record": format!("panel:{number}"), "expr": expression }));
    let file = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules.collect::<Vec<_>>() }] });
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dashboard.yaml");
    // JSON is valid YAML, so `promtool` can read the file.
    fs::write(&path, file.to_string()).expect("a file");
    run(Command::new(&promtool).args(["check", "rules"]).arg(&path));
    fs::write(&path, file.to_string().replace("sum by", "sum buy")).expect("a file");
    let refused = Command::new(&promtool).args(["check", "rules"]).arg(&path).output().expect("promtool runs");
    assert!(!refused.status.success());
}

fn run(command: &mut Command) {
    let output = command.output().expect("promtool runs");
    let printed = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "{command:?}: {printed:?}");
}

pub fn promtool(needed_by: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let promtool = target.join("promtool/usr/bin/promtool");
    is_built(&promtool, needed_by, "tests/promtool/build").then_some(promtool)
}
