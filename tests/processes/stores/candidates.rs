//! The candidates that lead in turn on one record of a store.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use super::servers::HasServer;
use crate::support::journal::Journal;
use crate::support::late_write::{self, Suspension};
use crate::support::process::{Candidate, Stage, mono};
use crate::support::proxy::Proxy;
use crate::support::{say_aloud, seed, wait_until};

pub const COUNT: usize = 4;
const HANDOVERS: usize = 100;
/// The least number of faults.
///
/// More faults occur if there are more kinds than this.
const FAULTS: usize = 16;

/// Flags of the shortest lease that a candidate can hold on a busy machine.
///
/// The renew deadline is only slightly shorter than the lease duration, so an error in the protocol soon shows as two
/// leaders.
const FLAGS: &[&str] = &[
    "--lease-duration=2s",
    "--renew-deadline=1900ms",
    "--retry-period=250ms",
    "--no-client-go-peers",
    "--heartbeat=2ms",
];
pub const LEASE: Duration = Duration::from_secs(2);

/// A kind of fault: its name in the report, and a function that returns after the fault.
///
/// The function receives the index of the leader's place.
pub type Fault<S> = (&'static str, fn(&mut Candidates<S>, usize));

pub struct Candidates<S> {
    pub store: S,
    pub stage: Stage,
    pub places: Vec<Place>,
    pub suspensions: Vec<Suspension>,
    pub rng: Rng,
    seed: u64,
    journal: Journal,
    name: &'static str,
}

/// The place of one candidate.
///
/// If the candidate ends, another one starts in the same place.
pub struct Place {
    /// `None` if the store has no server.
    pub proxy: Option<Proxy>,
    url: String,
    /// `None` after the candidate has ended, until the next candidate starts.
    candidate: Option<Candidate>,
    generation: usize,
}

impl<S: HasServer> Candidates<S> {
    /// Creates candidates that each reach the server of `url` through their own proxy.
    pub fn by_way_of_proxies(name: &'static str, server: S, url: &str) -> Candidates<S> {
        let port = server.port();
        let ways = std::iter::repeat_with(|| {
            let (proxy, url) = Proxy::by_url(port, url);
            (url, Some(proxy))
        });
        let ways = ways.take(COUNT).collect();
        Candidates::new(name, server, ways)
    }
}

impl<S> Candidates<S> {
    /// Creates candidates on a store without a server.
    pub fn on(name: &'static str, store: S, url: &str) -> Candidates<S> {
        Candidates::new(name, store, (0..COUNT).map(|_| (url.to_owned(), None)).collect())
    }

    fn new(name: &'static str, store: S, ways: Vec<(String, Option<Proxy>)>) -> Candidates<S> {
        let seed = seed("LEASEHOLD_FAULTS_SEED");
        let places = ways.into_iter().map(|(url, proxy)| Place { proxy, url, candidate: None, generation: 0 });
        let mut candidates = Candidates {
            store,
            stage: Stage::on_store("unused", "jobs", FLAGS),
            places: places.collect(),
            suspensions: Vec::new(),
            rng: Rng::with_seed(seed),
            seed,
            journal: Journal::new(&format!("faults-{name}"), seed),
            name,
        };
        candidates.fill_places();
        candidates
    }

    /// Runs a hundred handovers, with each kind of fault at least once between them.
    ///
    /// Most handovers are by release. Panics if two candidates led at the same time.
    pub fn outlast(mut self, kinds: &[Fault<S>]) {
        let began = Instant::now();
        let mut faults = self.draw(kinds);
        let interval = HANDOVERS / (faults.len() + 1);
        let (mut handovers, mut last) = (0, None);
        while handovers < HANDOVERS || !faults.is_empty() {
            let leader = self.leader();
            let identity = self.candidate(leader).id.clone();
            let is_another = last.as_ref().is_some_and(|last| *last != identity);
            last = Some(identity);
            handovers += usize::from(is_another);
            match faults.pop_if(|_| is_another && handovers.is_multiple_of(interval) || handovers >= HANDOVERS) {
                Some((kind, befalls)) => {
                    self.wait_until_all_have_begun();
                    self.journal.fault(kind);
                    befalls(&mut self, leader);
                    self.journal.note(format!("{kind}: over"));
                }
                None => {
                    thread::sleep(self.drawn(Duration::ZERO..LEASE / 40));
                    self.tell_to_end(leader);
                }
            }
            self.fill_places();
        }
        self.leader();
        let took = began.elapsed();
        self.judge(kinds, took);
    }

    /// Returns each kind once, and then random kinds, in random order.
    fn draw(&mut self, kinds: &[Fault<S>]) -> Vec<Fault<S>> {
        let mut faults = kinds.to_vec();
        faults.extend((kinds.len()..FAULTS).map(|_| kinds[self.rng.usize(..kinds.len())]));
        self.rng.shuffle(&mut faults);
        faults
    }

    fn judge(&mut self, kinds: &[Fault<S>], took: Duration) {
        for place in &mut self.places {
            place.candidate.as_mut().expect("a candidate").assert_running();
        }
        let lines = self.stage.lines();
        let history = self.stage.assert_one_leader_at_a_time();
        assert!(history.handovers() >= HANDOVERS, "{:?}", history.terms);
        let late = self.suspensions.iter().map(|suspension| late_write::lines(&lines, &history, suspension));
        assert!(late.clone().all(|late| late <= 1), "who wakes past its term learns so at once");
        let faults = self.journal.faults();
        assert!(kinds.iter().all(|(kind, _)| faults.contains_key(kind)), "{faults:?}");
        say_aloud(&format!(
            "on {} (seed {}): {} handovers, {} faults in {:.0} s, {} heartbeats: {} overlaps, {} late lines\n  faults: {}",
            self.name,
            self.seed,
            history.handovers(),
            faults.values().sum::<usize>(),
            took.as_secs_f64(),
            history.heartbeats,
            history.overlaps.len(),
            late.sum::<usize>(),
            faults.iter().map(|(kind, times)| format!("{times} {kind}")).collect::<Vec<_>>().join(", "),
        ));
    }

    /// Waits until a candidate leads, and returns the place of the leader.
    fn leader(&self) -> usize {
        let now = mono();
        let beat = self.stage.wait_for("a leader", |line| line.event == "leading" && line.mono > now);
        self.journal.note(format!("{} leads {:.0} ms later", beat.identity, (beat.mono - now) * 1000.0));
        let is_its = |place: &Place| place.candidate.as_ref().is_some_and(|candidate| candidate.id == beat.identity);
        self.places.iter().position(is_its).unwrap_or_else(|| panic!("{beat:?} is no candidate any more"))
    }

    pub fn candidate(&self, place: usize) -> &Candidate {
        self.places[place].candidate.as_ref().expect("a candidate")
    }

    pub fn note(&self, text: String) {
        self.journal.note(text);
    }

    pub fn drawn(&mut self, between: Range<Duration>) -> Duration {
        between.start + (between.end - between.start).mul_f64(self.rng.f64())
    }

    /// Waits for a random time, which is the duration of a fault.
    ///
    /// In half of the cases, the leader ends meanwhile. A leader that ends by SIGTERM writes its release during the
    /// fault. A killed leader may leave a request behind.
    pub fn pass(&mut self, leader: usize, between: Range<Duration>) {
        let time = self.drawn(between);
        self.journal.note(format!("for {time:?}"));
        let until = Instant::now() + time;
        let end = match self.rng.u8(0..4) {
            0 => Some(Self::tell_to_end as fn(&mut Self, usize)),
            1 => Some(Self::kill as fn(&mut Self, usize)),
            _ => None,
        };
        if let Some(end) = end {
            thread::sleep(time.mul_f64(self.rng.f64()));
            end(self, leader);
        }
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    /// Ends a candidate by SIGTERM.
    ///
    /// The next candidate may have the same identity. That candidate must not mistake a late write of its predecessor
    /// for its own write.
    fn tell_to_end(&mut self, place: usize) {
        self.journal.note(format!("tells {} to end", self.candidate(place).id));
        let candidate = self.vacate(place);
        candidate.signal(Signal::TERM);
        let end = candidate.end();
        assert_eq!(end.code, Some(0), "{}", end.errors);
    }

    pub fn kill(&mut self, place: usize) {
        self.journal.note(format!("kills {}", self.candidate(place).id));
        self.vacate(place).kill();
    }

    fn vacate(&mut self, place: usize) -> Candidate {
        let is_another = self.rng.bool();
        let place = &mut self.places[place];
        place.generation += usize::from(is_another);
        place.candidate.take().expect("a candidate")
    }

    /// Waits until each candidate has printed a line, and thus has reached the store.
    ///
    /// A candidate may end at once if the store is unreachable at the start.
    fn wait_until_all_have_begun(&self) {
        let has_begun = |candidate: &Candidate| !candidate.lines().is_empty();
        wait_until("all candidates begin", || {
            self.places.iter().filter_map(|place| place.candidate.as_ref()).all(has_begun)
        });
    }

    /// Starts a candidate in each empty place.
    ///
    /// The store must be reachable.
    fn fill_places(&mut self) {
        for (number, place) in self.places.iter_mut().enumerate().filter(|(_, place)| place.candidate.is_none()) {
            let id = format!("{number}-{}", place.generation);
            place.candidate = Some(self.stage.candidate_on_store(&place.url, &id));
        }
    }
}

impl<S> Drop for Candidates<S> {
    fn drop(&mut self) {
        self.journal.keep(&self.stage.lines(), thread::panicking());
    }
}
