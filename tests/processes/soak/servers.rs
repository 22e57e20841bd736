//! Faults of the API server and of etcd.

use std::thread;

use fastrand::Rng;

use crate::candidates::{Candidates, Fault, LEASE, drawn};

pub const FAULTS: &[Fault] = &[
    ("API server killed", |candidates, rng| away(candidates, rng, "kill kube-apiserver", "start kube-apiserver")),
    ("API server told to end", |candidates, rng| away(candidates, rng, "stop kube-apiserver", "start kube-apiserver")),
    ("API server stopped", |candidates, rng| away(candidates, rng, "pause kube-apiserver", "continue kube-apiserver")),
    ("etcd killed", |candidates, rng| away(candidates, rng, "kill etcd", "start etcd")),
    ("etcd stopped", |candidates, rng| away(candidates, rng, "pause etcd", "continue etcd")),
];

fn away(candidates: &Candidates, rng: &mut Rng, go: &str, come: &str) {
    let time = drawn(rng, LEASE / 40..LEASE * 3 / 2);
    candidates.journal.note(format!("{go} for {time:?}"));
    candidates.real.tell(go);
    thread::sleep(time);
    candidates.real.tell(come);
    candidates.journal.note(format!("done: {come}"));
    // The other faults have no effect without a server, so the server is available most of the time.
    thread::sleep(LEASE * 2);
}
