//! The deadline of a term under loom.
//!
//! Loom explores every interleaving of the threads, and every value that the memory orders permit a load to return.
//!
//! One execution has at most three preemptions, so that a test run remains short. `LOOM_MAX_PREEMPTIONS=1000` lifts
//! this limit, and the run then takes at least ten minutes. `-- --nocapture` shows the number of executions.
//!
//! The promises of a deadline concern one memory location. If a thread learns of an end through a happens-before
//! relation, the promises hold under any memory order. So these models also pass with `Relaxed`. The library uses
//! sequentially consistent accesses for a case that no model here can show: another machine that acts on a release.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_loom::{Deadline, Moment, ProgressLimit, StopReason};
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::{self, JoinHandle};

const EARLY: Moment = Moment::from_nanos(90);
const EXPIRY: Moment = Moment::from_nanos(100);
const EXTENDED: Moment = Moment::from_nanos(200);

fn check(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check({
        let executions = std::sync::Arc::clone(&executions);
        move || {
            executions.fetch_add(1, Relaxed);
            model();
        }
    });
    println!("{name}: all {} executions in {:.1?}", executions.load(Relaxed), began.elapsed());
}

fn spawn<T: 'static>(deadline: &Arc<Deadline>, work: impl FnOnce(&Deadline) -> T + 'static) -> JoinHandle<T> {
    let deadline = Arc::clone(deadline);
    thread::spawn(move || work(&deadline))
}

/// Starts a thread that asks `deadline` twice whether the term is valid.
///
/// The thread sets `told` when the answer is `false`. If `told` was set before a question, the answer must be `false`.
fn viewer(deadline: &Arc<Deadline>, told: &Arc<AtomicBool>, asks_at: [Moment; 2]) -> JoinHandle<()> {
    let told = Arc::clone(told);
    spawn(deadline, move |deadline| {
        for now in asks_at {
            let told_before = told.load(Ordering::Acquire);
            let valid = deadline.is_valid(now);
            assert!(!(told_before && valid), "told 'leader' after somebody was told otherwise");
            if !valid {
                told.store(true, Ordering::Release);
            }
        }
    })
}

/// Two viewers ask around the expiry, and a renewal is answered just before the expiry.
///
/// The viewers' clock readings lie before and after the expiry, in either order.
#[test]
fn leader_after_a_false_reading_is_never_read() {
    check("nobody is told leader after anybody was told otherwise", || {
        let deadline = Arc::new(Deadline::new(EXPIRY));
        let told = Arc::new(AtomicBool::new(false));
        let viewers = [viewer(&deadline, &told, [EXPIRY, EARLY]), viewer(&deadline, &told, [EARLY, EXPIRY])];
        let told_before = told.load(Ordering::Acquire);
        let extended = deadline.extend(EARLY, EXTENDED);
        assert!(!(told_before && extended), "a renewal revived a term that somebody was told is over");
        for viewer in viewers {
            viewer.join().unwrap();
        }
        assert!(
            extended || !deadline.is_valid(EARLY),
            "the extension was refused, so somebody had found the term over"
        );
        if told.load(Ordering::Acquire) {
            assert!(!deadline.is_valid(EARLY), "valid again");
        }
    });
}

/// A late reader reads the extension, or ends the term for every reader.
#[test]
fn late_reader_reads_the_extension_or_ends_the_term() {
    check("a late reader reads the extension or ends the term", || {
        let deadline = Arc::new(Deadline::new(EXPIRY));
        let late = spawn(&deadline, |deadline| deadline.is_valid(EXPIRY));
        let extended = deadline.extend(EARLY, EXTENDED);
        let valid_late = late.join().unwrap();
        assert_eq!(deadline.is_valid(EXPIRY), valid_late);
        assert!(extended || !valid_late, "refused although no reader had found the term over");
    });
}

/// Every thread that learns of an end finds the term over, at any clock reading.
///
/// Renewals arrive meanwhile. Drop, release and step-down rely on this rule.
#[test]
fn ended_term_is_over_for_every_later_reader() {
    check("a term that was ended is over for whoever hears of that", || {
        let deadline = Arc::new(Deadline::new(EXPIRY));
        let told = Arc::new(AtomicBool::new(false));
        let ender = spawn(&deadline, {
            let told = Arc::clone(&told);
            move |deadline| {
                deadline.end(EARLY, StopReason::Released);
                assert!(!deadline.is_valid(EARLY), "valid after its own holder had ended it");
                // In the library, the elector sends the release here.
                told.store(true, Ordering::Release);
            }
        });
        let viewer = viewer(&deadline, &told, [EARLY, EARLY]);
        deadline.extend(EARLY, EXTENDED);
        deadline.extend(EARLY, EXTENDED + Duration::from_nanos(100));
        ender.join().unwrap();
        viewer.join().unwrap();
        assert!(!deadline.is_valid(EARLY));
        assert!(deadline.was_ended_early(), "nothing else can have ended it");
    });
}

/// If an end and an expiry coincide, one of them becomes the reason and stays the reason.
#[test]
fn an_end_and_an_expiry_do_not_overwrite_each_other() {
    check("an end and an expiry do not overwrite each other", || {
        let deadline = Arc::new(Deadline::new(EXPIRY));
        let ender = spawn(&deadline, |deadline| deadline.end(EARLY, StopReason::Released));
        let viewer = spawn(&deadline, |deadline| {
            assert!(!deadline.is_valid(EXPIRY));
            deadline.reason()
        });
        deadline.extend(EARLY, EXTENDED.min(EXPIRY));
        let reasons = [ender.join().unwrap(), viewer.join().unwrap(), deadline.reason()];
        assert!(reasons.iter().all(|reason| *reason == reasons[0]), "the reason changed: {reasons:?}");
    });
}

/// The progress timeout.
const WITHIN: Duration = Duration::from_nanos(EXPIRY.as_nanos());

/// Creates a term with a progress limit, and starts a worker that reports progress.
///
/// Before the report, the term and its progress limit both end at `EXPIRY`.
fn with_progress() -> (Arc<Deadline>, JoinHandle<bool>) {
    let limit = std::sync::Arc::new(ProgressLimit::new(Moment::from_nanos(0), WITHIN));
    let deadline = Arc::new(Deadline::new(EXPIRY).limited_by(Some(limit)));
    let worker = spawn(&deadline, |deadline| deadline.report_progress(EARLY, EARLY));
    (deadline, worker)
}

/// A renewal is answered while the work reports progress.
///
/// At least one of the two threads sees both changes. So the term is extended as far as both changes permit, and no
/// further.
#[test]
fn a_renewal_and_progress_at_a_time_both_count() {
    check("a renewal and progress at a time both count", || {
        let (deadline, worker) = with_progress();
        assert!(deadline.extend(EARLY, EXTENDED));
        assert!(worker.join().unwrap());
        assert_eq!(deadline.remaining(EARLY), WITHIN);
    });
}

/// A renewal and a progress report do not revive a term that a view has found expired.
#[test]
fn a_renewal_and_progress_at_a_time_revive_nothing() {
    check("a renewal and progress at a time revive nothing", || {
        let (deadline, worker) = with_progress();
        let viewer = spawn(&deadline, |deadline| deadline.is_valid(EXPIRY));
        let extended = deadline.extend(EARLY, EXTENDED);
        let (progressed, valid) = (worker.join().unwrap(), viewer.join().unwrap());
        assert_eq!(deadline.is_valid(EARLY), valid);
        assert!(!valid || extended && progressed, "nobody has been told that it is over");
    });
}
