//! `leasehold elect`: a sidecar that campaigns for applications, which ask over HTTP who leads.
//!
//! An application may work until the end of the last answer that it received. The sidecar knows neither the
//! applications nor whether they still work, so it releases the lease only after `POST /done`. Otherwise the lease is no
//! longer renewed, and expires.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use crossbeam_channel::{Receiver, RecvError, Sender, after, never, select, unbounded};
use leasehold::{LeaderElector, LeaderElectorBuilder, LeaderGuard};
use parking_lot::Mutex;

use super::http::{self, Applications, CommandWork, HttpAddresses, StatusServer};
use super::signals::{self, Caught};
use crate::election::{ElectionArgs, Error};
use crate::log::COMMAND;
use crate::say::Failure;

/// Campaign without a command, and answer over HTTP whether this replica leads
///
/// For applications that cannot be the command of `leasehold run`, such as other containers of a pod.
///
/// `GET /` answers with JSON, and `GET /leader` with the same JSON and status 200 or 503. An application may work for
/// remaining_ms milliseconds after it has sent the request, on a clock that counts suspend, or until CLOCK_BOOTTIME of
/// this machine is until_boottime_ns. is_leader and name alone are no permission to work.
///
/// `POST /done` reports that all applications of this replica have stopped. The lease is then released, and this replica
/// campaigns again after a lease duration. Without `POST /done`, the lease is never released. After SIGTERM, the lease is
/// no longer renewed, and the process waits for `POST /done` until the term ends.
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
    /// File with the token that `POST /done` needs in `Authorization: Bearer TOKEN`
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
    let signals = signals::take()?;
    let elector = Arc::new(election.place.open(election.lock_type, true)?.start(builder)?);
    let (done, reports) = unbounded();
    let work = Arc::default();
    let unready_after = unready_without_leader.map(|n| settings.lease_duration.saturating_mul(n));
    let applications = Some(Applications { token_file, done });
    let server =
        StatusServer { elector: Arc::downgrade(&elector), work: Arc::clone(&work), unready_after, applications };
    let listening = server.serve(http::listen(&http)?)?;
    let to_expiry = settings.lease_duration.saturating_sub(settings.renew_deadline);
    let sidecar = Sidecar { elector, work, reports, signals, lease_duration: settings.lease_duration, to_expiry };
    sidecar.run()?;
    listening.finish();
    Ok(0)
}

/// An elector whose applications are other processes.
struct Sidecar {
    elector: Arc<LeaderElector>,
    work: Arc<Mutex<CommandWork>>,
    /// Each `POST /done`, with the channel of its answer.
    reports: Receiver<Sender<Result<(), leasehold::Error>>>,
    signals: Receiver<Caught>,
    lease_duration: Duration,
    /// The time from the end of an unrenewed term to the expiry of its lease.
    to_expiry: Duration,
}

/// What follows a term or a campaign.
enum NextStep {
    Campaign,
    /// Leave the lease to another replica for a lease duration, because the applications of this replica have stopped.
    StandAside,
    Exit,
}

impl Sidecar {
    fn run(&self) -> Result<(), Error> {
        loop {
            let mut next = self.campaign()?;
            while let NextStep::StandAside = next {
                next = self.stand_aside();
            }
            if let NextStep::Exit = next {
                return Ok(());
            }
        }
    }

    /// Campaigns, and leads if a term starts.
    fn campaign(&self) -> Result<NextStep, Error> {
        let campaign = self.elector.campaign()?;
        loop {
            select! {
                recv(campaign.receiver()) -> won => return Ok(self.lead(won??)),
                recv(self.reports) -> result => return Ok(stopped(result)),
                recv(self.signals) -> caught => if ends_us(caught) { return Ok(NextStep::Exit) },
            }
        }
    }

    /// Leads until `POST /done`, or until the lease of an ended term has expired.
    fn lead(&self, guard: LeaderGuard) -> NextStep {
        self.work.lock().begins(guard.leadership());
        let (mut ended, mut expired, mut is_stopping) = (guard.ended().clone(), never(), false);
        loop {
            select! {
                recv(self.reports) -> result => {
                    self.work.lock().ended(None);
                    let released = guard.release();
                    log::info!(target: COMMAND, "all applications have stopped, lease released");
                    let _ = result.map(|result| result.send(released));
                    return if is_stopping { NextStep::Exit } else { NextStep::StandAside };
                }
                recv(ended) -> _ => {
                    ended = never();
                    let left = guard.lease_remaining();
                    expired = after(if is_stopping { left } else { left + self.to_expiry });
                    log::info!(target: COMMAND, "term ended, leaving the lease until POST /done or its expiry");
                }
                recv(expired) -> _ => match guard.lease_remaining() {
                    // After a request to step down, the lease is renewed for a while.
                    left if !left.is_zero() => expired = after(left + self.to_expiry),
                    _ if is_stopping => {
                        // An application may still work, so the lease must expire without a release.
                        std::mem::forget(guard);
                        return NextStep::Exit;
                    }
                    _ => {
                        self.work.lock().ended(None);
                        return NextStep::Campaign;
                    }
                },
                recv(self.signals) -> caught => match ends_us(caught) {
                    true if is_stopping => {
                        std::mem::forget(guard);
                        return NextStep::Exit;
                    }
                    true => {
                        is_stopping = true;
                        guard.step_down_within(Duration::ZERO);
                        expired = after(guard.lease_remaining());
                    }
                    false => {}
                },
            }
        }
    }

    fn stand_aside(&self) -> NextStep {
        let over = after(self.lease_duration);
        loop {
            select! {
                recv(over) -> _ => return NextStep::Campaign,
                recv(self.reports) -> result => return stopped(result),
                recv(self.signals) -> caught => if ends_us(caught) { return NextStep::Exit },
            }
        }
    }
}

/// Answers a `POST /done` of a replica that does not lead.
fn stopped(result: Result<Sender<Result<(), leasehold::Error>>, RecvError>) -> NextStep {
    let _ = result.map(|result| result.send(Ok(())));
    NextStep::StandAside
}

fn ends_us(caught: Result<Caught, RecvError>) -> bool {
    caught.map_or(true, Caught::ends_us)
}
