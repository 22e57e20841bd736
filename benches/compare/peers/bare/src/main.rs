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
use leasehold::kubernetes::{Client, ClientConfig, Method, Request};
use leasehold::store::CancelToken;
use leasehold::{Campaign, LeaderElector};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);
const NO_SILENCE: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["limit", kubeconfig, lease] => limit(&client(kubeconfig)?, client(kubeconfig)?, lease),
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
fn limit(taker: &Client, releaser: Client, name: &str) -> Result<(), Box<dyn Error>> {
    let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", taker.default_namespace());
    let path = format!("{collection}/{name}");
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15 },
    });
    send(&releaser, Method::Post, &collection, &lease)?;
    // This read opens the connection of `taker`. The POST has opened the connection of `releaser`.
    lease = taker
        .request(Request { method: Method::Get, path: &path, query: &[], body: None, timeout: TIMEOUT })?
        .json()?;
    let version = version(&lease);
    let selector = format!("metadata.name={name}");
    let query = [("watch", "true"), ("fieldSelector", &*selector), ("resourceVersion", &*version)];
    let request = Request { method: Method::Get, path: &collection, query: &query, body: None, timeout: TIMEOUT };
    let mut events = taker.stream(request, NO_SILENCE, &CancelToken::new())?;
    say(json!({ "event": "ready" }))?;

    let (release, releases) = mpsc::channel::<Value>();
    let (released, answers) = mpsc::channel();
    thread::spawn({
        let path = path.clone();
        move || {
            for lease in releases {
                let sent = mono();
                let answer = send(&releaser, Method::Put, &path, &lease).map(drop).map_err(|error| error.to_string());
                let _ = released.send((sent, mono(), answer));
            }
        }
    });
    for line in io::stdin().lock().lines() {
        line?;
        lease["spec"]["holderIdentity"] = json!("");
        release.send(lease)?;
        let event = events.next_line()?.ok_or("the watch ended")?;
        let heard = mono();
        lease = serde_json::from_slice::<Value>(&event)?["object"].take();
        lease["spec"]["holderIdentity"] = json!("b");
        lease = send(taker, Method::Put, &path, &lease)?;
        let taken = mono();
        // Skips the watch event of the PUT by `taker`.
        events.next_line()?;
        let (sent, answered, answer) = answers.recv()?;
        answer?;
        say(json!({ "event": "limit", "total": taken - sent, "event_after": heard - sent, "put": answered - sent }))?;
    }
    Ok(())
}

fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Value, leasehold::kubernetes::ClientError> {
    client.request(Request { method, path, query: &[], body: Some(body), timeout: TIMEOUT })?.json()
}

fn version(lease: &Value) -> String {
    lease["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
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
