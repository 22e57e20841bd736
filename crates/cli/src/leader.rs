//! `leasehold where` and `leasehold step-down`, which send a few requests about a leader.

use std::cell::OnceCell;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use clap::Args;
use leasehold::store::{
    CallContext, CancelToken, RequestAcceptance, Store, StoreError, StoreErrorKind, VersionedRecord,
};

use super::election::positive_duration;
use super::follow::leases::{is_shard, seconds, shard_error};
use super::follow::{FollowArgs, LONGEST_REQUESTED_PAUSE, LeaseArgs, check_name};
use super::say::{Failure, is_stdout_open, say, write_stdout};
use crate::backoff::{Backoff, requested_pause};
use crate::one_line::OneLine;

#[derive(Debug, Args)]
pub struct LeaderArgs {
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Time limit, with repeated attempts if the store fails
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, default_value = "10s")]
    pub timeout: Duration,
    #[command(flatten)]
    pub follow: FollowArgs,
}

/// The exit code without a holder or an address.
pub const ABSENT: u8 = 1;

/// The exit code if the holder accepts no requests.
const REFUSES: u8 = 3;

/// The exit code if the holder has not renewed the lease since the request.
const SILENT: u8 = 4;

/// The interval between reads while the command waits for a renewal.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// The pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The lease in its store, with the time limit of all requests together.
pub struct LeaseInStore<'a> {
    store: Arc<dyn Store>,
    key: &'a str,
    pub call: CallContext,
}

/// Prints the address of the leader, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn print_address(arguments: &LeaderArgs) -> Result<u8, Failure> {
    let lease = LeaseInStore::open(arguments)?;
    let (holder, observed) = lease.with_leader(|holder, observed| Ok((holder, observed)))?;
    let Some(address) = observed.notes.term.address else {
        let message = format!("{} is held by {}, which advertises no address", lease.name(), OneLine(holder));
        return Err(Failure(ABSENT, message));
    };
    is_stdout_open(print(address))?;
    Ok(0)
}

/// Writes the request to step down, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn request_step_down(arguments: &LeaderArgs) -> Result<u8, Failure> {
    let lease = LeaseInStore::open(arguments)?;
    // After a conflict with a renewal, or without an answer, the next attempt reads the record again.
    let first = OnceCell::new();
    let (asked, observed) = lease.with_leader(|holder, observed| {
        if is_shard(&observed.record) {
            return Err(StoreError::new(StoreErrorKind::Rejected, shard_error(lease.key)));
        }
        // A later holder is not asked, because the first one may have handed over after an unanswered request.
        let asked = first.get_or_init(|| holder.clone());
        let mut notes = observed.notes.clone();
        if *asked == holder
            && notes.term.accepts_requests != Some(RequestAcceptance::Never)
            && notes.step_down.replace(holder.clone()).as_ref() != Some(&holder)
        {
            lease.store.update(lease.key, &observed, observed.record.with_notes(&notes), &lease.call)?;
        }
        Ok((asked.clone(), observed))
    })?;
    let (name, holder) = (lease.name(), OneLine(&asked));
    let is_asked = observed.record.holder() == Some(&asked);
    let acceptance = observed.notes.term.accepts_requests.filter(|_| is_asked);
    let effect = match acceptance {
        Some(RequestAcceptance::Never) => {
            let message = format!("{name} is held by {holder}, which accepts no requests; nothing is written");
            return Err(Failure(REFUSES, message));
        }
        Some(RequestAcceptance::After(delay)) => takes_effect(&observed, delay),
        _ if is_asked => format!("; unknown whether {holder} accepts requests"),
        _ => String::new(),
    };
    let line = format!("asked {holder} to step down from {name}{effect}");
    // The request is written, even if stdout is closed or full.
    if let Err(error) = print(&line) {
        say(&format!("{line}; cannot write to stdout: {error}"));
    }
    let patience = observed.record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(15);
    let patience = Duration::from_secs(patience) / 2;
    if acceptance.is_none() {
        return Ok(0);
    }
    let has_changed = lease.changes_within(&observed, patience);
    if has_changed.map_err(|error| format!("the request is written, but then the store failed: {error}"))? {
        return Ok(0);
    }
    let patience = humantime::format_duration(patience);
    let silence = format!("{holder} has not renewed {name} for {patience}, and may have crashed");
    Err(Failure(SILENT, format!("{silence}; the request is written")))
}

/// Returns the text about the time until a holder accepts requests, by its clock.
fn takes_effect(observed: &VersionedRecord, delay: Duration) -> String {
    let acquired = observed.record.acquire_time.as_ref();
    let acquired = acquired.and_then(|time| humantime::parse_rfc3339(time.as_str()).ok());
    let left = acquired.and_then(|acquired| (acquired + delay).duration_since(SystemTime::now()).ok());
    let left = left.map(|left| Duration::from_secs(left.as_secs_f64().ceil() as u64));
    left.map_or_else(String::new, |left| format!("; the request takes effect in {}", seconds(left)))
}

fn print(line: impl Display) -> io::Result<()> {
    write_stdout(&format!("{}\n", OneLine(line)))
}

impl<'a> LeaseInStore<'a> {
    /// Selects a lease, with the time limit of all requests together.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not accept the name of the lease.
    pub fn new(store: Arc<dyn Store>, key: &'a str, timeout: Duration) -> Result<Self, String> {
        check_name(&*store, key)?;
        Ok(Self { store, key, call: CallContext::new(timeout, CancelToken::new()) })
    }

    /// Opens the store.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be opened, or does not accept the name of the lease.
    fn open(arguments: &'a LeaderArgs) -> Result<Self, Failure> {
        let (store, _) = arguments.follow.open()?;
        Ok(Self::new(store, arguments.lease.key(), arguments.timeout)?)
    }

    /// Reads the record, and passes the holder and the record to `act`.
    ///
    /// # Errors
    ///
    /// Returns the last error, or an error with [`ABSENT`] if the record has no holder.
    fn with_leader<T>(&self, act: impl Fn(String, VersionedRecord) -> Result<T, StoreError>) -> Result<T, Failure> {
        let found = self.repeat(|| {
            let observed = self.store.get(self.key, &self.call)?;
            let led = observed.and_then(|observed| Some((observed.record.holder()?.to_owned(), observed)));
            led.map(|(holder, observed)| act(holder, observed)).transpose()
        })?;
        found.ok_or_else(|| Failure(ABSENT, format!("{} has no holder", self.name())))
    }

    /// Reads the record, or returns the last error.
    pub fn read(&self) -> Result<Option<VersionedRecord>, Failure> {
        self.repeat(|| self.store.get(self.key, &self.call))
    }

    /// Repeats an attempt after an error that may be transient, until the time limit. Returns the last error.
    fn repeat<T>(&self, attempt: impl Fn() -> Result<T, StoreError>) -> Result<T, Failure> {
        let mut backoff = Backoff::default();
        loop {
            let error = match attempt() {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            let requested = requested_pause(error.retry_after(), LONGEST_REQUESTED_PAUSE, fastrand::f64());
            let pause = backoff.pause(FIRST_PAUSE, LONGEST_PAUSE).max(requested);
            if !error.is_transient() || pause >= self.call.remaining() {
                return Err(error.into());
            }
            sleep(pause);
        }
    }

    /// Waits until the record has changed since `base`. Returns `false` if it has not changed within `patience`.
    ///
    /// Returns the last error if no read has succeeded.
    fn changes_within(&self, base: &VersionedRecord, patience: Duration) -> Result<bool, StoreError> {
        let call = CallContext::new(patience, CancelToken::new());
        let mut has_read = false;
        loop {
            let found = self.store.get(self.key, &call);
            let is_over = call.remaining().is_zero();
            match found {
                Ok(found) if found.as_ref().is_none_or(|found| found.record != base.record) => return Ok(true),
                Ok(_) => has_read = true,
                Err(error) if is_over && !has_read => return Err(error),
                Err(_) => {}
            }
            if is_over {
                return Ok(false);
            }
            sleep(BETWEEN_LOOKS.min(call.remaining()));
        }
    }

    /// Returns the name of the record.
    pub fn name(&self) -> String {
        self.store.describe(self.key)
    }
}
