use leasehold::{Error, LeaderElector, Stop};
use std::time::Duration;

fn main() -> Result<(), Error> {
    let stop = Stop::on_signals()?; // SIGTERM or Ctrl-C; the second one ends the process
    // Finds the cluster: KUBECONFIG, then the pod's service account, then ~/.kube/config.
    let elector = LeaderElector::builder("my-controller").start()?;
    // Runs the closure in each term that this replica wins, and releases the lease when the closure returns.
    elector.run_until(&stop, |guard| {
        // Sleeps for a second, and returns `false` once the term has ended.
        while guard.wait(Duration::from_secs(1)) {
            println!("working, with fencing token {}", guard.fencing_token());
        }
        Ok(())
    })
}
