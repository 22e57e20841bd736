//! What befalls the API server and etcd.

use std::thread;

use fastrand::Rng;

use crate::field::{Fault, Field, LEASE, drawn};

pub const FAULTS: &[Fault] = &[
    ("API server killed", |field, rng| away(field, rng, "kill kube-apiserver", "start kube-apiserver")),
    ("API server told to end", |field, rng| away(field, rng, "stop kube-apiserver", "start kube-apiserver")),
    ("API server stopped", |field, rng| away(field, rng, "pause kube-apiserver", "continue kube-apiserver")),
    ("etcd killed", |field, rng| away(field, rng, "kill etcd", "start etcd")),
    ("etcd stopped", |field, rng| away(field, rng, "pause etcd", "continue etcd")),
];

fn away(field: &Field, rng: &mut Rng, go: &str, come: &str) {
    let time = drawn(rng, LEASE / 40..LEASE * 3 / 2);
    field.journal.note(format!("{go} for {time:?}"));
    field.real.tell(go);
    thread::sleep(time);
    field.real.tell(come);
    field.journal.note(format!("done: {come}"));
    // Without a server nothing else matters: let there be one most of the time.
    thread::sleep(LEASE * 2);
}
