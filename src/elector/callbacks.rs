//! Callbacks, for people who know client-go.

use crate::election::stop_reason::StopReason;
use crate::elector::leader_elector::LeaderElector;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::observe::transition::Transition;
use crate::util::sync::channel;
use crate::util::sync::channel::Receiver;
use crate::util::sync::{Instant, Mutex};

/// What to do when leadership changes, for [`LeaderElector::run`].
///
/// # Examples
///
/// ```
/// use leasehold::{Callbacks, LeaderGuard};
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
    /// Does the leader's work; the term ends when it returns. Runs on a thread of its own, inside
    /// [`LeaderGuard::scope`], and is to return soon after [`LeaderGuard::is_leader`] turns false.
    fn on_started_leading(&self, guard: &LeaderGuard);

    /// The term is over, its work has returned, and its lease is released. Runs on the caller's thread. It is not called while the
    /// work hangs: what is to end the process then waits for [`LeaderGuard::ended`] on a thread of its own.
    fn on_stopped_leading(&self) {}

    /// Another candidate leads, or this one. Runs on the caller's thread, and is to return soon.
    fn on_new_leader(&self, identity: &str) {
        let _ = identity;
    }
}

/// How [`LeaderElector::run`] ended.
///
/// # Examples
///
/// ```
/// # fn example(elector: &leasehold::LeaderElector, callbacks: &impl leasehold::Callbacks) -> Result<(), leasehold::Error> {
/// use leasehold::RunOutcome;
///
/// # let (_stop, stopped) = leasehold::crossbeam_channel::bounded::<()>(1);
/// match elector.run(&stopped, callbacks)? {
///     RunOutcome::Stopped => println!("told to stop"),
///     RunOutcome::Lost(reason) => println!("the term was lost: {reason}"),
///     RunOutcome::WorkReturned => println!("there is nothing left to do"),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// There was a message on the stop channel, or its senders are gone.
    Stopped,
    /// The term was lost.
    Lost(StopReason),
    /// The work returned, while its term was valid, or after somebody had stepped it down.
    WorkReturned,
}

impl LeaderElector {
    /// Campaigns for one term, and runs `callbacks` through it. Returns how that ended, when the term is over, or when there is a
    /// message on `stop` or its senders are gone: then the campaign is withdrawn, or the term stepped down and its work
    /// waited for.
    ///
    /// Unlike client-go's it calls [`on_new_leader`](Callbacks::on_new_leader) on the caller's thread: while that runs nothing
    /// else of this does, also no `stop` is heard. And a callback that panics is the last one to be called: the term ends, its
    /// lease is released, and the panic goes on to the caller without [`on_stopped_leading`](Callbacks::on_stopped_leading).
    ///
    /// # Errors
    ///
    /// As for [`block_until_leader`](Self::block_until_leader).
    ///
    /// # Panics
    ///
    /// With the panic of a callback.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{Callbacks, LeaderElector, LeaderGuard};
    ///
    /// struct Controller;
    /// impl Callbacks for Controller {
    ///     fn on_started_leading(&self, guard: &LeaderGuard) {
    ///         while guard.is_leader() { /* one unit of work */ }
    ///     }
    /// }
    ///
    /// let (stop, stopped) = leasehold::crossbeam_channel::bounded::<()>(1);
    /// let elector = LeaderElector::builder("my-controller").start()?;
    /// elector.run(&stopped, &Controller)?;
    /// # drop(stop);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, stop: &Receiver<T>, callbacks: &impl Callbacks) -> Result<RunOutcome, Error> {
        let campaign = self.campaign()?;
        let transitions = self.transitions();
        let guard = loop {
            // A term that is won at the same time must not begin.
            channel::select_biased! {
                recv(stop) -> _ => return Ok(RunOutcome::Stopped),
                recv(campaign.receiver()) -> won => break won.unwrap_or(Err(Error::Stopped))?,
                recv(transitions) -> transition => match transition {
                    Ok(transition) => tell(callbacks, &transition),
                    Err(_) => return Err(Error::Stopped),
                },
            }
        };
        let end = guard.scope(|scope| {
            let (working, done) = channel::bounded::<()>(0);
            let worker = scope.spawn(|| {
                // Dropped also when the work panics.
                let _working = working;
                callbacks.on_started_leading(&guard);
            });
            let (mut stop, mut transitions) = (stop.clone(), transitions.clone());
            let mut is_stopped = false;
            loop {
                channel::select! {
                    recv(done) -> _ => break,
                    recv(stop) -> _ => {
                        is_stopped = true;
                        guard.step_down();
                        // A channel without senders is always ready: listen to it once.
                        stop = channel::never();
                    }
                    recv(transitions) -> transition => match transition {
                        Ok(transition) => tell(callbacks, &transition),
                        // The elector's thread is gone, and so is the term: what is left is to wait for the work.
                        Err(_) => transitions = channel::never(),
                    },
                }
            }
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
            match guard.check() {
                _ if is_stopped => RunOutcome::Stopped,
                Ok(()) => RunOutcome::WorkReturned,
                // By the work itself, which had nothing left to do.
                Err(ended) if ended.reason == StopReason::SteppedDown => RunOutcome::WorkReturned,
                Err(ended) => RunOutcome::Lost(ended.reason),
            }
        });
        drop(guard);
        callbacks.on_stopped_leading();
        Ok(end)
    }

    /// Does `work` in each term that this candidate wins, one after another, until there is a message on `stop` or its senders
    /// are gone. A term ends when it is lost, when the work returns, and when it is to stop: the work is to return soon after
    /// [`is_leader`](LeaderGuard::is_leader) turns false, and is waited for. After a term that was shorter than the retry period
    /// it waits for that long, so that work that fails at once does not lead again and again without a pause.
    ///
    /// The work runs on a thread of its own, inside [`LeaderGuard::scope`].
    ///
    /// # Errors
    ///
    /// As for [`block_until_leader`](Self::block_until_leader).
    ///
    /// # Panics
    ///
    /// With the panic of the work; the term is released then.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::LeaderElector;
    ///
    /// let (stop, stopped) = leasehold::crossbeam_channel::bounded::<()>(1);
    /// // and have a handler of SIGTERM send a message there
    /// let elector = LeaderElector::builder("my-controller").start()?;
    /// elector.run_until(&stopped, |guard| {
    ///     while guard.is_leader() { /* one unit of work */ }
    /// })?;
    /// # drop(stop);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run_until<T>(&self, stop: &Receiver<T>, work: impl Fn(&LeaderGuard) + Sync) -> Result<(), Error> {
        let retry_period = self.settings().retry_period;
        let began = Mutex::new(None);
        let work = WorkCallbacks(|guard: &LeaderGuard| {
            *began.lock() = Some(Instant::now());
            work(guard);
        });
        loop {
            if self.run(stop, &work)? == RunOutcome::Stopped {
                return Ok(());
            }
            let took = began.lock().take().map_or(retry_period, |began| began.elapsed());
            channel::select! {
                recv(stop) -> _ => return Ok(()),
                default(retry_period.saturating_sub(took)) => {}
            }
        }
    }
}

/// Callbacks of which one is of interest.
struct WorkCallbacks<F>(F);

impl<F: Fn(&LeaderGuard) + Sync> Callbacks for WorkCallbacks<F> {
    fn on_started_leading(&self, guard: &LeaderGuard) {
        (self.0)(guard);
    }
}

fn tell(callbacks: &impl Callbacks, transition: &Transition) {
    if let Transition::NewLeader { identity } = transition {
        callbacks.on_new_leader(identity);
    }
}
