//! Counts the terms that an elector, client-go and `leasehold run` lose on an API server that answers late.
//!
//! Run `tests/client-go/build`, `cargo build --features cli --bin leasehold` and `cargo bench --bench slow`. Arguments are
//! delays in seconds. Each delay has a server in memory, and all run at the same time. The default settings apply.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::LeaderElector;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::testing::{ApiServer, Fault, Resource, Verb};

#[path = "../tests/support/mod.rs"]
mod support;

use support::{in_target, wait_until};

/// The time for which the answers are late.
const TIME: Duration = Duration::from_secs(100);
const NAMESPACE: &str = "default";

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
    println!("| answers late by | elector | client-go | `leasehold run` |\n|--:|--:|--:|--:|");
    thread::scope(|scope| {
        let lost: Vec<_> = delays.iter().map(|delay| scope.spawn(|| measure(*delay, scratch.path()))).collect();
        for (delay, lost) in delays.iter().zip(lost) {
            let [elector, client_go, run] = lost.join().expect("a measurement");
            println!("| {delay} s | {elector} | {client_go} | {run} |");
        }
    });
}

/// Returns the lost terms of the elector, of client-go and of `leasehold run`.
fn measure(delay: f64, scratch: &Path) -> [usize; 3] {
    let (server, phase, delay_of) = (ApiServer::start().expect("a server"), Phase::default(), delay);
    let delay = Duration::from_secs_f64(delay);
    // A watch would report the writes of its own candidate before their answers.
    server.fault(Fault::status(403, "Forbidden", "no watches").verb(Verb::Watch));
    let file = scratch.join(format!("{delay_of}.kubeconfig"));
    std::fs::write(&file, server.kubeconfig("candidate")).expect("a kubeconfig");
    let starts = scratch.join(format!("{delay_of}.starts"));
    let config = ["--kubeconfig", file.to_str().expect("a path"), "--lease"];
    let client_go = || {
        let mut command = Command::new(in_target("client-go/client-go"));
        command.args(config).args(["client-go", "--id", "client-go", "--json"]);
        command
    };
    let run = || {
        let mut command = Command::new(leasehold());
        command.arg("run").args(config).args(["run", "--namespace", NAMESPACE, "--restart", "--"]);
        // The command starts once in each term.
        command.args(["sh", "-c", "echo >>$0; exec sleep 1000"]).arg(&starts);
        command
    };
    thread::scope(|scope| {
        let losses = [
            scope.spawn(|| losses_of_an_elector(&server, &phase)),
            scope.spawn(|| losses_of_a_process(client_go, &phase)),
            scope.spawn(|| losses_of_a_process(run, &phase)),
        ];
        wait_until("all lead", || {
            ["elector", "client-go", "run"].iter().all(|name| server.get(Resource::Leases, NAMESPACE, name).is_some())
        });
        thread::sleep(Duration::from_secs(5));
        let late: Vec<_> = [Verb::Get, Verb::Create, Verb::Update]
            .into_iter()
            .map(|verb| server.fault(Fault::delay_answer(delay).verb(verb)))
            .collect();
        phase.is_slow.store(true, Ordering::SeqCst);
        thread::sleep(TIME);
        phase.is_slow.store(false, Ordering::SeqCst);
        phase.is_over.store(true, Ordering::SeqCst);
        late.iter().for_each(|late| late.remove());
        let [elector, client_go, exits] = losses.map(|losses| losses.join().expect("a count"));
        let started = std::fs::read_to_string(&starts).expect("a file").lines().count();
        // A term is lost without another start if no later acquisition is answered in time.
        [elector, client_go, exits + started.saturating_sub(1)]
    })
}

fn losses_of_an_elector(server: &ApiServer, phase: &Phase) -> usize {
    let client = Client::new(ClientConfig::new(&server.url()).expect("a URL")).expect("a client");
    let elector = LeaderElector::builder("elector").namespace(NAMESPACE).start_with_client(client).expect("an elector");
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

fn leasehold() -> PathBuf {
    in_target("debug/leasehold")
}
