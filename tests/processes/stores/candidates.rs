//! The candidates for one record of a store, who hand it over to each other.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use super::servers::HasServer;
use crate::support::exclusion::History;
use crate::support::journal::Journal;
use crate::support::late_write::{self, Suspension};
use crate::support::process::{Candidate, Stage, mono};
use crate::support::proxy::Proxy;
use crate::support::{say_aloud, wait_until};

pub const COUNT: usize = 4;
const HANDOVERS: usize = 100;
/// Or as many as there are kinds, if that is more.
const FAULTS: usize = 16;

/// A lease is as short as a busy machine lets anybody hold one. Between renew deadline and lease duration lies next to
/// nothing: the less there is, the sooner an error in the protocol shows as two leaders.
const FLAGS: &[&str] = &[
    "--lease-duration=2s",
    "--renew-deadline=1900ms",
    "--retry-period=250ms",
    "--no-client-go-peers",
    "--heartbeat=2ms",
];
pub const LEASE: Duration = Duration::from_secs(2);

/// A kind of fault, by what is said of it afterwards, and how it befalls the candidates, the leader being at this place. It is
/// over when that returns.
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

/// Where one candidate is at a time, and another takes its place when it ends.
pub struct Place {
    /// None where there is no server.
    pub proxy: Option<Proxy>,
    url: String,
    /// Absent when it ended in a fault that is not over.
    candidate: Option<Candidate>,
    generation: usize,
}

impl<S: HasServer> Candidates<S> {
    /// Each candidate reaches the server of `url` through a proxy of its own.
    pub fn by_way_of_proxies(name: &'static str, server: S, url: &str) -> Candidates<S> {
        let port = server.port();
        let ways = std::iter::repeat_with(|| {
            let proxy = Proxy::to(([127, 0, 0, 1], port).into());
            (url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port)), Some(proxy))
        });
        let ways = ways.take(COUNT).collect();
        Candidates::new(name, server, ways)
    }
}

impl<S> Candidates<S> {
    /// On a store without a server.
    pub fn on(name: &'static str, store: S, url: &str) -> Candidates<S> {
        Candidates::new(name, store, (0..COUNT).map(|_| (url.to_owned(), None)).collect())
    }

    fn new(name: &'static str, store: S, ways: Vec<(String, Option<Proxy>)>) -> Candidates<S> {
        let seed = std::env::var("LEASEHOLD_FAULTS_SEED").map_or_else(
            |_| fastrand::u64(..),
            |seed| seed.parse().unwrap_or_else(|error| panic!("LEASEHOLD_FAULTS_SEED={seed}: {error}")),
        );
        println!("LEASEHOLD_FAULTS_SEED={seed}");
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

    /// A hundred handovers, most of them by release, with each kind of fault at least once between them; and nobody led beside
    /// another.
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

    /// Each kind once, and then some again.
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
        let history = History::of(&lines);
        assert!(history.overlaps.is_empty(), "two led at a time: {:?}", history.overlaps);
        assert!(history.disorder.is_empty(), "tokens went back: {:?}", history.disorder);
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

    /// The place of whoever leads now, as soon as somebody does.
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

    /// A fault lasts. The leader may end meanwhile, and write its release into it, or leave a request behind.
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

    /// What follows may have the same identity: should a write of its predecessor's land late, it is none of its own.
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

    /// Who begins with a store that cannot be reached may end at once. One that has said something has reached it.
    fn wait_until_all_have_begun(&self) {
        let has_begun = |candidate: &Candidate| !candidate.lines().is_empty();
        wait_until("all candidates begin", || {
            self.places.iter().filter_map(|place| place.candidate.as_ref()).all(has_begun)
        });
    }

    /// Only while the store can be reached.
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
