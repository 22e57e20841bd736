//! Database servers that a test starts end with the test, even if the test is killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::server::Server;
use crate::support::sql::SqlServer;
use crate::support::wait_until;

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
    // A paused server must end as well.
    servers(0).into_iter().flatten().for_each(Server::pause);
    println!("started {}", [servers(0), servers(1)].iter().flatten().flatten().count());
    let _ = std::io::stdin().read(&mut [0]);
}
