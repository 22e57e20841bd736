//! A component with the `--leader-elect…` flags of Kubernetes components, parsed by clap.
//!
//!     cargo run --example component -- --help
//!     cargo run --example component -- --leader-elect-resource-name jobs --leader-elect-lease-duration 30s \
//!         --leader-elect-renew-deadline 20s --kubeconfig ~/.kube/config
//!
//! Leads once, releases the lease and exits. With `--in-memory` the component needs no cluster.

use std::error::Error;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use leasehold::client_go::LeaderElectionConfig;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold_testing::ApiServer;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    match run(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("component: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let flags = LeaderElectionConfig::FLAGS.map(|flag| {
        let argument = Arg::new(flag.name).long(flag.name).value_name(flag.value).help(flag.help);
        match flag.value {
            // `--leader-elect` without a value means `true`.
            "BOOL" => argument.num_args(0..=1).require_equals(true).default_missing_value("true"),
            _ => argument,
        }
    });
    // If a flag occurs twice, the last value wins, as in Kubernetes components.
    Command::new("component")
        .args_override_self(true)
        .arg(
            Arg::new("kubeconfig")
                .long("kubeconfig")
                .value_name("FILE")
                .help("kubeconfig of the cluster [default: KUBECONFIG, else in-cluster, else ~/.kube/config]"),
        )
        .arg(Arg::new("in-memory").long("in-memory").action(ArgAction::SetTrue).help("use an in-memory API server"))
        .args(flags)
}

fn run(matches: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let mut config = LeaderElectionConfig::default();
    config.resource_name = "component".to_owned();
    for flag in LeaderElectionConfig::FLAGS {
        if let Some(value) = matches.get_one::<String>(flag.name) {
            config.set(flag.name, value)?;
        }
    }
    if !config.leader_elect {
        println!("working, without a leader being elected");
        return Ok(());
    }
    let server = if matches.get_flag("in-memory") { Some(ApiServer::start()?) } else { None };
    let cluster = match (&server, matches.get_one::<String>("kubeconfig")) {
        (Some(server), _) => ClientConfig::new(&server.url())?,
        (None, Some(file)) => ClientConfig::from_kubeconfig(Some(file.as_ref()), None)?,
        (None, None) => ClientConfig::infer()?,
    };
    let elector = config.builder().start_with_client(Client::new(cluster)?)?;
    let guard = elector.block_until_leader()?;
    println!("working, as the leader by {}", elector.status().record);
    guard.release()?;
    Ok(())
}
