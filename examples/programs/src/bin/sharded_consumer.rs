//! A consumer that divides the partitions of a queue over its replicas.

use std::thread::sleep;
use std::time::Duration;

use leasehold::Stop;
use leasehold::group::{LeaseGroup, Shard};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// All replicas must use the same number. To change it, stop all of them first.
const PARTITIONS: u32 = 16;
/// Less than the 30 s after which Kubernetes kills the process.
const STOP_LIMIT: Duration = Duration::from_secs(25);

fn main() -> Result<(), Failure> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let stop = Stop::on_signals_within(STOP_LIMIT)?;
    let group = LeaseGroup::builder("consumer").shards(PARTITIONS).start()?;
    group.run_until(&stop, consume)?;
    Ok(())
}

/// Consumes one partition until it moves to another replica.
fn consume(shard: &Shard) -> Result<(), Failure> {
    while shard.is_owned() && !shard.is_recalled() {
        process_next_message(shard.index(), shard.fencing_token())?;
    }
    Ok(())
}

/// Stands for one message, with the token on each write.
fn process_next_message(partition: u32, token: u64) -> Result<(), Failure> {
    sleep(Duration::from_millis(200)); // not `shard.wait`, which a recall cuts short
    println!("partition {partition}, token {token}");
    Ok(())
}
