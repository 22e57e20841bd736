//! The leader election example of client-go, with the same flags and more.
//!
//! Run the example in several terminals with one lock and different ids, then stop the leader:
//!
//!     cargo run --example leader_election -- --kubeconfig ~/.kube/config --lease-lock-name example \
//!         --lease-lock-namespace default --id 1
//!
//! Prints one JSON object per line to stdout, and logs to stderr. After SIGTERM or SIGINT the example stops work,
//! releases the lease and exits with 0.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, select};
use leasehold::client_go::ResourceLock;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderGuard, Stop, StopReason, Transition};
use lexopt::prelude::*;
use serde_json::{Value, json};

const USAGE: &str = "\
Usage: leader_election --lease-lock-name NAME [FLAGS]

      --kubeconfig FILE            Kubeconfig of the cluster [default: KUBECONFIG, else in-cluster, else ~/.kube/config]
      --store URL                  Store instead of a cluster: etcd://HOST:PORT,…/PREFIX, sqlite://FILE,
                                   postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://USER:PASSWORD@HOST:PORT/DATABASE
      --id ID                      Identity of this candidate [default: host name and random bits]
      --lease-lock-name NAME       Name of the object to campaign for
      --lock-type TYPE             Type of the object: leases, configmaps, endpoints, or two objects of the name:
                                   configmapsleases, endpointsleases [default: leases]
      --lease-lock-namespace NS    Namespace of the object [default: that of the context]
      --lease-duration D           Lease duration [default: 15s]. If only some of these three are set, the others
      --renew-deadline D           Renew deadline [default: 10s]  follow in the same proportions.
      --retry-period D             Retry period [default: 2s]
      --renew-interval D           Time between renewals [default: the retry period]
      --release-timeout D          Longest time of a release [default: the retry period]
      --hold-back D                Time to leave a free lease to other candidates [default: 0s]
      --advertise ADDRESS          Address that other candidates receive
      --accept-requests            Step down if an operator asks
      --no-client-go-peers         Assert that no candidate for this lease runs client-go
      --heartbeat D                Interval of `leading` lines [default: off]
";

struct Options {
    kubeconfig: Option<String>,
    store: Option<String>,
    builder: leasehold::LeaderElectorBuilder,
    heartbeat: Option<Duration>,
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let unusable = |error: Box<dyn std::error::Error>| {
        eprintln!("leader_election: {error}");
        ExitCode::from(2)
    };
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return unusable(error),
    };
    let heartbeat = options.heartbeat;
    let (elector, stop) = match start(options).and_then(|elector| Ok((elector, Stop::on_signals()?))) {
        Ok(started) => started,
        Err(error) => return unusable(error),
    };
    match candidate(&elector, &stop, heartbeat) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader_election: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Campaigns and leads until a signal arrives. After a loss of the lease, campaigns again.
fn candidate(
    elector: &LeaderElector,
    stop: &Stop,
    heartbeat: Option<Duration>,
) -> Result<(), Box<dyn std::error::Error>> {
    let transitions = elector.transitions();
    loop {
        let campaign = elector.campaign()?;
        let guard = loop {
            select! {
                recv(campaign.receiver()) -> won => break won??,
                recv(transitions) -> transition => print_transition(elector, transition?)?,
                recv(stop.receiver()) -> _ => return Ok(()),
            }
        };
        print(elector, "started_leading", Stamp::now(), json!({ "fencing_token": guard.fencing_token() }))?;
        let is_stopped = lead(elector, &guard, &transitions, stop, heartbeat)?;
        let reason = guard.check().err().map_or(StopReason::Released, |ended| ended.reason);
        print(elector, "stopped_leading", Stamp::now(), json!({ "reason": reason.to_string() }))?;
        drop(guard);
        if is_stopped {
            return Ok(());
        }
    }
}

/// Does the leader's work. Returns `true` after a signal, and `false` if the lease was lost.
fn lead(
    elector: &LeaderElector,
    guard: &LeaderGuard,
    transitions: &Receiver<Transition>,
    stop: &Stop,
    heartbeat: Option<Duration>,
) -> Result<bool, Box<dyn std::error::Error>> {
    let mut beats = heartbeat.map_or_else(crossbeam_channel::never, |_| crossbeam_channel::at(Instant::now()));
    loop {
        select! {
            recv(beats) -> _ => {
                // The time must be taken before the check. If the check succeeds, the candidate was the leader at that
                // time.
                let stamp = Stamp::now();
                if !guard.is_leader() {
                    return Ok(false);
                }
                print(elector, "leading", stamp, json!({ "fencing_token": guard.fencing_token() }))?;
                beats = heartbeat.map_or_else(crossbeam_channel::never, crossbeam_channel::after);
            }
            recv(guard.ended()) -> _ => return Ok(false),
            recv(transitions) -> transition => print_transition(elector, transition?)?,
            recv(stop.receiver()) -> _ => return Ok(true),
        }
    }
}

fn print_transition(elector: &LeaderElector, transition: Transition) -> io::Result<()> {
    match transition {
        Transition::NewLeader { identity, address } => {
            print(elector, "new_leader", Stamp::now(), json!({ "leader": identity, "address": address }))
        }
        Transition::NoLeader { previous } => print(elector, "no_leader", Stamp::now(), json!({ "previous": previous })),
        _ => Ok(()),
    }
}

/// A time by the wall clock and by `CLOCK_MONOTONIC`, which all processes of a host share.
struct Stamp {
    time: SystemTime,
    mono: f64,
}

impl Stamp {
    fn now() -> Self {
        let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Self { time: SystemTime::now(), mono: mono.tv_sec as f64 + mono.tv_nsec as f64 / 1e9 }
    }
}

fn print(elector: &LeaderElector, event: &str, stamp: Stamp, more: Value) -> io::Result<()> {
    let mut line = json!({
        "event": event,
        "identity": elector.identity(),
        "time": humantime::format_rfc3339_micros(stamp.time).to_string(),
        "mono": stamp.mono,
    });
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

fn start(options: Options) -> Result<LeaderElector, Box<dyn std::error::Error>> {
    options.builder.validate()?;
    if let Some(url) = options.store {
        return Ok(options.builder.start_on(leasehold::open_store(&url)?)?);
    }
    let config = match options.kubeconfig {
        Some(path) => ClientConfig::from_kubeconfig(Some(path.as_ref()), None)?,
        None => ClientConfig::infer()?,
    };
    let client = Client::new(config)?;
    Ok(options.builder.start_with_client(client)?)
}

/// Parses the flags. Returns `None` for `--help`.
fn options() -> Result<Option<Options>, Box<dyn std::error::Error>> {
    let (mut kubeconfig, mut store, mut name, mut heartbeat) = (None, None, None, None);
    let mut settings: Vec<Box<dyn FnOnce(leasehold::LeaderElectorBuilder) -> leasehold::LeaderElectorBuilder>> =
        Vec::new();
    let mut parser = lexopt::Parser::from_env();
    while let Some(flag) = parser.next()? {
        match flag {
            Long("kubeconfig") => kubeconfig = Some(parser.value()?.string()?),
            Long("store") => store = Some(parser.value()?.string()?),
            Long("lease-lock-name") => name = Some(parser.value()?.string()?),
            Long("lease-lock-namespace") => {
                let namespace = parser.value()?.string()?;
                settings.push(Box::new(|builder| builder.namespace(namespace)));
            }
            Long("lock-type") => {
                let lock: ResourceLock = parser.value()?.string()?.parse()?;
                settings.push(Box::new(move |builder| builder.resource_lock(lock)));
            }
            Long("id") => {
                let id = parser.value()?.string()?;
                settings.push(Box::new(|builder| builder.identity(id)));
            }
            Long("lease-duration") => {
                let duration = duration(&mut parser, "lease-duration")?;
                settings.push(Box::new(move |builder| builder.lease_duration(duration)));
            }
            Long("renew-deadline") => {
                let duration = duration(&mut parser, "renew-deadline")?;
                settings.push(Box::new(move |builder| builder.renew_deadline(duration)));
            }
            Long("retry-period") => {
                let duration = duration(&mut parser, "retry-period")?;
                settings.push(Box::new(move |builder| builder.retry_period(duration)));
            }
            Long("hold-back") => {
                let delay = duration(&mut parser, "hold-back")?;
                settings.push(Box::new(move |builder| builder.hold_back(delay)));
            }
            Long("advertise") => {
                let address = parser.value()?.string()?;
                settings.push(Box::new(|builder| builder.advertise(address)));
            }
            Long("accept-requests") => settings.push(Box::new(|builder| builder.accept_requests(true))),
            Long("renew-interval") => {
                let duration = duration(&mut parser, "renew-interval")?;
                settings.push(Box::new(move |builder| builder.renew_interval(duration)));
            }
            Long("release-timeout") => {
                let duration = duration(&mut parser, "release-timeout")?;
                settings.push(Box::new(move |builder| builder.release_timeout(duration)));
            }
            Long("no-client-go-peers") => settings.push(Box::new(|builder| builder.no_client_go_peers(true))),
            Long("heartbeat") => {
                heartbeat = Some(duration(&mut parser, "heartbeat")?).filter(|heartbeat| !heartbeat.is_zero());
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    let name = name.ok_or("--lease-lock-name is missing: name the object to campaign for")?;
    let builder = settings.into_iter().fold(LeaderElector::builder(name), |builder, setting| setting(builder));
    Ok(Some(Options { kubeconfig, store, builder, heartbeat }))
}

fn duration(parser: &mut lexopt::Parser, flag: &str) -> Result<Duration, Box<dyn std::error::Error>> {
    let value = parser.value()?.string()?;
    humantime::parse_duration(&value)
        .map_err(|error| format!("--{flag} {value}: {error}; give a duration such as 15s or 500ms").into())
}
