//! `leasehold where` and `leasehold step-down`, which send a few requests about a leader.

use std::cell::OnceCell;
use std::fmt::Display;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use leasehold::{CallContext, CancelToken, Store, StoreError, VersionedRecord};

use super::election::positive_duration;
use super::follow::{FollowArgs, LONGEST_REQUESTED_PAUSE, check_name};
use super::say::{Failure, failed, write_stdout};
use leasehold::util::backoff::{Backoff, requested_pause};
use leasehold::util::one_line::OneLine;

#[derive(Debug, Args)]
pub struct LeaderArgs {
    /// Lease whose leader is looked up
    #[arg(value_name = "LEASE", required_unless_present = "named")]
    lease: Option<String>,
    /// Lease whose leader is looked up, as in `run`
    #[arg(long = "lease", id = "named", value_name = "NAME", conflicts_with = "lease")]
    named: Option<String>,
    /// Time limit, with repeated attempts if the store fails
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, default_value = "10s")]
    timeout: Duration,
    #[command(flatten)]
    follow: FollowArgs,
}

/// The exit code without a holder or an address.
const ABSENT: u8 = 1;

/// The pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The lease in its store, with the time limit of all requests together.
struct LeaseInStore<'a> {
    store: Arc<dyn Store>,
    key: &'a str,
    call: CallContext,
}

/// Prints the address of the leader, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn print_address(arguments: &LeaderArgs) -> Result<u8, Failure> {
    let lease =
        LeaseInStore::open(arguments, "find the address of the leader of", "`leasehold wait` prints the identity")?;
    let (holder, observed) = lease.with_leader(|holder, observed| Ok((holder, observed)))?;
    let no_address = || format!("{} is held by {}, which advertises no address", lease.name(), OneLine(holder));
    print(observed.notes.address.ok_or_else(|| (ABSENT, no_address()))?)
}

/// Writes the request to step down, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn request_step_down(arguments: &LeaderArgs) -> Result<u8, Failure> {
    let lease = LeaseInStore::open(arguments, "request a step-down of", "end the process of the leader instead")?;
    // After a conflict with a renewal, or without an answer, the next attempt reads the record again.
    let first = OnceCell::new();
    let asked = lease.with_leader(|holder, observed| {
        // A later holder is not asked, because the first one may have handed over after an unanswered request.
        let asked = first.get_or_init(|| holder.clone());
        let mut notes = observed.notes.clone();
        if *asked == holder && notes.step_down.replace(holder.clone()).as_ref() != Some(&holder) {
            lease.store.update(lease.key, &observed, observed.record.with_notes(&notes), &lease.call)?;
        }
        Ok(asked.clone())
    })?;
    print(format_args!("asked {asked} to step down from {}", lease.name()))
}

fn print(line: impl Display) -> Result<u8, Failure> {
    let written = write_stdout(&format!("{}\n", OneLine(line)));
    written.map(|()| 0).map_err(|error| failed(format!("cannot write to stdout: {error}")))
}

impl<'a> LeaseInStore<'a> {
    /// Opens the store, which must keep notes. The caller wants to `act` with the lease.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be opened, keeps no notes, or does not accept the name of the lease. The
    /// error for a store without notes has the remedy `instead`.
    fn open(arguments: &'a LeaderArgs, act: &str, instead: &str) -> Result<Self, Failure> {
        let (store, _) = arguments.follow.open().map_err(|error| failed(error.to_string()))?;
        let key = arguments.named.as_ref().or(arguments.lease.as_ref()).map_or("", |name| name);
        check_name(&*store, key).map_err(failed)?;
        let call = CallContext::new(arguments.timeout, CancelToken::new());
        let lease = Self { store, key, call };
        match lease.store.keeps_notes() {
            true => Ok(lease),
            false => Err(failed(format!("cannot {act} {}: this needs a cluster or etcd; {instead}", lease.name()))),
        }
    }

    /// Reads the record, and passes the holder and the record to `act`.
    ///
    /// Repeats the attempt after an error that may be transient, until the time limit.
    ///
    /// # Errors
    ///
    /// Returns the last error, or an error with [`ABSENT`] if the record has no holder.
    fn with_leader<T>(&self, act: impl Fn(String, VersionedRecord) -> Result<T, StoreError>) -> Result<T, Failure> {
        let attempt = || {
            let observed = self.store.get(self.key, &self.call)?;
            let led = observed.and_then(|observed| Some((observed.record.holder()?.to_owned(), observed)));
            led.map(|(holder, observed)| act(holder, observed)).transpose()
        };
        let mut backoff = Backoff::default();
        loop {
            let error = match attempt() {
                Ok(found) => return found.ok_or_else(|| (ABSENT, format!("{} has no holder", self.name()))),
                Err(error) => error,
            };
            let requested = requested_pause(error.retry_after(), LONGEST_REQUESTED_PAUSE, fastrand::f64());
            let pause = backoff.pause(FIRST_PAUSE, LONGEST_PAUSE).max(requested);
            if !error.is_transient() || pause >= self.call.remaining() {
                return Err(failed(error.to_string()));
            }
            sleep(pause);
        }
    }

    /// Returns the name of the record.
    fn name(&self) -> String {
        self.store.describe(self.key)
    }
}
