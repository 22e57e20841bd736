//! A member of a group that prints its work as JSON lines, for the tests of processes and for `benches/groups/run`.
//!
//!     group_member --group NAME --id IDENTITY --shards N [--store URL | --kubeconfig FILE]
//!                  [--lease SECONDS] [--heartbeat MILLISECONDS] [--electors N]
//!
//! Each worker reads the clock, checks its shard, and prints a line `leading`. The stamp of the line is the time before
//! the check. A heartbeat of 0 prints one line for each ownership. A worker that returns prints a line `ended`. With
//! `--electors`, the program holds N leases instead, without a group.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::time::Duration;

use leasehold::group::{LeaseGroup, Shard};
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, Stop};
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::init();
    let words: Vec<_> = std::env::args().skip(1).collect();
    let flags: BTreeMap<_, _> = words.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let flag = |name: &str, default: &'static str| flags.get(name).copied().unwrap_or(default);
    let lease: f64 = flag("--lease", "15").parse()?;
    let heartbeat = Duration::from_millis(flag("--heartbeat", "0").parse()?);
    let builder = LeaseGroup::builder(flag("--group", "group")).shards(flag("--shards", "16").parse()?);
    let builder = builder.slot(|slot| {
        let slot = slot.identity(flag("--id", "member")).lease_duration(Duration::from_secs_f64(lease));
        let slot = slot.renew_deadline(Duration::from_secs_f64(lease * 2.0 / 3.0)).no_client_go_peers(true);
        slot.retry_period(Duration::from_secs_f64(lease * 2.0 / 15.0))
    });
    let stop = Stop::on_signals()?;
    if let Some(url) = flags.get("--store") {
        return run(&builder.start_on(leasehold::open_store(url)?)?, &stop, heartbeat);
    }
    let config = match flags.get("--kubeconfig") {
        Some(file) => ClientConfig::from_kubeconfig(Some(file.as_ref()), None)?,
        None => ClientConfig::infer()?,
    };
    let client = Client::new(config)?;
    let electors = flag("--electors", "0").parse()?;
    if electors == 0 {
        return run(&builder.start_with_client(client)?, &stop, heartbeat);
    }
    let name = |number| format!("{}-{number}", flag("--group", "group"));
    let start = |number| LeaderElector::builder(name(number)).start_with_client(client.clone());
    let electors = (0..electors).map(start).collect::<Result<Vec<_>, _>>()?;
    let guards = electors.iter().map(LeaderElector::block_until_leader).collect::<Result<Vec<_>, _>>()?;
    println!(r#"{{"event":"leading","identity":"electors","mono":{:.9}}}"#, mono());
    let _ = stop.receiver().recv();
    leasehold::release_all(guards, Duration::from_secs(5));
    Ok(())
}

fn run(group: &LeaseGroup, stop: &Stop, heartbeat: Duration) -> Result<(), Box<dyn Error>> {
    let print = |event: &str, stamp: f64, shard: &Shard| {
        writeln!(
            std::io::stdout().lock(),
            r#"{{"event":"{event}","identity":"{}","mono":{stamp:.9},"fencing_token":{},"shard":{}}}"#,
            group.identity(),
            shard.fencing_token(),
            shard.index(),
        )
    };
    group.run_until(stop, |shard| {
        loop {
            let stamp = mono();
            if !shard.is_owned() || shard.is_recalled() {
                return Ok(print("ended", stamp, shard)?);
            }
            print("leading", stamp, shard)?;
            let _ = match heartbeat.is_zero() {
                true => shard.recalled().recv().map_err(drop),
                false => shard.recalled().recv_timeout(heartbeat).map_err(drop),
            };
        }
    })?;
    Ok(())
}

fn mono() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
