//! Measures how long a standby far from the API server takes to lead, after an idle time.
//!
//! Run `cargo bench --bench takeover -- IDLE_SECONDS [KUBECONFIG]`. Without a kubeconfig, the server is in memory, and the
//! number of requests of each standby is known. Connections use TLS. `release.md` shows results.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::kubernetes::Client;
use leasehold::{LeaderElector, Transition};
use leasehold_testing::ApiServer;

#[path = "../tests/support/client_config.rs"]
mod client_config;
#[path = "../tests/support/proxy.rs"]
#[allow(dead_code, reason = "other users cause faults")]
mod proxy;

use proxy::Proxy;

const ROUND_TRIPS: [u64; 3] = [1, 50, 200];
const TRIES: usize = 5;

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Release,
    /// The connections of the leader break, and its lease of this duration expires.
    Expiry(Duration),
}

const CASES: [(&str, Ending); 3] = [
    ("release", Ending::Release),
    ("expiry of a lease of 15 s", Ending::Expiry(Duration::from_secs(15))),
    ("expiry of a lease of 120 s", Ending::Expiry(Duration::from_secs(120))),
];

struct Takeover {
    took: Duration,
    /// The number of connections of the standby that were opened during the takeover.
    opened: usize,
    /// The number of requests of the standby in the idle time, including watches.
    requests: usize,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let idle = Duration::from_secs(arguments.next().map_or(300, |it| it.parse().expect("a number of seconds")));
    let kubeconfig = arguments.next().map(|path| std::fs::read_to_string(path).expect("a kubeconfig"));
    let server = ApiServer::builder().tls(true).start().expect("an in-memory server");
    let kubeconfig = kubeconfig.unwrap_or_else(|| server.kubeconfig("me"));
    println!(
        "| until the standby leads | round trip | median | worst | in round trips | connections opened | requests a minute |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: |");
    thread::scope(|scope| {
        let mut rows = Vec::new();
        for (name, ending) in CASES {
            for millis in ROUND_TRIPS {
                let (server, kubeconfig) = (&server, &*kubeconfig);
                let tries = (0..TRIES).map(|n| {
                    let lease = format!("takeover-{}-{millis}-{n}", name.replace(' ', "-"));
                    // The takeovers happen at different times, so that they do not compete for the processor.
                    thread::sleep(Duration::from_millis(300));
                    scope.spawn(move || measure(server, kubeconfig, idle, &lease, millis, ending))
                });
                rows.push((name, millis, tries.collect::<Vec<_>>()));
            }
        }
        for (name, millis, tries) in rows {
            let mut tries: Vec<_> = tries.into_iter().map(|it| it.join().expect("a takeover")).collect();
            tries.sort_by_key(|it| it.took);
            let [median, worst] = [TRIES / 2, TRIES - 1].map(|n| tries[n].took.as_secs_f64() * 1000.0);
            let ratio = median / millis as f64;
            let opened: usize = tries.iter().map(|it| it.opened).sum();
            let requests = tries.iter().map(|it| it.requests).sum::<usize>() as f64 / TRIES as f64;
            let a_minute = requests / idle.as_secs_f64() * 60.0;
            println!(
                "| {name} | {millis} ms | {median:.1} ms | {worst:.1} ms | {ratio:.1} | {opened} | {a_minute:.2} |"
            );
        }
    });
}

fn measure(server: &ApiServer, kubeconfig: &str, idle: Duration, lease: &str, millis: u64, ending: Ending) -> Takeover {
    let lasts = if let Ending::Expiry(lasts) = ending { lasts } else { Duration::from_secs(15) };
    let user_agent = |identity| format!("{identity}-{lease}");
    let elector = |identity| {
        let (far, config) = Proxy::far_from(kubeconfig, Duration::from_millis(millis));
        let client = Client::new(config.with_user_agent(user_agent(identity)).expect("a name")).expect("a client");
        let elector = LeaderElector::builder(lease).identity(identity).namespace("default").lease_duration(lasts);
        (far, elector.start_with_client(client).expect("an elector"))
    };
    let (leader_far, leader) = elector("leader");
    let guard = leader.block_until_leader().expect("a term");
    let (far, standby) = elector("standby");
    let (transitions, _campaign) = (standby.transitions(), standby.campaign().expect("a campaign"));
    thread::sleep(Duration::from_secs(3));
    let of_standby = Some(user_agent("standby"));
    let sent = || server.requests().into_iter().filter(|it| it.user_agent == of_standby).count();
    let before = sent();
    thread::sleep(idle);
    let (requests, opened) = (sent() - before, far.connections());
    let mut from = Instant::now();
    match ending {
        Ending::Release => guard.release().expect("a release"),
        Ending::Expiry(_) => drop(leader_far),
    }
    for transition in transitions.iter() {
        match transition {
            Transition::NoLeader { .. } if ending != Ending::Release => from = Instant::now(),
            Transition::StartedLeading { .. } => break,
            _ => {}
        }
    }
    Takeover { took: from.elapsed(), opened: far.connections() - opened, requests }
}
