//! Electors against the in-memory server, while the server, a proxy or the network fails.
//!
//! The tables in `kinds` name the faults. Each test defines when a fault occurs and what must hold then.
//!
//! At all times, only the holder in the store leads. After each fault, a candidate leads again.

mod campaigning;
mod kinds;
mod leading;
mod place;
mod release;
mod strangers;
