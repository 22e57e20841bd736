//! What an operator finds in the log, and in the fields of each line.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::testing::{ApiServer, Fault};
use leasehold::{Fitness, LeaderElector};
use log::kv::{Key, Value, VisitSource};
use log::{Level, LevelFilter, Metadata, Record};

#[derive(Debug, Clone)]
struct Line {
    level: Level,
    target: String,
    text: String,
    fields: BTreeMap<String, String>,
}

/// Collects lines as a logger does that writes JSON.
struct Collector(Mutex<Vec<Line>>);

static COLLECTOR: Collector = Collector(Mutex::new(Vec::new()));

struct Fields(BTreeMap<String, String>);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), log::kv::Error> {
        self.0.insert(key.to_string(), value.to_string());
        Ok(())
    }
}

impl log::Log for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut fields = Fields(BTreeMap::new());
        record.key_values().visit(&mut fields).expect("it takes everything");
        let line = Line {
            level: record.level(),
            target: record.target().to_owned(),
            text: record.args().to_string(),
            fields: fields.0,
        };
        let is_of_election = line.target == "leasehold::election";
        self.0.lock().unwrap().push(line);
        if is_of_election {
            std::panic::resume_unwind(Box::new("a logger that panics must not end an elector"));
        }
    }

    fn flush(&self) {}
}

impl Collector {
    /// The first line with this in it, for which it waits.
    fn line(&self, text: &str) -> Line {
        let since = Instant::now();
        loop {
            let found = self.0.lock().unwrap().iter().find(|line| line.text.contains(text)).cloned();
            match found {
                Some(line) => return line,
                None if since.elapsed() > Duration::from_secs(30) => panic!("no line with {text:?}: {:#?}", self.0),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

#[test]
fn each_line_of_an_election_has_its_fields() {
    log::set_logger(&COLLECTOR).expect("the only logger");
    log::set_max_level(LevelFilter::Debug);
    let server = ApiServer::start().expect("a server");
    let client = || Client::new(ClientConfig::new(&server.url()).expect("a URL")).expect("a client");
    let elector = |identity: &str| {
        let builder = LeaderElector::builder("jobs").namespace("default").identity(identity);
        builder.start_with_client(client()).expect("an elector")
    };

    let first = elector("a");
    let line = COLLECTOR.line("candidate a at ");
    assert_eq!(line.level, Level::Info);
    let has = |line: &Line, fields: &[(&str, &str)]| {
        for (name, value) in [("lease", "default/jobs")].iter().chain(fields) {
            assert_eq!(line.fields.get(*name).map(String::as_str), Some(*value), "{name} of {line:?}");
        }
    };
    let url = server.url();
    has(
        &line,
        &[("identity", "a"), ("namespace", "default"), ("server", &url), ("config_source", "given by the program")],
    );
    for value in [url.as_str(), "given by the program", "default/jobs"] {
        assert!(line.text.contains(value), "{value} is in the text, too: {}", line.text);
    }

    // Nothing listens at this proxy, and nothing need to: the line comes first.
    let proxied =
        ClientConfig::new("https://10.0.0.1:6443").and_then(|it| it.with_proxy("http://me:hunter2@127.0.0.1:1"));
    let client_behind = proxied.and_then(Client::new).expect("a client");
    let behind =
        LeaderElector::builder("jobs").namespace("default").identity("behind").start_with_client(client_behind);
    drop(behind.expect("an elector"));
    let line = COLLECTOR.line("candidate behind at ");
    assert!(line.text.contains("through proxy 127.0.0.1:1") && !line.text.contains("hunter2"), "{}", line.text);

    let guard = first.block_until_leader().expect("a term");
    let token = guard.fencing_token().to_string();
    let line = COLLECTOR.line("started leading");
    assert_eq!(line.level, Level::Info);
    has(&line, &[("identity", "a"), ("event", "started_leading"), ("fencing_token", &token)]);
    has(&COLLECTOR.line("a leads"), &[("identity", "a"), ("event", "new_leader"), ("leader", "a")]);

    let second = elector("b");
    let campaign = second.campaign().expect("a campaign");
    let line = COLLECTOR.line("waiting until a releases the lease");
    assert_eq!(line.level, Level::Info);
    has(&line, &[("identity", "b")]);
    drop(guard);
    let line = COLLECTOR.line("stopped leading");
    assert_eq!(line.level, Level::Info);
    has(
        &line,
        &[
            ("identity", "a"),
            ("event", "stopped_leading"),
            ("fencing_token", &token),
            ("reason", "its guard was released or dropped"),
        ],
    );
    let guard = campaign.receiver().recv().expect("never disconnects").expect("a term");
    let since = Instant::now();
    let heard_by = |identity: &str| {
        let lines = COLLECTOR.0.lock().unwrap();
        lines
            .iter()
            .any(|line| line.text.contains("b leads") && line.fields.get("identity").is_some_and(|i| i == identity))
    };
    while !["a", "b"].into_iter().all(heard_by) {
        assert!(since.elapsed() < Duration::from_secs(30), "both tell who leads now");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(guard);

    let fitness = Fitness::new();
    let builder = LeaderElector::builder("jobs").namespace("default").identity("c").fitness(&fitness);
    let third = builder.start_with_client(client()).expect("an elector");
    fitness.set(true);
    has(&COLLECTOR.line(": fit to lead"), &[("identity", "c"), ("event", "became_fit")]);
    fitness.set(false);
    has(&COLLECTOR.line(": not fit to lead: "), &[("identity", "c"), ("event", "became_unfit")]);
    drop(third);

    let fault = server.fault(Fault::status(503, "ServiceUnavailable", "made up"));
    let fourth = elector("d");
    let line = COLLECTOR.line("made up");
    has(&line, &[]);
    let error = line.fields.get("error").expect("the error as a field");
    assert!(line.text.ends_with(error.as_str()), "{line:?}");
    drop((fourth, fault));

    let lines = COLLECTOR.0.lock().unwrap().clone();
    // The client below knows of no election.
    let of_elections = lines.iter().filter(|line| {
        line.target.starts_with("leasehold") && !["client", "testing"].iter().any(|part| line.target.contains(part))
    });
    let mut count = 0;
    for line in of_elections {
        has(line, &[]);
        assert!(line.fields.contains_key("identity") && line.fields.contains_key("fencing_token"), "{line:?}");
        count += 1;
    }
    assert!(count >= 7, "{lines:#?}");
}
