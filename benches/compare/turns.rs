//! Handovers between two candidates in one process, whose connections stay open.
//!
//! Usage: `turns --store URL --lease NAME`
//!
//! After each line on standard input, the leader drops its guard, and the standby takes over. Each candidate opens its
//! own store. With `--store memory`, both candidates share one store in memory, so only their threads take time.

use std::error::Error;
use std::io::{self, BufRead};
use std::mem;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use leasehold::store::MemoryStore;
use leasehold::{LeaderElector, LeaderGuard};
use lexopt::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut url, mut lease) = (String::new(), String::new());
    let mut arguments = lexopt::Parser::from_env();
    while let Some(flag) = arguments.next()? {
        match flag {
            Long("store") => url = arguments.value()?.string()?,
            Long("lease") => lease = arguments.value()?.string()?,
            other => return Err(other.unexpected().into()),
        }
    }
    let memory = Arc::new(MemoryStore::new());
    let candidate = |identity: &str| -> Result<LeaderElector, Box<dyn Error>> {
        let builder = LeaderElector::builder(&lease).identity(identity).lease_duration(Duration::from_secs(15));
        let builder = builder.renew_deadline(Duration::from_secs(10)).retry_period(Duration::from_secs(2));
        Ok(match url.as_str() {
            "memory" => builder.start_on(Arc::clone(&memory))?,
            url => builder.start_on(leasehold::open_store(url)?)?,
        })
    };
    let (mut leader, mut standby) = (candidate("a")?, candidate("b")?);
    let mut guard = leader.block_until_leader()?;
    let mut campaign = standby.campaign()?;
    let (release, releases) = mpsc::channel::<LeaderGuard>();
    let (released, answers) = mpsc::channel();
    thread::spawn(move || {
        for guard in releases {
            // The pause is random, so that releases do not always meet the same phase of polling. The last digits of
            // the clock serve as random numbers.
            thread::sleep(Duration::from_secs_f64(mono() * 1e4 % 1.0 / 10.0));
            let sent = mono();
            drop(guard);
            let _ = released.send(sent);
        }
    });
    println!(r#"{{"event":"ready"}}"#);
    for line in io::stdin().lock().lines() {
        line?;
        release.send(guard)?;
        guard = campaign.receiver().recv()??;
        let taken = mono();
        println!(r#"{{"event":"turn","total":{}}}"#, taken - answers.recv()?);
        // The former leader is now the standby.
        mem::swap(&mut leader, &mut standby);
        campaign = standby.campaign()?;
    }
    Ok(())
}

/// Returns the seconds of `CLOCK_MONOTONIC`, which all processes of a host share.
fn mono() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
