//! Five members of a group as processes, on every store, while faults occur.
//!
//! `LEASEHOLD_GROUPS` sets the duration, such as `10m` (default: 20 s). `LEASEHOLD_GROUPS_SEED` repeats the faults of a
//! seed, but the timing still differs between runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Pid, Signal};

use crate::support::etcd::Etcd;
use crate::support::exclusion::History;
use crate::support::journal::Journal;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::process::{Candidate, Line, Stage, example, mono};
use crate::support::proxy::{Faults, Proxy};
use crate::support::real::Real;
use crate::support::server::Server;
use crate::support::sql::SqlServer;
use crate::support::{SOON, chosen, say_aloud, scratch, seed, wait_or_explain, wait_until};

const MEMBERS: usize = 5;
const SHARDS: usize = 64;
const LEASE: Duration = Duration::from_secs(4);

/// A fault of the server: its name, and a function that begins (`true`) or ends (`false`) the fault.
type ServerFault<'a> = (&'static str, &'a mut dyn FnMut(bool));

struct Members {
    name: &'static str,
    stage: Stage,
    /// The flags and the proxy of each place. A proxy needs a server.
    ways: Vec<(Vec<OsString>, Option<Proxy>)>,
    members: Vec<Candidate>,
    starts: usize,
    rng: Rng,
    journal: Journal,
    seed: u64,
}

impl Members {
    fn new(name: &'static str, ways: impl Iterator<Item = (Vec<OsString>, Option<Proxy>)>) -> Self {
        let seed = seed("LEASEHOLD_GROUPS_SEED");
        let mut members = Self {
            name,
            stage: Stage::on_store("unused", "unused", &[]),
            ways: ways.take(MEMBERS).collect(),
            members: Vec::new(),
            starts: 0,
            rng: Rng::with_seed(seed),
            journal: Journal::new(&format!("groups-{name}"), seed),
            seed,
        };
        for place in 0..MEMBERS {
            let member = members.start(place);
            members.members.push(member);
        }
        members
    }

    fn on_store(name: &'static str, port: u16, url: &str) -> Self {
        let ways = std::iter::repeat_with(|| {
            let (proxy, url) = Proxy::by_url(port, url);
            (vec!["--store".into(), url.into()], Some(proxy))
        });
        Self::new(name, ways)
    }

    fn start(&mut self, place: usize) -> Candidate {
        self.starts += 1;
        let id = format!("{place}-{}", self.starts);
        let mut program = example("group_member");
        let (lease, shards) = (LEASE.as_secs().to_string(), SHARDS.to_string());
        program.args(["--group", "ingest", "--shards", &shards, "--lease", &lease, "--heartbeat", "100", "--id", &id]);
        program.args(&self.ways[place].0);
        self.stage.candidate_of(program, &id)
    }

    /// Injects faults one at a time, and then checks the stamps of all shards.
    fn outlast(mut self, mut server: Option<ServerFault<'_>>) {
        let time = chosen("LEASEHOLD_GROUPS", |text| humantime::parse_duration(text).ok());
        let time = time.unwrap_or(Duration::from_secs(20));
        self.wait_for_shares();
        let began = Instant::now();
        // Other faults may be too short to move a shard.
        self.kill(0);
        while began.elapsed() < time {
            let place = self.rng.usize(..MEMBERS);
            match (self.rng.usize(..4), &mut server) {
                (0, _) => self.kill(place),
                (1, _) => self.suspend(place),
                (2, Some(_)) => self.cut_off(place),
                (3, Some((fault, act))) => {
                    self.journal.fault(fault);
                    act(true);
                    self.pause(LEASE / 10..LEASE);
                    act(false);
                }
                _ => self.end(place),
            }
            self.pause(LEASE / 10..LEASE * 2);
        }
        self.wait_for_shares();
        for place in 0..MEMBERS {
            self.members[place].assert_running();
        }
        self.check(began.elapsed());
    }

    fn kill(&mut self, place: usize) {
        self.journal.fault("killed");
        let next = self.start(place);
        std::mem::replace(&mut self.members[place], next).kill();
    }

    fn end(&mut self, place: usize) {
        self.journal.fault("told to end");
        // The signal kills a process that has just started and has no handler yet.
        wait_until("the member handles SIGTERM", || handles(self.members[place].pid, Signal::TERM));
        self.members[place].signal(Signal::TERM);
        let next = self.start(place);
        let last = std::mem::replace(&mut self.members[place], next);
        let ended = last.end();
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
    }

    fn suspend(&mut self, place: usize) {
        self.journal.fault("stopped");
        self.members[place].suspend();
        self.pause(LEASE / 10..LEASE * 2);
        self.members[place].signal(Signal::CONT);
    }

    fn cut_off(&mut self, place: usize) {
        self.journal.fault("cut off");
        let Some(proxy) = &self.ways[place].1 else { return };
        let kinds =
            [Faults::Cut, Faults::BlackHole, Faults::RequestsHeldBack, Faults::AnswersHeldBack, Faults::HeldBack];
        proxy.set(kinds[self.rng.usize(..kinds.len())]);
        self.pause(LEASE / 10..LEASE * 2);
        self.ways[place].1.iter().for_each(|proxy| proxy.set(Faults::Fair));
    }

    fn pause(&mut self, between: std::ops::Range<Duration>) {
        thread::sleep(between.start + (between.end - between.start).mul_f64(self.rng.f64()));
    }

    /// Waits until the members own all shards, in equal shares.
    fn wait_for_shares(&self) {
        let shares = || {
            let (mut owners, mut shares) = (BTreeMap::new(), BTreeMap::<_, usize>::new());
            // The newest line of each shard counts.
            for line in self.stage.lines_since(mono() - 2.0) {
                owners.entry(line.shard).or_insert((line.event, line.identity));
            }
            let owners = owners.into_values().filter(|(event, _)| event == "leading");
            owners.for_each(|(_, owner)| *shares.entry(owner).or_default() += 1);
            shares
        };
        let explain = || format!("the members own all shards in equal shares, now {:?}", shares());
        wait_or_explain(SOON * 4, explain, || {
            let shares: Vec<_> = shares().into_values().collect();
            shares.len() == MEMBERS
                && shares.iter().sum::<usize>() == SHARDS
                && shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1
        });
    }

    fn check(self, took: Duration) {
        let lines = self.stage.lines();
        let mut shards = BTreeMap::<_, Vec<Line>>::new();
        lines.iter().for_each(|line| shards.entry(line.shard).or_default().push(line.clone()));
        let histories: Vec<_> = shards.iter().map(|(shard, lines)| (shard, History::of(lines))).collect();
        let faulty: Vec<_> =
            histories.iter().filter(|(_, it)| !it.overlaps.is_empty() || !it.disorder.is_empty()).collect();
        self.journal.keep(&lines, !faulty.is_empty());
        assert!(faulty.is_empty(), "two owners at a time, or tokens that went back (seed {}): {faulty:?}", self.seed);
        assert_eq!(histories.len(), SHARDS);
        let moves: usize = histories.iter().map(|(_, history)| history.handovers()).sum();
        assert!(moves > 0, "the faults moved no shard");
        say_aloud(&format!(
            "group on {} (seed {}): {MEMBERS} members, {SHARDS} shards, {took:.0?}, {moves} moves, {} lines, 0 overlaps; \
             faults: {:?}",
            self.name,
            self.seed,
            lines.len(),
            self.journal.faults(),
        ));
    }
}

/// Returns `true` if the process has a handler for the signal.
fn handles(pid: Pid, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("a process");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask of signals");
    u64::from_str_radix(caught.trim(), 16).expect("a number") >> (signal.as_raw() - 1) & 1 == 1
}

fn outlast_with(name: &'static str, server: &mut Server, url: &str) {
    let members = Members::on_store(name, server.port(), url);
    let mut act = |begins| if begins { server.kill() } else { server.start_again() };
    members.outlast(Some(("server killed and started again", &mut act)));
}

#[test]
fn group_on_a_real_api_server_survives_faults() {
    let Some(real) = Real::own() else { return };
    let directory = scratch();
    let mut place = 0;
    let ways = std::iter::repeat_with(|| {
        place += 1;
        let kubeconfig = directory.path().join(place.to_string());
        let proxy = Proxy::by_kubeconfig(&real.ready.kubeconfigs["admin"], &kubeconfig);
        (vec!["--kubeconfig".into(), kubeconfig.into()], Some(proxy))
    });
    let members = Members::new("kubernetes", ways);
    let mut act = |begins| real.tell(if begins { "kill kube-apiserver" } else { "start kube-apiserver" });
    members.outlast(Some(("API server killed and started again", &mut act)));
}

#[test]
fn group_on_etcd_survives_faults() {
    let Some(mut etcd) = Etcd::start(1, &[]) else { return };
    let mut member = etcd.members.remove(0);
    let url = member.url().replace("http", "etcd") + "/stores/";
    outlast_with("etcd", &mut member, &url);
}

#[test]
fn group_on_postgres_survives_faults() {
    let Some(mut postgres) = Postgres::start(&[]) else { return };
    let url = postgres.url("postgres", "postgres");
    outlast_with("postgres", &mut postgres, &url);
}

#[test]
fn group_on_mariadb_survives_faults() {
    let Some(mut mariadb) = MariaDb::start(&[]) else { return };
    mariadb.database("faults");
    let url = mariadb.url("root", "faults");
    outlast_with("mariadb", &mut mariadb, &url);
}

#[test]
fn group_on_a_file_survives_faults() {
    let scratch = scratch();
    let url = format!("sqlite://{}", scratch.path().join("group.db").display());
    Members::new("file", std::iter::repeat_with(|| (vec!["--store".into(), url.clone().into()], None))).outlast(None);
}
