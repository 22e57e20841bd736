//! `leasehold where`: prints the address of the leader.

use std::time::Duration;

use clap::Args;

use super::election::positive_duration;
use super::follow::{FollowArgs, LeaseInStore};
use super::say::{Failure, failed, write_stdout};
use leasehold::util::one_line::OneLine;

/// Print the address that the leader advertises
///
/// The command reads the record once. The age of the record is unknown, so the holder may have crashed a moment ago. The
/// address is a claim of the holder.
///
/// Exit codes: 0 if there is a leader with an address; 1 if there is no leader, or the leader has no address; 125 for
/// errors.
#[derive(Debug, Args)]
pub struct WhereArgs {
    /// Lease to look up
    #[arg(long, value_name = "NAME")]
    lease: String,
    /// Time limit of the request
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, default_value = "10s")]
    timeout: Duration,
    #[command(flatten)]
    follow: FollowArgs,
}

/// The exit code without a leader or an address.
pub const ABSENT: u8 = 1;

/// Prints the address of the leader, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn run(arguments: &WhereArgs) -> Result<u8, Failure> {
    let lease = LeaseInStore::open(&arguments.follow, &arguments.lease, arguments.timeout).map_err(failed)?;
    let (holder, observed) = lease.holder().map_err(failed)?.ok_or_else(|| (ABSENT, lease.no_leader()))?;
    let Some(address) = observed.notes.address else {
        return Err((ABSENT, format!("{} is held by {}, which advertises no address", lease.name(), OneLine(holder))));
    };
    write_stdout(&format!("{}\n", OneLine(address)))
        .map_err(|error| failed(format!("cannot write to stdout: {error}")))?;
    Ok(0)
}
