//! A timeline of three candidates with a handover and a take-over.
//!
//!     cargo run --example quickstart                          # on an in-memory API server
//!     cargo run --example quickstart -- --kubeconfig FILE     # on your cluster
//!     cargo run --example quickstart -- --in-cluster          # in a pod
//!     cargo run --example quickstart --features sqlite -- --store sqlite://FILE    # in a file, without a server
//!     cargo run --example quickstart --features postgres -- --store postgres://USER@HOST/DATABASE
//!     cargo run --example quickstart --features etcd -- --store etcd://HOST:2379/
//!
//! On a cluster the candidates use the Lease `leasehold-quickstart` in the namespace of the context.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use leasehold::kubernetes::LeaseStore;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::store::{
    CallContext, CancelToken, Cursor, RecordWrite, Store, StoreError, StoreErrorKind, VersionedRecord, WatchEvent,
    WatchScope,
};
use leasehold::{ConfigError, LeaderElector, LeaderGuard};
use leasehold_testing::ApiServer;

const LEASE: &str = "leasehold-quickstart";
const NAMES: [&str; 3] = ["anna", "boris", "clara"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("off")).init();
    let timeline = Timeline::begin();

    let (stores, _server) = match std::env::args().nth(1).as_deref() {
        None => {
            let server = ApiServer::start()?;
            timeline.print("", &format!("a Kubernetes API server in memory, at {}", server.url()));
            (on_cluster(&ClientConfig::new(&server.url())?)?, Some(server))
        }
        Some("--in-cluster") => (on_cluster(&ClientConfig::in_cluster()?)?, None),
        Some("--kubeconfig") => {
            let file = std::env::args().nth(2).ok_or("--kubeconfig needs a FILE")?;
            (on_cluster(&ClientConfig::from_kubeconfig(Some(file.as_ref()), None)?)?, None)
        }
        Some("--store") => {
            let url = std::env::args().nth(2).ok_or("--store needs a URL")?;
            let stores = NAMES.iter().map(|_| leasehold::open_store(&url)).collect::<Result<Vec<_>, _>>()?;
            // The example prints the location instead of the URL, because the URL may contain a password.
            if let Some(location) = stores.iter().find_map(|store| store.location()) {
                timeline.print("", &format!("records in {location}"));
            }
            (stores, None)
        }
        Some(other) => {
            let known = "there are --kubeconfig FILE, --in-cluster and --store URL";
            return Err(format!("unknown flag {other}: {known}").into());
        }
    };
    let candidates = NAMES.iter().zip(stores).map(|(name, store)| Candidate::new(name, store));
    let candidates = candidates.collect::<Result<Vec<_>, _>>()?;

    // The channel receives the index of each candidate whose campaign is decided.
    let (sender, decided) = unbounded();
    let campaigns = RefCell::new(BTreeMap::new());
    let campaign = |index: usize| -> Result<(), leasehold::Error> {
        let (campaign, sender) = (candidates[index].elector.campaign()?, sender.clone());
        campaign.on_decided(move || _ = sender.send(index))?;
        campaigns.borrow_mut().insert(index, campaign);
        Ok(())
    };
    let next_leader = || -> Result<(usize, LeaderGuard), Box<dyn Error>> {
        let index = decided.recv()?;
        let campaign = campaigns.borrow_mut().remove(&index).ok_or("no campaign")?;
        Ok((index, campaign.receiver().try_recv()??))
    };
    (0..NAMES.len()).try_for_each(campaign)?;
    timeline.print("", "anna, boris and clara campaign for one lease");

    // One candidate wins the lease. The other candidates are standbys.
    let (first, guard) = next_leader()?;
    timeline.leads(&candidates[first], &guard);
    let mut terms = vec![Term::begin(&timeline, first)];
    sleep(Duration::from_millis(1500));
    assert!(guard.is_leader());

    // A handover: dropping the guard releases the lease.
    timeline.print(candidates[first].name, "drops its guard");
    let began = Instant::now();
    terms[0].end(&timeline);
    drop(guard);
    timeline.print(candidates[first].name, &format!("has released the lease, in {}", millis(began.elapsed())));
    let (second, guard) = next_leader()?;
    timeline.leads(&candidates[second], &guard);
    timeline.print("", &format!("the lease was without a leader for {}", millis(began.elapsed())));
    terms.push(Term::begin(&timeline, second));
    campaign(first)?;
    timeline.print(candidates[first].name, "campaigns again");
    sleep(Duration::from_millis(1500));

    // A failure: requests of the leader no longer reach the store, and its term ends by its own clock.
    candidates[second].cord.store(true, Ordering::SeqCst);
    let cut_at = Instant::now();
    timeline.print(candidates[second].name, "is CUT OFF from the store, and works on for as long as it may");
    while guard.is_leader() {
        sleep(Duration::from_millis(1));
    }
    terms[1].end(&timeline);
    let knew_after = cut_at.elapsed();
    let note = format!("stops by itself after {}: is_leader() is false", millis(knew_after));
    timeline.print(candidates[second].name, &note);
    let (third, successor) = next_leader()?;
    timeline.leads(&candidates[third], &successor);
    terms.push(Term::begin(&timeline, third));
    assert!(successor.is_leader() && !guard.is_leader() && successor.fencing_token() > guard.fencing_token());
    let gap = cut_at.elapsed() - knew_after;
    timeline.print("", &format!("{} between the two: never two leaders at a time", millis(gap)));
    sleep(Duration::from_millis(1000));

    terms[2].end(&timeline);
    successor.release()?;
    timeline.print(candidates[third].name, "releases the lease. That is all.");
    timeline.draw(&terms);
    Ok(())
}

/// Creates a store for each candidate, with its own client as in a separate process.
///
/// If candidates shared a client, a release by one candidate would cancel the requests of the others.
fn on_cluster(config: &ClientConfig) -> Result<Vec<Box<dyn Store>>, Box<dyn Error>> {
    let store = |_| -> Result<Box<dyn Store>, Box<dyn Error>> {
        let client = Client::new(config.clone())?;
        let namespace = client.default_namespace().to_owned();
        Ok(Box::new(LeaseStore::new(client, &namespace)?))
    };
    NAMES.iter().map(store).collect()
}

struct Candidate {
    name: &'static str,
    elector: LeaderElector,
    cord: Arc<AtomicBool>,
}

impl Candidate {
    fn new(name: &'static str, store: Box<dyn Store>) -> Result<Self, leasehold::Error> {
        let cord = Arc::new(AtomicBool::new(false));
        // Short durations keep the demonstration short. The defaults are those of client-go: 15 s, 10 s, 2 s.
        let elector = LeaderElector::builder(LEASE)
            .identity(name)
            .lease_duration(Duration::from_secs(4))
            .renew_deadline(Duration::from_millis(2500))
            .retry_period(Duration::from_millis(250))
            .release_timeout(Duration::from_secs(4))
            .start_on(CutStore { store, cord: Arc::clone(&cord) })?;
        Ok(Self { name, elector, cord })
    }
}

/// A store whose connection can be cut.
struct CutStore {
    store: Box<dyn Store>,
    cord: Arc<AtomicBool>,
}

impl CutStore {
    fn line(&self) -> Result<&dyn Store, StoreError> {
        match self.cord.load(Ordering::SeqCst) {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, "the line is cut")),
            false => Ok(&self.store),
        }
    }
}

impl Store for CutStore {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        self.line()?.get(key, call)
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.line()?.create(key, write, call)
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.line()?.update(key, base, write, call)
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        self.line()?.watch(scope, from, cancel, &mut |event| {
            if self.line().is_ok() {
                on_event(event);
            }
        })
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        self.store.check_key(key)
    }

    fn describe(&self, key: &str) -> String {
        self.store.describe(key)
    }
}

/// One term of a candidate, for the drawing.
struct Term {
    candidate: usize,
    from: f64,
    to: f64,
}

impl Term {
    fn begin(timeline: &Timeline, candidate: usize) -> Self {
        Self { candidate, from: timeline.seconds(), to: f64::INFINITY }
    }

    fn end(&mut self, timeline: &Timeline) {
        self.to = timeline.seconds();
    }
}

struct Timeline(Instant);

impl Timeline {
    fn begin() -> Self {
        Self(Instant::now())
    }

    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    fn print(&self, name: &str, event: &str) {
        println!("{:7.3} s  {name:<6} {event}", self.seconds());
    }

    fn leads(&self, candidate: &Candidate, guard: &LeaderGuard) {
        self.print(candidate.name, &format!("LEADS, with fencing token {}", guard.fencing_token()));
    }

    /// Draws the terms, eight columns per second.
    fn draw(&self, terms: &[Term]) {
        let columns = (self.seconds() * 8.0).ceil() as usize;
        println!();
        for (index, name) in NAMES.iter().enumerate() {
            let led = |column: usize| {
                let middle = (column as f64 + 0.5) / 8.0;
                terms.iter().any(|term| term.candidate == index && term.from <= middle && middle < term.to)
            };
            let bar: String = (0..columns).map(|column| if led(column) { '█' } else { '·' }).collect();
            println!("   {name:<6} {bar}");
        }
        let scale: String = (0..=columns / 8).map(|second| format!("{second:<8}")).collect();
        println!("          {}", scale.trim_end());
    }
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}
