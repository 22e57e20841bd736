//! A candidate without I/O, threads or channels.

use std::collections::VecDeque;
use std::time::Duration;

use log::Level;

use crate::election::claim::Claim;
use crate::election::claim::goal::{ObserverNeeds, Want};
use crate::election::messages::ClaimEvent;
use crate::election::settings::{Settings, whole_seconds};
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::election::{Change, Operation, Step, StoreRequest, StoreResponse};
use crate::store::notes::{JobNotes, RecordNotes, RequestAcceptance, TermNotes};
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

pub(crate) mod failure_log;
pub(crate) mod failures;
pub mod fitness;
pub mod job;
mod leader_view;
pub mod messages;
pub(crate) mod notice;
mod reports;
mod step_down_requests;
mod term;
#[cfg(test)]
mod tests;
pub mod watch_plan;

use failure_log::FailureLog;
use failures::Failures;
use fitness::FitnessPolicy;
use job::{JobDue, JobPlan};
use leader_view::LeaderView;
use messages::{Effect, Input, LeaderFacts};
use notice::Notice;
use step_down_requests::StepDownRequests;
use term::HeldTerm;

/// One campaign or one term of this process over its claim to a record.
///
/// A driver owns the candidate, and calls it from one thread at a time:
///
/// 1. [`handle`](Self::handle) with each input, in the order in which the inputs arrive, even during a request.
/// 2. [`effect`](Self::effect) until the result is `None`, after each call of `handle` and of `next`. An effect may
///    require another input, which the driver passes before it takes the next effect.
/// 3. [`next`](Self::next) after all effects were taken. Only `next` registers wakeups, so the driver calls `next` after
///    each input, even during a request.
///
/// | The driver must | or else |
/// |---|---|
/// | call `next` again at the moment of [`Step::Wait`], or after the next input | the lease expires, or a takeover is late |
/// | answer each [`Step::Send`] with one [`Input::Response`], also after a timeout or a panic of the store | no other request is sent |
/// | send [`Input::NotTaken`] if no campaign takes the term of [`Effect::Offer`] | the lease is renewed without a guard |
/// | send [`Input::GuardDropped`] once for each guard, after it has ended the deadline | the lease is renewed forever |
/// | start no campaign while a campaign or a guard exists, and number campaigns without repetition | an earlier attempt may win the wrong campaign |
/// | cancel the request at the moment of [`Effect::CancelAt`] | a release waits for a request that hangs |
/// | end the watch and open a watch from scratch after [`Effect::RestartWatch`] | changes are missed until the next read |
///
/// Two terms never overlap, even if the driver calls `next` late or never, because the deadline of a guard expires by
/// itself.
#[derive(Debug)]
pub struct Candidate {
    settings: Arc<Settings>,
    claim: Claim,
    /// The campaign that waits for a term.
    campaign: Option<WaitingCampaign>,
    term: Option<HeldTerm>,
    /// The end of the release timeout, while a caller waits for the release.
    release_by: Option<Moment>,
    closing: Closing,
    fitness: FitnessPolicy,
    requests: StepDownRequests,
    leader: LeaderView,
    failures: Failures,
    logs: EventLogs,
    effects: VecDeque<Effect>,
}

/// A campaign that waits for a term.
#[derive(Debug)]
struct WaitingCampaign {
    id: u64,
    /// `true` if the campaign is for one round.
    is_round: bool,
    /// The job for which the campaign acquires the lease.
    job: Option<WaitingJob>,
}

/// The job of a campaign.
#[derive(Debug)]
struct WaitingJob {
    plan: JobPlan,
    /// The newest version of the record when the history allowed an attempt.
    due_at_version: Option<u64>,
    /// The time of the store at the first decision, from which this campaign waits.
    waits_since: Option<u64>,
}

/// The end of a candidate that gets no more campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// The candidate finishes when its record is released and no write is in doubt.
    WhenSettled,
    /// The candidate finishes then, or at this moment.
    By(Moment),
}

/// The levels of log lines about repeated events.
#[derive(Debug, Default)]
struct EventLogs {
    identity_conflicts: FailureLog,
    late_wins: FailureLog,
    fitness: FailureLog,
}

impl WaitingCampaign {
    /// Returns `true` unless the history of a job forbids an attempt, or is unknown.
    fn is_due(&self) -> bool {
        self.job.as_ref().is_none_or(|job| job.due_at_version.is_some())
    }
}

impl Candidate {
    /// Creates a candidate without observations.
    ///
    /// `seed` feeds the jitter and the random digits of `acquireTime`.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64) -> Self {
        let settings = settings.into();
        let fitness = FitnessPolicy::new(Arc::clone(&settings));
        let mut effects = VecDeque::new();
        if !fitness.may_acquire() {
            let line = "fitness unknown: not acquiring the lease until the probe or this process reports fit";
            effects.push_back(Effect::Log(Notice::new(Level::Debug, line)));
            effects.push_back(Effect::Fitness { is_fit: false, pause: Duration::ZERO });
        }
        Self {
            claim: Claim::new(Arc::clone(&settings), seed),
            campaign: None,
            term: None,
            release_by: None,
            closing: Closing::No,
            fitness,
            requests: StepDownRequests::default(),
            leader: LeaderView::default(),
            failures: Failures::new(settings.renew_deadline),
            logs: EventLogs::default(),
            effects,
            settings,
        }
    }

    /// Handles an input at any time, even while a request is under way.
    pub fn handle(&mut self, now: Moment, input: Input) {
        // The unfitness after a request counts from the release, because the work may drain for longer.
        if let Input::GuardDropped { .. } | Input::NotTaken = input {
            self.fitness.guard_dropped(now);
        }
        // The call of `next` after the input registers the wakeups.
        let timer = &mut Timer::new(now, now);
        // The probe timeout may have passed before this input.
        self.advance(timer);
        match input {
            Input::Campaign { id, once: true } if !self.fitness.may_acquire() => {
                self.effects.push_back(Effect::NotFit { campaign: id });
            }
            Input::Campaign { id, once } => self.campaign = Some(WaitingCampaign { id, is_round: once, job: None }),
            Input::JobCampaign { id, plan } => {
                let job = Some(WaitingJob { plan, due_at_version: None, waits_since: None });
                self.campaign = Some(WaitingCampaign { id, is_round: false, job });
            }
            Input::JobEnded { exit_code } => self.job_ended(now, exit_code),
            Input::StoreTime { unix_micros } => self.claim.set_store_time(now, unix_micros),
            Input::Withdraw(id) => _ = self.campaign.take_if(|campaign| campaign.id == id),
            Input::NotTaken => self.guard_dropped(now, now),
            Input::StepDown(limit) => self.drain(now, StopReason::SteppedDown, limit),
            Input::Fitness(source, is_fit) => self.fitness.report(now, source, is_fit),
            Input::GuardDropped { at } => {
                self.cancel_at(now + self.claim.interrupt_after().release);
                self.guard_dropped(now, at);
            }
            Input::Close => self.close(now),
            Input::Response(id, response) => self.on_response(now, id, response),
            Input::IdleTimeout(after) => self.claim.set_idle_timeout(now, after),
            Input::WatchOpened { from_scratch } => self.claim.watch_opened(now, from_scratch),
            Input::Watched { received_at, change } => self.on_change(now, received_at, change),
            Input::WatchEnded => self.claim.watch_lost(now),
        }
        self.advance(timer);
    }

    /// Returns the next step. While a request is under way, the next step is a wait.
    pub fn next(&mut self, now: Now) -> Step {
        let mut timer = Timer::new(now.local, now.local + self.settings.lease_duration);
        self.advance(&mut timer);
        if self.is_finished(&mut timer) {
            return Step::Finished;
        }
        if let (Some(term), Some(renewed_until)) = (&mut self.term, self.claim.renewed_until()) {
            let event = term.check(&mut timer, renewed_until);
            self.report_term(now.local, event);
            self.claim.pursue(now.local, self.want());
        }
        let request = match self.claim.under_way() {
            Some(_) => None,
            None => self.claim.next(now, &mut timer),
        };
        let request =
            request.map(|request| StoreRequest { notes: self.notes(now.local, &request.operation), ..request });
        self.settle(now.local);
        let record_by = self.term.as_ref().and_then(|term| term.job.as_ref()?.record_by());
        record_by.into_iter().for_each(|at| _ = timer.is_due(at));
        if let Some(at) = self.claim.leader_until().filter(|_| !self.leader.has_expired()) {
            timer.is_due(at);
        }
        request.map_or_else(|| Step::Wait(timer.wake()), Step::Send)
    }

    /// Returns the next effect.
    pub fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the leader, whose changes the effects report.
    pub fn leader(&self) -> LeaderFacts<'_> {
        LeaderFacts {
            leader: self.leader.leader(),
            until: self.claim.leader_until(),
            identity_is_shared: self.claim.observed().identity_is_shared(),
        }
    }

    /// Returns `true` if this candidate may hold the record without a guard.
    pub fn may_hold(&self) -> bool {
        self.claim.may_hold()
    }

    /// Returns the identity of this candidate.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    // ---- deciding ----

    /// Returns what this candidate wants from its record now.
    fn want(&self) -> Want {
        match (&self.term, &self.campaign) {
            (Some(term), _) if term.renews() => Want::Renew,
            (Some(_), _) => Want::Abstain,
            (None, Some(campaign)) if self.fitness.may_acquire() && campaign.is_due() => {
                Want::Acquire { campaign: campaign.id, once: campaign.is_round }
            }
            (None, campaign) => Want::Observe(ObserverNeeds {
                release_by: self.release_by,
                is_closing: self.closing != Closing::No,
                campaign: campaign.as_ref().map(|campaign| campaign.id),
                must_read: match campaign {
                    // Only the answer to a request has the time of the store.
                    Some(campaign) => campaign.job.is_some() && !self.claim.knows_store_time(),
                    None => self.failures.is_failing(StoreOperation::Get),
                },
            }),
        }
    }

    /// Brings the candidate up to date: its claim, its fitness and its reports.
    fn advance(&mut self, timer: &mut Timer) {
        let now = timer.now();
        self.settle(now);
        while let Some(change) = self.fitness.change(timer) {
            self.report_fitness(now, change);
            self.settle(now);
        }
    }

    /// Evaluates the events of the claim, and pursues what the candidate wants then.
    fn settle(&mut self, now: Moment) {
        let mut is_renewed = false;
        while let Some(event) = self.claim.event() {
            is_renewed |= matches!(event, ClaimEvent::Renewed { .. });
            self.report_event(now, event);
        }
        self.decide_job(now);
        self.report_job(now);
        if is_renewed && self.term.as_ref().is_some_and(HeldTerm::has_unwritten_result) {
            // The renewal was sent before the job ended.
            self.claim.renew_at_once(now);
        }
        self.claim.pursue(now, self.want());
        // The caller of a release wakes after the report that the lease has no leader.
        self.report_leader(now);
        if self.release_by.is_some() && !self.claim.must_release() {
            self.release_by = None;
            self.effects.push_back(Effect::Released);
        }
    }

    /// Ends the term because its guard was dropped at `dropped_at`, or because no campaign took the term.
    fn guard_dropped(&mut self, now: Moment, dropped_at: Moment) {
        if let Some(mut term) = self.term.take() {
            let event = term.end(now, StopReason::Released);
            self.report_term(now, event);
            self.release_by = Some(dropped_at + self.settings.release_timeout);
        }
    }

    /// Withdraws the campaign, and finishes when the record is released and no write is in doubt.
    ///
    /// The candidate finishes after [`Settings::renew_deadline`] at the latest.
    fn close(&mut self, now: Moment) {
        self.campaign = None;
        if self.closing == Closing::No {
            self.closing = Closing::WhenSettled;
        }
        self.claim.pursue(now, self.want());
        if self.may_hold() {
            self.cancel_at(now + self.claim.interrupt_after().release);
        }
    }

    /// Returns `true` if the candidate is closed and no work is left.
    fn is_finished(&mut self, timer: &mut Timer) -> bool {
        let is_busy = self.term.is_some() || self.campaign.is_some() || self.claim.under_way().is_some();
        if self.closing == Closing::No || is_busy {
            return false;
        }
        if self.claim.is_settled() {
            return true;
        }
        if self.closing == Closing::WhenSettled {
            self.closing = Closing::By(timer.now() + self.settings.renew_deadline);
        }
        matches!(self.closing, Closing::By(at) if timer.is_due(at))
    }

    /// Decides whether the campaign for a job may acquire the lease, by the newest observed record.
    ///
    /// The base of an acquisition is that record, so each attempt is counted once.
    fn decide_job(&mut self, now: Moment) {
        let Some(WaitingCampaign { id, job: Some(job), .. }) = &mut self.campaign else { return };
        let (observed, id) = (self.claim.observed(), *id);
        if job.due_at_version == Some(observed.newest()) {
            // A write may be in doubt, and the clock of the store may go back, for example to a full second.
            return;
        }
        job.due_at_version = None;
        let Some(time) = self.claim.store_time(now).filter(|_| !observed.is_unknown()) else { return };
        let history = observed.record().and_then(|known| known.notes.job.as_deref());
        let history = history.cloned().unwrap_or_default();
        let is_free = self.claim.leader_until().is_none_or(|until| now >= until);
        match job.plan.is_due(&history, time, *job.waits_since.get_or_insert(time)) {
            JobDue::Now => job.due_at_version = Some(observed.newest()),
            // The last attempt may still succeed.
            JobDue::Exhausted if !is_free => {}
            due => {
                self.campaign = None;
                self.effects.push_back(Effect::JobNotDue { campaign: id, due, history: Box::new(history) });
            }
        }
    }

    /// Reports whether the record contains the result of the job, and a history that another writer has removed.
    fn report_job(&mut self, now: Moment) {
        let own = self.claim.observed().record().filter(|_| self.claim.observed().is_ours());
        let Some(term) = &mut self.term else { return };
        let (renews, Some(attempt)) = (term.renews(), &mut term.job) else { return };
        let history = own.and_then(|known| known.notes.job.as_deref());
        if own.is_some() && renews && attempt.is_removed_from(history) {
            let line = "another writer has removed the history of the job from the record, writing the history again";
            self.effects.push_back(Effect::Log(Notice::new(Level::Warn, line)));
        }
        self.effects.extend(attempt.is_recorded(now, history, renews).map(Effect::JobRecorded));
    }

    /// Handles the end of the job, whose result the next write records.
    fn job_ended(&mut self, now: Moment, exit_code: i32) {
        let time = self.claim.store_time(now);
        // A job that ends after its term is no success, because another candidate may have led.
        let term = self.term.as_mut().filter(|term| exit_code != 0 || term.is_valid(now));
        match term.and_then(|term| term.job.as_mut()).zip(time) {
            Some((attempt, time)) => {
                attempt.ended(time, exit_code, now + self.settings.renew_deadline);
                self.claim.renew_at_once(now);
            }
            None => self.effects.push_back(Effect::JobRecorded(false)),
        }
    }

    /// Refuses the campaign for a job, because the store has answered without its time.
    fn refuse_job_without_clock(&mut self, now: Moment) {
        if let Some(campaign) = self.campaign.take_if(|campaign| campaign.job.is_some()) {
            self.claim.pursue(now, self.want());
            let text = "cannot run a job once per period: the store does not report its time, or keeps no history of jobs; use \
                        another store";
            let error = StoreError::new(StoreErrorKind::Unsupported, text);
            self.effects.push_back(Effect::Refuse { campaign: campaign.id, error });
        }
    }

    fn on_response(&mut self, now: Moment, id: u64, response: StoreResponse) {
        // The late response to an abandoned request does not count, because the failure of the request was counted
        // before.
        if let Some(request) = self.claim.under_way().filter(|request| request.id == id) {
            let error = if let StoreResponse::Failed(error) = &response { Some(error) } else { None };
            let failed = self.failures.answered(now, request.operation, error);
            self.effects.extend(failed.notice.map(Effect::Log));
            self.effects.extend(failed.refused.map(Effect::WritesRefused));
            if matches!(response, StoreResponse::Read(..)) && !self.claim.knows_store_time() {
                self.refuse_job_without_clock(now);
            }
            if let Some(error) =
                error.filter(|error| failed.is_permanent && error.kind() != StoreErrorKind::Interrupted)
                && let Some(campaign) = self.campaign.take()
            {
                // The campaign ends before the claim handles the failure. Otherwise, the claim would also report the
                // end of the round.
                self.claim.pursue(now, self.want());
                self.effects.push_back(Effect::Refuse { campaign: campaign.id, error: error.clone() });
            }
        }
        self.claim.on_response(now, id, response);
    }

    fn on_change(&mut self, now: Moment, received_at: Moment, change: Change) {
        let own = Some(self.settings.identity.as_str());
        if !matches!(&change, Change::Written(found) if found.record.holder() == own) {
            self.cancel_at(now + self.claim.interrupt_after().foreign_event);
        }
        self.claim.on_change(now, received_at, change);
    }

    fn cancel_at(&mut self, at: Moment) {
        self.effects.extend(self.claim.under_way().map(|request| Effect::CancelAt(request.id, at)));
    }

    /// Returns the notes of a write.
    fn notes(&self, now: Moment, operation: &Operation) -> RecordNotes {
        let (base, record) = match operation {
            Operation::Get(_) => return RecordNotes::default(),
            Operation::Create(record) => (RecordNotes::none(), record),
            Operation::Update(base, record) => (&*base.notes, record),
        };
        match &self.term {
            _ if record.holder().is_none() => base.released(),
            Some(term) => {
                let notes = base.renewed(self.term_notes(term.accepts_after()));
                let job = term.job.as_ref().map(|attempt| Box::new(attempt.notes().clone()));
                RecordNotes { job: job.or(notes.job), ..notes }
            }
            None => {
                let notes = base.acquired(self.term_notes(self.requests.accepts_after(now)));
                let job = self.campaign.as_ref().and_then(|campaign| campaign.job.as_ref());
                let job = job.zip(self.claim.store_time(now));
                let started = job.map(|(job, now)| {
                    Box::new(job.plan.start(base.job.as_deref().unwrap_or(&JobNotes::default()), now, self.identity()))
                });
                RecordNotes { job: started.or(notes.job), ..notes }
            }
        }
    }

    fn term_notes(&self, accepts_after: Duration) -> TermNotes {
        TermNotes {
            address: self.settings.address.clone(),
            accepts_requests: Some(match self.settings.accepts_requests {
                true => RequestAcceptance::After(whole_seconds(accepts_after)),
                false => RequestAcceptance::Never,
            }),
            shards: self.settings.shards,
            max_shards: self.settings.max_shards,
            ..TermNotes::default()
        }
    }
}
