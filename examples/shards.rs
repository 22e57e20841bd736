//! Several processes that share eight shards equally, with one lease per shard.
//!
//!     cargo run --example shards -- [SHARDS [PROCESSES]]       # in pods, or with a kubeconfig; start several
//!
//! Each process also holds one of the leases `member-0`, `member-1`, … (PROCESSES in all). The number of held
//! `member-…` leases is the number of running processes.

#[path = "shared/stop.rs"]
mod stop;

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, never, select, tick, unbounded};
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderGuard, Worker};

/// The purpose of a campaign. The result of each campaign contains its purpose.
enum Place {
    Member,
    Shard(usize),
}

struct Shard {
    elector: LeaderElector,
    worker: Option<Worker<()>>,
}

impl Shard {
    fn is_ours(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.leadership().is_leader())
    }
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shards: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let number = |place: usize, default: usize| std::env::args().nth(place).map_or(Ok(default), |it| it.parse());
    let (shards, processes) = (number(1, 8)?, number(2, 3)?);
    // All electors share one client.
    let client = Client::new(ClientConfig::infer()?)?;
    let start = |name: String| LeaderElector::builder(name).start_with_client(client.clone());
    let members = (0..processes).map(|i| start(format!("member-{i}"))).collect::<Result<Vec<_>, _>>()?;
    let shards = (0..shards).map(|i| Ok(Shard { elector: start(format!("shard-{i}"))?, worker: None }));
    share(&members, shards.collect::<Result<_, leasehold::Error>>()?, stop::signal()?)
}

fn share(members: &[LeaderElector], mut shards: Vec<Shard>, mut stop: Receiver<()>) -> Result<(), Box<dyn Error>> {
    let (won_by, won) = unbounded();
    let look = tick(Duration::from_millis(250));
    let mut membership: Option<LeaderGuard> = None;
    let mut ending = false;
    loop {
        for member in members {
            match membership.as_ref().is_some_and(LeaderGuard::is_leader) || ending {
                true => drop(member.withdraw()),
                // If the elector is already campaigning, `campaign_to` returns an error, which is ignored.
                false => drop(member.campaign_to(Place::Member, &won_by)),
            }
        }
        let other = |member: &&LeaderElector| member.current_leader().is_some_and(|it| it != member.identity());
        let others = members.iter().filter(other).count();
        let share = if ending { 0 } else { shards.len().div_ceil(others + 1) };
        let mut ours = shards.iter().filter(|shard| shard.is_ours()).count();
        for (number, shard) in shards.iter_mut().enumerate() {
            if ours > share && shard.is_ours() {
                println!("gives up shard {number}: there are {others} other processes");
                shard.worker.as_ref().into_iter().for_each(Worker::step_down);
                ours -= 1;
            }
            shard.worker.take_if(|worker| worker.has_ended());
            match ours < share && shard.worker.is_none() {
                true => drop(shard.elector.campaign_to(Place::Shard(number), &won_by)),
                false => drop(shard.elector.withdraw()),
            }
        }
        if ending && shards.iter().all(|shard| shard.worker.is_none()) {
            return Ok(());
        }
        select! {
            recv(won) -> answer => match answer? {
                (_, Err(leasehold::Error::Withdrawn)) => {}
                (_, Err(error)) => return Err(error.into()),
                // If `membership` is set, `get_or_insert` drops `guard`, which releases its lease.
                (Place::Member, Ok(guard)) => drop(membership.get_or_insert(guard)),
                (Place::Shard(number), Ok(guard)) if ours < share => {
                    println!("leads shard {number}, with token {}", guard.fencing_token());
                    shards[number].worker = Some(guard.spawn(work)?);
                }
                (Place::Shard(_), Ok(_)) => {}
            },
            recv(look) -> _ => {}
            recv(stop) -> _ => (ending, stop) = (true, never()),
        }
    }
}

fn work(guard: &LeaderGuard) {
    while guard.is_leader() {
        thread::sleep(Duration::from_millis(50)); // one unit of work
    }
}
