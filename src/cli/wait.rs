//! `leasehold wait`: waits for a leader.

use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::election::duration;
use super::follow::leases::{EventKind, LeaseEvent};
use super::follow::{FollowArgs, Follower, Heard};
use super::say::{end_of_stdout, say, write_stdout};
use crate::log::COMMAND;
use leasehold::util::one_line::OneLine;

/// Wait for a leader, and print its identity
///
/// The command ends as soon as a lease is held and has not expired, and prints the identity of the holder. The age of
/// a record that is seen for the first time is unknown, so such a record counts as held. The holder may have crashed
/// before another candidate could take over.
///
/// A store that fails is tried again forever, with messages on stderr.
///
/// Exit codes: 0 if there is a leader; 124 after the timeout; 125 for permanent errors.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Lease to wait for
    #[arg(value_name = "LEASE", required_unless_present = "named")]
    lease: Option<String>,
    /// Lease to wait for, as in `run`
    #[arg(long = "lease", id = "named", value_name = "NAME", conflicts_with = "lease")]
    named: Option<String>,
    /// Identity to wait for [default: any]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    holder: Option<String>,
    /// Time to wait [default: forever]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    follow: FollowArgs,
}

/// The exit code after a timeout, the same as in timeout(1).
const TIMED_OUT: u8 = 124;

/// The longest wait for one update.
const LONG: Duration = Duration::from_secs(3_600);

/// Waits for a leader, prints its identity, and returns the exit code.
///
/// # Errors
///
/// Returns an error that a retry cannot repair.
pub fn run(arguments: &WaitArgs) -> Result<u8, String> {
    let began = Instant::now();
    let (store, which) = arguments.follow.open().map_err(|error| error.to_string())?;
    let lease = arguments.named.as_ref().or(arguments.lease.as_ref()).ok_or("no lease is named")?;
    let mut follower = Follower::start(store, std::slice::from_ref(lease), which)?;
    loop {
        let patience = arguments.timeout.map_or(LONG, |timeout| timeout.saturating_sub(began.elapsed()).min(LONG));
        match follower.next(patience)? {
            Heard::Events(events) => {
                if let Some(holder) = events.iter().find_map(|event| leader(event, arguments.holder.as_deref())) {
                    let written = write_stdout(&format!("{}\n", OneLine(holder)));
                    return end_of_stdout(written).unwrap_or(Ok(0));
                }
            }
            Heard::Trouble(level, trouble) => log::log!(target: COMMAND, level, "{trouble}"),
            Heard::Paused(pause, why) => {
                let left = arguments.timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
                if left.is_some_and(|left| left < pause) {
                    return Err(why);
                }
            }
        }
        if let Some(timeout) = arguments.timeout.filter(|timeout| began.elapsed() >= *timeout) {
            let by = arguments.holder.as_deref().map_or(String::new(), |holder| format!(" by {holder}"));
            let location = &follower.location;
            let timeout = humantime::format_duration(timeout);
            say(&format!("lease {lease} was not held{by} within {timeout}, in {location}"));
            return Ok(TIMED_OUT);
        }
    }
}

/// Returns the leader after an event. Returns `None` if another holder is awaited.
fn leader<'a>(event: &'a LeaseEvent, awaited: Option<&str>) -> Option<&'a str> {
    let is_held = matches!(event.what, EventKind::NewLeader | EventKind::NewAddress | EventKind::Renewed);
    let holder = event.lease.holder().filter(|_| is_held && !event.lease.has_expired)?;
    awaited.is_none_or(|awaited| awaited == holder).then_some(holder)
}
