//! Measurements that need a separate program:
//!
//! - `bare limit FILE LEASE` measures the lower bound of a handover, without electors. One client releases the lease
//!   with a PUT. A second client receives the watch event and takes over with a PUT. All connections are already open.
//! - `bare herd FILE... LEASE` measures a handover among many electors, one for each kubeconfig FILE. The leader
//!   releases the lease, and campaigns again after another elector has become the leader.
//! - `bare check FILE LEASE` measures the time of `is_leader()`, and of the clock reading that `is_leader()` includes.
//!
//! Each line on standard input starts a round. Each subcommand prints a JSON line when ready, and a JSON line for each
//! round.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use contender::mono;
use leasehold::crossbeam_channel::Select;
use leasehold::kubernetes::{Client, ClientConfig, LeaseStore};
use leasehold::store::{
    CallContext, CancelToken, LeaderElectionRecord, Store, VersionedRecord, WatchEvent, WatchScope,
};
use leasehold::{Campaign, LeaderElector};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["limit", kubeconfig, lease] => limit(client(kubeconfig)?, client(kubeconfig)?, lease),
        ["check", kubeconfig, lease] => check(kubeconfig, lease),
        ["herd", ref kubeconfigs @ .., lease] => herd(kubeconfigs, lease),
        _ => Err("see the comment at the top of main.rs".into()),
    }
}

fn client(kubeconfig: &str) -> Result<Client, Box<dyn Error>> {
    Ok(Client::new(ClientConfig::from_kubeconfig(Some(kubeconfig.as_ref()), None)?)?)
}

fn say(line: Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

// ---- the lower bound ----

/// Measures the lower bound of a handover.
///
/// The two clients have separate connections, like the two processes of a handover.
fn limit(taker: Client, releaser: Client, name: &str) -> Result<(), Box<dyn Error>> {
    let namespace = taker.default_namespace().to_owned();
    let taker = LeaseStore::new(taker, &namespace)?;
    let releaser = LeaseStore::new(releaser, &namespace)?;
    let mut lease = releaser.create(name, held_by("a").as_write(), &call())?;
    // This read opens the connection of `taker`. The POST has opened the connection of `releaser`.
    taker.get(name, &call())?;

    let (opened, is_open) = mpsc::channel();
    let (took, takeovers) = mpsc::channel();
    let key = name.to_owned();
    thread::spawn(move || {
        let end = taker.watch(WatchScope::Key(&key), None, &CancelToken::new(), &mut |event| match event {
            WatchEvent::Opened => drop(opened.send(())),
            WatchEvent::Changed { observed, .. } if observed.record.holder_identity.as_deref() == Some("") => {
                let heard = mono();
                let taken = taker.update(&key, &observed, held_by("b").as_write(), &call());
                let _ = took.send((heard, mono(), taken));
            }
            // The events of the other writes.
            _ => {}
        });
        panic!("the watch ended: {end:?}");
    });
    is_open.recv()?;
    say(json!({ "event": "ready" }))?;

    let (release, releases) = mpsc::channel::<VersionedRecord>();
    let (released, answers) = mpsc::channel();
    let key = name.to_owned();
    thread::spawn(move || {
        for lease in releases {
            let sent = mono();
            let answer = releaser.update(&key, &lease, held_by("").as_write(), &call());
            let _ = released.send((sent, mono(), answer));
        }
    });
    for line in io::stdin().lock().lines() {
        line?;
        release.send(lease)?;
        let (heard, taken, next) = takeovers.recv()?;
        lease = next?;
        let (sent, answered, answer) = answers.recv()?;
        answer?;
        say(json!({ "event": "limit", "total": taken - sent, "event_after": heard - sent, "put": answered - sent }))?;
    }
    Ok(())
}

fn call() -> CallContext {
    CallContext::new(TIMEOUT, CancelToken::new())
}

fn held_by(identity: &str) -> LeaderElectionRecord {
    LeaderElectionRecord {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(15),
        ..LeaderElectionRecord::default()
    }
}

// ---- the check ----

/// The number of calls per sample, because one call is too short to measure.
const CALLS: u32 = 1000;

fn check(kubeconfig: &str, lease: &str) -> Result<(), Box<dyn Error>> {
    let elector = LeaderElector::builder(lease).start_with_client(client(kubeconfig)?)?;
    let guard = elector.block_until_leader()?;
    say(json!({ "event": "ready" }))?;
    for line in io::stdin().lock().lines() {
        line?;
        let clock = nanoseconds(|| {
            black_box(rustix::time::clock_gettime(rustix::time::ClockId::Boottime));
        });
        let is_leader = nanoseconds(|| {
            black_box(black_box(&guard).is_leader());
        });
        guard.check()?;
        say(json!({ "event": "check", "clock": clock, "is_leader": is_leader }))?;
    }
    Ok(())
}

fn nanoseconds(what: impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        what();
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

// ---- the herd ----

fn herd(kubeconfigs: &[&str], lease: &str) -> Result<(), Box<dyn Error>> {
    let mut electors = Vec::new();
    for (number, kubeconfig) in kubeconfigs.iter().enumerate() {
        let elector =
            LeaderElector::builder(lease).identity(format!("herd-{number}")).start_with_client(client(kubeconfig)?)?;
        electors.push(elector);
    }
    let mut leader = 0;
    let mut guard = Some(electors[0].block_until_leader()?);
    let mut campaigns: Vec<Option<Campaign>> = electors[1..].iter().map(|elector| elector.campaign().ok()).collect();
    campaigns.insert(0, None);
    say(json!({ "event": "ready" }))?;
    for line in io::stdin().lock().lines() {
        line?;
        let (release, released) = mpsc::channel();
        let term = guard.take().ok_or("no elector leads")?;
        // The drop waits for the response to the release. The next term may start before the response arrives.
        thread::spawn(move || {
            let _ = release.send(mono());
            drop(term);
        });
        let sent = released.recv()?;
        let (next, won) = first(&campaigns)?;
        let taken = mono();
        guard = Some(won);
        campaigns[next] = None;
        thread::sleep(Duration::from_secs(1));
        campaigns[leader] = Some(electors[leader].campaign()?);
        leader = next;
        say(json!({ "event": "herd", "total": taken - sent, "leader": next }))?;
    }
    Ok(())
}

/// Blocks until an elector wins its campaign.
///
/// Returns the index of the elector, and its guard.
fn first(campaigns: &[Option<Campaign>]) -> Result<(usize, leasehold::LeaderGuard), Box<dyn Error>> {
    let standing: Vec<(usize, &Campaign)> =
        campaigns.iter().enumerate().filter_map(|(at, campaign)| Some((at, campaign.as_ref()?))).collect();
    let mut select = Select::new();
    for (_, campaign) in &standing {
        select.recv(campaign.receiver());
    }
    let chosen = select.select();
    let (at, campaign) = standing[chosen.index()];
    Ok((at, chosen.recv(campaign.receiver())??))
}
