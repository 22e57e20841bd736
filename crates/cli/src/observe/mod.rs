//! `leasehold observe`: shows leaders and the time left of their leases.

mod group;
pub mod lines;
mod table;

use std::io;
use std::time::{Duration, Instant};

use clap::Args;
use crossbeam_channel::RecvTimeoutError;
use leasehold::group::LeaseGroup;

use super::follow::{FollowArgs, Follower, Heard, READ_TIMEOUT};
use super::say::{Failure, check_stdout, is_stdout_open, write_stdout};
use super::status;
use crate::clock::Now;
use crate::log::COMMAND;
use table::LeaseTable;

/// Show who leads, live
///
/// In a terminal, the output is a live table, else one line per change. Without names, all leases of the namespace or
/// store are shown, of any program.
///
/// A holder leads once this command has seen it renew the lease. Until then, the text has the time since the last
/// renewal by the clock of the holder.
///
/// Time left is counted by the local clock: a lease has expired if its record has not changed for the published lease
/// duration. The age of a record that is seen for the first time is unknown, so its time starts then. Times in records
/// are shown unchanged. The record of a shard names its owner, and never expires.
///
/// With --group, the output is the state of the group, and one line per change of a member or an owner.
///
/// A store that fails is tried again forever, with messages on stderr.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Events, as in --json:
  new_leader  the lease has a holder: the first observed holder, another holder, or the same holder in a new term
  renewed     the record has changed within the same term; after `expired`, the lease is held again
  new_address the leader advertises another address, or no longer advertises an address
  released    the holder has released the lease
  expired     no change for the lease duration, so another candidate may take over; reported once
  deleted     the record was deleted
  unheld      the lease has no holder when first observed, or does not exist

Fields of --json: time (local wall clock at the event), lease, event, holder (identity in the record; null without a holder),
previous_holder (the previous identity, if different), address (advertised by the holder, or null), version (version of the record in the store; fencing tokens are the
versions of acquisitions), transitions, acquire_time, renew_time, lease_duration_seconds (from the record; null if absent),
renewals (number of renewals observed by this command), seconds_left (until expiry by the local clock; null without a holder or a valid lease
duration, and for a shard), leads (true if this command has seen a renewal by the holder, and the lease has not expired), owner (in the record of
a shard, else null), seconds_since_renewal (by the clock of the holder, negative if that clock is ahead; null without a holder or a valid time),
notes (beside the record). `leasehold status --json` adds may_campaign: yes, no or unknown.

Fields of --group --json: time, group, event (member_joined, member_left, new_owner, no_owner), slot (of the member, or null),
shard (or null), identity (the member in the slot, or the owner of the shard; null without one), previous_identity (null without one). The
first lines are the present members and owners.

Exit codes: 0 when stdout is closed; 125 for permanent errors.")]
pub struct ObserveArgs {
    /// Leases to show [default: all]
    #[arg(value_name = "LEASE")]
    leases: Vec<String>,
    /// Lease to show, as in `run`; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "leases")]
    lease: Vec<String>,
    /// Group to show, instead of leases
    #[arg(long, value_name = "NAME", conflicts_with_all = ["leases", "lease", "lock_type"])]
    group: Option<String>,
    /// Number of shards of the group [default: as its members publish]
    #[arg(long, value_name = "NUMBER", requires = "group")]
    shards: Option<u32>,
    #[command(flatten)]
    follow: FollowArgs,
    /// Print each change as a line of JSON, even in a terminal
    #[arg(long)]
    json: bool,
    /// Show the leases once, as `leasehold status` does
    #[arg(long, conflicts_with = "group")]
    once: bool,
}

/// The largest number of shards of a group.
const MAX_SHARDS: u32 = 1_024;

/// The interval at which an unchanged table is redrawn, and a closed stdout is detected.
const TICK: Duration = Duration::from_secs(1);

/// The shortest time between two drawings while updates arrive without a pause.
const BUSY: Duration = Duration::from_millis(100);

/// Shows leases or a group until stdout is closed, and returns the exit code.
///
/// # Errors
///
/// Returns an error that a retry cannot repair.
pub fn run(arguments: &ObserveArgs) -> Result<u8, Failure> {
    let (store, which) = arguments.follow.open()?;
    if let Some(name) = &arguments.group {
        let group = LeaseGroup::builder(name).shards(arguments.shards.unwrap_or(MAX_SHARDS)).start_on(store)?;
        return follow_group(&group, arguments.shards.is_none(), arguments.json);
    }
    let names = if arguments.lease.is_empty() { &arguments.leases } else { &arguments.lease };
    if arguments.once {
        let show = |lease: &String| status::show(&store, lease, READ_TIMEOUT, arguments.json);
        let codes = names.iter().map(show).collect::<Result<Vec<_>, _>>()?;
        return codes.into_iter().max().ok_or_else(|| "--once needs the name of a lease".into());
    }
    let mut follower = Follower::start(store, names, which)?;
    if let Some(table) = LeaseTable::in_terminal().filter(|_| !arguments.json) {
        return follow_in_table(table, follower);
    }
    while is_stdout_open(print(&follower.next(TICK)?, arguments.json))? {}
    Ok(0)
}

fn follow_in_table(mut table: LeaseTable, mut follower: Follower) -> Result<u8, Failure> {
    while is_stdout_open(table.draw(&follower, Now::read()))? {
        let mut heard = follower.next(TICK)?;
        let until = Instant::now() + BUSY;
        while matches!(&heard, Heard::Events(events) if !events.is_empty()) && Instant::now() < until {
            heard = follower.next(Duration::ZERO)?;
        }
        if let Heard::Trouble(level, trouble) = heard {
            // The next drawing reports an error of stdout.
            let _ = table.clear();
            log::log!(target: COMMAND, level, "{trouble}");
        }
    }
    Ok(0)
}

fn follow_group(group: &LeaseGroup, is_number_published: bool, is_json: bool) -> Result<u8, Failure> {
    let (transitions, mut shown, mut shards) = (group.transitions(), None, 0);
    loop {
        let mut status = group.status();
        if is_number_published {
            // The number stays after the last member has left.
            shards = group::shards(&status).max(shards);
            status.shards.truncate(shards as usize);
        }
        // An incomplete listing does not show which records were deleted.
        let written = match status.is_current {
            true => group::show(shown.as_ref(), &status, is_json),
            false => check_stdout(),
        };
        if !is_stdout_open(written)? {
            return Ok(0);
        }
        shown = Some(status).filter(|status| status.is_current).or(shown);
        // A change of a member causes no transition, so the status is also compared regularly.
        if transitions.recv_timeout(TICK) == Err(RecvTimeoutError::Disconnected) {
            return Err(group.shards().map_or_else(Failure::from, |_| "the group has ended".into()));
        }
    }
}

fn print(heard: &Heard, is_json: bool) -> io::Result<()> {
    match heard {
        Heard::Events(events) if events.is_empty() => check_stdout(),
        Heard::Events(events) => {
            let line = if is_json { lines::json } else { lines::plain };
            write_stdout(&events.iter().map(line).collect::<String>())
        }
        Heard::Trouble(level, trouble) => {
            log::log!(target: COMMAND, *level, "{trouble}");
            Ok(())
        }
        Heard::Paused(..) => Ok(()),
    }
}
