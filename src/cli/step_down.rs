//! `leasehold step-down`: asks the leader to step down.

use std::time::Duration;

use clap::Args;
use leasehold::StoreErrorKind;

use super::election::positive_duration;
use super::follow::{FollowArgs, LeaseInStore};
use super::say::{Failure, failed, write_stdout};
use super::whereabouts::ABSENT;
use leasehold::util::one_line::OneLine;

/// Ask the leader to step down
///
/// The command writes a request beside the record, and does not wait for the next leader. The leader steps down if it
/// accepts requests (`leasehold run --accept-requests`), and otherwise ignores the request.
///
/// Exit codes: 0 if the request is written; 1 if there is no leader; 125 for errors.
#[derive(Debug, Args)]
pub struct StepDownArgs {
    /// Lease whose leader is asked
    #[arg(long, value_name = "NAME")]
    lease: String,
    /// Time limit of all requests together
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, default_value = "10s")]
    timeout: Duration,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Writes the request, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn run(arguments: &StepDownArgs) -> Result<u8, Failure> {
    let lease = LeaseInStore::open(&arguments.follow, &arguments.lease, arguments.timeout).map_err(failed)?;
    if !lease.store.keeps_notes() {
        return Err(failed(format!(
            "cannot request a step-down of {}: requests need a cluster or etcd; end the process of the leader instead",
            lease.name()
        )));
    }
    loop {
        let (holder, observed) = lease.holder().map_err(failed)?.ok_or_else(|| (ABSENT, lease.no_leader()))?;
        let mut notes = observed.notes.clone();
        let is_requested = notes.step_down.replace(holder.clone()).as_ref() == Some(&holder);
        if !is_requested {
            let write = observed.record.with_notes(&notes);
            match lease.store.update(&arguments.lease, &observed, write, &lease.call) {
                Ok(_) => {}
                // Another client has changed the record, usually by a renewal.
                Err(error) if matches!(error.kind(), StoreErrorKind::Conflict | StoreErrorKind::NotApplied) => continue,
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let text = format!("requested a step-down of {} from {}\n", OneLine(&holder), lease.name());
        return write_stdout(&text).map(|()| 0).map_err(|error| failed(format!("cannot write to stdout: {error}")));
    }
}
