//! `leasehold wait`: waits for a leader.

use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::election::duration;
use super::follow::leases::{LeaseView, Leases, Update, Which, shard_error};
use super::follow::{FollowArgs, Follower, Heard, LeaseArgs, location};
use super::leader::LeaseInStore;
use super::say::{end_of_stdout, say, write_stdout};
use crate::log::COMMAND;
use leasehold::util::clock::Now;
use leasehold::util::one_line::OneLine;

/// Wait for a leader, and print its identity
///
/// The command ends as soon as it has seen the holder renew the lease, and prints the identity of the holder. If the
/// holder is alive, the command sees a renewal within the renew interval of the holder (2s by default). A record that
/// was only read does not count, because its holder may have crashed. The record of a shard is refused, because the
/// owner never renews it.
///
/// A store that fails is tried again until the timeout, with messages on stderr. With `--timeout 0s`, the command reads
/// the record once, prints the holder to stderr, and exits with 124.
///
/// Exit codes: 0 if there is a leader; 124 after the timeout; 125 for permanent errors, and if the store did not answer
/// before the timeout.
#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    lease: LeaseArgs,
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

/// The time limit of the single read with `--timeout 0s`.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for a leader, prints its identity, and returns the exit code.
///
/// # Errors
///
/// Returns an error that a retry cannot repair, or an error if the store did not answer before the timeout.
pub fn run(arguments: &WaitArgs) -> Result<u8, String> {
    let began = Instant::now();
    let (store, which) = arguments.follow.open().map_err(|error| error.to_string())?;
    let lease = arguments.lease.key();
    if arguments.timeout.is_some_and(|timeout| timeout.is_zero()) {
        let location = location(&*store);
        let found = LeaseInStore::new(store, lease, READ_TIMEOUT)?.read().map_err(|(_, error)| error)?;
        let mut leases = Leases::new(Which::Named);
        leases.apply(Update::Record { key: lease.into(), found, version: None }, Now::read());
        check_shard(&leases, lease)?;
        return Ok(timed_out(arguments, lease, &leases, &location));
    }
    let mut follower = Follower::start(store, &[lease.to_owned()], which)?;
    let mut trouble = "no answer".to_owned();
    loop {
        let patience = arguments.timeout.map_or(LONG, |timeout| timeout.saturating_sub(began.elapsed()).min(LONG));
        match follower.next(patience)? {
            Heard::Events(_) => {
                check_shard(&follower.leases, lease)?;
                let leader = follower.leases.get(lease).and_then(LeaseView::leader);
                if let Some(leader) = leader.filter(|leader| is_awaited(arguments, leader)) {
                    let written = write_stdout(&format!("{}\n", OneLine(leader)));
                    return end_of_stdout(written).unwrap_or(Ok(0));
                }
            }
            Heard::Trouble(level, text) => {
                log::log!(target: COMMAND, level, "{text}");
                trouble = text;
            }
            Heard::Paused(pause, why) => {
                let left = arguments.timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
                if left.is_some_and(|left| left < pause) {
                    return Err(why);
                }
            }
        }
        match arguments.timeout.filter(|timeout| began.elapsed() >= *timeout) {
            Some(_) if follower.has_answered => {
                return Ok(timed_out(arguments, lease, &follower.leases, &follower.location));
            }
            Some(timeout) => {
                let timeout = humantime::format_duration(timeout);
                return Err(format!("cannot read lease {lease} within {timeout}, in {}: {trouble}", follower.location));
            }
            None => {}
        }
    }
}

fn is_awaited(arguments: &WaitArgs, holder: &str) -> bool {
    arguments.holder.as_deref().is_none_or(|awaited| awaited == holder)
}

/// Returns an error for the record of a shard, which would be waited for forever.
fn check_shard(leases: &Leases, lease: &str) -> Result<(), String> {
    if leases.get(lease).is_some_and(LeaseView::is_shard) { Err(shard_error(lease)) } else { Ok(()) }
}

/// Prints what the record shows, and returns the exit code after a timeout.
fn timed_out(arguments: &WaitArgs, lease: &str, leases: &Leases, location: &str) -> u8 {
    let WaitArgs { holder, timeout, .. } = arguments;
    let (view, timeout) = (leases.get(lease).cloned().unwrap_or_default(), timeout.unwrap_or_default());
    let what = match holder {
        _ if view.holder().is_some_and(|holder| is_awaited(arguments, holder)) && !view.has_expired => {
            "was held, but not renewed".to_owned()
        }
        Some(holder) => format!("was not held by {holder}"),
        None => "was not held".to_owned(),
    };
    let (timeout, standing) = (humantime::format_duration(timeout), view.standing(Now::read()));
    say(&format!("lease {lease} {what} within {timeout}, in {location}: {standing}"));
    TIMED_OUT
}
