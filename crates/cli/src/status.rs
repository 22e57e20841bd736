//! `leasehold status`: shows a lease once.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use leasehold::store::Store;

use super::follow::leases::LeaseEvent;
use super::leader::{ABSENT, LeaderArgs, LeaseInStore};
use super::observe::lines::{status_json, status_plain};
use super::say::{Failure, is_stdout_open, write_stdout};
use crate::clock::Now;
use crate::job;

/// Show the holder of a lease once
///
/// The command reads the record once, so it cannot show whether the holder is alive: the text has the time since the
/// last renewal by the clock of the holder. The last line shows whether this user has the rights of a candidate.
///
/// --json prints one object with the fields of `leasehold observe --json`. --prometheus prints the history of a job
/// that runs once per period, for the textfile collector of node_exporter.
///
/// Exit codes: 0 if the record has a holder, or with --prometheus a history; 1 if the record has no holder, with
/// --prometheus no history, or does not exist; 125 for errors.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    leader: LeaderArgs,
    /// Print one object in JSON
    #[arg(long)]
    json: bool,
    /// Print the history of the job as metrics
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

/// Shows the lease that the arguments name, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn run(StatusArgs { leader, json, prometheus }: &StatusArgs) -> Result<u8, Failure> {
    let (store, _) = leader.follow.open()?;
    if *prometheus {
        let lease = LeaseInStore::new(store, leader.lease.key(), leader.timeout)?;
        let Some(job) = lease.read()?.and_then(|found| found.notes.job) else {
            return Err(Failure(ABSENT, format!("{} has no history of a job", lease.name())));
        };
        is_stdout_open(write_stdout(&job::prometheus(leader.lease.key(), &job)))?;
        return Ok(0);
    }
    show(&store, leader.lease.key(), leader.timeout, *json)
}

/// Shows a lease, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn show(store: &Arc<dyn Store>, key: &str, timeout: Duration, is_json: bool) -> Result<u8, Failure> {
    let lease = LeaseInStore::new(Arc::clone(store), key, timeout)?;
    let found = lease.read()?;
    let may_campaign = store.may_campaign(key, found.is_some(), &lease.call);
    let event = LeaseEvent::of_read(key, found, Now::read());
    let text = match is_json {
        true => status_json(&event, may_campaign),
        false => status_plain(&event, may_campaign, &lease.name()),
    };
    is_stdout_open(write_stdout(&text))?;
    Ok(if event.lease.holder().is_some() { 0 } else { ABSENT })
}
