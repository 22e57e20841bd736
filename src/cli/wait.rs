//! `leasehold wait`: until somebody leads.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::election::duration;
use super::follow::leases::{EventKind, LeaseEvent};
use super::follow::{FollowArgs, Follower, Heard};
use super::say::{say, write_stdout};
use crate::log::COMMAND;
use leasehold::util::one_line::OneLine;

/// Wait until somebody leads, and print who
///
/// It ends as soon as a lease is held and has not run out, and prints the holder's identity. How old a record is that is seen for the
/// first time cannot be known, so it counts as held: its holder may have died, and nobody taken over yet.
///
/// The store is tried again for ever when it fails, and that is said on stderr.
///
/// Exit codes: 0 when somebody leads; 124 when the timeout has passed; 125 for errors that do not mend by themselves.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// The lease
    #[arg(value_name = "LEASE")]
    lease: String,
    /// Wait until this one leads, by its identity
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    holder: Option<String>,
    /// How long to wait at most [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    follow: FollowArgs,
}

/// As timeout(1) does.
const TIMED_OUT: u8 = 124;

/// How long to wait for the next change where there is no end to that.
const LONG: Duration = Duration::from_secs(3_600);

/// # Errors
///
/// What does not mend by itself.
pub fn run(arguments: &WaitArgs) -> Result<u8, String> {
    let began = Instant::now();
    let (store, which) = arguments.follow.open().map_err(|error| error.to_string())?;
    let mut follower = Follower::start(store, std::slice::from_ref(&arguments.lease), which)?;
    loop {
        let patience = arguments.timeout.map_or(LONG, |timeout| timeout.saturating_sub(began.elapsed()).min(LONG));
        match follower.next(patience)? {
            Heard::Events(events) => {
                if let Some(holder) = events.iter().find_map(|event| leader(event, arguments.holder.as_deref())) {
                    return print(holder);
                }
            }
            Heard::Trouble(level, trouble) => log::log!(target: COMMAND, level, "{trouble}"),
            Heard::Nothing => {}
        }
        if let Some(timeout) = arguments.timeout.filter(|timeout| began.elapsed() >= *timeout) {
            let who = arguments.holder.as_deref().map_or("nobody has".to_owned(), |holder| format!("{holder} has not"));
            let (lease, location) = (&arguments.lease, &follower.location);
            let timeout = humantime::format_duration(timeout);
            say(&format!("{who} held the lease {lease} within {timeout}, in {location}"));
            return Ok(TIMED_OUT);
        }
    }
}

/// Who leads now, if it is who is waited for.
fn leader<'a>(event: &'a LeaseEvent, awaited: Option<&str>) -> Option<&'a str> {
    let holder = event.lease.holder().filter(|_| matches!(event.what, EventKind::NewLeader | EventKind::Renewed))?;
    awaited.is_none_or(|awaited| awaited == holder).then_some(holder)
}

fn print(holder: &str) -> Result<u8, String> {
    match write_stdout(&format!("{}\n", OneLine(holder))) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write to stdout: {error}")),
        _ => Ok(0),
    }
}
