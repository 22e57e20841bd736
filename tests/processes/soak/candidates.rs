//! The dozen candidates, each behind its own proxy, and the threads that inject faults.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::Signal;

use crate::support::journal::Journal;
use crate::support::late_write::Suspension;
use crate::support::process::{Candidate, Line, Stage, mono};
use crate::support::proxy::Proxy;
use crate::support::real::Real;
use crate::{network, processes, servers};

pub const COUNT: usize = 12;

/// Flags of the shortest lease that a candidate can hold on a busy machine.
///
/// The renew deadline is only slightly shorter than the lease duration, so an error in the protocol soon shows as two
/// leaders.
const FLAGS: &[&str] = &[
    "--lease-duration=2s",
    "--renew-deadline=1900ms",
    "--retry-period=250ms",
    "--no-client-go-peers",
    "--heartbeat=10ms",
];
pub const LEASE: Duration = Duration::from_secs(2);

/// A kind of fault: its name in the report, and a function that returns after the fault.
pub type Fault = (&'static str, fn(&Candidates, &mut Rng));

pub fn drawn(rng: &mut Rng, between: Range<Duration>) -> Duration {
    between.start + (between.end - between.start).mul_f64(rng.f64())
}

pub struct Candidates<'a> {
    pub real: &'a Real,
    pub stage: Stage,
    pub places: Vec<Place>,
    pub suspensions: Mutex<Vec<Suspension>>,
    pub journal: Journal,
    /// No other fault begins while a thread holds this lock.
    pub undisturbed: Mutex<()>,
    failed: AtomicBool,
    _kubeconfigs: tempfile::TempDir,
}

/// The place of one candidate.
///
/// If the candidate ends, another one starts in the same place.
pub struct Place {
    pub proxy: Proxy,
    pub occupant: Mutex<Occupant>,
    kubeconfig: PathBuf,
}

pub struct Occupant {
    /// `None` only while a new candidate replaces an ended candidate.
    candidate: Option<Candidate>,
    generation: usize,
}

impl<'a> Candidates<'a> {
    pub fn new(real: &'a Real, lock_type: &str, seed: u64) -> Candidates<'a> {
        let kubeconfigs = tempfile::tempdir().expect("a scratch directory");
        // The user `candidate` has rights on Leases alone.
        let user = if lock_type == "leases" { "candidate" } else { "admin" };
        let original = &real.ready.kubeconfigs[user];
        let stage = Stage::new(original, "soak", &[FLAGS, &[&format!("--lock-type={lock_type}")]].concat());
        let places = (0..COUNT).map(|number| {
            let kubeconfig = kubeconfigs.path().join(number.to_string());
            let proxy = Proxy::by_kubeconfig(original, &kubeconfig);
            let candidate = stage.candidate_by_way_of(&kubeconfig, &format!("{number}-0"));
            Place { proxy, kubeconfig, occupant: Mutex::new(Occupant { candidate: Some(candidate), generation: 0 }) }
        });
        Candidates {
            real,
            places: places.collect(),
            stage,
            suspensions: Mutex::default(),
            journal: Journal::new("soak", seed),
            undisturbed: Mutex::default(),
            failed: AtomicBool::new(false),
            _kubeconfigs: kubeconfigs,
        }
    }

    /// Injects faults of all groups at once for `time`, and each kind at least once.
    pub fn inject_faults(&self, time: Duration, rng: &mut Rng) {
        let until = Instant::now() + time;
        thread::scope(|scope| {
            for kinds in [processes::FAULTS, network::FAULTS, servers::FAULTS] {
                let mut rng = rng.fork();
                scope.spawn(move || {
                    let _failure = Failure(self);
                    self.suffer(kinds, until, &mut rng);
                });
            }
        });
    }

    fn suffer(&self, kinds: &[Fault], until: Instant, rng: &mut Rng) {
        let mut each_was_seen = false;
        loop {
            let mut kinds = kinds.to_vec();
            rng.shuffle(&mut kinds);
            for (kind, befalls) in kinds {
                let enough = each_was_seen && Instant::now() >= until;
                if enough || self.failed.load(Ordering::SeqCst) {
                    return;
                }
                self.wait_for_leader();
                thread::sleep(drawn(rng, Duration::ZERO..LEASE / 2));
                drop(self.undisturbed.lock());
                self.journal.fault(kind);
                befalls(self, rng);
            }
            each_was_seen = true;
        }
    }

    /// Waits until a candidate leads, because faults of standbys have little effect.
    ///
    /// Returns after two lease durations even if no candidate leads.
    pub fn wait_for_leader(&self) {
        let until = Instant::now() + 2 * LEASE;
        let leads = |line: Line| mono() - line.mono < 0.1;
        while !self.stage.last_heartbeat().is_some_and(leads) && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the leader's place three times out of four, and otherwise a random place.
    pub fn place(&self, rng: &mut Rng) -> &Place {
        let leaders = self.leaders_place().filter(|_| rng.u8(0..4) > 0);
        leaders.unwrap_or_else(|| rng.choice(&self.places).expect("a dozen"))
    }

    /// Returns the place of the candidate that reported last that it leads.
    pub fn leaders_place(&self) -> Option<&Place> {
        let leader = self.stage.last_heartbeat()?.identity;
        let (number, _) = leader.split_once('-').expect("an identity of ours");
        Some(&self.places[number.parse::<usize>().expect("a number")])
    }

    /// Returns a place and locks its candidate for a fault of the process.
    ///
    /// Only one fault at a time affects a process. If another fault has locked the leader, the place is random.
    pub fn occupied(&self, rng: &mut Rng) -> (&Place, MutexGuard<'_, Occupant>) {
        let mut place = self.place(rng);
        loop {
            if let Some(occupant) = place.occupant.try_lock() {
                return (place, occupant);
            }
            place = rng.choice(&self.places).expect("a dozen");
        }
    }

    /// Ends a candidate and starts another candidate in the same place.
    ///
    /// The new candidate has a new identity if `new_identity` is `true`.
    pub fn replace(&self, rng: &mut Rng, new_identity: bool, end: impl FnOnce(Candidate)) {
        let (place, mut occupant) = self.occupied(rng);
        let old = occupant.candidate.take().expect("a candidate");
        let mut id = old.id.clone();
        end(old);
        if new_identity {
            occupant.generation += 1;
            let (number, _) = id.split_once('-').expect("an identity of ours");
            id = format!("{number}-{}", occupant.generation);
        }
        occupant.candidate = Some(self.stage.candidate_by_way_of(&place.kubeconfig, &id));
    }

    /// Ends one leader after another until no candidate is left.
    ///
    /// Each candidate must still be able to lead after all faults.
    pub fn everyone_leads_in_turn(&self) {
        for place in &self.places {
            place.occupant.lock().candidate.as_mut().expect("a candidate").assert_running();
        }
        let mut token = 0;
        for _ in 0..COUNT {
            let ended_at = mono();
            let leader = self.stage.wait_for("the next leader", |line| {
                line.event == "leading" && line.token() > token && line.mono > ended_at
            });
            token = leader.token();
            let mut occupants = self.places.iter().map(|place| place.occupant.lock());
            let candidate = occupants
                .find_map(|mut occupant| occupant.candidate.take_if(|candidate| candidate.id == leader.identity));
            let candidate = candidate.unwrap_or_else(|| panic!("{leader:?} is no candidate any more"));
            candidate.signal(Signal::TERM);
            let end = candidate.end();
            assert_eq!(end.code, Some(0), "{}", end.errors);
        }
    }
}

impl Occupant {
    pub fn candidate(&self) -> &Candidate {
        self.candidate.as_ref().expect("a candidate")
    }
}

/// Makes the other threads stop when a thread fails, because a soak can last for hours.
struct Failure<'a>(&'a Candidates<'a>);

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.failed.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for Candidates<'_> {
    fn drop(&mut self) {
        self.journal.keep(&self.stage.lines(), thread::panicking());
    }
}
