//! Groups, whose members divide shards, on one store.
//!
//! Each process runs the state machine of a group, and one session of an ordinary election for its slot. A worker runs
//! for each owned shard. The world has its own faults and checks, and uses the clocks and the network of the other
//! worlds.

mod chaos;
mod checks;
mod driver;
mod plan;
mod process;
mod store;
mod world;

pub use world::simulate;
