//! Many periods of a job on five hosts that are killed at random, on every store.
//!
//! `LEASEHOLD_JOB_PERIODS` sets the number of periods, and `LEASEHOLD_JOB_SEED` the seed.

use std::process::Stdio;
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::command::{children, is_guardian, leasehold};
use crate::support::etcd::Etcd;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::run::{Ended, Run};
use crate::support::scratch;
use crate::support::sql::SqlServer;

const PERIOD: Duration = Duration::from_secs(10);
const ATTEMPTS: usize = 3;
const HOSTS: usize = 5;

/// The exit code of a job that fails.
const FAILS: i32 = 9;

/// A round of one period: the output of each host, `None` for a killed host.
struct Round {
    hosts: Vec<Option<Ended>>,
    /// The number of attempts that have started, and of those that have done their work.
    started: usize,
    done: usize,
}

/// Checks many periods of the job in the lease that `place` names.
fn run_periods(place: &[String]) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let periods = number("LEASEHOLD_JOB_PERIODS").unwrap_or(12);
    let seed = number("LEASEHOLD_JOB_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = scratch();
    for period in 0..periods {
        let journal = scratch.path().join(format!("journal-{period}"));
        let round = round(place, &mut random, &journal.display().to_string());
        round.check(&format!("seed {seed}, period {period}"));
        wait_for_the_next_period(place);
    }
}

/// Runs five hosts to their ends, and kills some of them.
fn round(place: &[String], random: &mut fastrand::Rng, journal: &str) -> Round {
    let mut hosts: Vec<_> = (0..HOSTS)
        .map(|_| {
            let (before, after) = (random.f64() * 0.5, random.f64() * 0.2);
            let end = if random.u8(..3) == 0 { format!("exit {FAILS}") } else { format!("echo done >>{journal}") };
            let script = format!("echo started >>{journal}; sleep {before}; {end}; sleep {after}");
            let mut command = leasehold();
            command.arg("run").args(place).args(["--once-per=10s", "--attempts=3", "--no-client-go-peers"]);
            command.args(["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=200ms", "--", "sh", "-c"]);
            Some(Run::of(command.arg(script).stdin(Stdio::null())))
        })
        .collect();
    for _ in 0..random.usize(..3) {
        thread::sleep(Duration::from_millis(random.u64(..1_500)));
        let Some(host) = hosts[random.usize(..HOSTS)].take() else { continue };
        // The guardian is killed too, so that no process ends the command early.
        let guardian = children(host.pid).into_iter().find(|pid| is_guardian(*pid));
        guardian.filter(|_| random.bool()).map(|pid| rustix::process::kill_process(pid, Signal::KILL));
        host.signal(Signal::KILL);
        drop(host);
    }
    let hosts = hosts.into_iter().map(|host| host.map(Run::end)).collect();
    let lines = fs::read_to_string(journal).unwrap_or_default();
    let count = |word| lines.lines().filter(|line| *line == word).count();
    Round { hosts, started: count("started"), done: count("done") }
}

impl Round {
    fn check(&self, what: &str) {
        let ended = || self.hosts.iter().flatten();
        let texts = || ended().map(|ended| ended.errors.as_str()).collect::<Vec<_>>().join("\n---\n");
        let has_lost_one = self.hosts.iter().any(Option::is_none)
            || ended().any(|ended| ended.code == Some(125) || ended.errors.contains("lease not renewed"));
        assert!(self.started <= ATTEMPTS, "{what}: {} attempts\n{}", self.started, texts());
        assert!(self.done <= 1 || has_lost_one, "{what}: {} successes\n{}", self.done, texts());
        for host in ended() {
            match host.code {
                Some(0) => assert!(self.done > 0, "{what}: no attempt has succeeded\n{}", texts()),
                // All attempts have failed, or were killed.
                Some(FAILS) => assert!(
                    host.errors.contains("all attempts of this period have failed (3 since"),
                    "{what}: {}",
                    host.errors
                ),
                Some(125) => assert!(
                    host.errors.contains("all attempts of this period have failed (3 since")
                        || host.errors.contains("the job may run again"),
                    "{what}: {}",
                    host.errors
                ),
                code => panic!("{what}: {code:?}: {}", host.errors),
            }
        }
    }
}

/// Waits until the next attempt is due by the history in the store.
fn wait_for_the_next_period(place: &[String]) {
    let status = Run::of(leasehold().args(["status", "--json"]).args(place)).end();
    let status: Value = serde_json::from_str(&status.out).expect("JSON");
    let notes = &status["notes"];
    let start = [&notes["last_success_start"], &notes["first_attempt_start"]];
    let start = start.into_iter().filter_map(Value::as_str).max();
    let Some(start) = start.and_then(|text| humantime::parse_rfc3339(text).ok()) else { return };
    // A `Date` header has full seconds.
    let next = start + PERIOD + Duration::from_millis(1_500);
    thread::sleep(next.duration_since(SystemTime::now()).unwrap_or_default());
}

/// The stores are tested at the same time, because the hosts mostly wait.
#[test]
fn each_period_of_a_job_succeeds_once_on_every_store() {
    let scratch = scratch();
    let in_memory = Cluster::in_memory("periods_in_memory");
    let clusters = [Some(in_memory), Cluster::real("periods_real")];
    let mut places: Vec<_> = clusters.iter().flatten().map(of_cluster).collect();
    let urls = [
        Some(format!("sqlite://{}", scratch.path().join("jobs.db").display())),
        Etcd::shared().map(|etcd| format!("{}/periods", etcd.urls().remove(0).replace("http://", "etcd://"))),
        Postgres::shared().map(|postgres| postgres.url("postgres", &postgres.database("periods"))),
        MariaDb::shared().map(|mariadb| mariadb.url("root", &mariadb.database("periods"))),
    ];
    let of_url = |url| ["--lease=jobs".to_owned(), "--store".to_owned(), url].to_vec();
    places.extend(urls.into_iter().flatten().map(of_url));
    thread::scope(|scope| {
        for place in &places {
            scope.spawn(|| run_periods(place));
        }
    });
}

/// Returns the flags that select the lease of a cluster.
pub fn of_cluster(cluster: &Cluster) -> Vec<String> {
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig("admin").display());
    [format!("--lease={}", cluster.lease), kubeconfig, format!("--namespace={NAMESPACE}")].to_vec()
}
