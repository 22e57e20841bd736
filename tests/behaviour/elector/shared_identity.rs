//! Two processes with one identity, at the same time or one after the other.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, StopReason};
use leasehold_testing::{ApiServer, Verb};
use log::Level;

use crate::elector::builder;
use crate::elector::listener::{errors_of, lines_of, listen};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, SOON, wait_until};

/// The two electors end each other's terms, but only at the pace of the retry period.
#[test]
fn twins_that_reclaim_do_so_at_the_retry_period() {
    const WHILE: Duration = Duration::from_secs(3);
    let server = ApiServer::start().unwrap();
    let until = Instant::now() + WHILE;
    let terms: usize = thread::scope(|scope| {
        let duplicates = [0, 1].map(|_| {
            let client = Client::new(ClientConfig::new(&server.url()).unwrap()).unwrap();
            scope.spawn(move || {
                let elector = LeaderElector::builder("duplicates")
                    .namespace("default")
                    .identity("pod-0")
                    .reclaim_own_identity(true)
                    .lease_duration(Duration::from_secs(6))
                    .renew_deadline(Duration::from_secs(4))
                    .retry_period(Duration::from_millis(500))
                    .start_with_client(client)
                    .unwrap();
                let mut terms = 0;
                while Instant::now() < until {
                    let left = until.saturating_duration_since(Instant::now());
                    if let Some(guard) = elector.block_until_leader_timeout(left).unwrap() {
                        terms += 1;
                        let _ = guard.ended().recv_timeout(left);
                    }
                }
                terms
            })
        });
        duplicates.map(|duplicate| duplicate.join().unwrap()).iter().sum()
    });
    let writes = server.requests().iter().filter(|request| request.verb == Some(Verb::Update)).count();
    // Each elector acquires, renews and releases at most once in a retry period.
    let periods = WHILE.as_millis() as usize / 500;
    assert!(writes <= 6 * periods, "{writes} writes in {periods} retry periods");
    assert!((2..=3 * periods).contains(&terms), "{terms} terms");
}

#[test]
fn predecessor_of_the_same_name_is_waited_for_without_error() {
    listen();
    let name = "record of one with a predecessor";
    let store = Memory::default();
    store.give_to("pod-0", 2);
    let began = Instant::now();
    let elector = builder("pod-0").start_on(Connection::named(&store, name)).unwrap();
    let guard = elector.block_until_leader_timeout(SOON).unwrap().expect("a term");
    assert!(began.elapsed() >= Duration::from_secs(2), "after it has run out");
    thread::sleep(A_WHILE);
    assert!(guard.is_leader());
    let lines = lines_of(name);
    let said = |(level, line): &&(Level, String)| {
        *level == Level::Info && line.contains("an earlier process with this identity")
    };
    assert_eq!(lines.iter().filter(said).count(), 1, "{lines:?}");
    assert_eq!(errors_of(name), 0, "{lines:?}");
}

#[test]
fn renewing_twin_is_an_error_that_is_reported_once() {
    listen();
    let (first, second) = ("record of the first process", "record of the second process");
    let store = Memory::default();
    let leader = builder("pod-0").start_on(Connection::named(&store, first)).unwrap();
    let transitions = leader.transitions();
    let guard = leader.block_until_leader().unwrap();
    let duplicate = builder("pod-0").start_on(Connection::named(&store, second)).unwrap();
    let campaign = duplicate.campaign().unwrap();
    wait_until("the second notices", || errors_of(second) > 0);
    let version = store.version();
    wait_until("many more renewals", || store.version() > version + 10);
    assert_eq!(errors_of(second), 1, "{:?}", lines_of(second));
    assert_eq!(errors_of(first), 0, "{:?}", lines_of(first));
    let texts = [duplicate.status().to_string(), format!("{:?}", lines_of(second))];
    let is_clear = |text: &String| {
        !text.contains("is this candidate")
            && !text.contains("(this candidate)")
            && text.contains("another process uses this identity")
    };
    assert!(texts.iter().all(is_clear), "{texts:?}");
    assert!(guard.is_leader() && campaign.receiver().is_empty(), "safe all the same");
    drop(guard);
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    wait_until("the first notices", || errors_of(first) > 0);
    drop((guard, leader));
    let is_conflict = |it| it == leasehold::Transition::StoppedLeading { reason: StopReason::IdentityConflict };
    assert!(!transitions.iter().any(is_conflict), "its term was over");
}
