//! Three leases on one client, and a page with the status of each.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderGuard, Status, Stop};
use tiny_http::{Request, Response, Server};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEASES: [&str; 3] = ["ingest", "report", "cleanup"];
/// Less than the 30 s after which Kubernetes kills the process.
const STOP_LIMIT: Duration = Duration::from_secs(25);

fn main() -> Result<(), Failure> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let stop = Stop::on_signals_within(STOP_LIMIT)?;
    let client = Client::new(ClientConfig::infer()?)?;
    let start = |name| LeaderElector::builder(name).start_with_client(client.clone());
    let electors = LEASES.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let server = Server::http("127.0.0.1:8080")?;
    thread::scope(|scope| {
        let electors = &electors;
        scope.spawn(|| server.incoming_requests().for_each(|request| answer(electors, request)));
        let run = |elector: &LeaderElector| {
            let _all = StopOnDrop(&stop);
            elector.run_until(&stop, lead)
        };
        let campaigns = electors.iter().map(|elector| scope.spawn(move || run(elector)));
        let campaigns: Vec<_> = campaigns.collect();
        let ends = campaigns.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)));
        let ends: Vec<_> = ends.collect();
        server.unblock();
        ends.into_iter().try_for_each(|end| Ok(end?))
    })
}

/// Ends all elections when the first one ends, even by a panic.
struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn lead(guard: &LeaderGuard) -> Result<(), Failure> {
    while guard.wait(Duration::from_secs(1)) {
        println!("one unit of work, token {}", guard.fencing_token());
    }
    Ok(())
}

/// Answers a request without waiting for the API server.
fn answer(electors: &[LeaderElector], request: Request) {
    let statuses: Vec<_> = electors.iter().map(LeaderElector::status).collect();
    let unhealthy = electors.iter().zip(LEASES).find_map(|(it, name)| Some((name, it.health_check().check().err()?)));
    let (code, text) = match (request.url(), unhealthy) {
        ("/healthz", Some((name, unhealthy))) => (500, format!("{name}: {unhealthy}")),
        ("/healthz", None) => (200, "ok".to_owned()),
        ("/metrics", _) => {
            let mut text = String::new();
            let _ = Status::write_prometheus(&statuses, &mut text); // writing to a String does not fail
            (200, text)
        }
        _ => (200, statuses.iter().map(|status| format!("{status}\n")).collect()),
    };
    let _ = request.respond(Response::from_string(text).with_status_code(code)); // the client may be gone
}
