//! Tests of `leasehold run`, `observe` and `wait` on etcd and SQL databases.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::authority::Authority;
use crate::support::command::leasehold;
use crate::support::etcd::{self, Etcd};
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::run::Run;
use crate::support::sql::{self, SqlServer};
use crate::support::wait_until;

fn start(url: &str, arguments: &[&str]) -> Run {
    Run::of(leasehold().args(arguments).env("LEASEHOLD_STORE", url).stdin(Stdio::null()))
}

/// Runs `script` with a lease that does not expire during a test.
fn run(url: &str, identity: &str, script: &str) -> Run {
    let identity = format!("--identity={identity}");
    let election = ["run", "--lease=jobs", &identity, "--lease-duration=60s", "--retry-period=250ms"];
    start(url, &[&election[..], &["--", "sh", "-c", script]].concat())
}

/// Runs two commands in turn, and returns the output of an observer.
fn commands_take_turns(url: &str, secret: Option<&str>) -> String {
    let first = run(url, "first", "echo works; exec sleep 1000");
    first.wait_for_out("works");
    let observer = start(url, &["observe", "--json", "jobs"]);
    observer.wait_for_out("\"event\":\"new_leader\"");
    let waiting = start(url, &["wait", "jobs", "--holder=second"]);
    let second = run(url, "second", "echo works; exec sleep 1000");
    second.wait_for_error("new leader: first");
    assert_eq!(first.terminate().code, Some(143));
    second.wait_for_out("works");
    let waited = waiting.end();
    assert_eq!((waited.code, waited.out.as_str()), (Some(0), "second\n"), "{}", waited.errors);
    observer.wait_for_out("\"holder\":\"second\"");
    let ended = second.terminates_with(143);
    if let Some(secret) = secret {
        let said = [ended.errors, ended.out, observer.errors(), observer.out(), waited.errors].concat();
        assert!(!said.contains(secret), "{said}");
    }
    observer.out()
}

#[test]
fn etcd_by_its_url() {
    let Some(etcd) = Etcd::shared() else { return };
    let member = etcd.urls().remove(0).replace("http://", "");
    // The URL also names an address at which no server listens.
    let observed = commands_take_turns(&format!("etcd://127.0.0.1:1,{member}/command"), None);
    // On etcd, the observer receives every change. On a table, the observer polls and may miss a short change.
    assert!(observed.contains("\"event\":\"released\""), "{observed}");
    assert!(etcd.value("command/jobs").is_some(), "below its prefix");
}

#[test]
fn etcd_with_users() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    etcd.enable_users("command/");
    let member = etcd.urls().remove(0).replace("http://", "");
    commands_take_turns(&format!("etcd://jobs:{}@{member}/command", etcd::PASSWORD), Some(etcd::PASSWORD));
    let nobody = start(&format!("etcd://jobs:wrong@{member}/command"), &["run", "--lease=jobs", "--", "true"]).end();
    assert!(nobody.code == Some(125) && !nobody.errors.contains("wrong@"), "{:?}: {}", nobody.code, nobody.errors);
}

#[test]
fn etcd_with_certificates() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let authority = Authority::new();
    let client = authority.issue("client");
    let Some(etcd) = Etcd::start_with_certificates(&authority, &authority.issue("127.0.0.1"), scratch.path()) else {
        return;
    };
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let ca = scratch.path().join("ca.crt").display().to_string();
    let member = etcd.urls().remove(0).replace("https://", "");
    let (cert, key) = (file("client.crt", &client.certificate), file("client.key", &client.key));
    commands_take_turns(&format!("etcds://{member}?cacert={ca}&cert={cert}&key={key}"), None);
}

#[test]
fn postgresql_by_its_url() {
    let Some(postgres) = Postgres::shared() else { return };
    let url = postgres.url("postgres", &postgres.database("command"));
    commands_take_turns(&url, Some(sql::PASSWORD));
}

#[test]
fn password_file_changes_while_a_command_runs() {
    let Some(postgres) = Postgres::shared() else { return };
    let database = postgres.database("command_rotated");
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let file = scratch.path().join("password");
    let set = |password: &str| {
        postgres.execute(&format!("ALTER ROLE command_rotates PASSWORD '{password}'"));
        std::fs::write(&file, format!("{password}\n")).expect("a file");
        postgres.end_connections(&database);
    };
    postgres.execute("CREATE ROLE command_rotates LOGIN");
    postgres.execute_in(&database, "GRANT CREATE ON SCHEMA public TO command_rotates");
    set("password-of-first-1");
    let url = postgres.url("command_rotates", &database);
    let url = url.replace(&format!(":{}", sql::PASSWORD), "");
    let flag = format!("--password-file={}", file.display());
    let times = ["--lease-duration=60s", "--retry-period=250ms"];
    let command = ["--", "sh", "-c", "echo works; exec sleep 1000"];
    let leader = start(&url, &[&["run", "--lease=jobs", "--identity=a", &flag][..], &times, &command].concat());
    leader.wait_for_out("works");
    set("password-of-second-2");
    let writes = || postgres.query_in(&database, "SELECT writes FROM leasehold").parse::<u64>().expect("a number");
    let before = writes();
    wait_until("the lease is renewed", || writes() > before + 1);
    let flag = format!("--password-command=cat '{}'", file.display());
    let waited = start(&url, &["wait", "jobs", "--holder=a", &flag]).end();
    assert_eq!((waited.code, waited.out.as_str()), (Some(0), "a\n"), "{}", waited.errors);
    let ended = leader.terminate();
    assert_eq!((ended.code, ended.out.as_str()), (Some(143), "works\n"), "{}", ended.errors);
    assert!(!ended.errors.contains("password-of"), "{}", ended.errors);
}

#[test]
fn table_is_created_after_the_password_has_arrived() {
    let Some(postgres) = Postgres::shared() else { return };
    let url = postgres.url("postgres", &postgres.database("command_waits"));
    let url = url.replace(&format!(":{}", sql::PASSWORD), "");
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let file = scratch.path().join("password");
    let flag = format!("--password-file={}", file.display());
    let late = start(&url, &["run", "--lease=jobs", "--retry-period=2s", &flag, "--", "echo", "works"]);
    late.wait_for_error("cannot get the password");
    std::fs::write(&file, sql::PASSWORD).expect("a file");
    let ended = late.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "works\n"), "{}", ended.errors);
}

#[test]
fn password_program_ends_with_the_command() {
    let Some(postgres) = Postgres::shared() else { return };
    let url = postgres.url("postgres", "postgres").replace(&format!(":{}", sql::PASSWORD), "");
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let file = scratch.path().join("stat");
    let flag = format!("--password-command=sh -c 'ln -s /proc/$$/stat {}; exec sleep 1000'", file.display());
    let run = start(&url, &["run", "--lease=jobs", &flag, "--", "true"]);
    wait_until("the program runs", || std::fs::read_to_string(&file).is_ok_and(|stat| stat.contains("(sleep)")));
    assert_eq!(run.terminate().code, Some(143));
    wait_until("the program ends", || !std::fs::read_to_string(&file).is_ok_and(|stat| stat.contains("(sleep) S")));
}

#[test]
fn repair_of_a_table_is_shown_unchanged() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let path = scratch.path().join("election.db");
    let table = "CREATE TABLE leasehold (generation INTEGER PRIMARY KEY, key, writes, acquired, uid, holder_identity, \
                 lease_duration_seconds, acquire_time, renew_time, lease_transitions)";
    rusqlite::Connection::open(&path).expect("a file").execute_batch(table).expect("a table");
    let run = leasehold()
        .args(["run", "--lease=jobs", "--store=sqlite://election.db", "--", "true"])
        .current_dir(&scratch)
        .output();
    let errors = String::from_utf8(run.expect("the command").stderr).expect("text");
    assert!(
        errors.contains("lease_duration_seconds INTEGER") && errors.trim().ends_with("'leasehold_before'), 0))"),
        "{errors}"
    );
}

#[test]
fn mariadb_by_its_url() {
    let Some(mariadb) = MariaDb::shared() else { return };
    let database = mariadb.database("command");
    commands_take_turns(&mariadb.url("root", &database), Some(sql::PASSWORD));
}

/// The server accepts connections and never responds.
#[test]
fn server_that_hangs_ends_a_run_within_its_times() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = format!("a:b@{}/c", listener.local_addr().expect("an address"));
    for scheme in ["postgres", "mysql"] {
        let times = ["--lease-duration=3s", "--renew-deadline=1s", "--retry-period=100ms", "--wait=0s"];
        let run = [&["run", "--lease=jobs"], &times[..], &["--", "true"]].concat();
        let began = Instant::now();
        let ended = start(&format!("{scheme}://{place}"), &run).end();
        assert_eq!(ended.code, Some(125), "{scheme}: {}", ended.errors);
        // The run makes three requests, each with a timeout of half a renew deadline.
        assert!(began.elapsed() < Duration::from_secs(10), "{scheme}: {:?}", began.elapsed());
    }
}
