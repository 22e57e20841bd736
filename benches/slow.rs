//! Counts the terms that an elector, client-go and `leasehold run` lose on an API server that answers late.
//!
//! Run `tests/client-go/build`, `cargo build -p leasehold-cli` and `cargo bench --bench slow`. Arguments are delays in
//! seconds. Each delay runs on the in-memory server and on kube-apiserver, all at the same time, behind a proxy that
//! delays the answers. The default settings apply.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::LeaderElector;
use support::api::Method;

#[path = "../tests/support/mod.rs"]
mod support;

use support::cluster::{Cluster, NAMESPACE, client};
use support::proxy::{Faults, Proxy};
use support::{in_target, wait_until};

/// The time for which the answers are late.
const TIME: Duration = Duration::from_secs(100);

/// Whether answers are late. Losses count only then.
#[derive(Default)]
struct Phase {
    is_slow: AtomicBool,
    is_over: AtomicBool,
}

fn main() {
    let given: Vec<f64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let delays = if given.is_empty() { vec![3.0, 3.7, 4.0, 4.8] } else { given };
    let scratch = support::scratch();
    let clusters = [
        ("in memory", Cluster::in_memory("bench-slow")),
        ("kube-apiserver", Cluster::real("bench-slow").expect("the real server, built by tests/apiserver/build")),
    ];
    println!("| API server | answers late by | elector | client-go | `leasehold run` |\n|---|--:|--:|--:|--:|");
    thread::scope(|scope| {
        let cases = clusters.iter().flat_map(|cluster| delays.iter().map(move |delay| (cluster, *delay)));
        let lost: Vec<_> = cases
            .map(|((name, cluster), delay)| {
                (
                    name,
                    delay,
                    scope.spawn({
                        let scratch = scratch.path();
                        move || measure(cluster, delay, scratch)
                    }),
                )
            })
            .collect();
        for (name, delay, lost) in lost {
            let [elector, client_go, run] = lost.join().expect("a measurement");
            println!("| {name} | {delay} s | {elector} | {client_go} | {run} |");
        }
    });
}

/// Returns the lost terms of the elector, of client-go and of `leasehold run`.
fn measure(cluster: &Cluster, delay: f64, scratch: &Path) -> [usize; 3] {
    let phase = Phase::default();
    let name = |candidate: &str| format!("{}-{candidate}-{delay}", cluster.lease);
    let [elector_lease, client_go_lease, run_lease] = ["elector", "client-go", "run"].map(name);
    // A watch would report the writes of its own candidate before their answers.
    let file = scratch.join(&run_lease);
    let proxy = Proxy::by_kubeconfig(&cluster.kubeconfig("no-watch"), &file);
    let starts = scratch.join(format!("{run_lease}.starts"));
    let config = ["--kubeconfig", file.to_str().expect("a path"), "--namespace", NAMESPACE, "--lease"];
    let client_go = || {
        let mut command = Command::new(in_target("client-go/client-go"));
        command.args(config).args([&client_go_lease, "--id", "client-go", "--json"]);
        command
    };
    let run = || {
        let mut command = Command::new(in_target("debug/leasehold"));
        command.arg("run").args(config).args([&run_lease, "--restart", "--"]);
        // The command starts once in each term.
        command.args(["sh", "-c", "echo >>$0; exec sleep 1000"]).arg(&starts);
        command
    };
    let elector =
        || LeaderElector::builder(&elector_lease).namespace(NAMESPACE).start_with_client(client(file.clone()));
    thread::scope(|scope| {
        let losses = [
            scope.spawn(|| losses_of_an_elector(&elector().expect("an elector"), &phase)),
            scope.spawn(|| losses_of_a_process(client_go, &phase)),
            scope.spawn(|| losses_of_a_process(run, &phase)),
        ];
        let admin = cluster.api("admin");
        wait_until("all lead", || {
            [&elector_lease, &client_go_lease, &run_lease]
                .iter()
                .all(|lease| admin.request(Method::GET, &format!("{}/{lease}", cluster.path(false)), None).is_ok())
        });
        thread::sleep(Duration::from_secs(5));
        proxy.set(Faults::AnswersLate(Duration::from_secs_f64(delay)));
        phase.is_slow.store(true, Ordering::SeqCst);
        thread::sleep(TIME);
        phase.is_slow.store(false, Ordering::SeqCst);
        phase.is_over.store(true, Ordering::SeqCst);
        proxy.set(Faults::Fair);
        let [elector, client_go, exits] = losses.map(|losses| losses.join().expect("a count"));
        let started = std::fs::read_to_string(&starts).expect("a file").lines().count();
        // A term is lost without another start if no later acquisition is answered in time.
        [elector, client_go, exits + started.saturating_sub(1)]
    })
}

fn losses_of_an_elector(elector: &LeaderElector, phase: &Phase) -> usize {
    let mut lost = 0;
    loop {
        let guard = elector.block_until_leader().expect("a term");
        while guard.is_leader() {
            thread::sleep(Duration::from_millis(10));
            if phase.is_over.load(Ordering::SeqCst) {
                return lost;
            }
        }
        lost += usize::from(phase.is_slow.load(Ordering::SeqCst));
    }
}

/// Starts the process again after each end, because both programs end with their term.
fn losses_of_a_process(command: impl Fn() -> Command, phase: &Phase) -> usize {
    let mut lost = 0;
    loop {
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program");
        while child.try_wait().expect("a process").is_none() {
            thread::sleep(Duration::from_millis(10));
            if phase.is_over.load(Ordering::SeqCst) {
                end(&mut child);
                return lost;
            }
        }
        lost += usize::from(phase.is_slow.load(Ordering::SeqCst));
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
