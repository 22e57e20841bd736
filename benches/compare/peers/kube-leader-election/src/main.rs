//! A candidate that uses the crate kube-leader-election.
//!
//! Like the example of the crate, the candidate makes one attempt per retry period.

use std::error::Error;

use contender::{Arguments, say};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_leader_election::{LeaseLock, LeaseLockParams, LeaseLockResult};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read()?;
    let kubeconfig = Kubeconfig::read_from(&arguments.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let namespace = config.default_namespace.clone();
    let lock = LeaseLock::new(
        kube::Client::try_from(config)?,
        &namespace,
        LeaseLockParams { holder_id: arguments.id, lease_name: arguments.lease, lease_ttl: arguments.lease_duration },
    );
    let mut terminated = signal(SignalKind::terminate())?;
    let mut leads = false;
    loop {
        match lock.try_acquire_or_renew().await {
            Ok(result) => {
                let led = std::mem::replace(&mut leads, matches!(result, LeaseLockResult::Acquired(_)));
                match (led, leads) {
                    (false, true) => say("started_leading")?,
                    (true, false) => say("stopped_leading")?,
                    _ => {}
                }
            }
            Err(error) => eprintln!("{error}"),
        }
        tokio::select! {
            _ = tokio::time::sleep(arguments.retry_period) => {}
            _ = terminated.recv() => break,
        }
    }
    if leads {
        say("stopped_leading")?;
        lock.step_down().await?;
    }
    Ok(())
}
