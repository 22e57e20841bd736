//! `leasehold elect`: a sidecar that campaigns, and answers who leads.
//!
//! An application may work until the end of the last answer that it received. The sidecar knows neither the
//! applications nor whether they still work, so it releases the lease only after `POST /done`. Otherwise the lease is no
//! longer renewed, and expires.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use crossbeam_channel::{Receiver, after, never, select, unbounded};
use leasehold::{LeaderElector, LeaderElectorBuilder, LeaderGuard, Settings};
use parking_lot::Mutex;

use super::http::{self, Applications, CommandWork, DoneReport, DoneResult, HttpAddresses, StatusServer};
use super::signals::{self, Caught};
use crate::election::{ElectionArgs, Error};
use crate::log::COMMAND;
use crate::password::read_secret;
use crate::say::Failure;

/// Campaign without a command, and answer over HTTP whether this replica leads
///
/// An application can be another container of the pod. The application asks the sidecar before it works.
///
/// `GET /` answers with JSON, and `GET /leader` with the same JSON and status 200 or 503. An application may work for
/// remaining_ms milliseconds after it has sent the request, on a clock that counts suspend, or until CLOCK_BOOTTIME of
/// this machine is until_boottime_ns. is_leader and name alone are no permission to work.
///
/// `POST /done` reports that all applications of this replica have stopped. The lease is then released, and this replica
/// campaigns again after a lease duration. Without `POST /done`, the lease is never released. After SIGTERM, the lease is
/// no longer renewed, and the process waits for `POST /done` until the lease is lost. The release timeout is at most, and by
/// default, the renew deadline.
///
/// Exit codes: 0 after SIGTERM, SIGINT, SIGHUP or SIGQUIT; 125 for errors.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("elected").required(true).arg("lease"))]
pub struct ElectArgs {
    #[command(flatten)]
    election: ElectionArgs,
    /// Serve /, /leader, /done, /healthz, /readyz and /metrics on this address, for example 127.0.0.1:4040
    #[arg(long, value_name = "ADDRESS", value_parser = http::addresses)]
    http: HttpAddresses,
    /// File with the token that `POST /done` needs in `Authorization: Bearer TOKEN` [default: no `POST /done`]
    #[arg(long, value_name = "FILE")]
    done_token_file: Option<PathBuf>,
    /// Make /readyz fail after N lease durations without a leader [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    unready_without_leader: Option<u32>,
    /// Log only warnings and errors (overridden by LEASEHOLD_LOG)
    #[arg(short, long)]
    pub quiet: bool,
}

/// Campaigns until a signal ends this process, and returns the exit code.
///
/// # Errors
///
/// Returns the exit code and the message on stderr.
pub fn elect(arguments: ElectArgs) -> Result<u8, Failure> {
    let ElectArgs { election, http, done_token_file: token_file, unready_without_leader, .. } = arguments;
    let builder = election.place.namespace.iter().fold(election.builder(), LeaderElectorBuilder::namespace);
    let settings = builder.validate()?;
    // The main thread waits for the release, so a signal must not wait for longer than at any other time.
    let release_timeout = election.release_timeout.unwrap_or(settings.renew_deadline).min(settings.renew_deadline);
    let builder = builder.release_timeout(release_timeout);
    if let Some(path) = &token_file {
        read_secret(path).map_err(|error| format!("--done-token-file {}: {error}", path.display()))?;
    }
    let may_release = token_file.is_some();
    let signals = signals::take()?;
    let elector = Arc::new(election.place.open(election.lock_type, true)?.start(builder)?);
    let (done, reports) = unbounded();
    let work = Arc::default();
    let unready_after = unready_without_leader.map(|n| settings.lease_duration.saturating_mul(n));
    let applications = Some(Applications { token_file, done });
    let server =
        StatusServer { elector: Arc::downgrade(&elector), work: Arc::clone(&work), unready_after, applications };
    let server = server.serve(http::listen(&http)?)?;
    Sidecar { elector, work, reports, signals, settings, may_release }.run()?;
    http::finish(&server);
    Ok(0)
}

/// An elector whose applications are other processes.
struct Sidecar {
    elector: Arc<LeaderElector>,
    work: Arc<Mutex<CommandWork>>,
    reports: Receiver<DoneReport>,
    signals: Receiver<Caught>,
    settings: Settings,
    /// `true` if `POST /done` is possible.
    may_release: bool,
}

impl Sidecar {
    /// Campaigns and leads in turn, until a signal ends this process.
    fn run(&self) -> Result<(), Error> {
        let Settings { lease_duration, renew_deadline, .. } = self.settings;
        // The time from the end of the last renewed term to the expiry of its lease.
        let to_expiry = lease_duration.saturating_sub(renew_deadline);
        let (mut campaign, mut leader) = (Some(self.elector.campaign()?), None::<LeaderGuard>);
        // `due` is the time of the next campaign, or of the exit.
        let (mut ended, mut due, mut is_stopping) = (never(), never(), false);
        // The last release, if it was not confirmed, and the time until which its lease may exist.
        let mut unconfirmed = None;
        loop {
            let won = campaign.as_ref().map_or_else(never, |campaign| campaign.receiver().clone());
            select! {
                recv(won) -> guard => {
                    let guard = guard??;
                    self.work.lock().begins(guard.leadership());
                    (ended, campaign, leader) = (guard.ended().clone(), None, Some(guard));
                }
                recv(self.reports) -> report => {
                    let DoneReport { connection, result } = report?;
                    if !self.work.lock().end_before(connection) {
                        let _ = result.send(DoneResult::AskedSince);
                        continue;
                    }
                    campaign = None;
                    if let Some(guard) = leader.take() {
                        log::info!(target: COMMAND, "applications have stopped, no campaign for {lease_duration:?}");
                        unconfirmed = guard.release().err().map(|error| (error, Instant::now() + lease_duration));
                    }
                    let _ = result.send(match &unconfirmed {
                        Some((error, until)) if Instant::now() < *until => DoneResult::NotConfirmed(error.clone()),
                        _ => DoneResult::Released,
                    });
                    if is_stopping {
                        return Ok(());
                    }
                    // Another replica leads, because the applications of this replica have stopped.
                    (ended, due) = (never(), after(lease_duration));
                }
                recv(ended) -> _ => {
                    log::info!(target: COMMAND, "term ended, leaving the lease until POST /done or its expiry");
                    let left = leader.as_ref().map(|guard| guard.lease_remaining()).unwrap_or_default();
                    (ended, due) = (never(), after(left + to_expiry));
                }
                recv(due) -> _ => match leader.as_ref().map(|guard| guard.lease_remaining()).unwrap_or_default() {
                    // After a request to step down, the lease is renewed for a while.
                    left if !left.is_zero() => due = after(left + to_expiry),
                    _ if is_stopping => break,
                    _ => {
                        self.work.lock().ended(None);
                        drop(leader.take());
                        (due, campaign) = (never(), Some(self.elector.campaign()?));
                    }
                },
                recv(self.signals) -> caught => match &leader {
                    _ if !caught.map_or(true, Caught::ends_us) => {}
                    Some(guard) if !is_stopping && self.may_release => {
                        is_stopping = true;
                        // The lease of an ended term is already left until its expiry.
                        if guard.is_leader() {
                            (ended, due) = (never(), after(guard.lease_remaining()));
                        }
                        guard.step_down_within(Duration::ZERO);
                    }
                    _ => break,
                },
            }
        }
        // An application may still work, so the lease must expire without a release.
        std::mem::forget(leader);
        Ok(())
    }
}
