//! Async work in a program whose `main` is synchronous: the runtime is entered once for each term.

use std::time::Duration;

use leasehold::{LeaderElector, LeaderGuard, Leadership, Stop};
use tokio::runtime::Runtime;
use tokio::time::{interval, sleep};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Less than the 30 s after which Kubernetes kills the process.
const STOP_LIMIT: Duration = Duration::from_secs(25);

fn main() -> Result<(), Failure> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let stop = Stop::on_signals_within(STOP_LIMIT)?;
    let runtime = Runtime::new()?;
    let elector = LeaderElector::builder("async-work").start()?;
    elector.run_until(&stop, |guard| lead(guard, &runtime))?;
    Ok(())
}

/// Works until the term ends, which cancels the await that is under way.
fn lead(guard: &LeaderGuard, runtime: &Runtime) -> Result<(), Failure> {
    let (ended, term_ended) = tokio::sync::oneshot::channel::<()>();
    guard.on_ended(move || drop(ended))?;
    runtime.block_on(async {
        tokio::select! {
            result = work(guard.leadership()) => result,
            _ = term_ended => Ok(()),
        }
    })
}

async fn work(term: Leadership) -> Result<(), Failure> {
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let value = fetch().await?;
        term.check()?;
        println!("token {}: {value}", term.fencing_token());
    }
}

/// Stands for a request to another service.
async fn fetch() -> Result<&'static str, Failure> {
    sleep(Duration::from_millis(200)).await;
    Ok("200 OK")
}
