//! Faults of processes, networks and the API server never let two commands run at once.
//!
//! No process is left at the end.
//!
//! `LEASEHOLD_COMMAND_FAULTS` sets the number of faults (default: 120). `LEASEHOLD_COMMAND_SEED` sets the seed
//! (default: random).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::api::{Api, Method};
use crate::support::command::{Arena, children, is_guardian, is_prepared};
use crate::support::journal::Journal;
use crate::support::process::mono;
use crate::support::proxy::{Faults, Proxy};
use crate::support::real::Real;
use crate::support::run::Run;
use crate::support::{chosen, say_aloud, seed, wait_until, wait_within};

/// The number of leases, each with `CANDIDATES` candidates.
const LEASES: usize = 4;
const CANDIDATES: usize = 3;

const FLAGS: &[&str] = &[
    "--lease-duration=3s",
    "--renew-deadline=2s",
    "--retry-period=200ms",
    "--release-timeout=2s",
    "--stop-timeout=400ms",
];

/// The lease duration plus one second, in which another candidate takes over.
const OVER: Duration = Duration::from_secs(4);

/// The longest wait, because a kube-apiserver may need half a minute to start.
const PATIENCE: Duration = Duration::from_secs(180);

const KINDS: &[&[&str]] = &[
    &[],
    &["stubborn"],
    &["children"],
    &["stubborn", "children", "orphans"],
    &["sessions"],
    &["stubborn", "sessions", "breed"],
    &["breed"],
];

/// The place of one candidate.
///
/// If the candidate ends, another one starts in the same place.
struct Place {
    proxy: Proxy,
    arena: Arena,
    run: Option<Run>,
}

/// A lease and its candidates, which all write stamps to the same file.
struct Lease<'a> {
    places: Vec<Place>,
    rng: Rng,
    journal: &'a Journal,
    /// The times at which all processes of a candidate were continued after a stop.
    continued: Vec<f64>,
    _kubeconfigs: TempDir,
}

type Fault = (&'static str, fn(&mut Lease, usize));

const FAULTS: &[Fault] = &[
    ("supervisor killed", |lease, place| {
        let run = lease.places[place].run.as_mut().expect("it was filled");
        run.signal(Signal::KILL);
        // On a busy machine a killed process still runs for a while, and the next fault may kill the guardian.
        wait_until("the killed supervisor has ended", || !run.is_running());
    }),
    ("supervisor told to end", |lease, place| lease.run(place).signal(Signal::TERM)),
    ("supervisor stopped", |lease, place| {
        let pid = lease.run(place).pid;
        lease.stop(&[pid]);
    }),
    ("guardian killed", |lease, place| {
        if let Some(guardian) = lease.guardian(place) {
            let _ = kill_process(guardian, Signal::KILL);
            // If the guardian were still alive, `settle` would return early, and the next fault could kill the
            // supervisor.
            wait_until("the killed guardian has ended", || !is_guardian(guardian));
        }
    }),
    ("guardian told to end", |lease, place| {
        if let Some(guardian) = lease.guardian(place) {
            let _ = kill_process(guardian, Signal::TERM);
        }
    }),
    ("guardian stopped", |lease, place| {
        let guardian = lease.guardian(place);
        lease.stop(&guardian.into_iter().collect::<Vec<_>>());
    }),
    // The child of a standby's guardian is the prepared process, which later becomes the command.
    ("command killed", |lease, place| {
        if let Some(command) = lease.guardian(place).and_then(|guardian| children(guardian).first().copied()) {
            let _ = kill_process(command, Signal::KILL);
        }
    }),
    ("command stopped", |lease, place| {
        let command = lease.guardian(place).and_then(|guardian| children(guardian).first().copied());
        lease.stop(&command.into_iter().collect::<Vec<_>>());
    }),
    ("all stopped", |lease, place| {
        let all = lease.places[place].arena.processes();
        lease.stop(&all);
        lease.continued.push(mono());
    }),
    ("network cut", |lease, place| lease.disturb(place, Faults::Cut)),
    ("network silent", |lease, place| lease.disturb(place, Faults::BlackHole)),
    ("network held back", |lease, place| lease.disturb(place, Faults::HeldBack)),
];

impl<'a> Lease<'a> {
    fn new(real: &Real, number: usize, rng: Rng, journal: &'a Journal) -> Self {
        let kubeconfigs = tempfile::tempdir().expect("a scratch directory");
        let stamps = kubeconfigs.path().join("stamps");
        let places = (0..CANDIDATES).map(|place| {
            let kubeconfig = kubeconfigs.path().join(place.to_string());
            let proxy = Proxy::by_kubeconfig(&real.ready.kubeconfigs["candidate"], &kubeconfig);
            let arena = Arena::by(&kubeconfig, &format!("command-{number}"), FLAGS).with_stamps(&stamps);
            Place { proxy, arena, run: None }
        });
        Self { places: places.collect(), rng, journal, continued: Vec::new(), _kubeconfigs: kubeconfigs }
    }

    /// Starts a candidate in each place without a running candidate.
    fn fill(&mut self) {
        for place in &mut self.places {
            if place.run.as_mut().is_none_or(|run| !run.is_running()) {
                // The result of the previous run is ignored, because a fault may have ended the run.
                place.run = None;
                let kinds = self.rng.choice(KINDS).expect("kinds");
                place.run = Some(place.arena.work(&[], kinds));
            }
        }
    }

    fn run(&self, place: usize) -> &Run {
        self.places[place].run.as_ref().expect("it was filled")
    }

    fn guardian(&self, place: usize) -> Option<Pid> {
        children(self.run(place).pid).first().copied()
    }

    /// Stops the processes for a random time of at most `OVER`, and continues them.
    fn stop(&mut self, pids: &[Pid]) {
        pids.iter().for_each(|&pid| _ = kill_process(pid, Signal::STOP));
        self.wait();
        pids.iter().for_each(|&pid| _ = kill_process(pid, Signal::CONT));
    }

    fn disturb(&mut self, place: usize, faults: Faults) {
        self.places[place].proxy.set(faults);
        self.wait();
        self.places[place].proxy.set(Faults::Fair);
    }

    fn wait(&mut self) {
        thread::sleep(OVER.mul_f64(self.rng.f64()));
    }

    /// Returns the leader's place three times out of four, and otherwise a random place.
    fn victim(&mut self) -> usize {
        let leads = |place: &Place| {
            let run = place.run.as_ref().map(|run| run.pid);
            let guardian = run.and_then(|pid| children(pid).first().copied());
            let child = guardian.and_then(|guardian| children(guardian).first().copied());
            child.is_some_and(|child| !is_prepared(child))
        };
        let leader = self.places.iter().position(leads).filter(|_| self.rng.u8(..4) > 0);
        leader.unwrap_or_else(|| self.rng.usize(..CANDIDATES))
    }

    fn suffer(&mut self) {
        self.fill();
        let victim = self.victim();
        let (name, fault) = self.rng.choice(FAULTS).expect("faults");
        self.journal.fault(name);
        fault(self, victim);
        self.settle(victim);
        self.fill();
        // A command must work after the fault.
        let from = mono();
        let arena = &self.places[0].arena;
        wait_within(PATIENCE, &format!("somebody works after {name}"), || arena.last_stamp() > from);
    }

    /// Waits until a supervisor that has lost its guardian has only a new guardian as a child.
    ///
    /// The test must not kill a supervisor and its guardian at the same time, because then processes may be left.
    fn settle(&mut self, place: usize) {
        let run = self.places[place].run.as_mut().expect("it was filled");
        wait_until("a supervisor has one guardian, and nothing else", || {
            let children = children(run.pid);
            !run.is_running() || matches!(children[..], [guardian] if is_guardian(guardian))
        });
    }

    /// Ends all candidates, and returns the number of terms.
    fn end(mut self) -> usize {
        for place in &mut self.places {
            let run = place.run.take().expect("it was filled");
            run.terminate();
            place.arena.assert_nothing_is_left();
        }
        self.places[0].arena.assert_one_at_a_time_but_for(&self.continued)
    }
}

#[test]
fn faults_never_let_two_commands_run_at_once() {
    let Some(real) = Real::own() else { return };
    let count = chosen("LEASEHOLD_COMMAND_FAULTS", |text| text.parse().ok()).unwrap_or(120);
    let seed = seed("LEASEHOLD_COMMAND_SEED");
    say_aloud(&format!("commands (seed {seed}): {count} faults"));
    let mut rng = Rng::with_seed(seed);
    let journal = Journal::new("commands", seed);
    let (left, is_over) = (AtomicUsize::new(count), AtomicBool::new(false));
    let (real, journal, terms) = (&real, &journal, Mutex::new(0));
    let next = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    thread::scope(|scope| {
        let leases = (0..LEASES).map(|number| {
            let mut lease = Lease::new(real, number, rng.fork(), journal);
            let (next, terms) = (&next, &terms);
            scope.spawn(move || {
                while next() {
                    lease.suffer();
                }
                *terms.lock() += lease.end();
            })
        });
        let leases: Vec<_> = leases.collect();
        let mut rng = rng.fork();
        let (next, is_over) = (&next, &is_over);
        let admin = Api::new(&real.ready.kubeconfigs["admin"]);
        let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let server = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                // The other faults have no effect without a server, so the server is available most of the time.
                thread::sleep(OVER * 3);
                if !is_over.load(Ordering::Relaxed) && next() {
                    journal.fault("API server restarted");
                    real.tell("kill kube-apiserver");
                    thread::sleep(Duration::from_secs_f64(rng.f64()));
                    real.tell("start kube-apiserver");
                    let until = Instant::now() + PATIENCE;
                    while admin.request(Method::GET, path, None).is_err() {
                        assert!(Instant::now() < until, "the API server does not start");
                        thread::sleep(Duration::from_millis(100));
                    }
                }
            }
        });
        let ended: Vec<_> = leases.into_iter().map(|lease| lease.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        server.join().expect("the server's faults");
        for lease in ended {
            lease.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let faults = journal.faults();
    say_aloud(&format!(
        "commands (seed {seed}): {} faults, {} terms, 0 overlaps, 0 processes left: {}",
        faults.values().sum::<usize>(),
        terms.lock(),
        faults.iter().map(|(kind, times)| format!("{times} {kind}")).collect::<Vec<_>>().join(", ")
    ));
}
