//! The simulated elector thread, which passes inputs to a candidate and executes its effects.

use std::rc::Rc;
use std::time::Duration;

use leasehold::StopReason;
use leasehold::election::candidate::fitness::FitnessSource;
use leasehold::election::candidate::messages::{Effect, Input};
use leasehold::election::drain::DrainLimit;
use leasehold::election::{Operation, Step, StoreRequest, StoreResponse};
use leasehold::store::{StoreError, StoreErrorKind};

use crate::clock::{MILLI, Nanos, SECOND};
use crate::network::Fate;
use crate::node::{Command, Term};
use crate::plan::{Kind, Suite, Violation};
use crate::queue::{Sent, To, What};
use crate::trace::{self, trace};
use crate::two_objects::checks::may_claim;
use crate::world::World;

impl World {
    /// Runs the thread of a candidate until the thread waits for something.
    pub fn drive(&mut self, index: usize) -> Result<(), Violation> {
        if !self.nodes[index].is_ours() {
            return Ok(());
        }
        let mut waits = 0;
        loop {
            self.obey_all(index)?;
            if self.nodes[index].record.finished {
                return Ok(());
            }
            let node = &mut self.nodes[index];
            if !self.plan.suite.is_on_two() {
                self.checks.stepped(node, self.truth)?;
            }
            let now = node.clock.now(self.truth);
            let was_valid = node.valid(self.truth);
            let step = node.candidate().next(now);
            let told = self.listen(index, was_valid)?;
            let node = &mut self.nodes[index];
            match step {
                Step::Send(request) => return self.send(index, request),
                Step::Wait(_) if told => {}
                Step::Wait(until) if until <= now.local => {
                    waits += 1;
                    if waits > 1 {
                        return Err(format!("{} waits for what has been", node.identity).into());
                    }
                }
                Step::Wait(until) => {
                    let (at, to, record) = (node.clock.when(until), (index, node.incarnation), &mut node.record);
                    record.wake += 1;
                    self.queue.push(at, Some(to), What::Wake(record.wake));
                    return Ok(());
                }
                Step::Finished => {
                    trace!(self, "{} has finished", node.identity);
                    node.record.finished = true;
                    node.record.watcher = None;
                    if node.holds_guard() {
                        return Err(format!("{} finished beside a guard", node.identity).into());
                    }
                    let to = (index, node.incarnation);
                    let after = self.random.u64(..3 * SECOND);
                    self.queue.push(self.truth + after, Some(to), What::Restart);
                    return Ok(());
                }
            }
        }
    }

    pub fn send(&mut self, index: usize, request: StoreRequest) -> Result<(), Violation> {
        let is_on_two = self.plan.suite.is_on_two();
        let held_up = self.held_up();
        let node = &mut self.nodes[index];
        node.refresh();
        if let Operation::Update(base, _) = &request.operation {
            node.record.acts_by(base.version);
        }
        if is_on_two {
            may_claim(node, &request.operation, self.truth)?;
        } else {
            self.checks.sent(node, &request, self.truth, &self.plan)?;
            self.may_write(index, &request)?;
            let node = &mut self.nodes[index];
            if !node.requests.allow(self.truth) {
                return Err(format!("{} sends too many requests", node.identity).into());
            }
        }
        let node = &mut self.nodes[index];
        if node.lock.is_some() {
            return self.send_to_objects(index, request);
        }
        let local = node.clock.local(self.truth);
        let record = &mut node.record;
        record.in_flight = Some(request.id);
        let is_dropped = record.connection.sends(self.truth, local, self.plan.drops_after);
        let (knowing, object) = ((record.known.0, record.known.1.is_none()), record.object);
        let to = Some((index, node.incarnation));
        let times_out = node.clock.when(local + request.timeout).max(self.truth + 1);
        let cut = node.cut(self.truth);
        let is_read = matches!(request.operation, Operation::Get(_));
        let mut fate = match self.plan.fate_of(index, object, is_read, self.truth) {
            Some(fate) => fate,
            None => Fate::draw(&mut self.random, &self.plan.odds, cut, times_out - self.truth),
        };
        fate.answers.iter_mut().for_each(|delay| *delay += self.plan.lateness);
        if is_dropped {
            fate = Fate { faults: vec!["connections dropped"], ..Fate::default() };
        }
        trace!(
            self,
            "{} sends {}: {} within {:?}, {fate:?}",
            node.identity,
            request.id,
            trace::operation(&request.operation),
            request.timeout
        );
        self.count.requests += 1;
        fate.faults.iter().for_each(|kind| self.count.fault(kind));
        let sent = Sent { id: request.id, object, knowing: knowing.0, absent: knowing.1, at: self.truth };
        // No process is held up after the end of the faults.
        let last = self.plan.heal_at + SECOND;
        self.queue.push((times_out + held_up).min(last.max(times_out)), to, What::TimesOut(request.id));
        let request = Rc::new(request);
        for arrival in fate.arrivals {
            let at = self.arrives_at(held_up + arrival);
            self.queue.push(at, to, What::Arrives(sent, Rc::clone(&request), fate.answers.clone()));
        }
        if let Some((error, delay)) = fate.error {
            self.queue.push(self.truth + held_up + delay, to, What::Answer(sent, StoreResponse::Failed(error)));
        }
        Ok(())
    }

    /// Returns the time at which a request arrives that is under way for `delay`.
    ///
    /// A request that is under way when the faults end arrives soon after.
    pub fn arrives_at(&self, delay: Nanos) -> Nanos {
        (self.truth + delay).min((self.plan.heal_at + SECOND).max(self.truth + 100 * MILLI))
    }

    pub fn arrives(
        &mut self,
        to: Option<To>,
        sent: Sent,
        request: &StoreRequest,
        answers: Vec<Nanos>,
    ) -> Result<(), Violation> {
        let result = self.stores[sent.object].apply(request)?;
        self.one_counter();
        trace!(self, "store {} answers {} of {to:?} with {}", sent.object, sent.id, trace::result(&result));
        for delay in answers {
            let answer = match (&request.operation, &result) {
                (_, Err(_)) if self.plan.certain => {
                    StoreResponse::Failed(StoreError::new(StoreErrorKind::NotApplied, "refused"))
                }
                (_, Err(kind)) => StoreResponse::Failed(StoreError::new(*kind, "refused")),
                (Operation::Get(look), Ok(observed)) => StoreResponse::Read(*look, observed.clone()),
                (_, Ok(Some(observed))) => StoreResponse::Written(observed.clone()),
                (_, Ok(None)) => continue,
            };
            self.queue.push(self.truth + delay, to, What::Answer(sent, answer));
        }
        Ok(())
    }

    pub fn answer(&mut self, index: usize, sent: Sent, answer: StoreResponse) -> Result<(), Violation> {
        let id = sent.id;
        let under_way = self.nodes[index].record.in_flight == Some(id);
        if !under_way && !self.plan.late_answers {
            return Ok(());
        }
        let reading = self.nodes[index].reading;
        let held_up = if reading.is_none() && under_way { self.held_up() } else { 0 };
        if held_up > 0 {
            let node = &mut self.nodes[index];
            trace!(self, "{} is held up for {held_up} ns before it hears of {id}", node.identity);
            node.reading = Some(node.clock.local(self.truth));
            let (until, to) = (self.truth + held_up, (index, node.incarnation));
            node.paused_until = Some(until);
            self.queue.push(until, Some(to), What::Answer(sent, answer));
            return Ok(());
        }
        if under_way {
            // Commands that the user sent before the answer take effect before the answer.
            self.obey_all(index)?;
        }
        let node = &mut self.nodes[index];
        let shown = match &answer {
            StoreResponse::Read(_, Some(observed)) | StoreResponse::Written(observed) => {
                Some((observed.version, observed.record.clone()))
            }
            _ => None,
        };
        let record = &mut node.record;
        let closed = matches!(answer, StoreResponse::Written(_)) && record.known.0 > sent.knowing;
        let mut went_back = false;
        match &answer {
            StoreResponse::Read(_, Some(observed)) => {
                went_back = record.note_read(sent, observed.version, &observed.record)
            }
            StoreResponse::Read(_, None) if sent.knowing == record.known.0 => record.note_absence(),
            StoreResponse::Written(observed) => record.note_written(sent, observed.version, &observed.record),
            _ => {}
        }
        trace!(self, "{} hears of {id}: {}", node.identity, trace::answer(&answer));
        let was_valid = node.valid(self.truth);
        let now = reading.unwrap_or(node.clock.local(self.truth));
        let connection = &mut node.record.connection;
        match &answer {
            StoreResponse::Failed(error) if !is_conflict(error.kind()) => connection.broke(),
            _ if under_way => connection.answered(self.truth, now),
            _ => {}
        }
        if under_way && !matches!(answer, StoreResponse::Failed(_)) {
            // Half of the connections are to a distant server.
            let idle_timeout = id.is_multiple_of(2).then_some(Duration::from_secs(5));
            node.candidate().handle(now, Input::IdleTimeout(idle_timeout));
            let store_time = self.plan.store_time(self.truth);
            store_time.into_iter().for_each(|time| node.candidate().handle(now, time));
        }
        node.candidate().handle(now, Input::Response(id, answer));
        self.listen(index, was_valid)?;
        let node = &mut self.nodes[index];
        node.reading = None;
        if went_back && node.valid(self.truth) {
            return Err(format!("{} leads on although the store went back", node.identity).into());
        }
        // The election ignores an answer to a write that is no longer in doubt, and may ignore a late answer. The next
        // renewal then finds the other object.
        if let Some((version, record)) = shown.filter(|_| under_way && !closed && !self.plan.suite.is_on_two()) {
            self.checks.one_object(node, version, &record.uid, self.truth)?;
        }
        if under_way {
            node.record.in_flight = None;
        }
        self.drive(index)
    }

    pub fn give_up(&mut self, index: usize, id: u64, kind: StoreErrorKind) -> Result<(), Violation> {
        let error = StoreError::new(kind, "no answer");
        if let Some(lock) = &mut self.nodes[index].lock {
            lock.gives_up(&error);
        }
        let sent = Sent { id, object: 0, knowing: 0, absent: false, at: 0 };
        self.answer(index, sent, StoreResponse::Failed(error))
    }

    /// Passes on a command from another thread, even while a request is under way.
    pub fn tell(&mut self, index: usize, command: Command) -> Result<(), Violation> {
        self.nodes[index].commands.push_back(command);
        self.drive(index)
    }

    pub fn obey_all(&mut self, index: usize) -> Result<(), Violation> {
        while let Some(command) = self.nodes[index].commands.pop_front() {
            let node = &mut self.nodes[index];
            trace!(self, "{} obeys {command:?}", node.identity);
            node.requests.told();
            let was_valid = node.valid(self.truth);
            let now = node.clock.local(self.truth);
            let mut shown = None;
            let input = match command {
                Command::Campaign(id, wants) => node.campaigns_for(id, wants, self.plan.job_period),
                Command::JobEnded(exit_code) => Input::JobEnded { exit_code },
                Command::Withdraw(id) => Input::Withdraw(id),
                Command::StepDown => Input::StepDown(DrainLimit::AsSet),
                Command::Fitness(is_fit) => {
                    node.is_fit = is_fit;
                    Input::Fitness(FitnessSource::Program, is_fit)
                }
                Command::GuardDropped { at } => {
                    node.release_by = self
                        .plan
                        .steady_network
                        .then(|| self.truth + node.settings.release_timeout.as_nanos() as Nanos + SECOND / 2);
                    Input::GuardDropped { at }
                }
                Command::Close => Input::Close,
                Command::WatchOpened { from_scratch } => Input::WatchOpened { from_scratch },
                Command::WatchLost => Input::WatchEnded,
                Command::Heard { received_at, change, former_since } => {
                    node.heard_in_second();
                    let record = &mut node.record;
                    // A node can recognize events from before a restore only after it has found out about the restore.
                    let knows_since = record.doubts_since;
                    record.hears_of_former =
                        former_since.is_some_and(|since| knows_since.is_some_and(|at| at >= since));
                    shown = record.note_event(&change);
                    Input::Watched { received_at, change }
                }
            };
            node.candidate().handle(now, input);
            self.listen(index, was_valid)?;
            self.nodes[index].record.hears_of_former = false;
            if let Some((version, uid)) = shown.filter(|_| !self.plan.suite.is_on_two()) {
                self.checks.one_object(&self.nodes[index], version, &uid, self.truth)?;
            }
        }
        Ok(())
    }

    /// Returns `true` if no other writer can have written a record with the node's identity.
    fn knows_its_writes(&self, index: usize) -> bool {
        match self.plan.suite {
            // A node recognizes its own writes even if they are applied late or twice, after a deletion.
            Suite::Operator => !self.plan.uid_blind && !self.stores[0].is_forged(&self.nodes[index].identity),
            Suite::SharedIdentity | Suite::Restored => false,
            _ => true,
        }
    }

    /// Carries out the effects of the candidate, and returns `true` if there were any.
    pub fn listen(&mut self, index: usize, was_valid: bool) -> Result<bool, Violation> {
        let mut told = false;
        let knows_its_writes = self.knows_its_writes(index);
        while let Some(effect) = self.nodes[index].candidate().effect() {
            told = true;
            let node = &mut self.nodes[index];
            trace!(self, "{} wants {effect:?}", node.identity);
            match effect {
                Effect::TermEnded(..) | Effect::NewLeader { .. } | Effect::NoLeader { is_expiry: false, .. }
                    if node.record.hears_of_former =>
                {
                    return Err(format!("{} believes a server of a former life: {effect:?}", node.identity).into());
                }
                Effect::Offer { campaign, deadline, fencing_token } => {
                    if node.term.as_ref().is_some_and(|term| term.guard_held || term.lost.is_none()) {
                        return Err(format!("{} elected during a term", node.identity).into());
                    }
                    match self.plan.suite.is_on_two() {
                        true => self.checks.elected_on_two(node, fencing_token, &self.stores)?,
                        false => self.checks.elected(node, fencing_token, &self.plan, &self.stores[0])?,
                    }
                    self.count.terms += 1;
                    if self.plan.suite.is_on_two() {
                        self.count.fault(if node.kind == Kind::Both { "terms on both" } else { "terms on one" });
                    }
                    self.note_handover();
                    let node = &mut self.nodes[index];
                    // The token is a version of the record that was acquired last.
                    node.record.acts_by(fencing_token);
                    node.begins_job(campaign);
                    let waits = node.wants.take_if(|_| campaign == node.campaigns).is_some();
                    // The caller may stop waiting without withdrawing the campaign.
                    let wanted = waits && (self.truth >= self.plan.heal_at || self.random.u8(..16) > 0);
                    // A request that was written with the winning record ends the term at once.
                    let is_requested = deadline.was_ended_early() && deadline.reason() == StopReason::Requested;
                    node.term = Some(Term {
                        serial: self.count.terms,
                        deadline,
                        token: fencing_token,
                        uid: node.record.known_uid().cloned(),
                        valid_until: 0,
                        over: false,
                        lost: None,
                        stepped_down: false,
                        guard_held: wanted,
                        astray_since: None,
                    });
                    node.refresh();
                    // A node that was held up could not know that the term had expired meanwhile.
                    if !node.valid(self.truth) && node.reading.is_none() && !is_requested {
                        return Err(format!("{} elected to a term that has run out", node.identity).into());
                    }
                    if !wanted {
                        let now = node.clock.local(self.truth);
                        node.candidate().handle(now, Input::NotTaken);
                    } else if self.plan.suite.is_on_two() {
                        self.begin_work(index);
                    }
                }
                Effect::TermEnded(reason, _) => {
                    match reason {
                        StopReason::Unfit => self.count.fault("terms of the unfit"),
                        StopReason::NoProgress => self.count.fault("terms without progress"),
                        _ => {}
                    }
                    match self.plan.suite.is_on_two() {
                        true => self.checks.lost_on_two(node, &reason, &self.plan)?,
                        false => self.checks.lost(node, &reason, was_valid, &self.plan, &self.stores[0])?,
                    }
                    if reason == StopReason::Requested {
                        self.requested(index)?;
                    } else if !matches!(reason, StopReason::Released | StopReason::SteppedDown) {
                        self.count.fault("losses");
                    }
                    let node = &mut self.nodes[index];
                    if let Some(term) = &mut node.term {
                        term.lost = Some(reason);
                    }
                }
                Effect::RoundOver { campaign, .. }
                | Effect::Refuse { campaign, .. }
                | Effect::NotFit { campaign }
                | Effect::JobNotDue { campaign, .. } => {
                    node.wants.take_if(|_| campaign == node.campaigns);
                }
                Effect::JobRecorded(is_recorded) => self.job_recorded(index, is_recorded)?,
                Effect::Released => node.release_by = None,
                Effect::CancelAt(id, at) => {
                    let to = (index, node.incarnation);
                    self.queue.push(node.clock.when(at).max(self.truth), Some(to), What::Interrupt(id));
                }
                Effect::RestartWatch => self.restart_watch(index),
                Effect::IdentityConflict(_) if knows_its_writes => {
                    return Err(format!("{} does not know its own writes", node.identity).into());
                }
                Effect::Fitness { is_fit, .. } => node.is_aside = node.is_fit && !is_fit,
                Effect::NewLeader { leader, .. } => self.may_report(index, Some(&leader))?,
                Effect::NoLeader { is_expiry: false, .. } => self.may_report(index, None)?,
                Effect::IdentityConflict(_)
                | Effect::Log(_)
                | Effect::NoLeader { .. }
                | Effect::WritesRefused(_)
                | Effect::DrainEnded(_)
                | Effect::Renewed(_) => {}
            }
        }
        let node = &mut self.nodes[index];
        node.refresh();
        match node.is_aside && node.is_fit && node.is_led_by_another {
            true => Err(format!("{} stays aside although another candidate leads", node.identity).into()),
            false => Ok(told),
        }
    }
}

fn is_conflict(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Conflict | StoreErrorKind::AlreadyExists | StoreErrorKind::NotApplied)
}
