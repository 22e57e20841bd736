//! Tests of the in-memory API server, one module for each group of behaviors.

mod support;

mod faults;
mod life;
mod objects;
mod robustness;
mod users;
mod watches;
