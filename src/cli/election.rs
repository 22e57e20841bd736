//! The flags that say which record is campaigned for, and how.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold::kubernetes::{Client, ClientConfig, Kubeconfig};
use leasehold::{ConfigError, LeaderElector, LeaderElectorBuilder, ResourceLock, STORE_URLS, Store, open_store_with};

use super::password::{self, STORE_VARIABLE};

/// Where the records are.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// A kubeconfig file [default: KUBECONFIG, else in-cluster, else ~/.kube/config]
    #[arg(long, value_name = "FILE", conflicts_with = "store", help_heading = "Where the lease is")]
    pub kubeconfig: Option<String>,
    /// The kubeconfig's context [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "store", help_heading = "Where the lease is")]
    pub context: Option<String>,
    /// The lease's namespace [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "store", help_heading = "Where the lease is")]
    pub namespace: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help = format!("A store instead of a cluster: {STORE_URLS} [env: {STORE_VARIABLE}]"),
        help_heading = "Where the lease is"
    )]
    store: Option<String>,
    /// File with the store's password, read before each login
    #[arg(long, value_name = "PATH", conflicts_with = "password_command", help_heading = "Where the lease is")]
    password_file: Option<PathBuf>,
    /// Program that prints the store's password, run before each login, without a shell
    #[arg(long, value_name = "COMMAND", help_heading = "Where the lease is")]
    password_command: Option<String>,
}

/// What was opened: where an election, or who looks at one, finds its record.
pub enum RecordPlace {
    Cluster(Box<Client>),
    Store(Box<dyn Store>),
}

/// An error of `leasehold` itself, not of the program that `leasehold` runs.
pub type Error = Box<dyn std::error::Error>;

/// Which record, and how it is campaigned for.
#[derive(Debug, Args)]
pub struct ElectionArgs {
    /// The lease to campaign for
    #[arg(long, value_name = "NAME")]
    pub lease: String,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// What holds it in a cluster: leases, configmaps, endpoints, or two objects of that name: configmapsleases, endpointsleases
    #[arg(long, value_name = "TYPE", conflicts_with = "store", help_heading = "Where the lease is")]
    pub lock_type: Option<ResourceLock>,
    /// Who this replica is in the lease, which no other may be [default: host name and random bits]
    #[arg(long, visible_alias = "id", value_name = "ID", help_heading = "Election")]
    pub identity: Option<String>,
    /// How long others wait after the last renewal before they take over [default: 15s; of this and the next two, what is not set
    /// follows from what is]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub lease_duration: Option<Duration>,
    /// How long a leader tries to renew before it stops leading [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub renew_deadline: Option<Duration>,
    /// How long to wait between tries [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub retry_period: Option<Duration>,
    /// How long to wait between renewals [default: the retry period]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub renew_interval: Option<Duration>,
    /// How long a release may take [default: the retry period]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Election")]
    pub release_timeout: Option<Duration>,
    /// No candidate for this lease runs client-go, so that the renew deadline may be closer to the lease duration
    #[arg(long, help_heading = "Election")]
    pub no_client_go_peers: bool,
}

impl ElectionArgs {
    pub fn builder(&self) -> LeaderElectorBuilder {
        let mut builder = LeaderElector::builder(&self.lease).no_client_go_peers(self.no_client_go_peers);
        if let Some(namespace) = &self.place.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(lock) = self.lock_type {
            builder = builder.resource_lock(lock);
        }
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity);
        }
        type Set = fn(LeaderElectorBuilder, Duration) -> LeaderElectorBuilder;
        let durations: [(Option<Duration>, Set); 5] = [
            (self.lease_duration, LeaderElectorBuilder::lease_duration),
            (self.renew_deadline, LeaderElectorBuilder::renew_deadline),
            (self.retry_period, LeaderElectorBuilder::retry_period),
            (self.renew_interval, LeaderElectorBuilder::renew_interval),
            (self.release_timeout, LeaderElectorBuilder::release_timeout),
        ];
        durations.into_iter().fold(builder, |builder, (duration, set)| match duration {
            Some(duration) => set(builder, duration),
            None => builder,
        })
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
    /// # Errors
    ///
    /// A [`StoreError`](leasehold::StoreError) that is transient may not come again.
    pub fn open(&self, lock_type: Option<ResourceLock>, may_create: bool) -> Result<RecordPlace, Error> {
        let from_command = self.password_command.as_deref().map(password::from_command).transpose()?;
        let password = self.password_file.clone().map(password::from_file).or(from_command);
        Ok(match self.url(lock_type)? {
            Some(url) => RecordPlace::Store(
                open_store_with(&url, password, may_create).map_err(|error| format!("--store: {error}"))?,
            ),
            None if password.is_some() => return Err("--password-file and --password-command need --store".into()),
            None => RecordPlace::Cluster(Box::new(self.client().map_err(|error| self.advise(&error))?)),
        })
    }

    /// That of the store, unless it is a cluster. What the flags say and what the environment says has to agree.
    fn url(&self, lock_type: Option<ResourceLock>) -> Result<Option<String>, String> {
        if self.store.is_some() {
            return Ok(self.store.clone());
        }
        let url = match env::var(STORE_VARIABLE) {
            Ok(url) => Some(url).filter(|url| !url.is_empty()),
            Err(env::VarError::NotPresent) => None,
            // Its value may have a password in it.
            Err(env::VarError::NotUnicode(_)) => return Err(format!("{STORE_VARIABLE} is no UTF-8")),
        };
        let of_cluster = [
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--context", self.context.is_some()),
            ("--namespace", self.namespace.is_some()),
            ("--lock-type", lock_type.is_some()),
        ];
        match of_cluster.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if url.is_some() => {
                Err(format!("{flag} is for a cluster, and {STORE_VARIABLE} names another store: unset one of them"))
            }
            _ => Ok(url),
        }
    }

    /// Who has named no cluster may not have one.
    fn advise(&self, error: &leasehold::Error) -> String {
        let is_named = self.kubeconfig.is_some() || self.context.is_some() || env::var_os("KUBECONFIG").is_some();
        let advice = if is_named { "" } else { "; or name another store, such as --store sqlite:///tmp/election.db" };
        format!("{error}{advice}")
    }

    fn client(&self) -> Result<Client, leasehold::Error> {
        let context = self.context.as_deref();
        let config = match (&self.kubeconfig, context) {
            (Some(path), _) => Kubeconfig::from_path(path)?.client_config(context)?,
            (None, Some(_)) => Kubeconfig::load()?.client_config(context)?,
            (None, None) => ClientConfig::infer()?,
        };
        Ok(Client::new(config)?)
    }
}

/// Returns the text of an error. An error of a setting names the flag of the setting.
pub fn by_flags(error: &(dyn std::error::Error + 'static)) -> String {
    let text = error.to_string();
    if !error.is::<ConfigError>() && !matches!(error.downcast_ref(), Some(leasehold::Error::Config(_))) {
        return text;
    }
    let names =
        ["lease_duration", "renew_deadline", "retry_period", "renew_interval", "release_timeout", "identity is"];
    names.into_iter().chain(["no_client_go_peers(true)"]).fold(text, |text, name| {
        text.replace(name, &format!("--{}", name.trim_end_matches("(true)").replace('_', "-")))
    })
}

/// One that is not zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("give more than nothing, such as 15s or 500ms".to_owned()) } else { Ok(duration) }
}

pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; give a duration such as 15s or 500ms"))
}
