//! One candidate: a real `Candidate`, with the state that its driver and its user add.

use std::sync::Arc;
use std::time::Duration;

use leasehold::StopReason;
use leasehold::election::candidate::Candidate;
use leasehold::election::candidate::fitness::FitnessSource;
use leasehold::election::candidate::messages::{Effect, Input};
use leasehold::election::deadline::Deadline;
use leasehold::election::drain::DrainLimit;
use leasehold::election::{Change, Operation, Step, StoreRequest, StoreResponse};
use leasehold::store::{
    LeaderElectionRecord, MicroTime, RecordNotes, StoreData, StoreError, StoreErrorKind, VersionedRecord,
};
use leasehold::util::clock::Moment;

use crate::clock::Clock;
use crate::coverage::{Coverage, Witnesses};
use crate::normal::{normalise, without};
use crate::records::{Call, RecordId, Records, Standing};
use crate::scope::{LEASE_DURATION, Scope, settings};

/// Everything that can happen to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    Campaign,
    Withdraw,
    Next,
    Written(Standing),
    Read(Option<Standing>),
    Failed(Failure),
    Heard {
        standing: Standing,
        received: u8,
    },
    HeardDeleted {
        version: u16,
        received: u8,
    },
    WatchOpened {
        from_scratch: bool,
    },
    WatchLost,
    /// The user asks whether the term is valid.
    ///
    /// If the term has expired, the deadline records the expiry, and the term stays over.
    Ask,
    /// The user drops the guard, so every view returns `false`.
    DropGuard,
    /// The user steps down, so every view returns `false`.
    StepDown,
    /// The driver reports the drop of the guard to the candidate.
    TellGone,
    /// The driver reports the step-down to the candidate.
    TellStepDown,
    /// The user's work reports progress.
    Progress,
    /// The program reports whether it is fit.
    SetFit(bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    NoAnswer,
    Conflict,
}

/// The state of the guard that the user holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    None,
    Held,
    /// The views return `false`, but the candidate has not received the step-down yet.
    SteppingDown,
    SteppedDown,
    Dropped,
}

/// The part of a candidate's state that the rest of the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    pub guard: Guard,
    pub campaigning: bool,
    /// `true` from `Effect::Offer` until `Effect::TermEnded`.
    pub in_term: bool,
    /// The end of the term's validity in local nanoseconds, or zero if the term is over.
    pub valid_until: u64,
    pub token: u16,
    /// The newest version that the candidate has received from the store or its watch.
    pub shown: u16,
    pub pending: Option<Call>,
    /// `true` if the drop of the guard interrupts the pending request.
    pub interrupted: bool,
    pub silent_watch: bool,
    /// The last report of the program.
    pub fit: bool,
}

pub struct Process {
    scope: Scope,
    clock: Clock,
    hold_back: Duration,
    identity: String,
    candidate: Candidate,
    pending: Option<StoreRequest>,
    call: Option<Call>,
    /// The tick of the candidate's latest write.
    stamped_at: Option<u8>,
    interrupted: bool,
    silent_watch: bool,
    deadline: Option<Arc<Deadline>>,
    token: u64,
    guard: Guard,
    campaigning: bool,
    in_term: bool,
    fit: bool,
    campaigns: u64,
    /// The earliest time of an acquisition. `None` while the candidate is unfit.
    acquires_from: Option<Moment>,
    /// The local time at which the last request ended a term.
    requested_at: Option<Moment>,
    /// The newest record that the candidate has received, and the local time of its last change.
    changed: Option<(Moment, VersionedRecord)>,
    /// The holder in the record that the current campaign's write replaces.
    replaces: Option<String>,
    shown: u64,
    /// The candidate's name, with which the stable names of its random `acquireTime`s begin.
    name: String,
    acquired: Vec<(MicroTime, MicroTime)>,
    covered: Witnesses,
}

pub fn letter(index: usize) -> char {
    char::from(b'a' + index as u8)
}

pub fn identity(scope: &Scope, index: usize, incarnation: u8) -> String {
    if scope.same_identity { letter(index).to_string() } else { format!("{}{incarnation}", letter(index)) }
}

impl Process {
    pub fn new(scope: &Scope, index: usize, incarnation: u8) -> Self {
        let name = format!("{}{incarnation}", letter(index));
        let identity = identity(scope, index, incarnation);
        let settings = settings(&identity, index, scope);
        let mut process = Self {
            scope: scope.clone(),
            clock: Clock { rate: scope.rates[index] },
            hold_back: settings.hold_back,
            candidate: Candidate::new(settings, u64::from(incarnation) * 16 + index as u64),
            identity,
            pending: None,
            call: None,
            stamped_at: None,
            interrupted: false,
            silent_watch: false,
            deadline: None,
            token: 0,
            guard: Guard::None,
            campaigning: false,
            in_term: false,
            fit: true,
            campaigns: 0,
            acquires_from: Some(Moment::from_nanos(0)),
            requested_at: None,
            changed: None,
            replaces: None,
            shown: 0,
            name,
            acquired: Vec::new(),
            covered: Witnesses::default(),
        };
        if scope.limits.flaps > 0 {
            let now = process.clock.local(0);
            process.candidate.handle(now, Input::Fitness(FitnessSource::Program, true));
            process.listen(Event::SetFit(true), 0, now).expect("a fit candidate");
        }
        process
    }

    pub fn facts(&self) -> Facts {
        Facts {
            guard: self.guard,
            campaigning: self.campaigning,
            in_term: self.in_term,
            valid_until: self.valid_until(),
            token: self.token as u16,
            shown: self.shown as u16,
            pending: self.call,
            interrupted: self.interrupted,
            silent_watch: self.silent_watch,
            fit: self.fit,
        }
    }

    /// Returns the events that have been covered since the last call.
    pub fn covered(&mut self) -> Witnesses {
        std::mem::take(&mut self.covered)
    }

    /// Returns a text that is equal for two candidates only if they behave alike from now on.
    pub fn text(&self, tick: u8) -> String {
        let mut text = format!("{:?}", self.candidate);
        // Failures matter only if a failed read is repeated. The other fields decide only what is reported.
        let read_fails = text.split_once("is_failing: ").is_some_and(|(_, rest)| rest.starts_with("true"));
        text = without(&text, "leader: LeaderView {", "effects: ");
        text = without(&text, "fitness: FitnessPolicy {", "probe: ");
        if self.stamped_at != Some(tick) {
            text = without(&text, "last_stamp: ", "last_request: ");
        }
        // The candidate uses the duration of requests only to decide when to interrupt a request. The model may
        // interrupt a request at any time, so the durations are left out.
        text = without(&text, "under_way: ", "last_acquisition: ");
        if !self.scope.watches {
            text = without(&text, "watch: WatchTrust {", "last_");
        }
        let operation = self.pending.as_ref().map(|request| &request.operation);
        text.push_str(&format!("{operation:?}{:?}{:?}{:?}{read_fails}", self.facts(), self.deadline, self.replaces));
        for (inward, outward) in &self.acquired {
            text = text.replace(inward.as_str(), outward.as_str());
        }
        format!("{} {}", self.name, normalise(&text, self.clock, tick, self.pending.as_ref().map(|request| request.id)))
    }

    /// Returns the end of the term's validity, or zero if the term is over.
    ///
    /// The function reads the deadline at a moment before any term expires, so the read never ends a term.
    fn valid_until(&self) -> u64 {
        let beginning = Moment::from_nanos(2);
        let remaining = self.deadline.as_ref().map_or(0, |deadline| deadline.remaining(beginning).as_nanos() as u64);
        if remaining == 0 { 0 } else { beginning.as_nanos() + remaining }
    }

    /// Applies `event` at `tick`, and returns an error if the candidate breaks a rule.
    pub fn take(&mut self, tick: u8, event: Event, records: &mut Records) -> Result<(), String> {
        let now = self.clock.local(tick);
        let before = self.valid_until();
        match event {
            Event::Campaign => {
                self.campaigning = true;
                self.campaigns += 1;
                self.candidate.handle(now, Input::Campaign { id: self.campaigns, once: false });
            }
            Event::Withdraw => {
                self.campaigning = false;
                self.replaces = None;
                self.candidate.handle(now, Input::Withdraw(self.campaigns));
            }
            Event::Next => {
                if let Step::Send(request) = self.candidate.next(self.clock.now(tick)) {
                    // The candidate may have found that the term is over before it returned the request.
                    self.listen(event, before, now)?;
                    return self.send(tick, request, records);
                }
            }
            Event::Written(standing) => {
                let observed = self.observe(now, standing, records);
                self.answer(now, StoreResponse::Written(observed));
            }
            Event::Read(standing) => {
                let Some(StoreRequest { operation: Operation::Get(look), .. }) = self.pending else {
                    unreachable!("no read is pending")
                };
                let observed = standing.map(|standing| self.observe(now, standing, records));
                self.answer(now, StoreResponse::Read(look, observed));
            }
            Event::Failed(failure) => {
                let kind = match (failure, self.call) {
                    (Failure::NoAnswer, _) => StoreErrorKind::Timeout,
                    (Failure::Conflict, Some(Call::Create(_))) => StoreErrorKind::AlreadyExists,
                    (Failure::Conflict, _) => StoreErrorKind::Conflict,
                };
                self.answer(now, StoreResponse::Failed(StoreError::new(kind, "made up")));
            }
            Event::Heard { standing, received } => {
                let received_at = self.clock.local(received);
                let change = Change::Written(self.observe(received_at, standing, records));
                self.candidate.handle(now, Input::Watched { received_at, change });
            }
            Event::HeardDeleted { version, received } => {
                let version = u64::from(version);
                self.shown = self.shown.max(version);
                let (received_at, change) = (self.clock.local(received), Change::Deleted { version });
                self.candidate.handle(now, Input::Watched { received_at, change });
            }
            Event::WatchOpened { from_scratch } => self.candidate.handle(now, Input::WatchOpened { from_scratch }),
            Event::WatchLost => self.candidate.handle(now, Input::WatchEnded),
            Event::Ask => {
                let _ = self.deadline.as_ref().map(|deadline| deadline.is_valid(now));
            }
            Event::DropGuard | Event::StepDown => {
                if let Some(deadline) = &self.deadline {
                    let is_step_down = event == Event::StepDown;
                    deadline.end(now, if is_step_down { StopReason::SteppedDown } else { StopReason::Released });
                }
                self.guard = if event == Event::StepDown { Guard::SteppingDown } else { Guard::Dropped };
            }
            Event::TellGone => {
                self.guard = Guard::None;
                self.interrupted = self.pending.is_some();
                self.candidate.handle(now, Input::GuardDropped { at: now });
            }
            Event::TellStepDown => {
                self.guard = Guard::SteppedDown;
                self.candidate.handle(now, Input::StepDown(DrainLimit::AsSet));
            }
            Event::Progress => {
                let _ = self.deadline.as_ref().map(|deadline| deadline.report_progress(now, now));
            }
            Event::SetFit(is_fit) => {
                self.fit = is_fit;
                self.candidate.handle(now, Input::Fitness(FitnessSource::Program, is_fit));
            }
        }
        self.listen(event, before, now)
    }

    fn answer(&mut self, now: Moment, response: StoreResponse) {
        let Some(request) = self.pending.take() else { unreachable!("no request is pending") };
        self.call = None;
        self.interrupted = false;
        self.candidate.handle(now, Input::Response(request.id, response));
    }

    /// Returns the stored record as the candidate receives it at the local time `at`.
    fn observe(&mut self, at: Moment, standing: Standing, records: &Records) -> VersionedRecord {
        let record = self.inward(records.get(standing.record));
        let mut observed = VersionedRecord::new(record, u64::from(standing.version), StoreData::none());
        *observed.notes = records.notes(standing.record).clone();
        if observed.version > self.shown {
            self.shown = observed.version;
            let same = self.changed.take().filter(|(_, known)| known.record == observed.record);
            self.changed = Some((same.map_or(at, |(at, _)| at), observed.clone()));
        }
        observed
    }

    /// Returns an error if a candidate writes wrong notes, or acquires before its delay has passed.
    fn may_note(&self, tick: u8, request: &StoreRequest) -> Result<(), String> {
        let Operation::Update(base, record) = &request.operation else { return Ok(()) };
        let acquires = record.holder().is_some() && self.guard == Guard::None;
        let step_down = if acquires { None } else { base.notes.step_down.as_ref() };
        if request.notes.step_down.as_ref() != step_down {
            return Err(format!("{} writes {:?} over {:?}", self.name, request.notes, base.notes));
        }
        let Some((at, _)) = self.changed.as_ref().filter(|_| acquires && self.scope.limits.deletions == 0) else {
            return Ok(());
        };
        let seconds = match base.record.holder() {
            Some(holder) if *holder == self.identity => return Ok(()),
            Some(_) => base.record.lease_duration_seconds.unwrap_or(0),
            None => 0,
        };
        let not_before = *at + Duration::from_secs(seconds as u64) + self.hold_back;
        if self.clock.local(tick) >= not_before { Ok(()) } else { Err(format!("{} does not hold back", self.name)) }
    }

    fn send(&mut self, tick: u8, request: StoreRequest, records: &mut Records) -> Result<(), String> {
        self.may_note(tick, &request)?;
        let call = match &request.operation {
            Operation::Get(_) => Call::Get,
            Operation::Create(record) => {
                self.may_claim(tick)?;
                self.replaces = None;
                Call::Create(self.outward(tick, record, &request.notes, records))
            }
            Operation::Update(base, record) => {
                self.may_write(base.version, &base.record, record)?;
                if record.holder().is_some() {
                    self.may_claim(tick)?;
                }
                if record.holder().is_some() && self.campaigning {
                    self.replaces = base.record.holder().map(Into::into);
                }
                let replaced = self.outward(tick, &base.record, &base.notes, records);
                let standing = Standing { version: base.version as u16, record: replaced };
                Call::Update(standing, self.outward(tick, record, &request.notes, records))
            }
        };
        if call != Call::Get {
            self.stamped_at = Some(tick);
        }
        self.pending = Some(request);
        self.call = Some(call);
        Ok(())
    }

    fn may_acquire(&self, now: Moment) -> bool {
        self.acquires_from.is_some_and(|from| from <= now)
    }

    /// Returns an error if an unfit candidate acquires, or a leader without progress renews.
    fn may_claim(&self, tick: u8) -> Result<(), String> {
        let limit = self.deadline.as_ref().and_then(|deadline| deadline.progress_limit());
        match self.guard {
            Guard::None if !self.may_acquire(self.clock.local(tick)) => {
                Err(format!("{} acquires while it is unfit", self.name))
            }
            Guard::None => Ok(()),
            _ if limit.is_some_and(|limit| limit.until() <= self.clock.local(tick)) => {
                Err(format!("{} renews for work that makes no progress", self.name))
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if the candidate may not write `record` over `base`.
    ///
    /// A candidate writes only over the newest version that it has received, and only under its own identity. A
    /// candidate releases only without a guard.
    fn may_write(
        &self,
        version: u64,
        base: &LeaderElectionRecord,
        record: &LeaderElectionRecord,
    ) -> Result<(), String> {
        let name = &self.name;
        // The candidate ignores the answer to a write that is no longer in doubt. Only if the lease may be deleted can
        // such an answer contain a new version.
        let ignored = self.scope.limits.deletions > 0 && version < self.shown;
        if version != self.shown && !ignored {
            return Err(format!("{name} writes over version {version} and was shown {}", self.shown));
        }
        if record.uid.is_none() || record.uid != base.uid {
            return Err(format!("{name} writes to {:?} what was {:?}", record.uid, base.uid));
        }
        match record.holder() {
            None if self.guard != Guard::None => Err(format!("{name} releases beside its guard")),
            None if self.valid_until() != 0 => Err(format!("{name} releases while its views are true")),
            Some(holder) if holder != self.identity => Err(format!("{name} writes the name of {holder}")),
            _ => Ok(()),
        }
    }

    /// Handles the effects of the candidate, and returns an error if the rules do not allow one of them.
    ///
    /// `before` is the end of the term's validity before `event`.
    fn listen(&mut self, event: Event, before: u64, now: Moment) -> Result<(), String> {
        let name = self.name.clone();
        let was_valid = before > now.as_nanos();
        let answered = matches!(event, Event::Written(_));
        while let Some(effect) = self.candidate.effect() {
            match effect {
                Effect::Offer { deadline, fencing_token, .. } => {
                    if self.in_term || self.guard != Guard::None {
                        return Err(format!("{name} is elected during a term"));
                    }
                    if !std::mem::take(&mut self.campaigning) {
                        return Err(format!("{name} is elected without a campaign"));
                    }
                    self.in_term = true;
                    self.guard = Guard::Held;
                    self.deadline = Some(deadline);
                    self.token = fencing_token;
                    if !self.may_acquire(now) {
                        return Err(format!("{name} is elected while it is unfit"));
                    }
                    if self.valid_until() <= now.as_nanos() {
                        return Err(format!("{name} is elected to a term that has run out"));
                    }
                    self.covered.add(if answered { Coverage::Elected } else { Coverage::ElectedByEcho });
                    match self.replaces.take() {
                        Some(holder) if holder == self.identity => self.covered.add(Coverage::RetakenOwn),
                        Some(_) => self.covered.add(Coverage::TakenOver),
                        None => {}
                    }
                }
                Effect::TermEnded(reason, _) => {
                    if !std::mem::take(&mut self.in_term) {
                        return Err(format!("{name} loses a term that it does not have: {reason:?}"));
                    }
                    self.may_lose(&reason, was_valid)?;
                    if reason == StopReason::Requested {
                        self.may_obey(now)?;
                    }
                    self.covered.add(Coverage::of(&reason));
                }
                Effect::Released => self.covered.add(Coverage::Resolved),
                Effect::RestartWatch => self.silent_watch = true,
                Effect::Fitness { is_fit, pause } => self.acquires_from = is_fit.then_some(now + pause),
                Effect::IdentityConflict(_) if !self.scope.same_identity && self.scope.limits.deletions == 0 => {
                    return Err(format!("{name} does not know its own writes"));
                }
                Effect::Refuse { .. }
                | Effect::NotFit { .. }
                | Effect::RoundOver { .. }
                | Effect::JobNotDue { .. }
                | Effect::JobRecorded(_) => {
                    return Err(format!("{name} ends a campaign for no reason: {effect:?}"));
                }
                Effect::Renewed(_)
                | Effect::DrainEnded(_)
                | Effect::CancelAt(..)
                | Effect::IdentityConflict(_)
                | Effect::NewLeader { .. }
                | Effect::NoLeader { .. }
                | Effect::WritesRefused(_)
                | Effect::Log(_) => {}
            }
        }
        if let Event::WatchOpened { .. } = event {
            self.silent_watch = false;
        }
        let extended = before != 0 && self.valid_until() > before;
        if extended && !was_valid {
            return Err(format!("{name} is leader again in a term that had run out"));
        }
        if extended && !answered {
            let progressed = event == Event::Progress;
            self.covered.add(if progressed { Coverage::Progressed } else { Coverage::RenewedByEcho });
        }
        Ok(())
    }

    fn ended_by(&self, reason: &StopReason) -> bool {
        self.deadline.as_ref().is_some_and(|deadline| deadline.was_ended_early() && deadline.reason() == *reason)
    }

    /// Returns an error if nothing that has happened justifies the end of the term.
    fn may_lose(&self, reason: &StopReason, was_valid: bool) -> Result<(), String> {
        let deleted = self.scope.limits.deletions > 0;
        let just = match reason {
            // The user ended the term. A later event does not change the reason.
            StopReason::Released | StopReason::SteppedDown if self.ended_by(reason) => true,
            StopReason::Released => self.guard == Guard::None,
            StopReason::Expired => !was_valid,
            StopReason::Superseded { by } => by.as_deref() != Some(&self.identity),
            StopReason::IdentityConflict => self.scope.same_identity || deleted,
            StopReason::Deleted => deleted,
            StopReason::Unfit => !self.fit,
            StopReason::NoProgress => self.scope.progress && !was_valid,
            StopReason::Requested => self.scope.limits.requests > 0,
            _ => false,
        };
        if just { Ok(()) } else { Err(format!("{} loses its term for no reason: {reason:?}", self.name)) }
    }

    /// Returns an error if no request names the candidate, or if it has obeyed a request within a lease duration.
    fn may_obey(&mut self, now: Moment) -> Result<(), String> {
        let asked = self.changed.as_ref().and_then(|(_, known)| known.notes.step_down.as_ref());
        let is_early = self.requested_at.is_some_and(|at| now < at + LEASE_DURATION);
        self.requested_at = Some(now);
        match asked == Some(&self.identity) && !is_early && self.name.starts_with('a') {
            true => Ok(()),
            false => Err(format!("{} obeys a request that it must ignore", self.name)),
        }
    }

    // ---- stable names for random values ----

    /// Returns the number of `record` after replacing its random `acquireTime` by a stable name.
    fn outward(
        &mut self,
        tick: u8,
        record: &LeaderElectionRecord,
        notes: &RecordNotes,
        records: &mut Records,
    ) -> RecordId {
        let mut record = record.clone();
        if let Some(time) = record.acquire_time.as_ref().filter(|time| !time.as_str().contains('@')) {
            let known = self.acquired.iter().find(|(inward, _)| inward == time).map(|(_, outward)| outward.clone());
            record.acquire_time = Some(known.unwrap_or_else(|| {
                let prefix = format!("{}@{tick}.", self.name);
                let before = self.acquired.iter().filter(|(_, outward)| outward.as_str().starts_with(&prefix)).count();
                let outward = MicroTime::from_text(format!("{prefix}{before}"));
                self.acquired.push((time.clone(), outward.clone()));
                outward
            }));
        }
        records.number(record, notes.clone())
    }

    /// Returns `record` with the candidate's own random `acquireTime` restored.
    fn inward(&self, record: &LeaderElectionRecord) -> LeaderElectionRecord {
        let own = self.acquired.iter().find(|(_, outward)| record.acquire_time.as_ref() == Some(outward));
        let acquire_time = own.map(|(inward, _)| inward.clone()).or_else(|| record.acquire_time.clone());
        LeaderElectionRecord { acquire_time, ..record.clone() }
    }
}
