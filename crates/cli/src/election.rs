//! The flags that select a record and configure the election.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use leasehold::client_go::ResourceLock;
use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::store::Store;
use leasehold::{ConfigError, LeaderElector, LeaderElectorBuilder, StoreOptions};

use super::password::{self, STORE_VARIABLE};

/// The flags that select the store.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Kubeconfig file [default: KUBECONFIG, else in-cluster, else ~/.kube/config]
    #[arg(long, value_name = "FILE", conflicts_with = "store", help_heading = "Lease location")]
    pub kubeconfig: Option<String>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", conflicts_with = "store", help_heading = "Lease location")]
    pub context: Option<String>,
    /// Namespace of the lease [default: the namespace of the context]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "store", help_heading = "Lease location")]
    pub namespace: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help = format!("Store instead of a cluster, such as sqlite:///DIRECTORY/FILE or postgres://USER@HOST/DATABASE [env: {STORE_VARIABLE}]"),
        help_heading = "Lease location"
    )]
    store: Option<String>,
    /// File with the store's password, read before each login
    #[arg(long, value_name = "PATH", conflicts_with = "password_command", help_heading = "Lease location")]
    password_file: Option<PathBuf>,
    /// Program that prints the store's password, run before each login, without a shell
    #[arg(long, value_name = "COMMAND", help_heading = "Lease location")]
    password_command: Option<String>,
}

/// An open store or cluster.
pub enum RecordPlace {
    Cluster(Box<Client>),
    Store(Box<dyn Store>),
}

/// An error of `leasehold` itself, not of the program that `leasehold` runs.
pub type Error = Box<dyn std::error::Error>;

/// The flags of an election: the record, and the settings of the candidate.
#[derive(Debug, Args)]
pub struct ElectionArgs {
    /// Lease to campaign for
    #[arg(long, value_name = "NAME")]
    pub lease: Option<String>,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Object that holds the record in a cluster [default: leases]
    ///
    /// One of leases, configmaps, endpoints, or two objects at once: configmapsleases, endpointsleases.
    #[arg(long, value_name = "TYPE", conflicts_with = "store", help_heading = "Lease location")]
    pub lock_type: Option<ResourceLock>,
    /// Unique identity of this replica [default: host name and random bits]
    #[arg(long, visible_alias = "id", value_name = "ID", help_heading = "Election")]
    pub identity: Option<String>,
    /// Time after the last renewal until another replica may take over [default: 15s]
    ///
    /// If only some of lease duration, renew deadline and retry period are set, the others scale with the set ones.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub lease_duration: Option<Duration>,
    /// Time without a successful renewal until the leader stops leading [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub renew_deadline: Option<Duration>,
    /// Time between retries [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub retry_period: Option<Duration>,
    /// Time between renewals [default: the retry period]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub renew_interval: Option<Duration>,
    /// Time limit of a release [default: the retry period]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub release_timeout: Option<Duration>,
    /// Time to leave a free lease to other replicas [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub hold_back: Option<Duration>,
    /// Address that other programs receive while this replica leads
    #[arg(long, value_name = "ADDRESS", help_heading = "Election")]
    pub advertise: Option<String>,
    /// End the term if an operator requests a step-down
    ///
    /// A command ends as by SIGTERM while the lease is still renewed. This replica campaigns again when another
    /// replica has led, at most one lease duration later, even with --on-loss exit.
    #[arg(long, help_heading = "Election")]
    pub accept_requests: bool,
    /// Declare that no candidate for this lease runs client-go
    ///
    /// Allows a renew deadline closer to the lease duration.
    #[arg(long, help_heading = "Election")]
    pub no_client_go_peers: bool,
}

impl ElectionArgs {
    /// Returns the builder of an elector for the lease, or for a slot of a group.
    pub fn builder(&self) -> LeaderElectorBuilder {
        let builder = LeaderElector::builder(self.lease.as_deref().unwrap_or("slot"))
            .no_client_go_peers(self.no_client_go_peers)
            .accept_requests(self.accept_requests);
        let builder = self.advertise.iter().fold(builder, LeaderElectorBuilder::advertise);
        let builder = self.lock_type.into_iter().fold(builder, LeaderElectorBuilder::resource_lock);
        let builder = self.identity.iter().fold(builder, LeaderElectorBuilder::identity);
        let builder = self.lease_duration.into_iter().fold(builder, LeaderElectorBuilder::lease_duration);
        let builder = self.renew_deadline.into_iter().fold(builder, LeaderElectorBuilder::renew_deadline);
        let builder = self.retry_period.into_iter().fold(builder, LeaderElectorBuilder::retry_period);
        let builder = self.renew_interval.into_iter().fold(builder, LeaderElectorBuilder::renew_interval);
        let builder = self.release_timeout.into_iter().fold(builder, LeaderElectorBuilder::release_timeout);
        self.hold_back.into_iter().fold(builder, LeaderElectorBuilder::hold_back)
    }
}

impl RecordPlace {
    pub fn start(self, builder: LeaderElectorBuilder) -> Result<LeaderElector, leasehold::Error> {
        match self {
            Self::Cluster(client) => builder.start_with_client(*client),
            Self::Store(store) => builder.start_on(store),
        }
    }
}

impl PlaceArgs {
    /// Opens the store or cluster that the flags select.
    ///
    /// # Errors
    ///
    /// Returns an error if the store or cluster cannot be opened. A [`StoreError`](leasehold::store::StoreError) may be
    /// transient.
    pub fn open(&self, lock_type: Option<ResourceLock>, may_create: bool) -> Result<RecordPlace, Error> {
        let from_command = self.password_command.as_deref().map(password::from_command).transpose()?;
        let password = self.password_file.clone().map(password::from_file).or(from_command);
        Ok(match self.url(lock_type)? {
            Some(url) => {
                let options = password.into_iter().fold(StoreOptions::new(), StoreOptions::password);
                let opened = options.create(may_create).open(&url);
                RecordPlace::Store(opened.map_err(|error| format!("--store: {error}"))?)
            }
            None if password.is_some() => return Err("--password-file and --password-command need --store".into()),
            None => RecordPlace::Cluster(Box::new(self.client().map_err(|error| self.advise(&error))?)),
        })
    }

    /// Returns the URL of the store, or `None` for a cluster.
    ///
    /// Returns an error if a flag needs a cluster, but the environment names a store.
    fn url(&self, lock_type: Option<ResourceLock>) -> Result<Option<String>, String> {
        if self.store.is_some() {
            return Ok(self.store.clone());
        }
        let url = match env::var(STORE_VARIABLE) {
            Ok(url) => Some(url).filter(|url| !url.is_empty()),
            Err(env::VarError::NotPresent) => None,
            // The error does not show the value, which may contain a password.
            Err(env::VarError::NotUnicode(_)) => return Err(format!("{STORE_VARIABLE} is not UTF-8")),
        };
        let of_cluster = [
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--context", self.context.is_some()),
            ("--namespace", self.namespace.is_some()),
            ("--lock-type", lock_type.is_some()),
        ];
        match of_cluster.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if url.is_some() => {
                Err(format!("{flag} needs a cluster, but {STORE_VARIABLE} names another store; unset one of them"))
            }
            _ => Ok(url),
        }
    }

    /// Returns the text of an error.
    ///
    /// If the user named no cluster, the text suggests another store.
    fn advise(&self, error: &leasehold::Error) -> String {
        let is_named = self.kubeconfig.is_some() || self.context.is_some() || env::var_os("KUBECONFIG").is_some();
        let advice = if is_named { "" } else { "; or use another store, such as --store sqlite:///tmp/election.db" };
        format!("{error}{advice}")
    }

    fn client(&self) -> Result<Client, leasehold::Error> {
        let context = self.context.as_deref();
        let config = match (&self.kubeconfig, context) {
            (None, None) => ClientConfig::infer()?,
            (path, _) => ClientConfig::from_kubeconfig(path.as_deref().map(Path::new), context)?,
        };
        Ok(Client::new(config)?)
    }
}

/// Returns the text of an error. Names of settings are replaced by names of flags.
pub fn by_flags(error: &(dyn std::error::Error + 'static)) -> String {
    let text = error.to_string();
    if !error.is::<ConfigError>() && !matches!(error.downcast_ref(), Some(leasehold::Error::Config(_))) {
        return text;
    }
    let names = "lease_duration, renew_deadline, retry_period, renew_interval, release_timeout, hold_back, identity is, \
                 advertise is, no_client_go_peers(true), accept_requests, shards is, max_members is, once_per";
    let flag = |name: &str| format!("--{}", name.trim_end_matches("(true)").replace('_', "-"));
    let text = text.replace("a forced run", "a run with --force");
    let text = text.replace("max_shards is", "--at-most: the largest number per replica is");
    let text = names.split(", ").fold(text, |text, name| text.replace(name, &flag(name)));
    match text.split_once("identity(") {
        Some((rule, identity)) => format!("{rule}--identity={}", identity.trim_end_matches(')')),
        None => text,
    }
}

/// Parses a duration greater than zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("give a duration above zero, such as 15s or 500ms".to_owned()) } else { Ok(duration) }
}

pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; give a duration such as 15s or 500ms"))
}
