//! An in-memory Kubernetes API server, to try electors without a cluster.
//!
//!     cargo run --example api_server -- kubeconfig
//!     KUBECONFIG=$PWD/kubeconfig cargo run --example job_runner    # in another shell
//!
//! The server stores Leases, ConfigMaps, Endpoints and events. The example writes a kubeconfig to the file that the
//! argument names, or to stdout without an argument. The server runs until SIGTERM or SIGINT (Ctrl-C). Its objects are
//! lost when the server ends.

use std::error::Error;
use std::process::ExitCode;

use leasehold::Stop;
use leasehold_testing::ApiServer;

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
    let stop = Stop::on_signals()?;
    let server = ApiServer::start()?;
    match std::env::args_os().nth(1) {
        Some(path) => server.write_kubeconfig(path, "me")?,
        None => print!("{}", server.kubeconfig("me")),
    }
    eprintln!("serving at {}", server.url());
    let _ = stop.receiver().recv();
    Ok(())
}
