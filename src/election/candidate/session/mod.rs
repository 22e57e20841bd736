//! The session of one record: an election, its campaign, its log lines and its requests.
//!
//! A session has no I/O, threads or channels. A driver performs the effects of the session and feeds the session with
//! inputs. Threads and simulations are such drivers.

use std::collections::VecDeque;
use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::failures::Failures;
use crate::election::candidate::fitness::FitnessSource;
use crate::election::candidate::notice::Notice;
use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::election::{Change, Election, ElectionEvent, LeaderInfo, StoreRequest, StoreResponse};
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

/// The session of one record.
///
/// The driver must take all effects with [`effect`](Self::effect) after each call of [`handle`](Self::handle) and
/// [`next`](Self::next).
#[derive(Debug)]
pub struct Session {
    pub(super) election: Election,
    /// The failures of the requests of this session.
    pub(super) failures: Failures,
    /// The last failure since the last renewal.
    pub(super) unrenewed: Option<Box<StoreError>>,
    /// The log of identity conflicts.
    conflicts: FailureLog,
    /// The log of acquisitions that took longer than the progress timeout.
    late: FailureLog,
    pub(super) settings: Arc<Settings>,
    /// The campaign that waits for a term.
    campaign: Option<u64>,
    /// `true` if the campaign is for one round.
    is_round: bool,
    /// The number and the operation of the request under way.
    in_flight: Option<(u64, StoreOperation)>,
    /// The holder in the record.
    leader: Option<Box<LeaderInfo>>,
    /// `true` if the expiry of the holder's lease was reported.
    lease_expired: bool,
    /// `true` if the wait for the holder was logged.
    is_awaited: bool,
    may_acquire: bool,
    /// `true` after a request ended the term, until the candidacy takes notice.
    pub(super) is_requested: bool,
    effects: VecDeque<Effect>,
}

/// The input of a session.
#[derive(Debug)]
pub enum Input {
    /// Start a campaign for one term.
    Campaign {
        /// The number of the campaign.
        id: u64,
        /// `true` for one round.
        once: bool,
    },
    /// Withdraw this campaign.
    Withdraw(u64),
    /// No campaign took the offered term.
    NotTaken,
    /// The holder stepped down. The lease is renewed up to this limit.
    StepDown(DrainLimit),
    /// A source of fitness reports whether this candidate is fit. A candidacy handles this input, and a session ignores
    /// the input.
    Fitness(FitnessSource, bool),
    /// The candidacy has decided whether this candidate may acquire the lease.
    SetFit(bool),
    /// The guard of the term was dropped.
    GuardGone {
        /// The time of the drop.
        at: Moment,
    },
    /// Close the session, which gets no more campaigns.
    Close,
    /// The response to the request with this number.
    Response(u64, StoreResponse),
    /// The idle time after which the connection must be used again to stay open.
    ///
    /// `None` if the connection stays open by itself, or if opening another connection is fast.
    Cools(Option<Duration>),
    /// A watch is open.
    WatchOpened {
        /// `true` if the watch starts with the current state.
        from_scratch: bool,
    },
    /// The watch delivered an event.
    Watched {
        /// The time at which the event was received.
        received_at: Moment,
        /// The event.
        change: Change,
    },
    /// The watch has ended or was refused.
    WatchEnded,
}

/// The reason why a request is canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The release of a record waits for the request.
    Release,
    /// An event about another candidate waits for the request.
    News,
}

/// The output of a session.
#[derive(Debug)]
pub enum Effect {
    /// A term is won. If no campaign takes the term, the driver must send [`Input::NotTaken`].
    Offer {
        /// The campaign. `None` if no campaign waits.
        campaign: Option<u64>,
        /// The validity of the term.
        deadline: Arc<Deadline>,
        /// The fencing token of the term.
        fencing_token: u64,
    },
    /// The store refuses a campaign permanently.
    Refuse {
        /// The campaign.
        campaign: u64,
        /// The error.
        error: StoreError,
    },
    /// A campaign for one round ended because the candidate is unfit.
    NotFit {
        /// The campaign.
        campaign: u64,
    },
    /// The fitness of the candidate has changed.
    Fitness {
        /// `true` if the candidate is fit.
        is_fit: bool,
        /// The delay before a fit candidate may acquire the lease.
        pause: Duration,
    },
    /// A campaign for one round ended without a term.
    RoundOver {
        /// The campaign.
        campaign: u64,
        /// The last failure, if a request failed.
        error: Option<StoreError>,
    },
    /// A write has extended the term. The duration is the time of the write.
    Renewed(Duration),
    /// The term is no longer valid. The error is the last failure since the last renewal.
    TermEnded(StopReason, Option<Box<StoreError>>),
    /// The renewals of an ended term have stopped while its guard exists. `None` means that the drain limit has passed.
    CoverLost(Option<StopReason>),
    /// The record of the last term is released, or another candidate holds the record.
    Released,
    /// Cancel the request with this number at this time, unless the request ends before. The earliest of several times
    /// counts.
    CancelAt(u64, Moment, Behind),
    /// The record has another holder or no holder, the holder has another address, or the holder renewed its expired
    /// lease.
    Leader(Option<Box<LeaderInfo>>),
    /// The lease of the holder has expired on the local clock.
    LeaderLeaseExpired,
    /// Every write has met a conflict for three renew deadlines.
    WritesRefused(StoreError),
    /// The watch must be restarted with the current state.
    RestartWatch,
    /// A log line about another process with the identity of this candidate.
    IdentityConflict(Notice),
    /// A log line.
    Log(Notice),
}

impl Session {
    /// Creates a session without observations.
    ///
    /// `seed` feeds the jitter and the random digits of `acquireTime`.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64) -> Self {
        let settings = settings.into();
        let (mut election, may_acquire) = (Election::new(Arc::clone(&settings), seed), !settings.is_judged());
        election.set_fit(Moment::from_nanos(0), may_acquire);
        Self {
            election,
            failures: Failures::new(settings.renew_deadline),
            unrenewed: None,
            conflicts: FailureLog::default(),
            late: FailureLog::default(),
            settings,
            campaign: None,
            is_round: false,
            in_flight: None,
            leader: None,
            lease_expired: false,
            is_awaited: false,
            may_acquire,
            is_requested: false,
            effects: VecDeque::new(),
        }
    }

    /// Handles an input at any time, even while a request is under way.
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
            Input::Cools(after) => self.election.cools(now, after),
            Input::WatchOpened { from_scratch } => self.election.watch_opened(now, from_scratch),
            Input::Watched { received_at, change } => {
                let own = Some(self.settings.identity.as_str());
                if !matches!(&change, Change::Written(observed) if observed.record.holder() == own) {
                    self.cancel_at(now + self.election.interrupt_after().news, Behind::News);
                }
                self.election.on_change(now, received_at, change);
            }
            Input::WatchEnded => self.election.watch_lost(now),
        }
        self.hear(now);
    }

    /// Returns the next effect.
    pub fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the next request, if one is due.
    ///
    /// The driver calls this function when no request is under way.
    pub fn next(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        self.election.set_read_failed(self.failures.is_failing(StoreOperation::Get));
        let request = self.election.next(now, timer);
        if let Some(request) = &request {
            self.in_flight = Some((request.id, request.operation.kind()));
        }
        self.hear(now.local);
        self.leader_until().filter(|_| !self.lease_expired).into_iter().for_each(|at| _ = timer.is_due(at));
        request
    }

    /// Returns `true` if the session is closed and no work is left.
    pub(super) fn is_finished(&mut self, timer: &mut Timer) -> bool {
        self.election.is_finished(timer)
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Returns the campaign for one round, if one waits.
    pub(super) fn round(&self) -> Option<u64> {
        self.campaign.filter(|_| self.is_round)
    }

    /// Returns the time at which the holder's lease expires without another renewal.
    pub fn leader_until(&self) -> Option<Moment> {
        self.election.leader_until()
    }

    /// Returns `true` if this candidate may hold the record without a guard.
    pub fn may_hold(&self) -> bool {
        self.election.may_hold(self.in_flight.map(|(request, _)| request))
    }

    /// Returns `true` if another process wrote the record with the identity of this candidate.
    pub fn has_twin(&self) -> bool {
        self.election.has_twin()
    }

    /// Returns the identity of this candidate.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// Returns the holder of the record if another candidate is the holder.
    pub(super) fn other_holder(&self) -> Option<&LeaderInfo> {
        self.leader.as_deref().filter(|leader| leader.identity != self.settings.identity)
    }

    fn cancel_at(&mut self, at: Moment, behind: Behind) {
        self.effects.extend(self.in_flight.map(|(request, _)| Effect::CancelAt(request, at, behind)));
    }

    fn on_response(&mut self, now: Moment, id: u64, response: StoreResponse) {
        // The late response to an abandoned request does not count, because the failure of the request was counted
        // before.
        if let Some((_, operation)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id) {
            let error = if let StoreResponse::Failed(error) = &response { Some(error) } else { None };
            let failed = self.failures.answered(now, operation, error);
            self.effects.extend(failed.notice.map(Effect::Log));
            self.effects.extend(failed.refused.map(Effect::WritesRefused));
            let error = error.filter(|error| error.kind() != StoreErrorKind::Interrupted);
            self.unrenewed = error.cloned().map(Box::new).or(self.unrenewed.take());
            if let Some(error) = error.filter(|_| failed.is_permanent)
                && let Some(campaign) = self.campaign.take()
            {
                // The withdrawal comes before the election handles the failure. Otherwise, the election would also
                // report the end of the round.
                self.election.withdraw();
                self.effects.push_back(Effect::Refuse { campaign, error: error.clone() });
            }
        }
        self.election.on_response(now, id, response);
    }

    /// Converts the events of the election into effects.
    fn hear(&mut self, now: Moment) {
        while let Some(event) = self.election.event() {
            let effect = match event {
                ElectionEvent::Leader(leader) => {
                    let is_same = LeaderInfo::is_same_holder(self.leader.as_deref(), leader.as_deref());
                    self.leader.clone_from(&leader);
                    if !is_same {
                        (self.lease_expired, self.is_awaited) = (false, false);
                    } else if self.lease_expired {
                        // Without a renewal, the holder is no longer the leader.
                        continue;
                    }
                    Effect::Leader(leader)
                }
                ElectionEvent::Elected { deadline, fencing_token } => {
                    self.unrenewed = None;
                    Effect::Offer { campaign: self.campaign.take(), deadline, fencing_token }
                }
                ElectionEvent::Renewed { sent_at } => {
                    self.unrenewed = None;
                    Effect::Renewed(now.since(sent_at))
                }
                ElectionEvent::TermEnded(reason) => {
                    let stall = Notice::of_stall(&reason, self.settings.progress_timeout);
                    self.effects.extend(stall.map(Effect::Log));
                    let failure = match self.unrenewed.take() {
                        None if reason == StopReason::Expired => self.election.unanswered(now).map(Box::new),
                        failure => failure,
                    };
                    Effect::TermEnded(reason, failure)
                }
                ElectionEvent::CoverLost(reason) => Effect::CoverLost(reason),
                ElectionEvent::TooLateForProgress(took) => {
                    let within = self.settings.progress_timeout.unwrap_or_default();
                    Effect::Log(Notice::too_late(self.late.happened(now), took, within))
                }
                ElectionEvent::Released => Effect::Released,
                ElectionEvent::StepDownRequested => {
                    self.is_requested = true;
                    continue;
                }
                ElectionEvent::StepDownIgnored => {
                    let line = "request to step down ignored: accept_requests is not set";
                    Effect::Log(Notice::new(Level::Info, line))
                }
                ElectionEvent::StepDownDeferred(pause) => {
                    let pause = humantime::format_duration(Duration::from_secs(pause.as_secs_f64().ceil() as u64));
                    let line = format!("request to step down deferred for {pause}");
                    Effect::Log(Notice::new(Level::Info, line))
                }
                ElectionEvent::RoundOver => {
                    let error = self.failures.last.take();
                    let Some(campaign) = self.campaign.take() else { continue };
                    Effect::RoundOver { campaign, error }
                }
                ElectionEvent::WatchStale => {
                    let line = "restarting the watch";
                    self.effects.push_back(Effect::Log(Notice::new(Level::Debug, line)));
                    Effect::RestartWatch
                }
                ElectionEvent::IdentityConflict => {
                    let is_seldom = self.conflicts.happened(now) == Level::Warn;
                    let level = if is_seldom { Level::Error } else { Level::Debug };
                    let line = "identity conflict: another process uses this identity; give every candidate its own";
                    Effect::IdentityConflict(Notice::new(level, line))
                }
                ElectionEvent::Predecessor => {
                    let rest = match self.settings.reclaim_own_identity {
                        true => "reclaiming the lease",
                        false => {
                            "waiting until the lease expires; reclaim_own_identity(true) acquires the lease at once if no two processes share an identity"
                        }
                    };
                    let line = format!("lease held by an earlier process with this identity: {rest}");
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
        let leader = self.other_holder().filter(|_| !lease_expired);
        if let Some(leader) =
            leader.filter(|_| self.campaign.is_some() && !self.is_round && !self.is_awaited && self.may_acquire)
        {
            let left = self.leader_until().map_or(Duration::ZERO, |until| until.since(now));
            let left = humantime::format_duration(Duration::from_secs(left.as_secs_f64().ceil() as u64));
            let leader = &leader.identity;
            let line = format!("standby: {leader} holds the lease, which expires in {left} unless renewed");
            self.is_awaited = true;
            self.effects.push_back(Effect::Log(Notice::new(Level::Info, line)));
        }
    }
}

#[cfg(test)]
mod tests;
