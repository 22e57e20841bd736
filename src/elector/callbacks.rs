//! Callbacks in the style of client-go.

use std::convert::Infallible;
use std::fmt;

use crate::election::stop_reason::StopReason;
use crate::elector::leader_elector::LeaderElector;
use crate::elector::run_until::run_work;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::stop::Stop;
use crate::observe::transition::Transition;
use crate::util::sync::channel::{self, Receiver};

/// Callbacks for changes of leadership, used by [`run`].
///
/// # Examples
///
/// ```
/// use leasehold::client_go::Callbacks;
/// use leasehold::LeaderGuard;
///
/// struct Controller;
///
/// impl Callbacks for Controller {
///     fn on_started_leading(&self, guard: &LeaderGuard) {
///         while guard.is_leader() {
///             // one unit of work
///             # break;
///         }
///     }
///     fn on_stopped_leading(&self) {
///         println!("stopped leading");
///     }
/// }
/// ```
pub trait Callbacks: Sync {
    /// Called when a term starts, to do the leader's work.
    ///
    /// The term ends when the callback returns. The callback runs on its own thread, inside [`LeaderGuard::scope`]. The
    /// callback must return soon after [`is_leader`](crate::Leadership::is_leader) returns `false`.
    fn on_started_leading(&self, guard: &LeaderGuard);

    /// Called when the term has ended, its work has returned, and its lease is released.
    ///
    /// The callback runs on the caller's thread. The callback is not called while the work hangs. To end the process in
    /// that case, wait for [`ended`](crate::Leadership::ended) on another thread.
    fn on_stopped_leading(&self) {}

    /// Called when the leader changes; the new leader may be this candidate.
    ///
    /// The callback runs on the caller's thread and must return soon.
    fn on_new_leader(&self, identity: &str) {
        let _ = identity;
    }
}

/// The outcome of [`run`].
///
/// # Examples
///
/// ```
/// # use leasehold::{Error, LeaderElector, client_go::Callbacks};
/// # fn example(elector: &LeaderElector, callbacks: &impl Callbacks) -> Result<(), Error> {
/// use leasehold::client_go::RunOutcome;
///
/// match leasehold::client_go::run(elector, &leasehold::Stop::new(), callbacks)? {
///     RunOutcome::Stopped => println!("stopped by the caller"),
///     RunOutcome::Lost(reason) => println!("the term was lost: {reason}"),
///     RunOutcome::WorkReturned => println!("the work is complete"),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// A requested stop.
    Stopped,
    /// The end of the term before its work returned, for this reason.
    ///
    /// After [`StopReason::Requested`], nothing is wrong: an operator has moved the leader. Call
    /// [`run`] again.
    Lost(StopReason),
    /// The return of the work while the term was valid, or after the program has called `step_down`.
    WorkReturned,
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Lost(reason) => write!(f, "lost the term: {reason}"),
            Self::WorkReturned => f.write_str("the work returned"),
        }
    }
}

/// Campaigns for one term, calls `callbacks` during the term, and returns the outcome.
///
/// Blocks until the term has ended and its work has returned. If `stop` is requested before the term has begun,
/// `run` withdraws the campaign. Otherwise `run` steps down and waits for the work.
///
/// Unlike in client-go, [`on_new_leader`](Callbacks::on_new_leader) runs on the caller's thread. While that
/// callback runs, `run` does nothing else and does not react to `stop`.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use leasehold::client_go::{self, Callbacks};
/// use leasehold::{LeaderElector, LeaderGuard, Stop};
///
/// struct Controller;
/// impl Callbacks for Controller {
///     fn on_started_leading(&self, guard: &LeaderGuard) {
///         while guard.wait(Duration::from_secs(1)) { /* one unit of work */ }
///     }
/// }
///
/// let elector = LeaderElector::builder("my-controller").start()?;
/// client_go::run(&elector, &Stop::new(), &Controller)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// # Panics
///
/// Panics if a callback panics. The term ends, its lease is released, and
/// [`on_stopped_leading`](Callbacks::on_stopped_leading) is not called.
///
/// # Errors
///
/// Returns the errors of [`block_until_leader`](LeaderElector::block_until_leader).
pub fn run(elector: &LeaderElector, stop: &Stop, callbacks: &impl Callbacks) -> Result<RunOutcome, Error> {
    let campaign = elector.campaign()?;
    let transitions = elector.transitions();
    let mut reporter = LeaderReporter { callbacks, leader: None };
    let guard = loop {
        // If a stop and an acquisition arrive together, the term must not start.
        channel::select_biased! {
            recv(stop.receiver()) -> _ => return Ok(RunOutcome::Stopped),
            recv(campaign.receiver()) -> won => break won.unwrap_or(Err(Error::Stopped))?,
            recv(transitions) -> transition => match transition {
                Ok(transition) => reporter.report(transition),
                Err(_) => return Err(Error::Stopped),
            },
        }
    };
    let outcome = reporter.work(&guard, stop.receiver().clone(), transitions.clone())?;
    drop(guard);
    callbacks.on_stopped_leading();
    Ok(outcome)
}

/// The reports of leaders to the callbacks of one run.
struct LeaderReporter<'a, C> {
    callbacks: &'a C,
    /// The reported leader.
    leader: Option<String>,
}

impl<C: Callbacks> LeaderReporter<'_, C> {
    fn report(&mut self, transition: Transition) {
        match transition {
            // Another address of the same leader is no report.
            Transition::NewLeader { identity, .. } if self.leader.as_ref() != Some(&identity) => {
                self.callbacks.on_new_leader(&identity);
                self.leader = Some(identity);
            }
            Transition::NoLeader { .. } => self.leader = None,
            _ => {}
        }
    }

    /// Runs the work of a term, and reports leaders until the work has returned.
    fn work(
        &mut self,
        guard: &LeaderGuard,
        mut stop: Receiver<Infallible>,
        mut transitions: Receiver<Transition>,
    ) -> Result<RunOutcome, Error> {
        let (callbacks, mut is_stopped) = (self.callbacks, false);
        let report_until_done = |done: &Receiver<Infallible>| {
            loop {
                channel::select! {
                    recv(done) -> _ => break,
                    recv(stop) -> _ => {
                        is_stopped = true;
                        guard.step_down();
                        // A channel without senders is always ready, so the loop would spin.
                        stop = channel::never();
                    }
                    recv(transitions) -> transition => match transition {
                        Ok(transition) => self.report(transition),
                        // The elector and the term have ended, so the loop waits only for the work.
                        Err(_) => transitions = channel::never(),
                    },
                }
            }
        };
        run_work(guard, || callbacks.on_started_leading(guard), report_until_done)?;
        Ok(match guard.check() {
            _ if is_stopped => RunOutcome::Stopped,
            Ok(()) => RunOutcome::WorkReturned,
            // The work stepped down itself, so the term was not lost.
            Err(ended) if ended.reason == StopReason::SteppedDown => RunOutcome::WorkReturned,
            Err(ended) => RunOutcome::Lost(ended.reason),
        })
    }
}
