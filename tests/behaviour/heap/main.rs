//! Tests that count allocations.

#[path = "../../support/allocation.rs"]
#[allow(dead_code, reason = "the corpora use the rest")]
mod allocation;

mod answers;
#[path = "../../support/client_config.rs"]
mod client_config;
mod rows;
mod sessions;

use allocation::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
