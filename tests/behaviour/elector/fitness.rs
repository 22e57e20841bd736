//! Leaders whose work hangs, and candidates that are not fit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use leasehold::{Error, Fitness, LeaderElectorBuilder, Status, StopReason, Unhealthy};

use super::{builder, leading_with};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, AT_ONCE, SOON, lost, wait_until};

/// A time that is longer than a busy machine withholds the processor from a thread.
const WITHIN: Duration = Duration::from_millis(1_500);

fn start(builder: LeaderElectorBuilder, store: &Memory) -> leasehold::LeaderElector {
    builder.start_on(Connection::new(store)).expect("an elector")
}

/// Returns a builder with a lease of two seconds, which another candidate soon takes over.
fn short(identity: &str) -> LeaderElectorBuilder {
    builder(identity)
        .lease_duration(Duration::from_secs(2))
        .renew_deadline(Duration::from_millis(1_500))
        .no_client_go_peers(true)
}

/// Calls `report` repeatedly, for longer than the progress timeout.
fn for_longer(report: impl Fn()) {
    let until = Instant::now() + 2 * WITHIN;
    while Instant::now() < until {
        report();
        thread::sleep(Duration::from_millis(10));
    }
}

/// The term ends in time even if the elector's threads hang in the store.
#[test]
fn term_without_progress_ends_in_time_despite_hanging_calls() {
    let (store, elector, guard) = leading_with(builder("a").progress_timeout(WITHIN));
    store.hang_next_update();
    let last = Instant::now();
    assert!(guard.report_progress());
    while guard.is_leader() {
        thread::sleep(Duration::from_millis(1));
    }
    let lasted = last.elapsed();
    assert!(lasted >= WITHIN && lasted < WITHIN + AT_ONCE, "{lasted:?}");
    assert_eq!(guard.ended().recv_timeout(AT_ONCE), Err(RecvTimeoutError::Disconnected), "the request still hangs");
    assert!(!guard.report_progress(), "it revives nothing");
    assert_eq!(guard.check().unwrap_err().reason, StopReason::NoProgress);
    let health = elector.health_check().check();
    assert!(matches!(health, Err(Unhealthy::NoProgress { .. })), "{health:?}");
}

#[test]
fn stalled_work_is_replaced_and_progressing_work_is_not() {
    let store = Memory::default();
    let (a, b) = (start(short("a").progress_timeout(WITHIN), &store), start(short("b"), &store));
    let guard = a.block_until_leader().expect("a term");
    let campaign = b.campaign().expect("a campaign");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        assert!(guard.report_progress(), "{}", guard.check().unwrap_err());
        thread::sleep(Duration::from_millis(10));
    }
    let hangs_since = Instant::now();
    let other = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    let after = hangs_since.elapsed();
    assert!(after >= Duration::from_secs(2) && after < WITHIN + Duration::from_secs(2) + AT_ONCE, "{after:?}");
    assert!(!guard.is_leader() && guard.ended().try_recv().is_err_and(|e| e.is_disconnected()));
    assert_eq!(store.holder().as_deref(), Some("b"));
    drop(guard);
    thread::sleep(A_WHILE);
    assert!(other.is_leader());
}

#[test]
fn guard_left_in_its_channel_ends_as_well() {
    let store = Memory::default();
    let (a, b) = (start(short("a").progress_timeout(WITHIN), &store), start(short("b"), &store));
    let campaign = a.campaign().expect("a campaign");
    wait_until("it is won", || store.holder().as_deref() == Some("a"));
    assert!(b.block_until_leader_timeout(SOON).expect("no error").is_some());
    let guard = campaign.receiver().recv().expect("an answer").expect("a guard");
    assert_eq!(guard.check().unwrap_err().reason, StopReason::NoProgress);
}

#[test]
fn slowest_worker_counts_as_progress() {
    let (_store, elector, guard) = leading_with(builder("a").progress_timeout(WITHIN));
    let began = Instant::now();
    let (hangs, works, ends) = (guard.progress_handle(), guard.leadership().progress_handle(), guard.progress_handle());
    drop(ends);
    while works.report() && began.elapsed() < SOON {
        guard.report_progress();
        thread::sleep(Duration::from_millis(10));
    }
    assert!(began.elapsed() >= WITHIN && began.elapsed() < SOON);
    assert_eq!(guard.check().unwrap_err().reason, StopReason::NoProgress);
    assert!(!hangs.report());
    drop(guard);

    // If a handle is dropped, only the other handles count. After the last handle, the guard reports progress.
    let guard = elector.block_until_leader().expect("a term");
    let [first, second] = [(); 2].map(|()| guard.progress_handle());
    drop(first);
    for_longer(|| assert!(second.report()));
    drop(second);
    for_longer(|| assert!(guard.report_progress()));

    // If a panic drops a handle, the guard can no longer report progress for that handle.
    let handle = guard.progress_handle();
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _handle = handle;
        panic!("as planned");
    }));
    assert!(panic.is_err());
    let began = Instant::now();
    while guard.report_progress() && began.elapsed() < SOON {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(guard.check().unwrap_err().reason, StopReason::NoProgress);
}

#[test]
fn an_old_guards_progress_is_not_that_of_the_next_term() {
    let store = Memory::default();
    let elector = start(builder("a").progress_timeout(WITHIN), &store);
    let old = elector.block_until_leader().expect("a term").leadership();
    let guard = elector.block_until_leader().expect("another");
    let began = Instant::now();
    while guard.is_leader() && began.elapsed() < SOON {
        assert!(!old.report_progress());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(guard.check().unwrap_err().reason, StopReason::NoProgress);
}

#[test]
fn unfit_leader_ends_and_another_leads_after_the_guard_drops() {
    let store = Memory::default();
    let is_fit = Arc::new(AtomicBool::new(true));
    let probed = Arc::clone(&is_fit);
    let a = start(builder("a").fit_while(move || probed.load(Ordering::SeqCst)), &store);
    let b = start(builder("b"), &store);
    let guard = a.block_until_leader_timeout(SOON).expect("no error").expect("a term");
    let campaign = b.campaign().expect("a campaign");
    assert!(a.status().is_fit);
    is_fit.store(false, Ordering::SeqCst);
    assert_eq!(lost(&guard, "unfit"), StopReason::Unfit);
    assert!(a.status().unfit_for.is_some());
    assert_eq!(store.holder().as_deref(), Some("a"), "work that winds down is covered");
    drop(guard);
    assert!(campaign.receiver().recv_timeout(AT_ONCE).expect("an answer").is_ok());
    assert!(matches!(a.try_acquire(), Err(Error::Unfit)));
}

#[test]
fn a_probe_that_hangs_panics_or_has_not_answered_is_a_no() {
    let (hold, held) = bounded::<()>(0);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let hangs_later = move || {
        if counted.fetch_add(1, Ordering::SeqCst) > 3 {
            let _ = held.recv();
        }
        true
    };
    let store = Memory::default();
    let elector = start(short("a").fit_while(hangs_later).probe_timeout(Duration::from_millis(400)), &store);
    let guard = elector.block_until_leader_timeout(SOON).expect("no error").expect("a term");
    assert_eq!(lost(&guard, "a probe that hangs"), StopReason::Unfit);
    let began = Instant::now();
    drop(guard);
    drop(elector);
    assert!(began.elapsed() < AT_ONCE, "nobody waits for it");
    drop(hold);

    let elector = start(builder("b").fit_while(|| panic!("as planned")), &store);
    assert!(matches!(elector.block_until_leader_timeout(A_WHILE), Err(Error::Unfit)));
    assert!(matches!(elector.try_acquire(), Err(Error::Unfit)));
    assert_eq!(store.holder(), None, "nothing was written");
}

#[test]
fn a_flag_is_shared_by_many_electors() {
    let fitness = Fitness::new();
    let stores: Vec<_> = (0..4).map(|_| Memory::default()).collect();
    let electors: Vec<_> = stores.iter().map(|store| start(builder("a").fitness(&fitness), store)).collect();
    let campaigns: Vec<_> = electors.iter().map(|it| it.campaign().expect("a campaign")).collect();
    thread::sleep(A_WHILE);
    assert!(stores.iter().all(|store| store.holder().is_none()), "not known to be fit");
    fitness.set(true);
    let win = |campaign: &leasehold::Campaign| campaign.receiver().recv_timeout(SOON).expect("an answer");
    let guards: Vec<_> = campaigns.iter().map(|campaign| win(campaign).expect("a term")).collect();
    fitness.set(false);
    for guard in &guards {
        assert_eq!(lost(guard, "a flag"), StopReason::Unfit);
    }
    // The campaigns wait until the fitness recovers, although the guards are dropped.
    drop(guards);
    let campaigns: Vec<_> = electors.iter().map(|it| it.campaign().expect("a campaign")).collect();
    wait_until("they are released", || stores.iter().all(|store| store.holder().is_none()));
    fitness.set(true);
    campaigns.iter().for_each(|campaign| drop(win(campaign).expect("a term")));
}

#[test]
fn any_view_can_end_a_term_with_a_drain_limit() {
    let (store, elector, guard) = leading_with(builder("a"));
    guard.leadership().step_down();
    assert!(!guard.is_leader());
    let version = store.version();
    wait_until("it is renewed", || store.version() > version + 2);
    assert!(!elector.status().is_leader, "there is no valid term");
    guard.leadership().step_down_within(Duration::ZERO);
    // A request that is under way may still be applied.
    thread::sleep(A_WHILE);
    let version = store.version();
    thread::sleep(A_WHILE);
    assert_eq!((store.version(), store.holder().as_deref()), (version, Some("a")), "neither renewed nor released");
    drop(guard);
    assert_eq!(store.holder(), None);
}

#[test]
fn a_panic_in_a_scope_is_covered_for_a_limited_time() {
    let (store, _elector, guard) = leading_with(builder("a").drain_timeout(WITHIN));
    guard.scope(|scope| {
        let panics = scope.spawn(|| panic!("as planned"));
        assert!(panics.join().is_err());
        // The rest of the scope continues for longer than the drain timeout.
        thread::sleep(WITHIN + A_WHILE);
        let version = store.version();
        thread::sleep(A_WHILE);
        assert_eq!(store.version(), version, "it is not renewed any more");
    });
    assert_eq!(store.holder().as_deref(), Some("a"));
}

#[test]
fn status_reports_fitness_and_progress() {
    let store = Memory::default();
    let fitness = Fitness::new();
    // The wait after the recovery must outlast the next statements on a busy machine.
    let builder = builder("a").retry_period(Duration::from_secs(4)).progress_timeout(SOON).fitness(&fitness);
    let elector = start(builder, &store);
    let mut metrics = String::new();
    Status::write_prometheus([&elector.status()], &mut metrics).expect("metrics");
    assert!(metrics.contains("leasehold_fit{") && metrics.contains("leasehold_unfit_seconds{"), "{metrics}");
    assert!(!metrics.contains("leasehold_progress_age_seconds{"), "{metrics}");
    fitness.set(true);
    let guard = elector.block_until_leader_timeout(SOON).expect("no error").expect("a term");
    thread::sleep(A_WHILE);
    assert!(elector.status().since_progress.is_some_and(|since| since >= A_WHILE));
    let before = Instant::now();
    guard.report_progress();
    assert!(elector.status().since_progress.is_some_and(|since| since <= before.elapsed()));
    assert_eq!(elector.status().settings.progress_timeout, Some(SOON));

    // After recovering, the candidate is fit, but must wait one retry period.
    fitness.set(false);
    fitness.set(true);
    drop(guard);
    let status = elector.status();
    assert!(status.is_fit && status.may_acquire_in.is_some_and(|left| left <= status.settings.retry_period));
    assert!(status.to_string().contains("fit again, may acquire the lease in "), "{status}");
    assert_eq!(status.since_progress, None, "nobody works");
    wait_until("it may", || elector.status().may_acquire_in.is_none());
}

/// One run of the probe answers all electors that wait for it.
#[test]
fn a_probe_that_is_slow_answers_all_clones_of_a_builder_in_time() {
    let store = Memory::default();
    let slow = || {
        thread::sleep(Duration::from_millis(300));
        true
    };
    let builder = short("a").retry_period(Duration::from_millis(300)).probe_timeout(WITHIN).fit_while(slow);
    let electors: Vec<_> = (0..12).map(|_| start(builder.clone(), &store)).collect();
    wait_until("all are fit", || electors.iter().all(|elector| elector.status().is_fit));
    let until = Instant::now() + 3 * WITHIN;
    while Instant::now() < until {
        assert!(electors.iter().all(|elector| elector.status().is_fit));
        thread::sleep(Duration::from_millis(10));
    }
}

struct PanicsAgain;

impl Drop for PanicsAgain {
    fn drop(&mut self) {
        panic!("made up, too");
    }
}

#[test]
fn a_probe_whose_panic_panics_again_is_run_again() {
    let store = Memory::default();
    let mut is_first = true;
    let probe = move || {
        if std::mem::take(&mut is_first) {
            std::panic::panic_any(PanicsAgain);
        }
        true
    };
    let elector = start(builder("a").fit_while(probe), &store);
    assert!(elector.block_until_leader_timeout(SOON).expect("no error").is_some());
}

/// A panicked worker does not count among the workers that drain.
#[test]
fn drain_beside_a_panicked_worker_is_renewed() {
    let (store, _elector, guard) = leading_with(builder("a").progress_timeout(WITHIN).drain_timeout(3 * SOON));
    let renewed = AtomicU64::new(0);
    let scope = catch_unwind(AssertUnwindSafe(|| {
        guard.scope(|scope| {
            let (panics, works) = (guard.progress_handle(), guard.progress_handle());
            scope.spawn(move || {
                let _panics = panics;
                panic!("made up");
            });
            wait_until("the term is over", || !guard.is_leader());
            for_longer(|| _ = works.report());
            let is_renewed = |progress: &dyn Fn() -> bool| {
                let (version, until) = (store.version(), Instant::now() + 2 * WITHIN);
                while store.version() == version && Instant::now() < until {
                    progress();
                    thread::sleep(Duration::from_millis(10));
                }
                renewed.fetch_add(u64::from(store.version() > version), Ordering::SeqCst);
            };
            is_renewed(&|| works.report());
            // Now only the panicked worker had a handle.
            drop(works);
            for_longer(|| _ = guard.report_progress());
            is_renewed(&|| guard.report_progress());
        });
    }));
    assert!(scope.is_err());
    assert_eq!(renewed.into_inner(), 2, "beside those that have handles, and where none is left");
}

#[test]
fn report_of_fitness_counts_in_the_next_call() {
    let store = Memory::default();
    let other = start(builder("a"), &store);
    let _guard = other.block_until_leader().expect("a term");
    for _ in 0..100 {
        let fitness = Fitness::new();
        let elector = start(builder("b").fitness(&fitness), &store);
        fitness.set(true);
        let answer = elector.block_until_leader_timeout(Duration::ZERO);
        assert!(matches!(answer, Ok(None)), "{answer:?}");
    }
}
