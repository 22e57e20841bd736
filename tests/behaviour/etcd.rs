//! Records in a real etcd, and what befalls it: lost history, members that fail, users, guarded transactions.

mod guarded;
mod history;
mod members;
mod users;
