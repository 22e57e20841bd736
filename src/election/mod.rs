//! The protocol, as a pure state machine: no I/O, no thread, no clock of its own.
//!
//! Whoever drives an [`Election`] asks it for the next [`Step`], carries that out, and tells it the outcome; all times
//! come in from outside. A thread with a real store and a real clock can do that, and so can a simulation with
//! thousands of made-up ones. The rules are numbered and named as in `docs/PROTOCOL.md`.

use std::collections::VecDeque;

use crate::election::deadline::Deadline;
use crate::election::progress::ProgressLimit;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::store::StoreErrorKind;
use crate::store::record::{LeaderElectionRecord, MicroTime, VersionedRecord};
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

pub mod candidate;
pub mod deadline;
pub mod drain;
mod ending;
mod messages;
mod open_writes;
pub mod progress;
mod requests;
mod responses;
mod round_trip;
pub(crate) mod settings;
pub(crate) mod stop_reason;
#[cfg(test)]
mod tests;
mod watch;
mod watching;

#[cfg(any(test, feature = "_internals"))]
pub use messages::ReadContext;
pub use messages::{Change, ElectionEvent, Operation, Step, StoreRequest, StoreResponse};
use open_writes::{OpenWrite, WriteProgress};
pub use round_trip::InterruptAfter;
use round_trip::RoundTrip;
use watch::WatchState;

/// One candidate's part in an election.
#[derive(Debug)]
pub struct Election {
    settings: Arc<Settings>,
    random: fastrand::Rng,
    /// The newest version known. Nothing at or below it is news.
    newest: u64,
    observed: ObservedState,
    open: Vec<OpenWrite>,
    phase: Phase,
    schedule: RequestSchedule,
    watch: WatchState,
    last_stamp: Option<(u64, Moment)>,
    last_request: u64,
    /// The latest request, and when it was sent, until it is answered.
    in_flight: Option<(u64, Moment)>,
    round_trip: RoundTrip,
    last_acquisition: u64,
    reported_leader: Option<String>,
    /// Whether somebody waits to hear that the record of the last term is not ours any more.
    release_pending: bool,
    /// Until when a release is urgent, and until when a closing election waits.
    release_deadline: Option<Moment>,
    closing: bool,
    close_deadline: Option<Moment>,
    /// Not fit to lead: nothing is acquired.
    barred: bool,
    /// An acquisition came too late for its first progress: it is released, and others have their turn.
    gives_back: bool,
    events: VecDeque<ElectionEvent>,
}

#[derive(Debug)]
enum ObservedState {
    Nothing,
    /// With the uid of the object that was there before. Nothing that is of that object can come after.
    Absent {
        gone: Option<String>,
    },
    Record(ObservedRecord),
}

impl ObservedState {
    /// Returns the record, if there is one.
    fn known(&self) -> Option<&ObservedRecord> {
        if let Self::Record(known) = self { Some(known) } else { None }
    }
}

#[derive(Debug)]
struct ObservedRecord {
    observed: VersionedRecord,
    /// When we received the last change of the record.
    changed_at: Moment,
    holder: Holder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Nobody,
    /// One of our own writes.
    Ourselves,
    /// It has our identity, is none of our writes, and stands as it was first found: that of a process that had our
    /// identity before, as far as anybody can tell.
    Predecessor,
    /// It has our identity, and was written by another process that lives.
    DuplicateIdentity,
    Other,
}

#[derive(Debug)]
enum Phase {
    Observing,
    Campaigning(CampaignPhase),
    Leading(CurrentTerm),
}

#[derive(Debug, Default)]
struct CampaignPhase {
    /// The attempt on the current record: its number and its `acquireTime`.
    attempt: Option<(u64, MicroTime)>,
    round: Option<Round>,
}

/// How far a campaign that is to last for one round of requests has come.
#[derive(Debug, Default)]
struct Round {
    has_read: bool,
    wrote: bool,
    /// Its look was put an end to by the news of a watch.
    interrupted: bool,
}

/// The term that was won, until its guard is gone: when it is renewed, and what is written then.
#[derive(Debug)]
struct CurrentTerm {
    acquisition: u64,
    acquire_time: MicroTime,
    transitions: i32,
    deadline: Arc<Deadline>,
    /// Until when its work has to make progress.
    progress: Option<Arc<ProgressLimit>>,
    /// Until when the newest write that is known to be applied keeps others away.
    covered_until: Moment,
    renew_at: Moment,
    phase: TermPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TermPhase {
    Valid,
    /// Invalid for a reason that lets its work wind down, and renewed until the guard goes, or until then.
    Draining(Option<Moment>),
    /// Invalid, and not renewed.
    Lost,
}

/// When the next request of a kind may be sent.
#[derive(Debug, Default)]
struct RequestSchedule {
    read_at: Moment,
    write_at: Moment,
    /// A write failed in a way that says the record moved: look before writing again.
    must_read: bool,
    /// The store asked to be left alone until then.
    asked_until: Moment,
    /// For how much of that it is.
    paused_until: Moment,
    /// When a record that another process wrote under our identity may be reclaimed.
    reclaim_at: Moment,
    /// A request was repeated at once because its connection had been closed, and none has been answered since.
    repeated: bool,
    /// The last read failed.
    read_failed: bool,
}

impl Election {
    /// A candidate that knows nothing yet. `seed` feeds jitter and the random digits of `acquireTime`.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64) -> Self {
        Self {
            settings: settings.into(),
            random: fastrand::Rng::with_seed(seed),
            newest: 0,
            observed: ObservedState::Nothing,
            open: Vec::new(),
            phase: Phase::Observing,
            schedule: RequestSchedule::default(),
            watch: WatchState::default(),
            last_stamp: None,
            last_request: 0,
            in_flight: None,
            round_trip: RoundTrip::default(),
            last_acquisition: 0,
            reported_leader: None,
            release_pending: false,
            release_deadline: None,
            closing: false,
            close_deadline: None,
            barred: false,
            gives_back: false,
            events: VecDeque::new(),
        }
    }

    /// The next thing to tell others, in order.
    pub fn event(&mut self) -> Option<ElectionEvent> {
        self.events.pop_front()
    }

    /// Asks for one term, without end or (`once`) for one bounded round of requests.
    pub fn campaign(&mut self, once: bool) {
        // Whoever asks has no other campaign: one that still runs is one that nobody waits for any more.
        if let Phase::Observing | Phase::Campaigning(_) = self.phase {
            self.phase = Phase::Campaigning(CampaignPhase { attempt: None, round: once.then(Round::default) });
            // What was shortened for a term or a release is not for a candidate.
            self.schedule.paused_until = self.schedule.asked_until;
            // What was to be released is to be taken over instead.
            self.confirm_release();
        }
    }

    /// Ends a campaign. A write of it that lands late is released.
    pub fn withdraw(&mut self) {
        if let Phase::Campaigning(_) = self.phase {
            self.phase = Phase::Observing;
        }
    }

    /// The guard of the term is gone since `gone_at`, or nobody took it: releases the record if it is still ours.
    pub fn guard_gone(&mut self, now: Moment, gone_at: Moment) {
        self.end_term(now, StopReason::Released);
        if let Phase::Leading(_) = self.phase {
            self.phase = Phase::Observing;
            self.release_pending = true;
            self.release_deadline = Some(gone_at + self.settings.release_timeout);
            self.schedule.write_at = now;
            if self.schedule.must_read {
                // A look that is under way may be interrupted for the release.
                self.schedule.read_at = now;
            }
            self.shorten_pause(now);
            self.confirm_release();
        }
    }

    /// Whether the record has this candidate's identity, and another process wrote the record.
    pub fn has_twin(&self) -> bool {
        let ObservedState::Record(known) = &self.observed else { return false };
        matches!(known.holder, Holder::Predecessor | Holder::DuplicateIdentity)
    }

    /// Whether it is known what stands in the store, be it nothing.
    pub fn has_observed(&self) -> bool {
        !matches!(self.observed, ObservedState::Nothing)
    }

    /// Whether the record is ours that nobody has a guard for, or may have become so by what is under way or was not read since. What
    /// was not there when it was read may still land; but that may be at any time, or never.
    pub fn may_hold(&self, under_way: Option<u64>) -> bool {
        let may_land = |write: &OpenWrite| {
            let is_unread = self.schedule.must_read || Some(write.id) == under_way;
            is_unread && write.acquisition != 0 && write.progress == WriteProgress::Open
        };
        !matches!(self.phase, Phase::Leading(_)) && (self.owes_release() || self.open.iter().any(may_land))
    }

    /// Sets whether the last read failed. An observing election repeats a failed read even if the watch works.
    pub fn set_read_failed(&mut self, has_failed: bool) {
        self.schedule.read_failed = has_failed;
    }

    /// Returns `true` if the store asked for a pause that has not ended.
    pub fn is_paused(&self, now: Moment) -> bool {
        now < self.schedule.paused_until
    }

    /// How long a request under way is left to finish by itself when something waits behind it.
    pub fn interrupt_after(&self) -> InterruptAfter {
        self.round_trip.interrupt_after(self.settings.release_timeout, self.settings.renew_deadline)
    }

    /// No campaign will come any more: the election finishes when its record is released and its writes are closed,
    /// or [`Settings::renew_deadline`] later.
    pub fn close(&mut self) {
        self.withdraw();
        self.closing = true;
    }

    /// What to do now.
    pub fn next(&mut self, now: Now) -> Step {
        self.notice_expiry(now.local);
        self.notice_what_is_owed(now.local);
        match &self.phase {
            Phase::Leading(term) => {
                let renew_at = term.renew_at.max(self.schedule.paused_until);
                match term.phase {
                    TermPhase::Lost => self.observe(now.local),
                    _ if self.schedule.must_read => self.read_when_due(now.local, renew_at),
                    _ if now.local >= renew_at => self.renew(now),
                    // Without a watch its renewals tell a leader all that it needs.
                    _ if self.watch.is_open() => self.read_when_due(now.local, renew_at),
                    _ => self.wait(now.local, renew_at),
                }
            }
            Phase::Campaigning(_) if !self.stands_aside() => self.drive_campaign(now),
            Phase::Campaigning(CampaignPhase { round: Some(_), .. }) => self.end_round(now),
            Phase::Observing | Phase::Campaigning(_) if self.owes_release() => self.release(now),
            Phase::Observing if self.closing => self.finish(now.local),
            Phase::Observing | Phase::Campaigning(_) => self.observe(now.local),
        }
    }

    /// What came of the request `id`: also of one that was given up, if its answer still arrives.
    pub fn on_response(&mut self, now: Moment, id: u64, answer: StoreResponse) {
        self.note_round_trip(now, id, &answer);
        match answer {
            StoreResponse::Read(context, Some(observed)) => {
                if self.store_was_restored(context, &observed) {
                    self.reset(now, observed.record.clone());
                }
                self.learn_answer(now, id, observed.clone());
                self.schedule.must_read = false;
                self.compare_watch(now, context, Some(&observed));
            }
            StoreResponse::Read(context, None) => {
                if context.newest == self.newest {
                    self.learn_absence(now);
                }
                // A create has no base that could be outdated: it may land at any time. But a closed election does not wait
                // for one that has not landed in as long as a term lasts.
                for write in
                    self.open.iter_mut().filter(|write| write.base == 0 && write.progress == WriteProgress::Open)
                {
                    if context.sent_at >= write.sent_at + self.settings.renew_deadline {
                        write.progress = WriteProgress::Overdue;
                    }
                }
                self.schedule.must_read = false;
                self.compare_watch(now, context, None);
            }
            StoreResponse::Written(observed) => {
                if !self.watch.agrees(&observed) {
                    self.give_up_watch(now);
                }
                // An update that is not open any more was judged by its echo. What is not known at all belongs to a store
                // that is no more.
                let progress = self.open.iter().find(|write| write.id == id).map(|write| write.progress);
                if let Some(progress) = progress
                    && !self.learn_answer(now, id, observed)
                    && progress == WriteProgress::Open
                {
                    self.write_failed(now, false);
                }
                self.open.retain(|write| write.id != id || write.base == 0);
            }
            StoreResponse::Failed(error)
                if error.kind() == StoreErrorKind::ConnectionClosed && !self.schedule.repeated =>
            {
                self.repeat(now);
            }
            StoreResponse::Failed(error) => {
                let moved = error.kind().is_beaten();
                let write = self.open.iter().find(|write| write.id == id && write.progress == WriteProgress::Open);
                // A renewal that was given up for a release does not hold it up: the release resolves both.
                let given_up = |write: &OpenWrite| !moved && write.acquisition != 0 && self.owes_release();
                // What beat a create may have been told of before its refusal: then nothing more will be.
                let explained =
                    |write: &OpenWrite| moved && write.base == 0 && matches!(self.observed, ObservedState::Record(_));
                if write.is_some_and(|write| !given_up(write) && !explained(write)) {
                    self.write_failed(now, moved);
                }
                if error.kind() == StoreErrorKind::NotApplied {
                    self.open.retain(|write| write.id != id);
                }
                self.pause(now, error.retry_after().unwrap_or_default());
                match (&mut self.phase, error.kind()) {
                    // It was the news of a watch that put an end to the look: with that it is to be looked again, once.
                    (Phase::Campaigning(CampaignPhase { round: Some(round), .. }), StoreErrorKind::Interrupted)
                        if !round.wrote && !round.interrupted =>
                    {
                        (round.has_read, round.interrupted) = (false, true);
                    }
                    // What fails before a round has looked was sent for something else.
                    _ => self.end_round_if(|round| round.has_read && !round.wrote),
                }
            }
        }
        self.confirm_release();
    }

    // ---- deciding ----

    /// A campaign's next step.
    fn drive_campaign(&mut self, now: Now) -> Step {
        if let Phase::Campaigning(CampaignPhase { round: Some(round), .. }) = &mut self.phase {
            if round.wrote || now.local < self.schedule.paused_until {
                return self.end_round(now);
            }
            if !round.has_read {
                round.has_read = true;
                return self.read(now.local);
            }
        }
        let takeover_at = match &self.observed {
            _ if self.schedule.must_read => None,
            ObservedState::Nothing => None,
            ObservedState::Absent { .. } => Some(now.local),
            ObservedState::Record(known) => Some(match known.holder {
                Holder::Nobody | Holder::Ourselves => now.local,
                Holder::Predecessor if self.settings.reclaim_own_identity => now.local,
                // It would reclaim the lease in turn: two of them must not do so as fast as the network lets them.
                Holder::DuplicateIdentity if self.settings.reclaim_own_identity => self.schedule.reclaim_at,
                Holder::Predecessor | Holder::DuplicateIdentity | Holder::Other => known.runs_out_at(&self.settings),
            }),
        };
        let is_round = matches!(&self.phase, Phase::Campaigning(CampaignPhase { round: Some(_), .. }));
        // A round has one write only: whoever asks for it sets the pace, but for what the store asked for.
        let not_before = self.schedule.write_at.max(self.schedule.paused_until);
        let takeover_at = takeover_at.map(|at| if is_round { at } else { at.max(not_before) });
        match takeover_at {
            Some(at) if at <= now.local => self.acquire(now),
            _ if is_round => self.end_round(now),
            Some(at) => self.read_when_due(now.local, at),
            None => self.read_when_due(now.local, now.local + self.settings.renew_deadline),
        }
    }

    /// Rules 1, 2, 3 and 5: one write that takes the lease, against the version that was observed.
    fn acquire(&mut self, now: Now) -> Step {
        let Some((stamp, renew_time)) = self.stamp(now) else { return self.wait_for_room(now.local) };
        let Phase::Campaigning(candidacy) = &mut self.phase else { return self.observe(now.local) };
        let (acquisition, acquire_time) = candidacy.attempt.get_or_insert_with(|| {
            self.last_acquisition += 1;
            // Random digits keep two processes with one identity from writing the same record.
            let mut drawn = || MicroTime::from_unix_micros(stamp - stamp % 1_000_000 + self.random.u64(..1_000_000));
            let taken = self.observed.known().and_then(|known| known.observed.record.acquire_time.clone());
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
        let base = self.observed.known().map(|known| known.observed.clone());
        let transitions =
            base.as_ref().map_or(0, |base| base.record.lease_transitions.unwrap_or(0).max(0).saturating_add(1));
        let record = self.held(base.as_ref(), acquire_time, renew_time, transitions);
        self.write(now.local, base, record, acquisition)
    }

    /// Rule 4: one write against the version of our own last write.
    fn renew(&mut self, now: Now) -> Step {
        let Some((_, renew_time)) = self.stamp(now) else { return self.wait_for_room(now.local) };
        let (Phase::Leading(term), ObservedState::Record(known)) = (&self.phase, &self.observed) else {
            return self.observe(now.local);
        };
        let (base, acquisition) = (known.observed.clone(), term.acquisition);
        let record = self.held(Some(&base), term.acquire_time.clone(), renew_time, term.transitions);
        self.write(now.local, Some(base), record, acquisition)
    }

    /// Rule 6: empties the record, from the newest version known, for as long as it is ours.
    fn release(&mut self, now: Now) -> Step {
        if self.close_deadline_passed(now.local) {
            return Step::Finished;
        }
        let not_before = self.schedule.write_at.max(self.schedule.paused_until);
        if self.schedule.must_read || now.local < not_before {
            return self.read_when_due(now.local, not_before);
        }
        let Some((_, renew_time)) = self.stamp(now) else { return self.wait_for_room(now.local) };
        let ObservedState::Record(known) = &self.observed else { return self.observe(now.local) };
        let base = known.observed.clone();
        let record = LeaderElectionRecord {
            holder_identity: Some(String::new()),
            lease_duration_seconds: match self.settings.release_keeps_duration {
                true => base.record.lease_duration_seconds,
                false => Some(1),
            },
            renew_time: Some(renew_time),
            ..base.record.clone()
        };
        self.write(now.local, Some(base), record, 0)
    }

    /// Nothing to win and nothing to owe: watches who leads.
    fn observe(&mut self, now: Moment) -> Step {
        self.read_when_due(now, now + self.settings.renew_deadline)
    }

    /// Closed, with nothing left to release: waits for the last open writes, but not for long.
    fn finish(&mut self, now: Moment) -> Step {
        if self.open.iter().all(|write| write.progress != WriteProgress::Open) || self.close_deadline_passed(now) {
            return Step::Finished;
        }
        self.observe(now)
    }

    /// Reads the record when a read is due, else waits for that or for `until`. While a watch tells all, a read is due only
    /// for what it does not tell, or to repeat a failed read.
    fn read_when_due(&mut self, now: Moment, until: Moment) -> Step {
        let repeats = self.schedule.read_failed && matches!(self.phase, Phase::Observing);
        // A watch does not resolve a create.
        let is_open_create = |write: &OpenWrite| write.base == 0 && write.progress == WriteProgress::Open;
        let untold = !self.watch_tells(now) || self.closing && self.open.iter().any(is_open_create);
        let wanted = self.schedule.must_read || repeats || untold;
        let due = self.schedule.read_at.max(self.schedule.paused_until);
        match wanted {
            false => self.wait(now, until),
            true if now >= due => self.read(now),
            true if self.schedule.must_read => self.wait(now, due),
            true => self.wait(now, until.min(due)),
        }
    }

    /// Waits, but not beyond what must be noticed in time: the end of a term, what a watch should have told, the end of a
    /// closed election's wait.
    fn wait(&self, now: Moment, until: Moment) -> Step {
        let [covered_until, progress_until, wound_down] = match &self.phase {
            Phase::Leading(term) => term.noticed_at(),
            _ => [None; 3],
        };
        // The silence of a watch is noticed once; from then on it is looked for what it does not tell.
        let silent_at = self.silent_at().filter(|at| now < *at);
        let noticed_at = [covered_until, progress_until, wound_down, silent_at, self.owed_by(), self.close_deadline];
        Step::Wait(noticed_at.into_iter().flatten().fold(until, Moment::min))
    }

    /// Whether a campaign acquires nothing for now.
    fn stands_aside(&self) -> bool {
        self.barred || self.gives_back
    }

    /// Whether the record of an ended term, or of an acquisition that came to nothing, still stands in our name.
    fn owes_release(&self) -> bool {
        let is_wanted = match self.phase {
            Phase::Observing => false,
            Phase::Campaigning(_) => !self.stands_aside(),
            Phase::Leading(_) => true,
        };
        !is_wanted && matches!(&self.observed, ObservedState::Record(known) if known.holder == Holder::Ourselves)
    }

    /// A connection that had been used before was closed under a request, as servers and what stands before them do at any
    /// time. The next attempt is sent at once, and once: a new one, for the old one may have been carried out.
    fn repeat(&mut self, now: Moment) {
        self.schedule.repeated = true;
        self.schedule.write_at = now;
        self.schedule.read_at = now;
        match &mut self.phase {
            Phase::Leading(term) if term.phase != TermPhase::Lost => term.renew_at = now,
            Phase::Campaigning(CampaignPhase { round: Some(round), .. }) => {
                (round.has_read, round.wrote) = (round.wrote, false);
            }
            _ => {}
        }
    }

    fn confirm_release(&mut self) {
        if self.release_pending && !self.owes_release() {
            self.release_pending = false;
            self.release_deadline = None;
            self.events.push_back(ElectionEvent::Released);
        }
    }

    fn end_round(&mut self, now: Now) -> Step {
        self.end_round_if(|_| true);
        self.next(now)
    }

    fn end_round_if(&mut self, over: impl FnOnce(&Round) -> bool) {
        if let Phase::Campaigning(CampaignPhase { round: Some(round), .. }) = &self.phase
            && over(round)
        {
            self.phase = Phase::Observing;
            self.events.push_back(ElectionEvent::RoundOver);
        }
    }

    fn report_leader(&mut self) {
        let leader = self.observed.known().and_then(|known| known.observed.record.holder());
        if self.reported_leader.as_deref() != leader {
            self.reported_leader = leader.map(str::to_owned);
            self.events.push_back(ElectionEvent::Leader(self.reported_leader.clone()));
        }
    }
}
