//! The leader election protocol as a state machine without I/O, threads or a clock.
//!
//! A driver gets the next [`Step`] from an [`Election`], performs the step, and reports the outcome with the current
//! time. In production, the driver is a thread with a real store and clock. Simulations drive thousands of elections on
//! virtual time. Comments cite rules by their numbers and names in `docs/internals/PROTOCOL.md`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::store::StoreErrorKind;
use crate::store::record::{LeaderElectionRecord, MicroTime};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

pub mod candidate;
pub mod deadline;
pub mod drain;
mod ending;
pub mod group;
mod in_doubt;
mod messages;
mod notes;
mod observed;
mod pace;
pub mod progress;
mod requests;
mod responses;
mod round_trip;
pub(crate) mod settings;
mod step_down_requests;
pub(crate) mod stop_reason;
mod term;
#[cfg(test)]
mod tests;
pub mod timer;
mod watch;
mod watching;

use in_doubt::{FailedWrite, InDoubt, Outcome};
#[cfg(any(test, feature = "_internals"))]
pub use messages::ReadContext;
pub use messages::{Change, ElectionEvent, LeaderInfo, Operation, Step, StoreRequest, StoreResponse};
use observed::{Holder, Observed};
use pace::Pace;
pub use round_trip::InterruptAfter;
use step_down_requests::StepDownRequests;
use term::HeldTerm;
use watch::WatchTrust;

/// The election on one record, as seen by one candidate.
#[derive(Debug)]
pub struct Election {
    settings: Arc<Settings>,
    observed: Observed,
    in_doubt: InDoubt,
    phase: Phase,
    pace: Pace,
    /// `true` if the last read failed.
    read_failed: bool,
    watch: WatchTrust,
    last_stamp: Option<(u64, Moment)>,
    last_request: u64,
    /// The number and the send time of the latest request, until the request is answered.
    in_flight: Option<(u64, Moment)>,
    last_acquisition: u64,
    /// The end of the release timeout. Until then, a caller waits for the release.
    release_deadline: Option<Moment>,
    closing: bool,
    close_deadline: Option<Moment>,
    /// `true` while the candidate must not acquire, because it is unfit or has just recovered.
    barred: bool,
    /// `true` while an acquisition that took longer than the progress timeout is released.
    gives_back: bool,
    requests: StepDownRequests,
    events: VecDeque<ElectionEvent>,
}

#[derive(Debug)]
enum Phase {
    Observing,
    Campaigning(CampaignPhase),
    Leading(HeldTerm),
}

#[derive(Debug, Default)]
struct CampaignPhase {
    /// The number and the `acquireTime` of the attempt.
    ///
    /// An attempt is the writes of a campaign on one observed record.
    attempt: Option<(u64, MicroTime)>,
    round: Option<Round>,
}

/// The progress of a campaign that ends after one round: a read and at most one write.
#[derive(Debug, Default)]
struct Round {
    has_read: bool,
    wrote: bool,
    /// `true` after a watch event has interrupted the read of the round.
    interrupted: bool,
}

impl Election {
    /// Creates an election without observations.
    ///
    /// `seed` feeds the jitter and the random digits of `acquireTime`.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64) -> Self {
        let settings = settings.into();
        Self {
            in_doubt: InDoubt::new(Arc::clone(&settings)),
            pace: Pace::new(Arc::clone(&settings), seed),
            settings,
            observed: Observed::nothing(),
            phase: Phase::Observing,
            read_failed: false,
            watch: WatchTrust::default(),
            last_stamp: None,
            last_request: 0,
            in_flight: None,
            last_acquisition: 0,
            release_deadline: None,
            closing: false,
            close_deadline: None,
            barred: false,
            gives_back: false,
            requests: StepDownRequests::default(),
            events: VecDeque::new(),
        }
    }

    /// Returns the next event for the driver, if there is one.
    pub fn event(&mut self) -> Option<ElectionEvent> {
        self.events.pop_front()
    }

    /// Starts a campaign for one term.
    ///
    /// If `once` is `true`, the campaign ends after one round: a read and at most one write.
    pub fn campaign(&mut self, once: bool) {
        // A caller has at most one campaign, so a running campaign is abandoned and can be replaced.
        if let Phase::Observing | Phase::Campaigning(_) = self.phase {
            self.phase = Phase::Campaigning(CampaignPhase { attempt: None, round: once.then(Round::default) });
            // A term or a release may have shortened the requested pause. A campaign keeps the full pause.
            self.pace.keep_full_pause();
            // The campaign takes over a record that is not released yet. The pending release therefore counts as done.
            self.confirm_release();
        }
    }

    /// Ends a campaign.
    ///
    /// If the store applies a write of the campaign later, the election releases the record.
    pub fn withdraw(&mut self) {
        if let Phase::Campaigning(_) = self.phase {
            self.phase = Phase::Observing;
        }
    }

    /// Ends the term and releases its record.
    ///
    /// `gone_at` is the time at which the guard was dropped, or at which no campaign took the term.
    pub fn guard_gone(&mut self, now: Moment, gone_at: Moment) {
        self.end_term(now, StopReason::Released);
        if let Phase::Leading(_) = self.phase {
            self.phase = Phase::Observing;
            self.release_deadline = Some(gone_at + self.settings.release_timeout);
            self.pace.start_release(now, self.urgency(now));
            self.confirm_release();
        }
    }

    /// Returns `true` if another process wrote the record with the identity of this candidate.
    pub fn has_twin(&self) -> bool {
        self.observed.has_twin()
    }

    /// Returns `true` if this candidate may hold the record without a guard.
    ///
    /// An acquiring write counts while the write is `under_way`, or until a read follows the write. Later, the write
    /// does not count, because such a write may stay in doubt forever.
    pub fn may_hold(&self, under_way: Option<u64>) -> bool {
        let may_hold = self.owes_release() || self.in_doubt.may_hold(under_way, self.pace.must_read());
        may_hold && !matches!(self.phase, Phase::Leading(_))
    }

    /// Sets whether the last read failed.
    ///
    /// An observing election repeats a failed read even if a watch is open.
    pub fn set_read_failed(&mut self, has_failed: bool) {
        self.read_failed = has_failed;
    }

    /// Notes the idle time after which the connection must be used again to stay open.
    pub fn cools(&mut self, now: Moment, after: Option<Duration>) {
        self.pace.cools(now, after);
    }

    /// Returns the times after which a waiting release or watch event interrupts a request.
    pub fn interrupt_after(&self) -> InterruptAfter {
        self.pace.interrupt_after()
    }

    /// Closes the election, which gets no more campaigns.
    ///
    /// The election finishes when its record is released and no write is in doubt, or after
    /// [`Settings::renew_deadline`].
    pub fn close(&mut self) {
        self.withdraw();
        self.closing = true;
    }

    /// Returns the next request, if one is due.
    ///
    /// Registers the moments at which the result may change.
    pub fn next(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        if let Phase::Leading(term) = &mut self.phase {
            self.events.extend(term.check(timer));
        }
        if self.watch.overdue_at().is_some_and(|at| timer.is_due(at)) {
            self.give_up_watch(now.local);
        }
        match &self.phase {
            Phase::Leading(term) => {
                let renew_at = self.pace.may_renew_at(term.renew_at());
                match term.renews() && !self.pace.must_read() {
                    false => self.read_when_due(timer),
                    true if timer.is_due(renew_at) => self.renew(now, timer),
                    // With an open watch, the election also reads if an event may be missing. Without a watch, or if
                    // the read would delay the renewal, the answers to renewals are enough.
                    true if self.watch.is_open() && self.pace.leaves_time_for_a_read(now.local, renew_at) => {
                        self.read_when_due(timer)
                    }
                    true => None,
                }
            }
            Phase::Campaigning(_) if !self.stands_aside() => self.drive_campaign(now, timer),
            Phase::Campaigning(CampaignPhase { round: Some(_), .. }) => self.end_round(now, timer),
            Phase::Observing | Phase::Campaigning(_) if self.owes_release() => self.release(now, timer),
            Phase::Observing | Phase::Campaigning(_) => self.read_when_due(timer),
        }
    }

    /// Returns `true` if the election is closed and no work is left.
    ///
    /// A closed election waits for its release and for in-doubt writes, at most until the close deadline.
    pub fn is_finished(&mut self, timer: &mut Timer) -> bool {
        let is_idle = self.closing && matches!(self.phase, Phase::Observing);
        let is_settled = !self.owes_release() && self.in_doubt.is_settled();
        is_idle && (is_settled || self.close_deadline_passed(timer))
    }

    /// Handles the response to the request `id`, even if the driver has abandoned the request.
    pub fn on_response(&mut self, now: Moment, id: u64, answer: StoreResponse) {
        self.note_round_trip(now, id, &answer);
        match answer {
            StoreResponse::Read(context, Some(observed)) => {
                if self.observed.proves_restore(context, &observed) {
                    self.reset(now, observed.record.clone());
                }
                self.learn_answer(now, id, observed.clone());
                self.pace.has_read();
                self.compare_watch(now, context, Some(&observed));
            }
            StoreResponse::Read(context, None) => {
                if context.newest == self.observed.newest() {
                    self.learn_absence(now);
                }
                self.in_doubt.absent(context.sent_at);
                self.pace.has_read();
                self.compare_watch(now, context, None);
            }
            StoreResponse::Written(observed) => {
                if !self.watch.agrees(&observed) {
                    self.give_up_watch(now);
                }
                // The answer to a forgotten write has no effect. Either a watch event has settled the write, or the
                // election forgot the write after a restore of the store.
                if let Some(outcome) = self.in_doubt.outcome(id)
                    && !self.learn_answer(now, id, observed)
                    && outcome == Outcome::InDoubt
                {
                    self.write_failed(now, false);
                }
                self.in_doubt.answered(id);
            }
            StoreResponse::Failed(error) if self.pace.repeats(now, error.kind()) => self.repeat(now),
            StoreResponse::Failed(error) => {
                let moved = error.kind().is_beaten();
                let write = self.in_doubt.failed(id, error.kind());
                // A release may interrupt a renewal. The failure of the renewal must not delay the release, which
                // settles both writes.
                let given_up = |write: FailedWrite| !moved && !write.is_release && self.owes_release();
                // If the watch has already delivered the record that made the create fail, no read is needed.
                let explained = |write: FailedWrite| moved && write.is_create && self.observed.record().is_some();
                if write.is_some_and(|write| !given_up(write) && !explained(write)) {
                    self.write_failed(now, moved);
                }
                self.pace.pause(now, error.retry_after(), self.urgency(now));
                match (&mut self.phase, error.kind()) {
                    // A watch event interrupted the read of a round. The round repeats the read once.
                    (Phase::Campaigning(CampaignPhase { round: Some(round), .. }), StoreErrorKind::Interrupted)
                        if !round.wrote && !round.interrupted =>
                    {
                        (round.has_read, round.interrupted) = (false, true);
                    }
                    // A request that fails before the round's read belongs to the time before the round, and does not
                    // end the round.
                    _ => self.end_round_if(|round| round.has_read && !round.wrote),
                }
            }
        }
        self.confirm_release();
    }

    // ---- deciding ----

    /// Returns the next request of a campaign.
    fn drive_campaign(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        if let Phase::Campaigning(CampaignPhase { round: Some(round), .. }) = &mut self.phase {
            if round.wrote || self.pace.is_paused(now.local) {
                return self.end_round(now, timer);
            }
            if !round.has_read {
                round.has_read = true;
                return Some(self.read(now.local));
            }
        }
        let is_round = matches!(&self.phase, Phase::Campaigning(CampaignPhase { round: Some(_), .. }));
        // The caller of a round sets the pace, and a held-back round would not acquire a lease that is free for less
        // than the delay.
        let hold_back = if is_round { Duration::ZERO } else { self.settings.hold_back };
        let Settings { reclaim_own_identity, lease_duration, .. } = *self.settings;
        let takeover_at = self.observed.acquirable_at(now.local, hold_back, reclaim_own_identity, lease_duration);
        let takeover_at = takeover_at.filter(|_| !self.pace.must_read());
        // A round sends only one write, so its caller sets the pace. A requested pause has already ended the round
        // above.
        let not_before = self.pace.may_write_at();
        let takeover_at = takeover_at.map(|at| if is_round { at } else { at.max(not_before) });
        match takeover_at {
            _ if is_round && takeover_at.is_none_or(|at| at > now.local) => self.end_round(now, timer),
            Some(at) if timer.is_due(at) => self.acquire(now, timer),
            at if self.pace.keeps_alive(timer, at) => Some(self.read(now.local)),
            _ => self.read_when_due(timer),
        }
    }

    /// Acquires the lease by one write on the observed version (rules 1, 2, 3 and 5).
    fn acquire(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        let (stamp, renew_time) = self.stamp(now, timer)?;
        let Phase::Campaigning(candidacy) = &mut self.phase else { return None };
        let (acquisition, acquire_time) = candidacy.attempt.get_or_insert_with(|| {
            self.last_acquisition += 1;
            // The fraction digits are random, so that two processes with the same identity do not write the same
            // record.
            let mut drawn = || MicroTime::from_unix_micros(stamp - stamp % 1_000_000 + self.pace.random(1_000_000));
            let taken = self.observed.record().and_then(|known| known.record.acquire_time.clone());
            let mut acquire_time = drawn();
            while taken.as_ref() == Some(&acquire_time) {
                acquire_time = drawn();
            }
            (self.last_acquisition, acquire_time)
        });
        let (acquisition, acquire_time) = (*acquisition, acquire_time.clone());
        if let Some(round) = &mut candidacy.round {
            round.wrote = true;
        }
        let base = self.observed.record().cloned();
        let transitions =
            base.as_ref().map_or(0, |base| base.record.lease_transitions.unwrap_or(0).max(0).saturating_add(1));
        let record = self.held(base.as_ref(), acquire_time, renew_time, transitions);
        Some(self.write(now.local, base, record, Some(acquisition)))
    }

    /// Renews the lease by one update of the last own version (rule 4).
    fn renew(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        let (_, renew_time) = self.stamp(now, timer)?;
        let delay = self.pace.retry_delay(now.local, self.urgency(now.local));
        let third_at = now.local + delay.min(self.settings.renew_interval);
        let (Phase::Leading(term), Some(base)) = (&mut self.phase, self.observed.record().cloned()) else {
            return None;
        };
        term.renewal_sent(third_at);
        let (acquire_time, transitions) = term.renewed_fields();
        let acquisition = term.acquisition();
        let record = self.held(Some(&base), acquire_time, renew_time, transitions);
        Some(self.write(now.local, Some(base), record, acquisition))
    }

    /// Releases the lease by one write on the newest known version (rule 6).
    fn release(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        let not_before = self.pace.may_write_at();
        if self.pace.must_read() || !timer.is_due(not_before) {
            return self.read_when_due(timer);
        }
        let (_, renew_time) = self.stamp(now, timer)?;
        let base = self.observed.record().cloned()?;
        let record = LeaderElectionRecord {
            holder_identity: Some(String::new()),
            lease_duration_seconds: match self.settings.release_keeps_duration {
                true => base.record.lease_duration_seconds,
                false => Some(1),
            },
            renew_time: Some(renew_time),
            ..base.record.clone()
        };
        Some(self.write(now.local, Some(base), record, None))
    }

    /// Returns a read of the record if a read is due.
    ///
    /// While a watch delivers all changes, a read is due only before a write, to repeat a failed read, or to settle a
    /// create.
    fn read_when_due(&mut self, timer: &mut Timer) -> Option<StoreRequest> {
        let repeats = self.read_failed && matches!(self.phase, Phase::Observing);
        // Watch events do not settle an in-doubt create, so a closed election must read.
        let settles = self.closing && self.in_doubt.has_in_doubt_create();
        let delivers_all = self.watch_delivers_all(|at| timer.is_due(at));
        let is_wanted = self.pace.must_read() || repeats || settles || !delivers_all;
        let is_due = is_wanted && timer.is_due(self.pace.may_read_at());
        is_due.then(|| self.read(timer.now()))
    }

    /// Returns `true` if a campaign must not acquire the lease now.
    fn stands_aside(&self) -> bool {
        self.barred || self.gives_back
    }

    /// Returns `true` if this candidate holds the record but does not need the record.
    ///
    /// A term needs the record, and so does a campaign that may acquire the lease.
    fn owes_release(&self) -> bool {
        let is_wanted = match self.phase {
            Phase::Observing => false,
            Phase::Campaigning(_) => !self.stands_aside(),
            Phase::Leading(_) => true,
        };
        !is_wanted && self.observed.is_ours()
    }

    fn confirm_release(&mut self) {
        if self.release_deadline.is_some() && !self.owes_release() {
            self.release_deadline = None;
            self.events.push_back(ElectionEvent::Released);
        }
    }

    fn end_round(&mut self, now: Now, timer: &mut Timer) -> Option<StoreRequest> {
        self.end_round_if(|_| true);
        self.next(now, timer)
    }

    fn end_round_if(&mut self, over: impl FnOnce(&Round) -> bool) {
        if let Phase::Campaigning(CampaignPhase { round: Some(round), .. }) = &self.phase
            && over(round)
        {
            self.phase = Phase::Observing;
            self.events.push_back(ElectionEvent::RoundOver);
        }
    }
}
