//! A hundred handovers on each store, with faults of processes, connections and servers.
//!
//! Faults occur one at a time. Each test draws its faults from a seed and prints the seed. `LEASEHOLD_FAULTS_SEED`
//! repeats the faults of a seed, but the timing still differs between runs. `soak` runs such faults on a cluster, with
//! the same checker.

mod candidates;
mod connections;
mod processes;
mod servers;

use std::ops::Range;
use std::time::Duration;

use crate::support::etcd::Etcd;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::real_store::{File, InTable, RealStore};
use crate::support::sql::SqlServer;
use candidates::{Candidates, Fault, LEASE};
use servers::HasServer;

/// Returns the faults that apply to every store with a server.
fn faults_around_a_server<S: HasServer>() -> Vec<Fault<S>> {
    [processes::faults(), connections::faults(), servers::faults()].concat()
}

#[test]
fn etcd_hundred_handovers_with_faults_do_not_overlap() {
    let Some(mut etcd) = Etcd::start(1, &[]) else { return };
    let member = etcd.members.remove(0);
    let url = member.url().replace("http", "etcd") + "/stores/";
    Candidates::by_way_of_proxies("etcd", member, &url).outlast(&faults_around_a_server());
}

#[test]
fn postgres_hundred_handovers_with_faults_do_not_overlap() {
    let Some(postgres) = Postgres::start(&[]) else { return };
    let of_its_own: [Fault<Postgres>; 2] = [
        ("backends terminated", |candidates, leader| {
            assert!(candidates.store.end_connections("postgres") > 0);
            candidates.pass(leader, LEASE / 40..LEASE / 2);
        }),
        ("row locked", |candidates, _| {
            let time = candidates.drawn(LEASE / 4..LEASE * 3 / 2).as_secs_f64();
            let lock = "SELECT FROM leasehold FOR UPDATE";
            candidates.store.execute(&format!("BEGIN; {lock}; SELECT pg_sleep({time}); COMMIT;"));
        }),
    ];
    let faults = [faults_around_a_server(), of_its_own.into()].concat();
    let url = postgres.url("postgres", "postgres");
    Candidates::by_way_of_proxies("postgres", postgres, &url).outlast(&faults);
}

#[test]
fn mariadb_hundred_handovers_with_faults_do_not_overlap() {
    let Some(mariadb) = MariaDb::start(&[]) else { return };
    mariadb.database("faults");
    let of_its_own: [Fault<MariaDb>; 2] = [
        ("connections ended", |candidates, leader| {
            assert!(candidates.store.end_connections("faults") > 0);
            candidates.pass(leader, LEASE / 40..LEASE / 2);
        }),
        ("row locked", |candidates, _| {
            let time = candidates.drawn(LEASE / 4..LEASE * 3 / 2).as_secs_f64();
            let lock = "SELECT 1 FROM leasehold FOR UPDATE";
            candidates.store.execute_in("faults", &format!("BEGIN; {lock}; SELECT SLEEP({time}); COMMIT;"));
        }),
    ];
    let faults = [faults_around_a_server(), of_its_own.into()].concat();
    let url = mariadb.url("root", "faults");
    Candidates::by_way_of_proxies("mariadb", mariadb, &url).outlast(&faults);
}

/// Holds the writer's lock of the file from a process that is not a candidate.
fn hold_writers_lock(candidates: &mut Candidates<File>, leader: usize, between: Range<Duration>) {
    candidates.store.execute("BEGIN IMMEDIATE");
    candidates.pass(leader, between);
    candidates.store.execute("ROLLBACK");
}

#[test]
fn file_hundred_handovers_with_faults_do_not_overlap() {
    let file = File::shared("faults").expect("a file needs no server");
    let url = file.url();
    let of_its_own: [Fault<File>; 3] = [
        ("writer's lock held for a moment", |it, leader| hold_writers_lock(it, leader, LEASE / 40..LEASE / 2)),
        ("writer's lock held past a lease", |it, leader| hold_writers_lock(it, leader, LEASE..LEASE * 3 / 2)),
        ("log truncated", |candidates, leader| {
            // A concurrent reader may prevent the truncation, so the result is ignored.
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            candidates.store.operator.query_row(checkpoint, [], |_| Ok(())).expect("an answer");
            candidates.pass(leader, LEASE / 40..LEASE / 4);
        }),
    ];
    let faults = [processes::faults(), of_its_own.into()].concat();
    Candidates::on("file", file, &url).outlast(&faults);
}
