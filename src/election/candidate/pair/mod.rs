//! Two elections with one term, to migrate a fleet from one kind of object to another.
//!
//! No compare-and-swap includes two objects, so each record has its own election with all rules. A pair decides when
//! each election campaigns, and derives the common term. Like a session, a pair has no I/O, threads or channels.

use std::collections::VecDeque;
use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::notice::Notice;
use crate::election::candidate::session::{Effect, Input, Session};
use crate::election::candidate::side::Side;
use crate::election::deadline::Deadline;
use crate::election::progress::ProgressLimit;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::election::{LeaderInfo, Step};
use crate::store::{StoreError, StoreOperation};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

/// A candidacy on two records.
///
/// A pair campaigns for the secondary only while the pair holds the primary. The common term is valid while both terms
/// are valid, and the loss of one term ends both. The secondary is released first.
///
/// A driver uses a pair like a [`Session`], except that each side has its own requests and its own watch.
#[derive(Debug)]
pub struct Pair {
    primary: Session,
    secondary: Session,
    /// The longest time without progress of the work.
    progress_timeout: Option<Duration>,
    may_acquire: bool,
    stage: Stage,
    release: Option<Release>,
    /// The holder in each record, and whether the holder's lease has expired.
    leaders: [Option<Box<LeaderInfo>>; 2],
    expired: [bool; 2],
    /// The common holder of both records, and whether one of its leases has expired.
    leader: (Option<Box<LeaderInfo>>, bool),
    touched: [bool; 2],
    /// The log of acquisitions that took longer than the progress timeout.
    late: FailureLog,
    effects: VecDeque<(Side, Effect)>,
}

#[derive(Debug)]
enum Stage {
    Observing,
    /// A campaign waits until this time and until the secondary can be read. A primary that is held without a reachable
    /// secondary would prevent other candidates from leading.
    Waiting(Wanted, Moment),
    /// The pair campaigns for the primary.
    First(Wanted),
    /// The pair holds the primary and campaigns for the secondary.
    Second(Wanted, Arc<Deadline>),
    Leading(PairTerm),
}

/// A campaign that waits for a term.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    id: u64,
    once: bool,
    /// The start of the campaign. Earlier failures do not end the campaign.
    since: Moment,
}

/// The common term until its guard is dropped.
#[derive(Debug)]
struct PairTerm {
    /// The validity of the common term, which ends with the first of `primary` and `secondary`.
    both: Arc<Deadline>,
    primary: Arc<Deadline>,
    secondary: Arc<Deadline>,
    /// `true` if the end of the term was reported.
    over: bool,
    /// `true` if the end of the renewals was reported.
    cover_lost: bool,
}

/// The release of both records after the guard was dropped.
#[derive(Debug)]
struct Release {
    gone_at: Moment,
    /// The latest time to release the primary. `None` after the release of the primary was started.
    primary_at: Option<Moment>,
    /// The records that are not released yet.
    owed: [bool; 2],
}

impl Pair {
    /// Creates a pair without observations. The seeds are for the two sessions.
    pub fn new(settings: impl Into<Arc<Settings>>, seeds: [u64; 2]) -> Self {
        let settings = settings.into();
        // client-go's MultiLock waits only for the duration in the primary. If a release set this duration to one
        // second, client-go could overwrite the primary while another candidate leads by the secondary. Progress counts
        // for the common term, so the sessions have no progress timeout.
        let of_secondary = Settings { progress_timeout: None, ..Settings::clone(&settings) };
        let of_primary = Settings { release_keeps_duration: true, ..of_secondary.clone() };
        Self {
            primary: Session::new(of_primary, seeds[0]),
            secondary: Session::new(of_secondary, seeds[1]),
            progress_timeout: settings.progress_timeout,
            may_acquire: !settings.is_judged(),
            effects: VecDeque::new(),
            stage: Stage::Observing,
            release: None,
            leaders: [None, None],
            expired: [false; 2],
            leader: (None, false),
            touched: [false; 2],
            late: FailureLog::default(),
        }
    }

    /// Handles an input at any time.
    ///
    /// `side` only matters for inputs of a store or a watch.
    pub fn handle(&mut self, now: Moment, side: Side, input: Input) {
        self.hear(now);
        match input {
            Input::Campaign { id, once } => {
                self.end_release(now);
                self.stage = Stage::Waiting(Wanted { id, once, since: now }, now);
            }
            Input::Withdraw(id) => {
                if self.wanted().is_some_and(|wanted| wanted.id == id) {
                    self.give_up_campaign(now);
                }
            }
            Input::Close => {
                self.give_up_campaign(now);
                self.tell_both(now, || Input::Close);
            }
            Input::StepDown(limit) => self.tell_both(now, || Input::StepDown(limit)),
            Input::Fitness(..) => {}
            Input::SetFit(may_acquire) => {
                self.may_acquire = may_acquire;
                self.tell_both(now, || Input::SetFit(may_acquire));
            }
            Input::LimitProgress(limit) => self.tell_both(now, || Input::LimitProgress(Arc::clone(&limit))),
            Input::Lost(reason) => self.tell_both(now, || Input::Lost(reason.clone())),
            Input::NotTaken => self.guard_gone(now, now),
            Input::GuardGone { at } => self.guard_gone(now, at),
            // The thread of the other side may handle a response or the input of a watch, so `tell` marks the last step
            // of `side` as outdated.
            input => self.tell(now, side, input),
        }
        self.hear(now);
    }

    /// Returns the next effect and its side.
    ///
    /// The side only matters for an effect about one record.
    pub fn effect(&mut self) -> Option<(Side, Effect)> {
        self.effects.pop_front()
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push_back((Side::Primary, effect));
    }

    /// Returns the campaign for one round, if one waits.
    pub(super) fn round(&self) -> Option<u64> {
        self.wanted().filter(|wanted| wanted.once).map(|wanted| wanted.id)
    }

    /// Returns the next step of a side.
    ///
    /// The driver calls this function when no request of the side is under way.
    pub fn next(&mut self, now: Now, timer: &mut Timer, side: Side) -> Step {
        let release_at = |pair: &Self| pair.release.as_ref().and_then(|release| release.primary_at);
        if release_at(self).is_some_and(|at| now.local >= at) {
            self.release_primary(now.local);
        }
        self.hear(now.local);
        loop {
            self.touched[side as usize] = false;
            let session = self.session_mut(side);
            let is_finished = session.is_finished(timer);
            let request = if is_finished { None } else { session.next(now, timer) };
            self.hear(now.local);
            if let Some(request) = request {
                return Step::Send(request);
            }
            if self.touched[side as usize] {
                // The step had effects that changed the next step of this side, so the wait is outdated.
                continue;
            }
            if is_finished {
                return Step::Finished;
            }
            match &self.stage {
                Stage::Waiting(_, at) => _ = timer.is_due(*at),
                // Both threads notice the expiry, because one may hang in a request. If the holder has ended the term,
                // no validity remains. The queued step-down or drop then reports the end.
                Stage::Leading(term) if !term.over => _ = timer.is_due(now.local + term.both.remaining(now.local)),
                _ => {}
            }
            release_at(self).into_iter().for_each(|at| _ = timer.is_due(at));
            return Step::Wait(timer.wake());
        }
    }

    /// Returns a side whose last step is outdated.
    ///
    /// The driver must call [`next`](Self::next) for this side again.
    pub fn touched(&mut self) -> Option<Side> {
        Side::BOTH.into_iter().find(|side| std::mem::take(&mut self.touched[*side as usize]))
    }

    /// Returns the time at which the first lease of the common holder expires.
    ///
    /// `None` if there is no common holder.
    pub fn leader_until(&self) -> Option<Moment> {
        self.leader.0.as_ref()?;
        Some(self.primary.leader_until()?.min(self.secondary.leader_until()?))
    }

    /// Returns `true` if a record is not released yet after the guard was dropped.
    pub fn is_giving_back(&self) -> bool {
        self.release.is_some()
    }

    /// Returns `true` if this candidate may hold a record without a guard.
    pub fn may_hold(&self) -> bool {
        self.is_giving_back() || self.primary.may_hold() || self.secondary.may_hold()
    }

    /// Returns `true` if another process wrote a record with the identity of this candidate.
    pub fn has_twin(&self) -> bool {
        self.primary.has_twin() || self.secondary.has_twin()
    }

    /// Returns the identity of this candidate.
    pub fn identity(&self) -> &str {
        self.primary.identity()
    }

    fn session_mut(&mut self, side: Side) -> &mut Session {
        match side {
            Side::Primary => &mut self.primary,
            Side::Secondary => &mut self.secondary,
        }
    }

    /// Passes an input to the session of a side, and marks the last step of the side as outdated.
    fn tell(&mut self, now: Moment, side: Side, input: Input) {
        self.touched[side as usize] = true;
        self.session_mut(side).handle(now, input);
    }

    fn tell_both(&mut self, now: Moment, input: impl Fn() -> Input) {
        Side::BOTH.into_iter().for_each(|side| self.tell(now, side, input()));
    }

    fn wanted(&self) -> Option<Wanted> {
        match &self.stage {
            Stage::Waiting(wanted, _) | Stage::First(wanted) | Stage::Second(wanted, _) => Some(*wanted),
            Stage::Observing | Stage::Leading(_) => None,
        }
    }

    /// Ends an expired common term.
    ///
    /// Returns `true` if the term had expired.
    ///
    /// The sessions alone may miss the expiry. The thread of one session may hang, and a session may renew its own term
    /// after the common term has expired.
    fn notice_expiry(&mut self, now: Moment) -> bool {
        let Stage::Leading(PairTerm { both, primary, secondary, over: false, .. }) = &self.stage else { return false };
        let has_run_out = !both.is_valid(now) && !both.was_ended();
        if has_run_out {
            let is_primary = primary.remaining(now) <= secondary.remaining(now);
            let side = if is_primary { Side::Primary } else { Side::Secondary };
            let error = self.take_error();
            self.term_ended(now, side, StopReason::Expired, error);
        }
        has_run_out
    }

    /// Moves a campaign to its next stage if possible.
    ///
    /// Returns `true` if the stage has changed.
    fn go_on(&mut self, now: Moment) -> bool {
        let Some(Wanted { id, once, since }) = self.wanted() else { return false };
        let refusal = [&self.primary, &self.secondary].into_iter().find_map(|it| it.failures.refusal(since));
        if let Some(error) = refusal.cloned() {
            self.give_up_campaign(now);
            self.effects.push_back((Side::Primary, Effect::Refuse { campaign: id, error }));
            return true;
        }
        let failures = &self.secondary.failures;
        match self.stage {
            Stage::Waiting(wanted, at) => match failures.of(StoreOperation::Get) {
                // A round ends after a failed read of the secondary. During a requested pause, no read is sent, so an
                // earlier failure also ends the round.
                Some((failed_at, error)) if once && (failed_at >= since || self.secondary.election.is_paused(now)) => {
                    let over = Effect::RoundOver { campaign: id, error: Some(error.clone()) };
                    self.stage = Stage::Observing;
                    self.effects.push_back((Side::Secondary, over));
                    true
                }
                None if now >= at && self.secondary.election.has_observed() && self.may_acquire => {
                    self.stage = Stage::First(wanted);
                    self.tell(now, Side::Primary, Input::Campaign { id, once });
                    true
                }
                _ => false,
            },
            Stage::Second(wanted, _) if failures.is_failing_for_long() => {
                let line = "primary released: the secondary store failed for a renew deadline, retrying after one lease duration";
                self.effects.push_back((Side::Primary, Effect::Log(Notice::new(Level::Warn, line))));
                self.give_up_campaign(now);
                self.stage = Stage::Waiting(wanted, now + self.secondary.settings.lease_duration);
                true
            }
            _ => false,
        }
    }

    /// Releases both records after the secondary was won and no common term started.
    fn give_both_back(&mut self, now: Moment) {
        self.tell(now, Side::Secondary, Input::NotTaken);
        self.give_up_campaign(now);
        if let Some(release) = &mut self.release {
            release.owed = [true; 2];
        }
    }

    /// Ends the campaign and releases the primary.
    fn give_up_campaign(&mut self, now: Moment) {
        match std::mem::replace(&mut self.stage, Stage::Observing) {
            Stage::Waiting(..) => {}
            Stage::First(Wanted { id, .. }) => self.tell(now, Side::Primary, Input::Withdraw(id)),
            Stage::Second(Wanted { id, .. }, _) => {
                self.tell(now, Side::Secondary, Input::Withdraw(id));
                self.release = Some(Release { gone_at: now, primary_at: None, owed: [true, false] });
                self.tell(now, Side::Primary, Input::GuardGone { at: now });
            }
            leading @ (Stage::Observing | Stage::Leading(_)) => self.stage = leading,
        }
    }

    fn guard_gone(&mut self, now: Moment, gone_at: Moment) {
        let Stage::Leading(term) = std::mem::replace(&mut self.stage, Stage::Observing) else { return };
        if !term.over {
            let reason = term.both.end(now, StopReason::Released);
            let error = self.take_error();
            self.effects.push_back((Side::Primary, Effect::TermEnded(reason, error)));
        }
        // Half of the time remains for the primary if the release of the secondary gets no answer.
        let primary_at = Some(gone_at + self.secondary.settings.release_timeout / 2);
        self.release = Some(Release { gone_at, primary_at, owed: [true; 2] });
        self.tell(now, Side::Secondary, Input::GuardGone { at: gone_at });
        // The primary's side needs a new step that ends its wait at `primary_at`.
        self.touched[Side::Primary as usize] = true;
    }

    /// Takes the last failure of either session since its last renewal.
    fn take_error(&mut self) -> Option<Box<StoreError>> {
        self.primary.unrenewed.take().or_else(|| self.secondary.unrenewed.take())
    }

    fn release_primary(&mut self, now: Moment) {
        let Some(Release { gone_at, primary_at, .. }) = &mut self.release else { return };
        let at = *gone_at;
        if primary_at.take().is_some() {
            self.tell(now, Side::Primary, Input::GuardGone { at });
        }
    }

    /// Ends the release because a new campaign acquires the held records instead.
    fn end_release(&mut self, now: Moment) {
        self.release_primary(now);
        if self.release.take().is_some() {
            self.effects.push_back((Side::Primary, Effect::Released));
        }
    }

    /// Handles the effects of both sessions.
    fn hear(&mut self, now: Moment) {
        loop {
            let of = |side: Side| move |effect: Effect| (side, effect);
            let told = self.primary.effect().map(of(Side::Primary));
            let Some((side, effect)) = told.or_else(|| self.secondary.effect().map(of(Side::Secondary))) else {
                match self.notice_expiry(now) || self.go_on(now) {
                    true => continue,
                    false => return,
                }
            };
            match effect {
                Effect::Offer { campaign, deadline, fencing_token } => {
                    self.offered(now, side, campaign, deadline, fencing_token);
                }
                Effect::TermEnded(reason, error) => self.term_ended(now, side, reason, error),
                Effect::Renewed(latency) => {
                    if self.prolong(now) {
                        self.effects.push_back((side, Effect::Renewed(latency)));
                    }
                }
                Effect::Released => self.released(now, side),
                Effect::Leader(leader) => {
                    (self.leaders[side as usize], self.expired[side as usize]) = (leader, false);
                    self.judge_leader(side);
                }
                Effect::LeaderLeaseExpired => {
                    self.expired[side as usize] = true;
                    self.judge_leader(side);
                }
                Effect::Refuse { campaign, .. } | Effect::RoundOver { campaign, .. } => {
                    if self.wanted().is_some_and(|wanted| wanted.id == campaign) {
                        self.give_up_campaign(now);
                        self.effects.push_back((side, effect));
                    }
                }
                Effect::CoverLost(reason) => self.cover_lost(now, side, reason),
                effect => self.effects.push_back((side, effect)),
            }
        }
    }

    /// Handles the win of one record.
    fn offered(&mut self, now: Moment, side: Side, campaign: Option<u64>, deadline: Arc<Deadline>, fencing_token: u64) {
        match (side, &self.stage) {
            (Side::Primary, &Stage::First(wanted @ Wanted { id, once, .. })) if campaign == Some(id) => {
                self.stage = Stage::Second(wanted, deadline);
                self.secondary.failures.count_anew();
                if let ([_, Some(holder)], [_, false]) = (&self.leaders, self.expired) {
                    let holder = &holder.identity;
                    let line = format!("primary acquired, waiting for the secondary (held by {holder})");
                    self.effects.push_back((side, Effect::Log(Notice::new(Level::Info, line))));
                }
                self.tell(now, Side::Secondary, Input::Campaign { id, once });
            }
            // The term on the primary has expired, and the session of the primary has not noticed the expiry yet.
            (Side::Secondary, &Stage::Second(wanted, ref primary)) if !primary.is_valid(now) => {
                self.give_both_back(now);
                self.stage = Stage::Waiting(wanted, now);
            }
            (Side::Secondary, &Stage::Second(wanted, ref primary)) if campaign == Some(wanted.id) => {
                let primary = Arc::clone(primary);
                let until = now + primary.remaining(now).min(deadline.remaining(now));
                let limit = self.progress_timeout.map(|within| {
                    let renew_deadline = self.secondary.settings.renew_deadline;
                    let until = deadline.runs_out_at().as_nanos();
                    // The end of validity minus the renew deadline is the send time of the winning write.
                    let sent_at = until.saturating_sub(u64::try_from(renew_deadline.as_nanos()).unwrap_or(u64::MAX));
                    Arc::new(ProgressLimit::new(Moment::from_nanos(sent_at), within))
                });
                if let Some(limit) = limit.as_ref().filter(|limit| limit.until() <= now) {
                    return self.too_late(now, wanted, now.since(limit.last()));
                }
                let both = Arc::new(Deadline::new(until).limited_by(limit.clone()));
                let offered = Arc::clone(&both);
                if let Some(limit) = limit {
                    self.tell_both(now, || Input::LimitProgress(Arc::clone(&limit)));
                }
                self.stage =
                    Stage::Leading(PairTerm { both, primary, secondary: deadline, over: false, cover_lost: false });
                let offer = Effect::Offer { campaign, deadline: offered, fencing_token };
                self.effects.push_back((side, offer));
            }
            _ => self.tell(now, side, Input::NotTaken),
        }
    }

    /// Releases a win that took longer than the progress timeout.
    ///
    /// The next campaign waits for a retry period, because an immediate campaign would probably fail in the same way.
    fn too_late(&mut self, now: Moment, wanted: Wanted, took: Duration) {
        let retry_period = self.secondary.settings.retry_period;
        let line = Notice::too_late(self.late.happened(now), took, self.progress_timeout.unwrap_or_default());
        self.effects.push_back((Side::Secondary, Effect::Log(line)));
        self.give_both_back(now);
        if wanted.once {
            self.effects.push_back((Side::Secondary, Effect::RoundOver { campaign: wanted.id, error: None }));
        } else {
            self.stage = Stage::Waiting(wanted, now + retry_period);
        }
    }

    /// Stops the renewals on both records, because one record alone does not protect the work.
    fn cover_lost(&mut self, now: Moment, side: Side, reason: Option<StopReason>) {
        if let Some(reason) = &reason {
            self.tell_both(now, || Input::Lost(reason.clone()));
        }
        let Stage::Leading(term) = &mut self.stage else { return };
        if !std::mem::replace(&mut term.cover_lost, true) {
            self.effects.push_back((side, Effect::CoverLost(reason)));
        }
    }

    fn term_ended(&mut self, now: Moment, side: Side, reason: StopReason, error: Option<Box<StoreError>>) {
        match &mut self.stage {
            Stage::Leading(term) if !term.over => {
                term.over = true;
                let own = reason;
                let reason = term.both.end(now, own.clone());
                let stall = Notice::of_stall(&reason, self.progress_timeout);
                self.effects.extend(stall.map(|notice| (side, Effect::Log(notice))));
                self.effects.push_back((side, Effect::TermEnded(reason.clone(), error)));
                // A draining term is still renewed on both records. Only a loss ends the term on both records.
                let is_loss = |reason: &StopReason| !reason.was_asked_for() && !reason.drains();
                if is_loss(&reason) {
                    let line = format!("ended the term on both records: {reason}");
                    self.effects.push_back((side, Effect::Log(Notice::new(Level::Info, line))));
                    self.tell_both(now, || Input::Lost(reason.clone()));
                } else if is_loss(&own) {
                    // The record of `side` is lost while the holder's step-down is queued. One record alone does not
                    // protect the work, so neither record is renewed.
                    self.cover_lost(now, side, Some(own));
                }
            }
            Stage::Second(wanted, _) if side == Side::Primary => {
                let wanted = *wanted;
                self.give_up_campaign(now);
                self.stage = Stage::Waiting(wanted, now);
            }
            _ => {}
        }
    }

    /// Extends the common term after a renewal of one side.
    ///
    /// Returns `true` if the term was extended.
    fn prolong(&mut self, now: Moment) -> bool {
        let Stage::Leading(PairTerm { both, primary, secondary, over: false, .. }) = &self.stage else { return false };
        let before = both.remaining(now);
        let left = primary.remaining(now).min(secondary.remaining(now));
        left > before && both.extend(now, now + left)
    }

    fn released(&mut self, now: Moment, side: Side) {
        let Some(release) = &mut self.release else { return };
        release.owed[side as usize] = false;
        if release.owed == [false; 2] {
            self.release = None;
            self.effects.push_back((side, Effect::Released));
        } else if side == Side::Secondary {
            self.release_primary(now);
        }
    }

    /// Reports a change of the common holder, or the expiry of one of its leases.
    fn judge_leader(&mut self, side: Side) {
        let [primary, secondary] = &self.leaders;
        // Different holders mean that no candidate leads by both records.
        let leader = primary.as_ref().zip(secondary.as_ref()).filter(|(one, other)| one.identity == other.identity);
        let leader = leader.map(|(one, other)| {
            let address = one.address.clone().or_else(|| other.address.clone());
            Box::new(LeaderInfo { identity: one.identity.clone(), address })
        });
        let has_expired = leader.is_some() && self.expired != [false; 2];
        let (before, had_expired) = std::mem::replace(&mut self.leader, (leader.clone(), has_expired));
        let is_another = before != leader;
        if is_another || had_expired && !has_expired {
            self.effects.push_back((side, Effect::Leader(leader)));
        }
        if has_expired && (is_another || !had_expired) {
            self.effects.push_back((side, Effect::LeaderLeaseExpired));
        }
    }
}

#[cfg(test)]
mod tests;
