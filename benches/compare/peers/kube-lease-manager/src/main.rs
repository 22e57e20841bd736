//! A candidate that uses the fully automated mode of the crate kube-lease-manager.

use std::error::Error;

use contender::{Arguments, say};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_lease_manager::LeaseManagerBuilder;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read()?;
    let kubeconfig = Kubeconfig::read_from(&arguments.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let namespace = config.default_namespace.clone();
    // The crate renews `grace` seconds before the expiry and accepts only whole seconds. The interval between renewals
    // is therefore the retry period without its fraction, and at least one second.
    let renewal = arguments.retry_period.as_secs().max(1);
    let manager = LeaseManagerBuilder::new(kube::Client::try_from(config)?, arguments.lease)
        .with_namespace(namespace)
        .with_identity(arguments.id)
        .with_duration(arguments.lease_duration.as_secs())
        .with_grace(arguments.lease_duration.as_secs() - renewal)
        .build()
        .await?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (mut leads, manager) = manager.watch().await;
    loop {
        tokio::select! {
            changed = leads.changed() => changed?,
            _ = terminated.recv() => break,
        }
        say(if *leads.borrow_and_update() { "started_leading" } else { "stopped_leading" })?;
    }
    if *leads.borrow() {
        say("stopped_leading")?;
    }
    // Closing the channel makes the manager release the lease.
    drop(leads);
    manager.await??;
    Ok(())
}
