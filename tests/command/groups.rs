//! Each shard of a group has one command at a time, even if a supervisor or a guardian fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::on_both_servers;
use crate::support::cluster::Cluster;
use crate::support::command::{Arena, children, is_guardian};
use crate::support::run::Run;
use crate::support::{SOON, wait_for, wait_or_explain, wait_until};

on_both_servers! {
    shards_move_with_their_supervisors,
    at_most_three_of_ten_replicas_work,
}

/// Flags of a short lease, which a busy machine can still renew in time.
const SHORT: &[&str] = &["--shards=6", "--lease-duration=6s", "--renew-deadline=4s", "--retry-period=500ms"];

/// A command that writes its start and its end into the file `log`.
///
/// The kernel releases the lock when every process of the command has ended.
const WORKER: &str = r#"
    exec 9>"$0/lock-$LEASEHOLD_SHARD"
    flock -n 9 || echo "shard $LEASEHOLD_SHARD has two commands" >>"$0/faults"
    log() { echo "$1 $LEASEHOLD_SHARD $LEASEHOLD_IDENTITY $LEASEHOLD_FENCING_TOKEN $LEASEHOLD_LEASE" >>"$0/log"; }
    trap 'log ends; exit 0' TERM
    log begins
    sleep 1000 &
    wait"#;

/// A line that a command has written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    what: String,
    shard: usize,
    identity: String,
    token: u64,
    lease: String,
}

fn work(arena: &Arena, identity: &str) -> Run {
    let directory = arena.path("").display().to_string();
    arena.run(&[&format!("--identity={identity}"), "--", "sh", "-c", WORKER, &directory])
}

fn lines(arena: &Arena) -> Vec<Line> {
    let text = fs::read_to_string(arena.path("log")).unwrap_or_default();
    let parse = |line: &str| {
        let [what, shard, identity, token, lease] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?}");
        };
        let (shard, token) = (shard.parse().expect("a number"), token.parse().expect("a number"));
        Line { what: what.to_owned(), shard, identity: identity.to_owned(), token, lease: lease.to_owned() }
    };
    text.lines().map(parse).collect()
}

/// Waits until the last command of each shard was started by one of `identities`, in equal shares.
fn wait_for_shares(arena: &Arena, identities: &[&str]) {
    let explain = || format!("{identities:?} have no equal shares: {:#?}", lines(arena));
    wait_or_explain(SOON * 4, explain, || {
        let mut last = BTreeMap::new();
        lines(arena).into_iter().for_each(|line| _ = last.insert(line.shard, line));
        let works = |line: &&Line, identity: &str| line.what == "begins" && line.identity == identity;
        let share = |identity: &&str| last.values().filter(|line| works(line, identity)).count();
        identities.iter().all(|identity| share(identity) == 6 / identities.len())
    });
}

/// Asserts that no shard had two commands at a time, and that the fencing tokens of each shard grow.
fn assert_one_at_a_time(arena: &Arena) {
    assert_eq!(fs::read_to_string(arena.path("faults")).unwrap_or_default(), "");
    let mut tokens = BTreeMap::new();
    for line in lines(arena) {
        let last = tokens.insert(line.shard, line.token);
        assert!(last.is_none_or(|last| last <= line.token), "{line:?} follows token {last:?}");
    }
}

fn shards_move_with_their_supervisors(cluster: &Cluster) {
    move_with_their_supervisors(&Arena::by(&cluster.kubeconfig("admin"), &cluster.lease, SHORT).of_a_group());
}

#[test]
fn shards_move_with_their_supervisors_on_a_file() {
    move_with_their_supervisors(&Arena::on_a_file(SHORT).of_a_group());
}

fn move_with_their_supervisors(arena: &Arena) {
    let [a, b, c] = ["a", "b", "c"].map(|identity| work(arena, identity));
    wait_for_shares(arena, &["a", "b", "c"]);
    let line = lines(arena).remove(0);
    assert!(line.lease.ends_with(&format!("-shard-00{}", line.shard)), "{line:?}");
    let observe = arena.observe(&[]);
    observe.wait_for_out("6 shards, 3 members");

    let ended = a.terminates_with(143);
    assert!(ended.errors.contains("received SIGTERM, leaving the group"), "{}", ended.errors);
    assert!(!ended.errors.contains("did not exit in time"), "{}", ended.errors);
    wait_for_shares(arena, &["b", "c"]);
    observe.wait_for_out(", previously a");

    b.signal(Signal::KILL);
    // The output of the supervisor ends when all of its commands have ended.
    let ended = b.end();
    assert!(ended.errors.contains("the supervisor is gone, stopping the command"), "{}", ended.errors);
    wait_for_shares(arena, &["c"]);
    // One shard of `a` and three shards of `b`.
    wait_until("the moves are shown", || observe.out().matches("c owns shard").count() >= 4);
    c.terminates_with(143);
    assert_one_at_a_time(arena);
    observe.wait_for_out("no member");
    observe.kill();
    arena.assert_nothing_is_left();
}

/// Flags of ten replicas that share three places.
const AT_MOST: &[&str] =
    &["--at-most=3", "--max-members=10", "--lease-duration=6s", "--renew-deadline=4s", "--retry-period=500ms"];

fn at_most_three_of_ten_replicas_work(cluster: &Cluster) {
    at_most_three_work(&Arena::by(&cluster.kubeconfig("admin"), &cluster.lease, AT_MOST).of_a_group());
}

#[test]
fn at_most_three_of_ten_replicas_work_on_a_file() {
    at_most_three_work(&Arena::on_a_file(AT_MOST).of_a_group());
}

/// Checks that a replica that is killed is replaced, and that no replica has two places.
fn at_most_three_work(arena: &Arena) {
    let names: Vec<_> = (0..10).map(|number| format!("replica-{number}")).collect();
    let mut replicas: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), work(arena, name))).collect();
    let working = || {
        let mut working = BTreeMap::new();
        for line in lines(arena) {
            match line.what.as_str() {
                "begins" => _ = working.insert(line.shard, line.identity),
                _ => _ = working.remove(&line.shard),
            }
        }
        working
    };
    wait_or_explain(SOON * 4, || format!("{:#?}", lines(arena)), || working().len() == 3);
    let holders = working();
    let distinct: BTreeSet<_> = holders.values().collect();
    assert_eq!(distinct.len(), 3, "one place for each replica: {holders:?}");
    let (shard, killed) = holders.first_key_value().expect("a replica that works");
    let replica = replicas.remove(killed).expect("a replica");
    replica.signal(Signal::KILL);
    replica.end();
    wait_or_explain(
        SOON * 4,
        || format!("{:#?}", lines(arena)),
        || working().get(shard).is_some_and(|identity| identity != killed),
    );
    let observe = arena.observe(&[]);
    observe.wait_for_out("3 shards, ");
    observe.kill();
    replicas.into_values().for_each(|replica| _ = replica.terminates_with(143));
    assert_one_at_a_time(arena);
    arena.assert_nothing_is_left();
}

#[test]
fn limit_of_a_group_is_the_same_on_every_replica() {
    let arena = Arena::on_a_file(&["--lease-duration=6s", "--retry-period=500ms"]).of_a_group();
    let refused = arena.run(&["--at-most=3", "--max-members=2", "--", "true"]).end();
    assert!(
        refused.code == Some(125) && refused.errors.contains("--max-members is 2: must be at least 3"),
        "{}",
        refused.errors
    );
    assert_eq!(arena.run(&["--at-most=3", "--shards=3", "--", "true"]).end().code, Some(125));
    let first = arena.run(&["--at-most=2", "--", "sh", "-c", "echo works; exec sleep 1000"]);
    first.wait_for_out("works");
    let other = arena.run(&["--shards=2", "--", "true"]).end();
    assert_eq!(other.code, Some(125), "{}", other.errors);
    assert!(
        other.errors.contains("--at-most: the largest number per replica is unlimited: must be 1"),
        "{}",
        other.errors
    );
    first.terminates_with(143);
}

#[test]
fn stopped_supervisor_loses_its_shards_and_returns() {
    let arena = Arena::on_a_file(SHORT).of_a_group();
    let [a, b] = ["a", "b"].map(|identity| work(&arena, identity));
    wait_for_shares(&arena, &["a", "b"]);
    a.suspend();
    wait_for_shares(&arena, &["b"]);
    a.signal(Signal::CONT);
    wait_for_shares(&arena, &["a", "b"]);
    a.terminates_with(143);
    b.terminates_with(143);
    assert_one_at_a_time(&arena);
    arena.assert_nothing_is_left();
}

#[test]
fn lost_guardian_ends_only_its_own_command() {
    let flags = ["--shards=2", "--lease-duration=10s", "--retry-period=250ms"];
    for signal in [Signal::KILL, Signal::STOP] {
        let arena = Arena::on_a_file(&flags).of_a_group();
        let run = work(&arena, "a");
        wait_until("both commands work", || lines(&arena).len() == 2);
        let guardian = wait_for("a guardian", || children(run.pid).into_iter().find(|&child| is_guardian(child)));
        kill_process(guardian, signal).expect("it runs");
        wait_until("the command runs again", || lines(&arena).len() == 3);
        let (before, again) = (lines(&arena)[..2].to_vec(), lines(&arena)[2].clone());
        assert!(before.contains(&again), "the same ownership: {before:?} {again:?}");
        let ended = run.terminates_with(143);
        for text in ["guardian lost", "running the worker again in 1s"] {
            assert!(ended.errors.contains(text), "{text}: {}", ended.errors);
        }
        assert_one_at_a_time(&arena);
        arena.assert_nothing_is_left();
    }
}

#[test]
fn command_that_ends_runs_again_and_receives_signals() {
    let arena = Arena::on_a_file(&["--shards=1", "--lease-duration=3s"]).of_a_group();
    // A long `sleep` that starts at the moment of the signal would not receive the signal. A parent may ignore SIGHUP.
    let script = "trap 'echo usr1; exit 3' USR1; echo shard $LEASEHOLD_SHARD; while :; do sleep 0.05; done";
    let run = arena.run(&["--", "sh", "-c", script]);
    run.wait_for_out("shard 0");
    run.signal(Signal::USR1);
    run.wait_for_error("command ended with code 3; running the worker again in 1s");
    wait_until("the command runs again", || run.out() == "shard 0\nusr1\nshard 0\n");
    let ended = run.terminates_with(143);
    assert!(!ended.errors.contains("did not exit in time"), "{}", ended.errors);
    arena.assert_nothing_is_left();
}

#[test]
fn command_of_an_outage_starts_again_after_a_renewal() {
    let flags = ["--shards=2", "--lease-duration=12s", "--renew-deadline=8s", "--retry-period=500ms"];
    let arena = Arena::on_a_file(&flags).of_a_group();
    let run = work(&arena, "a");
    wait_until("both commands work", || lines(&arena).len() == 2);
    let lock = rusqlite::Connection::open(arena.path("election.db")).expect("a file");
    lock.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let count = |what: &str| lines(&arena).iter().filter(|line| line.what == what).count();
    wait_until("both commands have ended", || count("ends") == 2);
    thread::sleep(Duration::from_millis(1_300));
    assert_eq!(count("begins"), 2, "no command starts without a renewal");
    drop(lock);
    wait_until("both commands run again", || count("begins") == 4);
    let ended = run.terminates_with(143);
    assert!(!ended.errors.contains("ERROR") && !ended.errors.contains("failed: command"), "{}", ended.errors);
    assert_one_at_a_time(&arena);
    arena.assert_nothing_is_left();
}

#[test]
fn group_exits_by_the_first_of_two_signals() {
    let arena = Arena::on_a_file(&["--shards=1", "--stop-timeout=2s"]).of_a_group();
    let script = "trap 'echo stopping' TERM; echo works; while :; do sleep 0.02; done";
    let run = arena.run_with_signals(&["--", "sh", "-c", script]);
    run.wait_for_out("works");
    run.signal(Signal::INT);
    run.wait_for_out("stopping");
    run.signal(Signal::TERM);
    let ended = run.ends_with(130);
    assert_eq!(ended.errors.matches("leaving the group").count(), 1, "{}", ended.errors);
}
