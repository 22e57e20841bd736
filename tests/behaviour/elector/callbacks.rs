//! Tests of the order of callbacks, and of the ways in which they end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use leasehold::client_go::{Callbacks, RunOutcome, run};
use leasehold::{Error, LeaderGuard, Stop, StopReason, Transition};
use parking_lot::Mutex;

use crate::elector::{alone, elector, time_on_processor};
use crate::support::memory::Memory;
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

/// Callbacks with only the work of a leader.
pub struct Work<F>(pub F);

impl<F: Fn(&LeaderGuard) + Sync> Callbacks for Work<F> {
    fn on_started_leading(&self, guard: &LeaderGuard) {
        (self.0)(guard);
    }
}

#[test]
fn callbacks_run_one_term_and_a_message_steps_down() {
    struct Worker(Sender<String>);
    impl Callbacks for Worker {
        fn on_started_leading(&self, guard: &LeaderGuard) {
            self.0.send("started".into()).unwrap();
            assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()));
        }
        fn on_stopped_leading(&self) {
            self.0.send("stopped".into()).unwrap();
        }
        fn on_new_leader(&self, identity: &str) {
            self.0.send(format!("leader {identity}")).unwrap();
        }
    }
    let (store, elector) = alone();
    let stop = Stop::new();
    let (worker, tells) = bounded(9);
    let mut told = Vec::new();
    thread::scope(|scope| {
        let running = scope.spawn(|| run(&elector, &stop, &Worker(worker)));
        while told.last().is_none_or(|it| it != "started") {
            told.push(tells.recv_timeout(SOON).expect("it leads"));
        }
        stop.stop();
        running.join().unwrap().unwrap();
    });
    assert_eq!(store.holder(), None);
    told.extend(tells.try_iter());
    assert_eq!(told.last().map(String::as_str), Some("stopped"));
    assert!(told.contains(&"leader a".to_owned()), "{told:?}");
}

/// A term is won while a callback runs.
#[test]
fn stop_counts_before_a_term_that_is_won_at_the_same_time() {
    struct Stops<'a> {
        leader: Mutex<Option<LeaderGuard>>,
        store: &'a Memory,
        stop: Stop,
    }
    impl Callbacks for Stops<'_> {
        fn on_started_leading(&self, _: &LeaderGuard) {
            panic!("it was to stop before");
        }
        fn on_new_leader(&self, _: &str) {
            if let Some(guard) = self.leader.lock().take() {
                drop(guard);
                wait_until("the other wins", || self.store.holder().as_deref() == Some("a"));
                thread::sleep(Duration::from_millis(10));
                self.stop.stop();
            }
        }
    }
    for _ in 0..20 {
        let store = Memory::default();
        let (first, second) = (elector(&store, "b"), elector(&store, "a"));
        let leader = Mutex::new(Some(first.block_until_leader().unwrap()));
        let stop = Stop::new();
        let end = run(&second, &stop, &Stops { leader, store: &store, stop: stop.clone() }).unwrap();
        assert_eq!(end, RunOutcome::Stopped);
    }
}

#[test]
fn a_panic_of_the_work_ends_the_term_and_is_passed_on() {
    struct Broken<'a> {
        store: &'a Memory,
        seen: Mutex<Option<(Option<String>, bool)>>,
    }
    impl Callbacks for Broken<'_> {
        fn on_started_leading(&self, guard: &LeaderGuard) {
            let _last = WhileUnwinding { broken: self, guard };
            resume_unwind(Box::new("as planned"));
        }
        fn on_stopped_leading(&self) {
            unreachable!("the panic tells it");
        }
    }
    struct WhileUnwinding<'a> {
        broken: &'a Broken<'a>,
        guard: &'a LeaderGuard,
    }
    impl Drop for WhileUnwinding<'_> {
        fn drop(&mut self) {
            *self.broken.seen.lock() = Some((self.broken.store.holder(), self.guard.is_leader()));
        }
    }
    let (store, elector) = alone();
    let transitions = elector.transitions();
    let broken = Broken { store: &store, seen: Mutex::default() };
    let panic = catch_unwind(AssertUnwindSafe(|| run(&elector, &Stop::new(), &broken))).expect_err("a panic");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"as planned"));
    assert_eq!(*broken.seen.lock(), Some((Some("a".to_owned()), true)), "not before the work has ended");
    assert_eq!(store.holder(), None, "released on the way");
    drop(elector);
    let told: Vec<_> = transitions.iter().collect();
    let stopped = Transition::StoppedLeading { reason: StopReason::SteppedDown };
    assert!(told.ends_with(&[stopped, Transition::NoLeader { previous: "a".into() }]), "{told:?}");
}

#[test]
fn end_is_reported_after_the_release_is_written() {
    struct Watching<'a>(&'a Memory, Mutex<Vec<Option<String>>>);
    impl Callbacks for Watching<'_> {
        fn on_started_leading(&self, _: &LeaderGuard) {
            self.1.lock().push(self.0.holder());
        }
        fn on_stopped_leading(&self) {
            self.1.lock().push(self.0.holder());
        }
    }
    let store = Memory::default();
    // The release takes a while, as on a network.
    store.on_release(|| thread::sleep(A_WHILE));
    let elector = elector(&store, "a");
    let watching = Watching(&store, Mutex::default());
    run(&elector, &Stop::new(), &watching).unwrap();
    assert_eq!(*watching.1.lock(), [Some("a".to_owned()), None]);
}

#[test]
fn stop_is_handled_once_without_spinning() {
    let (store, elector) = alone();
    let stop = Stop::new();
    let (started, starts) = bounded(1);
    let slow = Work(|guard: &LeaderGuard| {
        started.send(()).unwrap();
        assert!(guard.ended().recv_timeout(AT_ONCE).is_err());
        assert_eq!(guard.check().unwrap_err().reason, StopReason::SteppedDown);
        thread::sleep(Duration::from_secs(2));
    });
    let used = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let before = time_on_processor();
            run(&elector, &stop, &slow).unwrap();
            time_on_processor() - before
        });
        starts.recv_timeout(SOON).expect("it leads");
        stop.stop();
        running.join().unwrap()
    });
    assert!(used < Duration::from_millis(200), "{used:?} on a processor, to wait for two seconds");
    wait_until("it is released", || store.holder().is_none());
}

#[test]
fn run_reports_its_outcome() {
    let (store, elector) = alone();
    let stop = Stop::new();
    assert_eq!(run(&elector, &stop, &Work(|_: &LeaderGuard| {})).unwrap(), RunOutcome::WorkReturned);
    assert_eq!(run(&elector, &stop, &Work(|guard: &LeaderGuard| guard.step_down())).unwrap(), RunOutcome::WorkReturned);
    let lose = |guard: &LeaderGuard| {
        store.give_to("b", 1);
        guard.ended().recv_timeout(SOON).unwrap_err();
    };
    assert_eq!(
        run(&elector, &stop, &Work(lose)).unwrap(),
        RunOutcome::Lost(StopReason::Superseded { by: Some("b".to_owned()) })
    );
    let until_stopped = |guard: &LeaderGuard| {
        stop.stop();
        guard.ended().recv_timeout(SOON).unwrap_err();
    };
    assert_eq!(run(&elector, &stop, &Work(until_stopped)).unwrap(), RunOutcome::Stopped);
    store.give_to("b", 300);
    assert_eq!(run(&elector, &stop, &Work(|_: &LeaderGuard| {})).unwrap(), RunOutcome::Stopped, "before the term");
}

#[test]
fn work_runs_in_one_term_after_another_until_a_stop() {
    let (store, elector) = alone();
    let (stop, mut terms) = (Stop::new(), Vec::new());
    let began = Instant::now();
    let used = time_on_processor();
    let mut work = |guard: &LeaderGuard| {
        terms.push(guard.fencing_token());
        if terms.len() == 3 {
            stop.stop();
        }
        Ok(())
    };
    elector.run_until(&stop, &mut work).unwrap();
    assert!(terms.len() == 3 && terms.is_sorted(), "{terms:?}");
    assert!(began.elapsed() >= 2 * elector.status().settings.retry_period, "it pauses after work that does nothing");
    elector.run_until(&stop, |_| panic!("stopped before")).unwrap();
    assert!(time_on_processor() - used < Duration::from_millis(200));
    wait_until("it is released", || store.holder().is_none());
}

#[test]
fn failed_work_releases_and_runs_again_after_a_pause() {
    let (store, elector) = alone();
    let (stop, mut began) = (Stop::new(), Vec::new());
    let outcome = elector.run_until(&stop, |_| {
        began.push((Instant::now(), store.holder()));
        if began.len() == 2 {
            stop.stop();
        }
        Err("no database".into())
    });
    assert!(matches!(&outcome, Err(Error::Work(error)) if error.to_string() == "no database"), "{outcome:?}");
    let [(first, leader), (second, _)] = &began[..] else { panic!("{began:?}") };
    assert!(second.duration_since(*first) >= Duration::from_secs(1) && leader.as_deref() == Some("a"));
    wait_until("it is released", || store.holder().is_none());
}

#[test]
fn stop_of_a_run_is_a_step_down() {
    let store = Memory::default();
    let elector = elector(&store, "a");
    let stop = Stop::new();
    let outcome = elector.run_until(&stop, |guard| {
        stop.stop();
        assert!(!guard.wait(SOON));
        assert_eq!(guard.check().expect_err("the end of the term").reason, StopReason::SteppedDown);
        Ok(guard.check()?)
    });
    outcome.expect("the end of the term is no failure of the work");
    wait_until("it is released", || store.holder().is_none());
}

#[test]
fn callback_of_an_end_is_called_once_on_another_thread() {
    let (_store, elector) = alone();
    let guard = elector.block_until_leader().unwrap();
    let (calls, called) = bounded(9);
    let call = |name| {
        let calls = calls.clone();
        move || calls.send((name, thread::current().id())).unwrap()
    };
    guard.on_ended(call("guard")).unwrap();
    guard.leadership().on_ended(call("view")).unwrap();
    guard.on_ended(|| resume_unwind(Box::new("as planned"))).unwrap();
    assert!(called.recv_timeout(A_WHILE).is_err() && guard.wait(Duration::ZERO));
    guard.step_down();
    assert!(!guard.wait(SOON));
    guard.on_ended(call("late")).unwrap();
    let mut calls: Vec<_> = (0..3).map(|_| called.recv_timeout(SOON).unwrap()).collect();
    calls.sort_by_key(|(name, _)| *name);
    assert_eq!(calls.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["guard", "late", "view"]);
    assert!(calls.iter().all(|(_, thread)| *thread != thread::current().id()));
    drop(guard);
    assert!(called.recv_timeout(A_WHILE).is_err());
}
