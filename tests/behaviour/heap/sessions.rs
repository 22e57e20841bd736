//! The memory of one candidate in a process that has thousands.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold::election::candidate::Candidate;
use leasehold::election::candidate::messages::{Effect, Input};
use leasehold::election::deadline::Deadline;
use leasehold::election::{Operation, Step, StoreRequest, StoreResponse};
use leasehold::store::{
    CallContext, CancelToken, LeaderElectionRecord, MemoryStore, Store, StoreErrorKind, WatchEvent, WatchScope,
};
use leasehold::util::clock::{Moment, Now};
use leasehold::{LeaderElector, Settings};

use crate::allocation::measure;

const CANDIDACIES: usize = 10_000;

const MOST_OF_EACH: usize = 4_352;

/// A candidate for its own key, and the term that its runtime knows.
struct Tenant {
    key: String,
    candidate: Candidate,
    term: Option<Arc<Deadline>>,
}

impl Tenant {
    fn new(number: usize, settings: &Arc<Settings>) -> Self {
        let candidate = Candidate::new(Arc::clone(settings), number as u64);
        Self { key: format!("tenant-{number:05}"), candidate, term: None }
    }

    /// Executes the operations that are due at `now`.
    fn run(&mut self, store: &MemoryStore, now: Moment) {
        loop {
            let step = self.candidate.next(Now { local: now, wall: SystemTime::UNIX_EPOCH });
            self.take_note();
            let Step::Send(StoreRequest { id, operation, timeout, .. }) = step else { return };
            let call = CallContext::new(timeout, CancelToken::new());
            let response = match operation {
                Operation::Get(context) => store.get(&self.key, &call).map(|found| StoreResponse::Read(context, found)),
                Operation::Create(record) => {
                    store.create(&self.key, record.as_write(), &call).map(StoreResponse::Written)
                }
                Operation::Update(base, record) => {
                    store.update(&self.key, &base, record.as_write(), &call).map(StoreResponse::Written)
                }
            };
            self.candidate.handle(now, Input::Response(id, response.unwrap_or_else(StoreResponse::Failed)));
            self.take_note();
        }
    }

    fn take_note(&mut self) {
        while let Some(effect) = self.candidate.effect() {
            if let Effect::Offer { deadline, .. } = effect {
                self.term = Some(deadline);
            }
        }
    }
}

/// Creates all candidates, lets them campaign, and runs them for a few rounds.
fn run_all(identity: &str, store: &MemoryStore) -> Vec<Tenant> {
    let settings = LeaderElector::builder("tenants").identity(identity).validate().expect("the defaults are good");
    let settings = Arc::new(settings);
    let mut all: Vec<_> = (0..CANDIDACIES).map(|number| Tenant::new(number, &settings)).collect();
    let mut now = Moment::from_nanos(1_000_000_000);
    for (id, candidate) in (1..).zip(&mut all) {
        candidate.candidate.handle(now, Input::Campaign { id, once: false });
    }
    for _ in 0..4 {
        all.iter_mut().for_each(|candidate| candidate.run(store, now));
        now = now + Duration::from_secs(3);
    }
    all
}

#[test]
fn ten_thousand_candidates_take_at_most_4352_bytes_each() {
    let store = MemoryStore::new();
    for (identity, leads) in [("the-leader", true), ("a-standby", false)] {
        let mut all = Vec::new();
        let taken = measure(|| all = run_all(identity, &store)).left;
        assert!(all.iter().all(|candidate| candidate.term.is_some() == leads), "{identity}");
        println!("{identity}: {} bytes each", taken / CANDIDACIES);
        assert!(taken <= MOST_OF_EACH * CANDIDACIES, "{identity}: {taken} bytes for {CANDIDACIES}");
    }
}

/// The history holds 1000 changes, and the test writes more.
#[test]
fn slow_memory_watch_expires_and_keeps_no_copies() {
    let (store, call) = (MemoryStore::new(), CallContext::new(Duration::from_secs(1), CancelToken::new()));
    let record = LeaderElectionRecord { holder_identity: Some("x".repeat(10_000)), ..Default::default() };
    let (mut changes, mut left, mut last) = (0, 0, store.create("jobs", record.as_write(), &call).expect("a record"));
    let ended = store.watch(WatchScope::All, None, &CancelToken::new(), &mut |event| match event {
        WatchEvent::Bookmark(_) => {
            let mut write = || last = store.update("jobs", &last, record.as_write(), &call).expect("an update");
            left = measure(|| (0..1500).for_each(|_| write())).left;
        }
        WatchEvent::Changed { .. } => changes += 1,
        _ => {}
    });
    assert_eq!((changes, ended.expect_err("too late").kind()), (1, StoreErrorKind::Expired));
    assert!(left < 11 << 20, "{left}");
}
