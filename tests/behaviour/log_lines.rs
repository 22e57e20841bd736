//! Tests of the log lines of an election, and of the fields of each line.

#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::group::LeaseGroup;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::store::{MemoryStore, Store};
use leasehold::{Fitness, LeaderElector};
use leasehold_testing::{ApiServer, Fault};
use log::{Level, LevelFilter};
use support::cluster::client_of;
use support::kubeconfig;
use support::logged::{self, Logged};
use support::stores::{call, held_by};

/// Collects the lines, and panics after the lines of an election. The panic must not end an elector or a group.
fn collect() {
    logged::collect(LevelFilter::Debug, |line| {
        if line.target == "leasehold::election" {
            resume_unwind(Box::new("made up"));
        }
    });
}

/// Waits for the first line that contains `text`.
fn first_with(text: &str) -> Logged {
    let since = Instant::now();
    loop {
        match logged::those(|line| line.text.contains(text)).into_iter().next() {
            Some(line) => return line,
            None if since.elapsed() > Duration::from_secs(30) => panic!("no line with {text:?}"),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[test]
fn other_duration_is_logged_once_by_members_alone() {
    collect();
    let store = Arc::new(MemoryStore::new());
    let group = |seconds| {
        let builder = LeaseGroup::builder("ingest").slot(|slot| slot.lease_duration(Duration::from_secs(seconds)));
        builder.start_on(Arc::clone(&store)).expect("a group")
    };
    let (member, observer) = (group(20), group(30));
    let shards = member.shards().expect("a participation");
    for key in ["ingest-member-03", "ingest-member-04"] {
        store.create(key, held_by("other").as_write(), &call()).expect("a record");
    }
    let text = "has a lease duration of 15 s, but this process uses 20 s";
    assert_eq!(first_with(text).level, Level::Warn);
    support::wait_until("the observer sees all members", || observer.status().members.len() == 3);
    assert_eq!(logged::those(|line| line.text.contains(text)).len(), 1);
    assert!(logged::those(|line| line.text.contains("this process uses 30 s")).is_empty());
    shards.leave().expect("a release");
}

#[test]
fn lines_of_a_member_name_no_leader() {
    collect();
    let builder = LeaseGroup::builder("billing").shards(1).slot(|slot| slot.identity("m"));
    let group = builder.start_on(MemoryStore::new()).expect("a group");
    let shards = group.shards().expect("a participation");
    assert_eq!(first_with("billing m: joined as member").level, Level::Info);
    shards.leave().expect("a release");
    first_with("billing m: left the group");
    let of_slot = |line: &Logged| line.text.starts_with("billing-member-") && line.level <= Level::Info;
    let named: Vec<_> = logged::those(|line| of_slot(line) && line.text.contains("lead")).into_iter().collect();
    assert!(named.is_empty(), "{named:?}");
}

#[test]
fn each_line_of_an_election_has_its_fields() {
    collect();
    let server = ApiServer::start().expect("a server");
    let client = || Client::new(ClientConfig::new(&server.url()).expect("a URL")).expect("a client");
    let elector = |identity: &str| {
        let builder = LeaderElector::builder("jobs").namespace("default").identity(identity);
        builder.start_with_client(client()).expect("an elector")
    };

    let first = elector("a");
    let line = first_with("default/jobs a: elector started at ");
    assert_eq!(line.level, Level::Info);
    let has = |line: &Logged, fields: &[(&str, &str)]| {
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

    // No proxy listens at this address. The line is logged before the first connection.
    let cluster = "server: 'https://10.0.0.1:6443', proxy-url: 'http://me:hunter2@127.0.0.1:1'";
    let client_behind = client_of(&kubeconfig::with(cluster, ""));
    let behind =
        LeaderElector::builder("jobs").namespace("default").identity("behind").start_with_client(client_behind);
    drop(behind.expect("an elector"));
    let line = first_with("default/jobs behind: elector started at ");
    assert!(line.text.contains("through proxy 127.0.0.1:1") && !line.text.contains("hunter2"), "{}", line.text);

    let guard = first.block_until_leader().expect("a term");
    let token = guard.fencing_token().to_string();
    let line = first_with("default/jobs a: started leading");
    assert_eq!(line.level, Level::Info);
    has(&line, &[("identity", "a"), ("event", "started_leading"), ("fencing_token", &token)]);
    has(&first_with("new leader: a"), &[("identity", "a"), ("event", "new_leader"), ("leader", "a")]);

    let second = elector("b");
    let campaign = second.campaign().expect("a campaign");
    let line = first_with("standby: a holds the lease");
    assert_eq!(line.level, Level::Info);
    has(&line, &[("identity", "b")]);
    drop(guard);
    let line = first_with("default/jobs a: stopped leading");
    assert_eq!(line.level, Level::Info);
    has(
        &line,
        &[
            ("identity", "a"),
            ("event", "stopped_leading"),
            ("fencing_token", &token),
            ("reason", "the guard was dropped or released"),
        ],
    );
    let guard = campaign.receiver().recv().expect("never disconnects").expect("a term");
    let since = Instant::now();
    let heard_by = |identity: &str| {
        let is_by = |line: &Logged| line.fields.get("identity").is_some_and(|it| it == identity);
        !logged::those(|line| line.text.contains("new leader: b") && is_by(line)).is_empty()
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
    has(&first_with(": fit to lead"), &[("identity", "c"), ("event", "became_fit")]);
    fitness.set(false);
    has(&first_with(": unfit: "), &[("identity", "c"), ("event", "became_unfit")]);
    drop(third);

    let fault = server.fault(Fault::status(503, "ServiceUnavailable", "made up"));
    // The text of a line escapes the identity exactly once.
    let fourth = elector("d\u{202e}");
    let line = first_with("made up");
    has(&line, &[]);
    let error = line.fields.get("error").expect("the error as a field");
    assert!(line.text.ends_with(error.as_str()), "{line:?}");
    drop((fourth, fault));

    let lines = logged::those(|line| !line.text.starts_with("group ") && !line.text.contains("-member-"));
    // The lines of the client and of the in-memory server belong to no election.
    let of_elections = lines.iter().filter(|line| {
        line.target.starts_with("leasehold") && !["client", "testing"].iter().any(|part| line.target.contains(part))
    });
    let mut count = 0;
    for line in of_elections {
        has(line, &[]);
        assert!(line.fields.contains_key("fencing_token"), "{line:?}");
        let identity = line.fields["identity"].replace('\u{202e}', r"\u{202e}");
        assert!(line.text.starts_with(&format!("default/jobs {identity}: ")), "{line:?}");
        count += 1;
    }
    assert!(count >= 7, "{lines:#?}");
}
