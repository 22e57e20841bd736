//! A timeline of three members that share six shards, and share again after each departure.
//!
//!     cargo run --example sharded_workers                                      # in memory
//!     cargo run --example sharded_workers --features sqlite -- sqlite://FILE   # on the store of this URL
//!
//! The members are threads here. In production, each process is one member.

use std::error::Error;
use std::sync::Arc;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use leasehold::Stop;
use leasehold::group::{LeaseGroup, Shard};
use leasehold::store::{MemoryStore, Store};

const SHARDS: u32 = 6;
const NAMES: [&str; 3] = ["anna", "boris", "clara"];

fn main() -> Result<(), Box<dyn Error>> {
    let store: Arc<dyn Store> = match std::env::args().nth(1) {
        Some(url) => Arc::from(leasehold::open_store(&url)?),
        None => Arc::new(MemoryStore::new()),
    };
    let began = Instant::now();
    let print = move |name: &str, event: &str| println!("{:7.3} s  {name:<6} {event}", began.elapsed().as_secs_f64());
    let work = |name: &str, shard: &Shard| {
        print(name, &format!("works on shard {}, with fencing token {}", shard.index(), shard.fencing_token()));
        while shard.wait(Duration::from_millis(10)) {
            // one unit of work, with the fencing token on every write
        }
        Ok(())
    };
    let open = |name| {
        let builder = LeaseGroup::builder("sharded-workers").shards(SHARDS);
        // A short lease duration keeps the demonstration short. The default is 15 s.
        builder.slot(|slot| slot.identity(name).lease_duration(Duration::from_secs(2))).start_on(Arc::clone(&store))
    };
    let groups = NAMES.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let share = |name| groups[2].status().shards.iter().filter(|shard| shard.owner.as_deref() == Some(name)).count();
    scope(|scope| {
        print("", "anna, boris and clara join; the shards of a new group start one lease duration later");
        let members = groups.iter().map(|group| {
            let stop = Stop::new();
            let stopped = stop.clone();
            (stop, scope.spawn(move || group.run_until(&stopped, |shard| work(group.identity(), shard))))
        });
        for (left, (stop, member)) in members.collect::<Vec<_>>().into_iter().enumerate() {
            while NAMES[left..].iter().any(|name| share(name) != SHARDS as usize / (NAMES.len() - left)) {
                sleep(Duration::from_millis(10));
            }
            print("", &format!("shares: {}", NAMES.map(|name| format!("{name} {}", share(name))).join(", ")));
            sleep(Duration::from_secs(1));
            print(NAMES[left], "leaves");
            stop.stop(); // Stop::on_signals in a service
            member.join().expect("the work does not panic")?;
            print(NAMES[left], "has left");
        }
        Ok(())
    })
}
