//! `leasehold wait`: waits for a leader.

use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::election::duration;
use super::follow::leases::{LeaseEvent, LeaseView, shard_error};
use super::follow::{FollowArgs, Follower, Heard, LeaseArgs, READ_TIMEOUT, location};
use super::leader::LeaseInStore;
use super::say::{Failure, is_stdout_open, say, write_stdout};
use crate::clock::Now;
use crate::log::COMMAND;
use crate::one_line::OneLine;

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

/// Waits for a leader, prints its identity, and returns the exit code.
///
/// # Errors
///
/// Returns an error that a retry cannot repair, or an error if the store did not answer before the timeout.
pub fn run(arguments: &WaitArgs) -> Result<u8, Failure> {
    let began = Instant::now();
    let (store, which) = arguments.follow.open()?;
    let lease = arguments.lease.key();
    if arguments.timeout.is_some_and(|timeout| timeout.is_zero()) {
        let location = location(&*store);
        let found = LeaseInStore::new(store, lease, READ_TIMEOUT)?.read()?;
        let view = LeaseEvent::of_read(lease, found, Now::read()).lease;
        check_shard(&view, lease)?;
        return Ok(timed_out(arguments, lease, &view, &location));
    }
    let mut follower = Follower::start(store, &[lease.to_owned()], which)?;
    let mut trouble = "no answer".to_owned();
    loop {
        let patience = arguments.timeout.map_or(LONG, |timeout| timeout.saturating_sub(began.elapsed()).min(LONG));
        let heard = follower.next(patience)?;
        let view = follower.leases.get(lease).cloned().unwrap_or_default();
        check_shard(&view, lease)?;
        if let Some(leader) = view.leader().filter(|leader| is_awaited(arguments, leader)) {
            is_stdout_open(write_stdout(&format!("{}\n", OneLine(leader))))?;
            return Ok(0);
        }
        match heard {
            Heard::Events(_) => {}
            Heard::Trouble(level, text) => {
                log::log!(target: COMMAND, level, "{text}");
                trouble = text;
            }
            Heard::Paused(pause, why) => {
                let left = arguments.timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
                if left.is_some_and(|left| left < pause) {
                    return Err(why.into());
                }
            }
        }
        match arguments.timeout.filter(|timeout| began.elapsed() >= *timeout) {
            Some(_) if follower.has_answered => {
                return Ok(timed_out(arguments, lease, &view, &follower.location));
            }
            Some(timeout) => {
                let timeout = humantime::format_duration(timeout);
                let location = follower.location;
                return Err(format!("cannot read lease {lease} within {timeout}, in {location}: {trouble}").into());
            }
            None => {}
        }
    }
}

fn is_awaited(arguments: &WaitArgs, holder: &str) -> bool {
    arguments.holder.as_deref().is_none_or(|awaited| awaited == holder)
}

/// Returns an error for the record of a shard, which would be waited for forever.
fn check_shard(view: &LeaseView, lease: &str) -> Result<(), String> {
    if view.is_shard() { Err(shard_error(lease)) } else { Ok(()) }
}

/// Prints what the record shows, and returns the exit code after a timeout.
fn timed_out(arguments: &WaitArgs, lease: &str, view: &LeaseView, location: &str) -> u8 {
    let what = match &arguments.holder {
        _ if view.holder().is_some_and(|holder| is_awaited(arguments, holder)) && !view.has_expired => {
            "was held, but not renewed".to_owned()
        }
        Some(holder) => format!("was not held by {holder}"),
        None => "was not held".to_owned(),
    };
    let timeout = humantime::format_duration(arguments.timeout.unwrap_or_default());
    let standing = view.standing(Now::read());
    say(&format!("lease {lease} {what} within {timeout}, in {location}: {standing}"));
    TIMED_OUT
}
