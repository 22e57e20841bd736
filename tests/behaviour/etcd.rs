//! Records in a real etcd: lost history, failing members, users, guarded transactions.

mod guarded;
mod history;
mod members;
mod users;
