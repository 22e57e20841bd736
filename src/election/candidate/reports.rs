//! The effects of a candidate: what its claim, its term and its fitness report to the driver.

use std::time::Duration;

use log::Level;

use super::Candidate;
use super::fitness::FitnessChange;
use super::job::JobAttempt;
use super::messages::Effect;
use super::notice::{LogEvent, Notice};
use super::step_down_requests::RequestDecision;
use super::term::{HeldTerm, TermEvent};
use crate::election::drain::DrainLimit;
use crate::election::messages::ClaimEvent;
use crate::election::settings::whole_seconds;
use crate::election::stop_reason::StopReason;
use crate::store::{StoreError, StoreErrorKind};
use crate::util::clock::Moment;
use crate::util::sync::Arc;

impl Candidate {
    /// Evaluates an event of the claim.
    pub(super) fn report_event(&mut self, now: Moment, event: ClaimEvent) {
        match event {
            ClaimEvent::Won { sent_at, fencing_token } => self.begin_term(now, sent_at, fencing_token),
            ClaimEvent::Renewed { sent_at } => {
                let valid_until = sent_at + self.settings.renew_deadline;
                match self.term.as_mut().and_then(|term| term.renewed(now, valid_until)) {
                    Some(TermEvent::Extended) => {
                        self.failures.take_unrenewed();
                        self.effects.push_back(Effect::Renewed(now.since(sent_at)));
                    }
                    event => self.report_term(now, event),
                }
            }
            ClaimEvent::Lost(reason) => {
                let event = self.term.as_mut().and_then(|term| term.end(now, reason));
                self.report_term(now, event);
            }
            ClaimEvent::TooLateForProgress(took) => {
                let within = self.settings.progress_timeout.unwrap_or_default();
                let level = self.logs.late_wins.happened(now);
                self.log(Notice::too_late(level, took, within));
            }
            ClaimEvent::StepDownRequested => self.decide_request(now),
            ClaimEvent::RoundOver => {
                let error = self.failures.take_last();
                let campaign = self.campaign.take();
                self.effects.extend(campaign.map(|campaign| Effect::RoundOver { campaign: campaign.id, error }));
            }
            ClaimEvent::WatchStale => {
                self.log(Notice::new(Level::Debug, "restarting the watch"));
                self.effects.push_back(Effect::RestartWatch);
            }
            ClaimEvent::IdentityConflict => {
                let is_seldom = self.logs.identity_conflicts.happened(now) == Level::Warn;
                let level = if is_seldom { Level::Error } else { Level::Debug };
                let line = "identity conflict: another process uses this identity; give every candidate its own";
                self.effects.push_back(Effect::IdentityConflict(Notice::new(level, line)));
            }
            ClaimEvent::Predecessor => self.log(Notice::of_predecessor(self.settings.reclaim_own_identity)),
        }
    }

    /// Begins the term that a write has won, which was sent at `sent_at`.
    fn begin_term(&mut self, now: Moment, sent_at: Moment, fencing_token: u64) {
        self.report_leader(now);
        let Some(campaign) = self.campaign.take() else { return };
        let accepts_after = whole_seconds(self.requests.term_begins(sent_at));
        let history = self.claim.observed().record().and_then(|known| known.notes.job.as_deref());
        let job = campaign.job.map(|_| JobAttempt::new(history.cloned().unwrap_or_default()));
        let mut term = HeldTerm::begin(sent_at, accepts_after, &self.settings);
        term.job = job;
        let deadline = Arc::clone(term.deadline());
        self.term = Some(term);
        self.failures.take_unrenewed();
        self.effects.push_back(Effect::Offer { campaign: campaign.id, deadline, fencing_token });
    }

    /// Ends the term, and renews the lease up to `limit` until the guard is dropped.
    pub(super) fn drain(&mut self, now: Moment, reason: StopReason, limit: DrainLimit) {
        let within = limit.limit(&self.settings);
        let event = self.term.as_mut().and_then(|term| term.drain(now, reason, within));
        self.report_term(now, event);
    }

    /// Reports the end of the term or of its drain.
    pub(super) fn report_term(&mut self, now: Moment, event: Option<TermEvent>) {
        match event {
            Some(TermEvent::Ended(reason)) => {
                let stall = Notice::of_stall(&reason, self.settings.progress_timeout);
                self.effects.extend(stall.map(Effect::Log));
                let failure = match self.failures.take_unrenewed() {
                    None if reason == StopReason::Expired => self.unanswered(now).map(Box::new),
                    failure => failure,
                };
                self.effects.push_back(Effect::TermEnded(reason, failure));
            }
            Some(TermEvent::DrainEnded(reason)) => self.effects.push_back(Effect::DrainEnded(reason)),
            Some(TermEvent::Extended) | None => {}
        }
    }

    /// Returns an error for a request that has had no answer for a retry period.
    fn unanswered(&self, now: Moment) -> Option<StoreError> {
        let waited = self.claim.under_way().map(|request| now.since(request.sent_at));
        let waited = waited.filter(|waited| *waited >= self.settings.retry_period)?;
        let text = format!("the store has not answered a request for {:.1} s", waited.as_secs_f64());
        Some(StoreError::new(StoreErrorKind::Timeout, text))
    }

    /// Decides about a request to step down that names this candidate.
    fn decide_request(&mut self, now: Moment) {
        let is_valid = self.term.as_ref().is_some_and(|term| term.is_valid(now));
        match self.requests.decide(now, is_valid, &self.settings) {
            None => {}
            Some(RequestDecision::Ignored) => {
                self.log(Notice::new(Level::Info, "request to step down ignored: accept_requests is not set"));
            }
            Some(RequestDecision::Deferred(pause)) => self.log(Notice::of_deferred_request(pause)),
            Some(RequestDecision::Accepted) => {
                self.drain(now, StopReason::Requested, DrainLimit::Bounded);
                self.fitness.step_aside();
            }
        }
    }

    /// Reports a change of the leader or of its address, and the expiry of its lease.
    pub(super) fn report_leader(&mut self, now: Moment) {
        let leader_until = self.claim.leader_until();
        let changed = self.leader.observe(self.claim.observed().leader());
        let expired = self.leader.expires(now, leader_until);
        self.effects.extend([changed, expired].into_iter().flatten());
        if self.leader.other_than(&self.settings.identity).is_some() {
            self.requests.another_leads();
            self.fitness.another_leads();
        }
        let waits = self.fitness.may_acquire() && self.campaign.as_ref().is_some_and(|campaign| !campaign.is_round);
        let leader = if waits { self.leader.awaits(&self.settings.identity) } else { None };
        let notice = leader
            .map(|leader| Notice::of_standby(leader, leader_until.map_or(Duration::ZERO, |until| until.since(now))));
        self.effects.extend(notice.map(Effect::Log));
    }

    /// Reports a change of fitness, and ends the term of an unfit candidate.
    ///
    /// Repeated changes are logged at `warn` at most once a minute.
    pub(super) fn report_fitness(&mut self, now: Moment, change: FitnessChange) {
        if let FitnessChange::Unfit(_) = change {
            let round = self.campaign.take_if(|campaign| campaign.is_round);
            self.effects.extend(round.map(|campaign| Effect::NotFit { campaign: campaign.id }));
        }
        let log = &mut self.logs.fitness;
        let (fitness, level, line) = match change {
            FitnessChange::Unfit(why) => {
                let level = log.failed(now, StoreErrorKind::Timeout).unwrap_or(Level::Debug);
                (Some((false, Duration::ZERO)), level, format!("unfit: {why}"))
            }
            FitnessChange::Aside(longest) => {
                let longest = humantime::format_duration(longest);
                let line = format!(
                    "step-down requested: unfit until another candidate leads, at most {longest} after the release"
                );
                (Some((false, Duration::ZERO)), Level::Info, line)
            }
            FitnessChange::NotYet(why) => {
                (None, Level::Warn, format!("unfit since the start, not acquiring the lease: {why}"))
            }
            FitnessChange::Fit(pause) if pause.is_zero() => {
                (Some((true, pause)), Level::Info, "fit to lead".to_owned())
            }
            FitnessChange::Fit(pause) => {
                let level = log.recovered(now).map_or(Level::Info, |recovery| recovery.level);
                let line = format!("fit again: may acquire the lease in {}", humantime::format_duration(pause));
                (Some((true, pause)), level, line)
            }
            FitnessChange::MayAcquire => (None, Level::Debug, "fit again: may acquire the lease now".to_owned()),
        };
        self.log(match &fitness {
            Some((true, _)) => Notice::of_event(level, LogEvent::BecameFit, line),
            Some((false, _)) => Notice::of_event(level, LogEvent::BecameUnfit, line),
            None => Notice::new(level, line),
        });
        self.effects.extend(fitness.map(|(is_fit, pause)| Effect::Fitness { is_fit, pause }));
        if !self.fitness.may_acquire() {
            self.drain(now, StopReason::Unfit, DrainLimit::Bounded);
        }
    }

    fn log(&mut self, notice: Notice) {
        self.effects.push_back(Effect::Log(notice));
    }
}
