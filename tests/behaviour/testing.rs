//! The in-memory API server, behaviour by behaviour.

mod support;

mod faults;
mod life;
mod objects;
mod robustness;
mod users;
mod watches;
