//! A program whose `main` is async: the election runs on a blocking thread, because the drop of a guard may block.

use std::time::Duration;

use leasehold::{LeaderElector, Stop};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let stop = Stop::on_signals()?;
    let elector = LeaderElector::builder("async-main").start()?;
    let (runtime, stopped) = (Handle::current(), stop.clone());
    let election = spawn_blocking(move || {
        elector.run_until(&stopped, |guard| {
            let (ended, term_ended) = tokio::sync::oneshot::channel::<()>();
            guard.on_ended(move || drop(ended))?;
            runtime.block_on(async {
                tokio::select! {
                    () = work() => {}
                    _ = term_ended => {}
                }
            });
            Ok(())
        })
    });
    Ok(election.await??)
}

async fn work() {
    loop {
        println!("one unit of work");
        sleep(Duration::from_secs(1)).await;
    }
}
