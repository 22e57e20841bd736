//! Jobs that succeed once per period, on every store.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use leasehold::job::{NotDue, OncePer, RunOnce};
use leasehold::store::{JobNotes, MemoryStore, MicroTime, Store};
use leasehold::{Error, LeaderElector, Stop};

use crate::on_both_servers;
use crate::places::{Place, on_every_store};
use crate::support::cluster::{Cluster, NAMESPACE, brief};
use crate::support::memory::{Connection, Memory};
use crate::support::stores::call;
use crate::support::{SOON, wait_until};

const HOUR: Duration = Duration::from_secs(3_600);

impl Place<'_> {
    fn history(&self) -> JobNotes {
        history(&*(self.open)(), self.key)
    }
}

fn history(store: &dyn Store, key: &str) -> JobNotes {
    let observed = store.get(key, &call()).expect("an answer").expect("a record");
    *observed.notes.job.expect("a history")
}

on_every_store!("jobs_", { leases Lease }, [
    job_succeeds_once_per_period,
    job_runs_again_after_its_period,
    failed_job_runs_on_another_host,
    attempts_of_all_hosts_are_limited,
    attempt_of_a_dead_host_counts,
    stopped_job_is_no_success,
    other_period_is_refused_unless_forced,
]);

fn seconds(time: Option<&MicroTime>) -> f64 {
    let time = humantime::parse_rfc3339(time.expect("a time").as_str()).expect("RFC 3339");
    time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

/// Runs a job that succeeds, and returns its outcome.
fn run(elector: &LeaderElector, job: impl Into<OncePer>) -> RunOnce {
    elector.run_once_per(job, &Stop::new(), |_| Ok(())).expect("an outcome")
}

fn job_succeeds_once_per_period(place: &Place<'_>) {
    let (a, b) = (place.elector("a"), place.elector("b"));
    let (store, key) = ((place.open)(), place.key);
    let outcome = a.run_once_per(HOUR, &Stop::new(), |guard| {
        assert!(guard.is_leader());
        let history = history(&*store, key);
        assert_eq!((history.attempts, history.last_attempt_exit_code), (Some(1), None), "written with the acquisition");
        Ok(())
    });
    assert_eq!(outcome.expect("an outcome"), RunOnce::Succeeded);
    let history = place.history();
    assert_eq!((history.period, history.last_success_host.as_deref()), (Some(HOUR), Some("a")));
    assert_eq!(history.last_success_start, history.last_attempt_start);
    for elector in [&a, &b, &place.elector("new")] {
        let outcome = elector.run_once_per(HOUR, &Stop::new(), |_| unreachable!("the job has succeeded"));
        assert_eq!(outcome.expect("an outcome"), RunOnce::NotDue(NotDue::Succeeded(Box::new(history.clone()))));
    }
    assert_eq!(place.history(), history, "a host without work writes nothing");
    // An ordinary term keeps the history.
    drop(b.block_until_leader().expect("a term"));
    assert_eq!(place.history(), history);
}

fn job_runs_again_after_its_period(place: &Place<'_>) {
    let (elector, period) = (place.elector("a"), Duration::from_secs(3));
    assert_eq!(run(&elector, period), RunOnce::Succeeded);
    let first = place.history();
    wait_until("the next period", || run(&elector, period) == RunOnce::Succeeded);
    let second = place.history();
    let between = seconds(second.last_success_start.as_ref()) - seconds(first.last_success_start.as_ref());
    assert!(between >= 3.0, "{between} s");
    assert_eq!(second.attempts, Some(1));
}

fn failed_job_runs_on_another_host(place: &Place<'_>) {
    let (a, b) = (place.elector("a"), place.elector("b"));
    let waits = AtomicBool::new(false);
    thread::scope(|scope| {
        let standby = scope.spawn(|| {
            wait_until("a term of a", || b.current_leader().as_deref() == Some("a"));
            waits.store(true, Ordering::SeqCst);
            run(&b, HOUR)
        });
        let outcome = a.run_once_per(HOUR, &Stop::new(), |_| {
            wait_until("the other host", || waits.load(Ordering::SeqCst));
            Err("made up".into())
        });
        let history = place.history();
        assert_eq!(outcome.expect("an outcome"), RunOnce::NotDue(NotDue::Succeeded(Box::new(history.clone()))));
        assert_eq!(standby.join().expect("no panic"), RunOnce::Succeeded);
        assert_eq!((history.attempts, history.last_success_host.as_deref()), (Some(2), Some("b")));
    });
}

fn attempts_of_all_hosts_are_limited(place: &Place<'_>) {
    let attempts = AtomicU32::new(0);
    let fail = |elector: &LeaderElector| {
        elector.run_once_per(HOUR, &Stop::new(), |_| {
            attempts.fetch_add(1, Ordering::SeqCst);
            Err("made up".into())
        })
    };
    let hosts = ["a", "b"].map(|identity| place.elector(identity));
    let outcomes = thread::scope(|scope| {
        let running = hosts.each_ref().map(|host| scope.spawn(|| fail(host)));
        running.map(|host| host.join().expect("no panic"))
    });
    assert_eq!(attempts.into_inner(), 3);
    for outcome in outcomes {
        let Ok(RunOnce::NotDue(NotDue::Exhausted(history))) = outcome else { panic!("{outcome:?}") };
        assert_eq!((history.attempts, history.last_attempt_exit_code), (Some(3), Some(1)));
        assert_eq!(history.last_success_start, None);
    }
}

fn attempt_of_a_dead_host_counts(place: &Place<'_>) {
    // Without progress, the elector stops its renewals like a killed process.
    let dead = place.start(place.builder("dead").progress_timeout(Duration::from_millis(300)));
    let campaign = dead.campaign_once_per(&OncePer::new(HOUR)).expect("a campaign");
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    std::mem::forget(guard);
    let elector = place.elector("a");
    assert_eq!(run(&elector, HOUR), RunOnce::Succeeded);
    assert_eq!(place.history().attempts, Some(2));
    let last = place.start(place.builder("last").progress_timeout(Duration::from_millis(300)));
    let forced = OncePer::new(HOUR).force(true);
    let campaign = last.campaign_once_per(&forced).expect("a campaign");
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    std::mem::forget(guard);
    assert_eq!(place.history().attempts, Some(1), "a forced run starts a period");
}

fn stopped_job_is_no_success(place: &Place<'_>) {
    let (elector, stop) = (place.elector("a"), Stop::new());
    let outcome = elector.run_once_per(HOUR, &stop, |guard| {
        stop.stop();
        while guard.wait(Duration::from_secs(1)) {}
        Ok(())
    });
    assert_eq!(outcome.expect("an outcome"), RunOnce::Stopped);
    let history = place.history();
    assert_eq!((history.attempts, history.last_attempt_exit_code, history.last_success_start), (Some(1), None, None));
    assert_eq!(run(&elector, HOUR), RunOnce::Succeeded);
    assert_eq!(place.history().attempts, Some(2));
}

fn other_period_is_refused_unless_forced(place: &Place<'_>) {
    let elector = place.elector("a");
    assert_eq!(run(&elector, HOUR), RunOnce::Succeeded);
    let refused = elector.run_once_per(HOUR * 2, &Stop::new(), |_| unreachable!("another period"));
    let Err(Error::Config(error)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().starts_with("once_per is 2h: must be 1h, "), "{error}");
    assert_eq!(run(&elector, OncePer::new(HOUR * 2).force(true)), RunOnce::Succeeded);
    assert_eq!((place.history().period, place.history().attempts), (Some(HOUR * 2), Some(1)));
}

/// A forced run does not repeat a failure, because the failure would be forced again.
#[test]
fn forced_job_that_fails_runs_once() {
    let elector = brief("jobs", "a").start_on(MemoryStore::new()).expect("an elector");
    let mut attempts = 0;
    let outcome = elector.run_once_per(OncePer::new(HOUR).force(true), &Stop::new(), |_| {
        attempts += 1;
        Err("made up".into())
    });
    assert!(matches!(outcome, Err(Error::Work(_))), "{outcome:?}");
    assert_eq!(attempts, 1);
}

#[test]
fn store_without_notes_and_invalid_jobs_are_refused() {
    let elector = brief("jobs", "a").start_on(Connection::new(&Memory::default())).expect("an elector");
    let refusal = |elector: &LeaderElector, job: OncePer| match elector.campaign_once_per(&job) {
        Err(Error::Config(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refusal(&elector, OncePer::new(HOUR)).contains("needs a store that keeps notes"));
    let elector = brief("jobs", "a").start_on(MemoryStore::new()).expect("an elector");
    for period in [Duration::ZERO, Duration::from_millis(1_500), Duration::from_secs(1 << 32)] {
        assert!(refusal(&elector, OncePer::new(period)).contains("whole number of seconds"), "{period:?}");
    }
    assert!(refusal(&elector, OncePer::new(HOUR).max_attempts(0)).contains("at least 1"));
}

/// A lock of two objects does not write the history.
fn two_objects_are_refused(cluster: &Cluster) {
    use leasehold::client_go::ResourceLock;
    let builder = brief(&cluster.lease, "a").namespace(NAMESPACE).resource_lock(ResourceLock::ConfigMapsLeases);
    let elector = builder.start_with_client(cluster.client("admin")).expect("an elector");
    let refused = elector.run_once_per(HOUR, &Stop::new(), |_| unreachable!("two objects"));
    assert!(
        matches!(&refused, Err(Error::Store(error)) if error.to_string().contains("once per period")),
        "{refused:?}"
    );
}

on_both_servers!(two_objects_are_refused);
