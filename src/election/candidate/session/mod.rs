//! The session of one record, without I/O, threads or channels: an election, and all that a runtime decides around it.
//!
//! A driver performs the effects of a session and feeds it with inputs. Threads and simulations are such drivers.

use std::collections::VecDeque;
use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::failures::{Failed, Failures};
use crate::election::candidate::fitness::FitnessSource;
use crate::election::candidate::notice::Notice;
use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::progress::ProgressLimit;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::election::{Change, Election, ElectionEvent, Step, StoreResponse};
use crate::store::{StoreError, StoreOperation};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

/// The session of one record. [`effect`](Self::effect) returns the effects of [`handle`](Self::handle) and [`next`](Self::next), and must be drained
/// after each of these calls.
#[derive(Debug)]
pub struct Session {
    pub(super) election: Election,
    /// How its requests have fared.
    pub(super) failures: Failures,
    /// Of other processes with our identity.
    conflicts: FailureLog,
    pub(super) settings: Arc<Settings>,
    /// The campaign that waits for a term.
    campaign: Option<u64>,
    /// Whether that is for one round, and nothing is waited for.
    is_round: bool,
    /// The request under way, by its number.
    in_flight: Option<(u64, StoreOperation)>,
    /// Whom the record names.
    leader: Option<String>,
    /// Whether it was told that its lease has run out.
    lease_expired: bool,
    /// Whether it was told that it is waited for.
    is_awaited: bool,
    may_acquire: bool,
    effects: VecDeque<Effect>,
}

/// What a session is told.
#[derive(Debug)]
pub enum Input {
    /// Somebody asks for one term, for as long as that takes or (`once`) in one bounded round of requests.
    Campaign {
        /// Campaigns are counted.
        id: u64,
        /// Whether it is for one round.
        once: bool,
    },
    /// Nobody waits for that campaign any more.
    Withdraw(u64),
    /// Nobody took the term that was offered.
    NotTaken,
    /// The holder ended the validity of its term, and it is renewed as this says while the work winds down.
    StepDown(DrainLimit),
    /// A source of fitness reports whether this candidate is fit. Only a candidacy judges that.
    Fitness(FitnessSource, bool),
    /// A candidacy has judged whether this candidate may acquire.
    SetFit(bool),
    /// The term's work has to make progress, as this says.
    LimitProgress(Arc<ProgressLimit>),
    /// The term ended for a reason that is not in its record.
    Lost(StopReason),
    /// The guard of the term is gone.
    GuardGone {
        /// Since when.
        at: Moment,
    },
    /// No campaign will come any more.
    Close,
    /// The store answered this request.
    Response(u64, StoreResponse),
    /// A watch stands.
    WatchOpened {
        /// Whether it begins with what is there.
        from_scratch: bool,
    },
    /// The watch told of a change.
    Watched {
        /// When that was received.
        received_at: Moment,
        /// What it told.
        change: Change,
    },
    /// The watch has ended, or was refused.
    WatchEnded,
}

/// What waits behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The release of a record.
    Release,
    /// What others did to a record.
    News,
}

/// What a session wants done, or known.
#[derive(Debug)]
pub enum Effect {
    /// A term is won. If nobody takes it, [`Input::NotTaken`].
    Offer {
        /// For which campaign; `None` when none waits any more.
        campaign: Option<u64>,
        /// Until when the term is valid.
        deadline: Arc<Deadline>,
        /// The term's token.
        fencing_token: u64,
    },
    /// The store refuses a campaign in a way that no waiting changes.
    Refuse {
        /// Which campaign.
        campaign: u64,
        /// The refusal.
        error: StoreError,
    },
    /// A campaign for one round ended because the candidate is not fit.
    NotFit {
        /// Which campaign.
        campaign: u64,
    },
    /// Whether the candidate is fit has changed.
    Fitness {
        /// Whether it is.
        is_fit: bool,
        /// How long it waits before it may acquire, if it is.
        pause: Duration,
    },
    /// A campaign for one round ended without a term.
    RoundOver {
        /// Which campaign.
        campaign: u64,
        /// What failed, if that is why.
        error: Option<StoreError>,
    },
    /// A write has prolonged the term; it took so long.
    Renewed(Duration),
    /// The term is not valid any more.
    TermEnded(StopReason),
    /// The record of a term that had ended is not renewed any more, while the guard is there: by this, or because it was to be for so
    /// long and no longer.
    CoverLost(Option<StopReason>),
    /// The record of the last term is not ours any more.
    Released,
    /// A request under way, by its number, is left until then to finish by itself, and then cancelled: what was told waits
    /// behind it. Told again, the earliest counts.
    CancelAt(u64, Moment, Behind),
    /// The record names another than before, or nobody; or it is renewed after its lease had run out.
    Leader(Option<String>),
    /// The lease of whoever leads has run out on our clock.
    LeaderLeaseExpired,
    /// Conflicts have refused each write for three renew deadlines.
    WritesRefused(StoreError),
    /// The watch is to be given up for one that begins with what is there.
    RestartWatch,
    /// A line for the log: another process uses our identity.
    IdentityConflict(Notice),
    /// A line for the log.
    Log(Notice),
}

impl Session {
    /// A candidacy that knows nothing yet. Many may share their settings. `seed` feeds jitter and the random digits of
    /// `acquireTime`.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64) -> Self {
        let settings = settings.into();
        let (mut election, may_acquire) = (Election::new(Arc::clone(&settings), seed), !settings.is_judged());
        election.set_fit(Moment::from_nanos(0), may_acquire);
        Self {
            election,
            failures: Failures::new(settings.renew_deadline),
            conflicts: FailureLog::default(),
            settings,
            campaign: None,
            is_round: false,
            in_flight: None,
            leader: None,
            lease_expired: false,
            is_awaited: false,
            may_acquire,
            effects: VecDeque::new(),
        }
    }

    /// What has happened, at any time: also while a request is under way.
    pub fn handle(&mut self, now: Moment, input: Input) {
        self.hear(now);
        match input {
            Input::Campaign { id, once } => {
                self.campaign = Some(id);
                self.is_round = once;
                self.election.campaign(once);
            }
            Input::Withdraw(id) => {
                if self.campaign.take_if(|campaign| *campaign == id).is_some() {
                    self.election.withdraw();
                }
            }
            Input::NotTaken => self.election.guard_gone(now, now),
            Input::StepDown(limit) => self.election.step_down(now, limit.limit(&self.settings)),
            Input::Fitness(..) => {}
            Input::SetFit(may_acquire) => {
                self.may_acquire = may_acquire;
                self.election.set_fit(now, may_acquire);
            }
            Input::LimitProgress(limit) => self.election.limit_progress(limit),
            Input::Lost(reason) => self.election.end_term(now, reason),
            Input::GuardGone { at } => {
                self.cancel_at(now + self.election.interrupt_after().release, Behind::Release);
                self.election.guard_gone(now, at);
            }
            Input::Close => {
                self.campaign = None;
                self.election.close();
                if self.may_hold() {
                    self.cancel_at(now + self.election.interrupt_after().release, Behind::Release);
                }
            }
            Input::Response(id, response) => self.on_response(now, id, response),
            Input::WatchOpened { from_scratch } => self.election.watch_opened(now, from_scratch),
            Input::Watched { received_at, change } => {
                if self.is_of_others(&change) {
                    self.cancel_at(now + self.election.interrupt_after().news, Behind::News);
                }
                self.election.on_change(now, received_at, change);
            }
            Input::WatchEnded => self.election.watch_lost(now),
        }
        self.hear(now);
    }

    /// The next thing to do or to tell, in order.
    pub fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// What to do now, when no request is under way.
    pub fn next(&mut self, now: Now) -> Step {
        self.election.set_read_failed(self.failures.of(StoreOperation::Get).is_some());
        let mut step = self.election.next(now);
        match &mut step {
            Step::Send(request) => self.in_flight = Some((request.id, request.operation.kind())),
            Step::Wait(until) => {
                let runs_out = self.leader_until().filter(|_| !self.lease_expired).map(|at| at.max(now.local));
                *until = runs_out.map_or(*until, |at| at.min(*until));
            }
            Step::Finished => {}
        }
        self.hear(now.local);
        step
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Returns the campaign for one round, if one waits.
    pub(super) fn round(&self) -> Option<u64> {
        self.campaign.filter(|_| self.is_round)
    }

    /// When the lease of whoever leads runs out, unless something is heard of it before.
    pub fn leader_until(&self) -> Option<Moment> {
        self.election.leader_until()
    }

    /// Whether the record is ours, or may just have become so, that nobody has a guard for.
    pub fn may_hold(&self) -> bool {
        self.election.may_hold(self.in_flight.map(|(request, _)| request))
    }

    /// Whether the record has this candidate's identity, and another process wrote the record.
    pub fn has_twin(&self) -> bool {
        self.election.has_twin()
    }

    /// Who this candidate is in the record.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    fn cancel_at(&mut self, at: Moment, behind: Behind) {
        self.effects.extend(self.in_flight.map(|(request, _)| Effect::CancelAt(request, at, behind)));
    }

    /// Whether a change may end a term or let one begin: what we did ourselves does neither.
    fn is_of_others(&self, change: &Change) -> bool {
        match change {
            Change::Written(observed) => observed.record.holder() != Some(&self.settings.identity),
            Change::Deleted { .. } => true,
        }
    }

    fn on_response(&mut self, now: Moment, id: u64, response: StoreResponse) {
        // What comes late has been counted already.
        if let Some((_, operation)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id) {
            let failed = match &response {
                StoreResponse::Failed(error) => self.failures.failed(now, operation, error),
                _ => Failed { notice: self.failures.succeeded(now, operation), ..Failed::default() },
            };
            self.effects.extend(failed.notice.map(Effect::Log));
            self.effects.extend(failed.refused.map(Effect::WritesRefused));
            if let StoreResponse::Failed(error) = &response
                && failed.is_permanent
                && let Some(campaign) = self.campaign.take()
            {
                // Before the election hears of it: a round would end of it too, and so be told twice.
                self.election.withdraw();
                self.effects.push_back(Effect::Refuse { campaign, error: error.clone() });
            }
        }
        self.election.on_response(now, id, response);
    }

    /// Hears what the election has to tell.
    fn hear(&mut self, now: Moment) {
        while let Some(event) = self.election.event() {
            let effect = match event {
                ElectionEvent::Leader(leader) => {
                    (self.lease_expired, self.is_awaited) = (false, false);
                    self.leader.clone_from(&leader);
                    Effect::Leader(leader)
                }
                ElectionEvent::Elected { deadline, fencing_token } => {
                    Effect::Offer { campaign: self.campaign.take(), deadline, fencing_token }
                }
                ElectionEvent::Renewed { sent_at } => Effect::Renewed(now.since(sent_at)),
                ElectionEvent::TermEnded(reason) => {
                    // What failed more than once in a minute has not been told at `warn` each time, and cost a term now.
                    if let (StopReason::Expired, Some(error)) = (&reason, &self.failures.last) {
                        let notice = Notice::of_error(Level::Warn, "the last attempt failed", error);
                        self.effects.push_back(Effect::Log(notice));
                    }
                    let stall = Notice::of_stall(&reason, self.settings.progress_timeout);
                    self.effects.extend(stall.map(Effect::Log));
                    Effect::TermEnded(reason)
                }
                ElectionEvent::CoverLost(reason) => Effect::CoverLost(reason),
                ElectionEvent::TooLateForProgress(took) => {
                    Effect::Log(Notice::too_late(took, self.settings.progress_timeout.unwrap_or_default()))
                }
                ElectionEvent::Released => Effect::Released,
                ElectionEvent::RoundOver => {
                    let error = self.failures.last.take();
                    let Some(campaign) = self.campaign.take() else { continue };
                    Effect::RoundOver { campaign, error }
                }
                ElectionEvent::WatchStale => {
                    let line = "the watch is given up for a new one";
                    self.effects.push_back(Effect::Log(Notice::new(Level::Debug, line)));
                    Effect::RestartWatch
                }
                ElectionEvent::IdentityConflict => {
                    let is_seldom = self.conflicts.happened(now) == Level::Warn;
                    let level = if is_seldom { Level::Error } else { Level::Debug };
                    let line = "another process uses our identity: every candidate needs its own";
                    Effect::IdentityConflict(Notice::new(level, line))
                }
                ElectionEvent::Predecessor => {
                    let rest = match self.settings.reclaim_own_identity {
                        true => "it is reclaimed",
                        false => {
                            "it has to run out, unless reclaim_own_identity(true) says that no two processes ever share one"
                        }
                    };
                    let line = format!("held under our identity, by a process before this one: {rest}");
                    Effect::Log(Notice::new(Level::Info, line))
                }
            };
            self.effects.push_back(effect);
        }
        let lease_expired = self.leader_until().is_some_and(|until| until <= now);
        if lease_expired != self.lease_expired && self.leader.is_some() {
            (self.lease_expired, self.is_awaited) = (lease_expired, false);
            self.effects.push_back(match lease_expired {
                true => Effect::LeaderLeaseExpired,
                false => Effect::Leader(self.leader.clone()),
            });
        }
        let leader = self.leader.as_ref().filter(|leader| !lease_expired && **leader != self.settings.identity);
        if let Some(leader) =
            leader.filter(|_| self.campaign.is_some() && !self.is_round && !self.is_awaited && self.may_acquire)
        {
            self.is_awaited = true;
            let left = self.leader_until().map_or(Duration::ZERO, |until| until.since(now));
            let left = humantime::format_duration(Duration::from_secs(left.as_secs_f64().ceil() as u64));
            let line =
                format!("waiting until {leader} releases the lease, or it runs out, in {left} if it is not renewed");
            self.effects.push_back(Effect::Log(Notice::new(Level::Info, line)));
        }
    }
}

#[cfg(test)]
mod tests;
