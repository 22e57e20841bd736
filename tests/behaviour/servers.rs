//! The real database servers that tests start: each does what the tests on it build upon.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::support::mariadb::MariaDb;
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::Postgres;
use crate::support::server::{Server, output_of};
use crate::support::session::Session;
use crate::support::sql::{self, SqlServer};
use crate::support::{A_WHILE, SOON, wait_until};

/// That of a query of one who waits longer than a test.
fn does_not_answer_until(query: impl FnOnce() -> String + Send, resumed: impl FnOnce()) -> String {
    thread::scope(|scope| {
        let (answer, answers) = mpsc::channel();
        scope.spawn(move || answer.send(query()));
        assert_eq!(answers.recv_timeout(A_WHILE), Err(mpsc::RecvTimeoutError::Timeout));
        resumed();
        answers.recv_timeout(SOON).expect("an answer")
    })
}

macro_rules! on_both_databases {
    ($($test:ident),*) => {
        mod postgres { $(#[test] fn $test() { super::$test::<super::Postgres>(); })* }
        mod mariadb { $(#[test] fn $test() { super::$test::<super::MariaDb>(); })* }
    };
}

on_both_databases!(
    each_test_has_a_database,
    killed_server_starts_again_with_its_data,
    paused_server_does_not_answer_until_resumed
);

fn each_test_has_a_database<S: SqlServer>() {
    let Some(server) = S::shared() else { return };
    let database = server.database("servers_answers");
    server.execute_in(&database, "CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y');");
    assert_eq!(server.query_in(&database, "SELECT * FROM t ORDER BY a").replace('\t', "|"), "1|x\n2|y");
    let elsewhere = "SELECT count(*) FROM information_schema.tables WHERE table_name = 't' AND table_schema <> ";
    assert_eq!(server.query(&format!("{elsewhere}'{database}'")), "0");
}

fn killed_server_starts_again_with_its_data<S: SqlServer>() {
    let Some(mut server) = S::start(&[]) else { return };
    let database = server.database("jobs");
    for n in 0..3 {
        server.execute_in(&database, &format!("CREATE TABLE t{n} (a int); INSERT INTO t{n} VALUES ({n});"));
        server.kill();
        server.start_again();
        assert_eq!(server.query_in(&database, &format!("SELECT a FROM t{n}")), n.to_string());
    }
}

/// Neither a new connection nor an open one is answered.
fn paused_server_does_not_answer_until_resumed<S: SqlServer>() {
    let Some(server) = S::start(&[]) else { return };
    let database = server.database("jobs");
    let mut session = server.session(&database);
    session.execute("CREATE TEMPORARY TABLE t AS SELECT 1 AS a;");
    server.pause();
    assert_eq!(does_not_answer_until(|| server.query("SELECT 1"), || server.resume()), "1");
    server.pause();
    assert_eq!(does_not_answer_until(|| session.query("SELECT a FROM t;"), || server.resume()), "1");
}

#[test]
fn a_postgres_asks_for_a_password_over_tcp_and_ends_connections_when_told() {
    let Some(postgres) = Postgres::shared() else { return };
    let database = postgres.database("servers_users");
    postgres.add_user("servers_jobs");
    let url = postgres.url("servers_jobs", &database);
    assert_eq!(output_of(postgres.psql(&url).args(["-c", "SELECT current_user"]), &[]), b"servers_jobs\n");
    let refused = postgres.psql(&url.replace("password-of", "password-not-of")).args(["-c", "SELECT 1"]).output();
    let complaint = String::from_utf8(refused.expect("psql").stderr).expect("text");
    assert!(complaint.contains("password authentication failed"), "{complaint}");

    let mut session = postgres.session(&database);
    assert_eq!(session.query("SELECT 1; SELECT 2;"), "1\n2");
    assert_eq!(postgres.end_connections(&database), 1);
    let is_over = || postgres.query(&format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"));
    wait_until("the connection ends", || is_over() == "0");
}

#[test]
fn a_postgres_speaks_tls_and_holds_clients_to_its_rules() {
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let (certificate, key) = (key.cert.pem(), key.signing_key.serialize_pem());
    let Some(postgres) = Postgres::start_with_tls(&certificate, &key, &[]) else { return };
    let psql = |tls: &str| {
        let url = format!("{}?sslmode={tls}", postgres.url("postgres", "postgres"));
        postgres.psql(&url).args(["-c", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"]).output()
    };
    assert_eq!(psql("require").expect("psql").stdout, b"t\n");
    assert_eq!(psql("disable").expect("psql").stdout, b"f\n");
    postgres.set_hba("hostssl all all 127.0.0.1/32 scram-sha-256");
    postgres.set("lock_timeout", "7s");
    assert_eq!(postgres.query("SHOW lock_timeout"), "7s");
    assert!(!psql("disable").expect("psql").status.success());
    assert_eq!(psql("require").expect("psql").stdout, b"t\n");
    assert!(postgres.log().contains("no encryption"), "{}", postgres.log());
}

#[test]
fn a_pgbouncer_shares_one_connection_among_transactions() {
    let Some(postgres) = Postgres::shared() else { return };
    let Some(pgbouncer) = PgBouncer::start(postgres, &["pool_mode=transaction", "default_pool_size=1"]) else { return };
    let database = postgres.database("servers_pooled");
    postgres.add_user("servers_pooled");
    let url = pgbouncer.url("servers_pooled", &database);
    let [mut a, mut b] = [(); 2].map(|()| Session::new(&mut postgres.psql(&url), Postgres::MARK));
    assert_eq!(a.query("SELECT pg_backend_pid();"), b.query("SELECT pg_backend_pid();"));
}

#[test]
fn a_promoted_postgres_standby_takes_writes() {
    let Some(mut primary) = Postgres::start(&[]) else { return };
    primary.execute("CREATE TABLE t (a int)");
    let standby = primary.standby(&[]);
    primary.execute("INSERT INTO t VALUES (1)");
    standby.catch_up(&primary);
    assert_eq!(standby.query("SELECT pg_is_in_recovery(), a FROM t"), "t|1");
    primary.kill();
    standby.promote();
    standby.execute("INSERT INTO t VALUES (2)");
    assert_eq!(standby.query("SELECT string_agg(a::text, ',' ORDER BY a) FROM t"), "1,2");
}

#[test]
fn a_mariadb_asks_for_a_password_over_tcp_and_ends_connections_when_told() {
    let Some(mariadb) = MariaDb::start(&[]) else { return };
    let database = mariadb.database("jobs");
    mariadb.add_user("jobs", &database);
    let as_jobs = |password: &str, sql: &str| {
        let output = mariadb.client_as("jobs", password, &database).args(["-e", sql]).output().expect("a client");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    assert_eq!(as_jobs(sql::PASSWORD, "SELECT current_user()"), "jobs@%\n");
    assert!(as_jobs("not-the-password", "SELECT 1").contains("Access denied"));

    mariadb.set_read_only(true);
    assert!(as_jobs(sql::PASSWORD, "CREATE TABLE t (a int)").contains("read-only"));
    mariadb.set_read_only(false);
    assert_eq!(as_jobs(sql::PASSWORD, "CREATE TABLE t (a int)"), "");

    let mut session = mariadb.session(&database);
    assert_eq!(session.query("SELECT 1; SELECT 2;"), "1\n2");
    assert_eq!(mariadb.end_connections(&database), 1);
    wait_until("the connection ends", || mariadb.end_connections(&database) == 0);
}

#[test]
fn a_mariadb_speaks_tls() {
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let (certificate, key) = (key.cert.pem(), key.signing_key.serialize_pem());
    let Some(mariadb) = MariaDb::start_with_tls(&certificate, &key, &["require_secure_transport=1"]) else { return };
    let client = |tls: &str| {
        let mut client = mariadb.client_as("root", sql::PASSWORD, "mysql");
        client.args([tls, "-e", "SHOW STATUS LIKE 'Ssl_version'"]).output().expect("a client")
    };
    let encrypted = String::from_utf8(client("--ssl").stdout).expect("text");
    assert!(encrypted.starts_with("Ssl_version\tTLSv1."), "{encrypted}");
    assert!(!client("--skip-ssl").status.success());
}

/// Set in the process that [`servers_end_when_the_test_that_started_them_is_killed`] kills.
const IS_TO_BE_KILLED: &str = "LEASEHOLD_IS_TO_BE_KILLED";

#[test]
fn servers_end_when_the_test_that_started_them_is_killed() {
    if std::env::var_os(IS_TO_BE_KILLED).is_some() {
        return start_servers_and_wait();
    }
    let name = "servers::servers_end_when_the_test_that_started_them_is_killed";
    let mut test = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture", "--quiet"])
        .env(IS_TO_BE_KILLED, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program");
    let lines = BufReader::new(test.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    let (mut said, mut started) = (Vec::new(), None);
    for line in lines {
        started = line.strip_prefix("started ").map(|number| number.parse().expect("a number"));
        said.push(line);
        if started.is_some() {
            break;
        }
    }
    let servers = said.iter().filter_map(|line| line.strip_prefix("server ")?.split_once(' '));
    let servers: Vec<(&str, &Path)> = servers.map(|(process, data)| (process, Path::new(data))).collect();
    assert_eq!(Some(servers.len()), started, "{said:?}");
    assert!(servers.iter().all(|(process, data)| is_running(process) && data.exists()), "{servers:?}");
    test.kill().expect("a process of ours");
    test.wait().expect("a process of ours");
    for (process, data) in servers {
        wait_until("the server ends", || !is_running(process));
        wait_until("its data goes", || !data.exists());
    }
}

fn is_running(process: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn start_servers_and_wait() {
    let (postgres, mariadb) = ([(); 2].map(|()| Postgres::start(&[])), [(); 2].map(|()| MariaDb::start(&[])));
    let servers = |which: usize| -> [Option<&Server>; 2] { [postgres[which].as_deref(), mariadb[which].as_deref()] };
    for server in [servers(0), servers(1)].iter().flatten().flatten() {
        println!("\nserver {} {}", server.process(), server.data().display());
    }
    // One that is stopped ends as well.
    servers(0).into_iter().flatten().for_each(Server::pause);
    println!("started {}", [servers(0), servers(1)].iter().flatten().flatten().count());
    let _ = std::io::stdin().read(&mut [0]);
}
