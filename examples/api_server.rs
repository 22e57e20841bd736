//! A Kubernetes API server in memory, for trying out what elects: Leases, ConfigMaps, Endpoints and events, and no cluster.
//!
//!     cargo run --example api_server -- kubeconfig     # and elsewhere: KUBECONFIG=$PWD/kubeconfig cargo run --example job_runner
//!
//! It writes a kubeconfig to that file, or prints it, and serves until it gets SIGTERM or SIGINT (Ctrl-C). All that it knows is gone
//! then.

use std::error::Error;
use std::process::ExitCode;

use leasehold::testing::ApiServer;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("api_server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let server = ApiServer::start()?;
    match std::env::args_os().nth(1) {
        Some(path) => server.write_kubeconfig(path, "me")?,
        None => print!("{}", server.kubeconfig("me")),
    }
    eprintln!("serving at {}", server.url());
    signals.forever().next();
    Ok(())
}
