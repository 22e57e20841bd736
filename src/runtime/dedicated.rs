//! The elector's thread: carries out what the election decides.

use log::Level;

use crate::campaign::slot::CampaignSlot;
use crate::clock::{self, Moment, Now};
use crate::config::Settings;
use crate::election::deadline::Deadline;
use crate::election::{Election, Event, Operation, Request, Response, Step};
use crate::error::Error;
use crate::guard::LeaderGuard;
use crate::handle::{Command, InFlight, InterruptDelays, Link, ReleaseAck};
use crate::health::HealthCheck;
use crate::log_fields::{LogFields, log_with};
use crate::runtime::failure_log::FailureLog;
use crate::runtime::failures::{Failed, Failures, Verb};
use crate::runtime::watcher::Watcher;
use crate::stop_reason::StopReason;
use crate::store::entry::Entry;
use crate::store::{Call, StoreErrorKind};
use crate::sync::Arc;
use crate::sync::channel::{Receiver, Sender};
use crate::term::Term;
use crate::transition::Subscriptions;

/// What the elector's thread shares with the elector.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) pending: Arc<CampaignSlot>,
    pub(crate) delays: Arc<InterruptDelays>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) health: HealthCheck,
}

pub(crate) struct Driver {
    election: Election,
    entry: Entry,
    commands: Receiver<Command>,
    watcher: Watcher,
    shared: Shared,
    reclaims: bool,
    term: Option<Arc<Term>>,
    /// Who waits for the release of the last term.
    releasing: Option<Sender<ReleaseAck>>,
    failures: Failures,
    /// Of other processes with our identity.
    conflicts: FailureLog,
    fields: LogFields,
}

impl Driver {
    pub(crate) fn new(
        election: Election,
        settings: &Settings,
        entry: Entry,
        commands: Receiver<Command>,
        watcher: Watcher,
        shared: Shared,
        fields: LogFields,
    ) -> Self {
        Self {
            reclaims: settings.reclaim_own_identity,
            election,
            entry,
            commands,
            watcher,
            shared,
            term: None,
            releasing: None,
            failures: Failures::new(settings.renew_deadline),
            conflicts: FailureLog::default(),
            fields,
        }
    }

    /// Runs until the elector and its last guard are gone.
    pub(crate) fn run(mut self) {
        self.shared.link.this_is_the_thread();
        loop {
            self.handle_all();
            let step = self.election.next(Now::read());
            // What the election has just noticed comes before the next request, which may take long.
            let told = self.tell();
            match step {
                Step::Send(request) => self.send(request),
                Step::Wait(_) if told => {}
                Step::Wait(until) => self.wait(until),
                Step::Finished => break,
            }
        }
    }

    fn wait(&mut self, until: Moment) {
        // The line never disconnects: this thread holds an end of it itself.
        if let Ok(command) = self.commands.recv_timeout(until.since(clock::now())) {
            self.handle(command);
        }
    }

    fn handle_all(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.handle(command);
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            // One that has been answered by now, with an error or at a stop, is nobody's any more.
            Command::Campaign { once } if self.shared.pending.is_waiting() => self.election.campaign(once),
            Command::Campaign { .. } => {}
            Command::Withdraw => self.election.withdraw(),
            Command::StepDown => self.election.step_down(clock::now()),
            Command::GuardGone { ack, at } => {
                let _ = ack.try_send(ReleaseAck::Received);
                self.releasing = Some(ack);
                self.election.guard_gone(clock::now(), at);
                self.tell();
                self.shared.health.guard_gone();
            }
            Command::Close => self.election.close(),
            Command::Watched { received_at, change, .. } => self.election.on_change(clock::now(), received_at, change),
            Command::WatchOpened { from_scratch } => self.election.watch_opened(clock::now(), from_scratch),
            Command::WatchLost => self.election.watch_lost(clock::now()),
        }
        self.tell();
    }

    fn send(&mut self, Request { id, operation, timeout }: Request) {
        let verb = Verb::of(&operation);
        let call = Call::new(timeout, self.shared.in_flight.begin());
        let answer = match operation {
            Operation::Get(look) => self.entry.get(&call).map(|observed| Response::Read(look, observed)),
            Operation::Create(record) => self.entry.create(&record, &call).map(Response::Written),
            Operation::Update(base, record) => self.entry.update(&base, &record, &call).map(Response::Written),
        };
        // A withdrawal that came while the request was under way counts before its answer.
        self.handle_all();
        let now = clock::now();
        let answer = answer.unwrap_or_else(Response::Failed);
        let Failed { notice, is_permanent } = match &answer {
            Response::Failed(error) => self.failures.failed(now, verb, error),
            _ => Failed { notice: self.failures.succeeded(verb), is_permanent: false },
        };
        if let Some(notice) = notice {
            notice.log(&self.fields);
        }
        if let Response::Failed(error) = &answer
            && is_permanent
            && self.shared.pending.is_waiting()
        {
            // Before the election hears of it: a round would end of it too, and one of the two ends meet the next campaign.
            self.election.withdraw();
            self.shared.pending.fail(Error::Store(error.clone()), &self.shared.link);
        }
        self.election.on_response(now, id, answer);
        self.shared.delays.set(self.election.interrupt_after());
        self.tell();
    }

    /// Passes on what the election has to tell. True if there was anything.
    fn tell(&mut self) -> bool {
        let mut told = false;
        while let Some(event) = self.election.event() {
            told = true;
            match event {
                Event::Leader(leader) => {
                    match &leader {
                        Some(leader) => {
                            log_with!(Level::Info, self.fields, leader = leader.as_str(); "{leader} leads");
                        }
                        None => log_with!(Level::Info, self.fields; "nobody leads"),
                    }
                    self.shared.subscriptions.new_leader(leader);
                }
                Event::Elected { deadline, fencing_token } => self.elected(deadline, fencing_token),
                Event::TermEnded(reason) => self.lost(reason),
                Event::Released => {
                    self.term = None;
                    if let Some(ack) = self.releasing.take() {
                        let _ = ack.try_send(ReleaseAck::Released);
                    }
                }
                Event::RoundOver => {
                    let error = self.failures.take_last().map(Error::Store);
                    self.shared.pending.round_over(error, &self.shared.link);
                }
                Event::WatchStale => {
                    log_with!(Level::Debug, self.fields; "the watch is given up for a new one");
                    self.watcher.restart();
                }
                Event::IdentityConflict => {
                    self.conflicts.works();
                    let told = self.conflicts.failed(clock::now(), StoreErrorKind::Conflict);
                    let level = if told == Some(Level::Warn) { Level::Error } else { Level::Debug };
                    log_with!(level, self.fields; "another process uses our identity: every candidate needs its own");
                }
                Event::Predecessor if self.reclaims => log_with!(
                    Level::Info, self.fields; "held under our identity, by a process before this one: it is reclaimed"
                ),
                Event::Predecessor => log_with!(
                    Level::Info,
                    self.fields;
                    "held under our identity, by a process before this one: it has to run out, unless \
                     reclaim_own_identity(true) says that no two processes ever share one"
                ),
            }
        }
        told
    }

    fn elected(&mut self, deadline: Arc<Deadline>, fencing_token: u64) {
        if !self.shared.pending.is_waiting() {
            let now = clock::now();
            return self.election.guard_gone(now, now);
        }
        self.fields.token = Some(fencing_token);
        log_with!(Level::Info, self.fields; "started leading, fencing token {fencing_token}");
        let term = Arc::new(Term::new(deadline, fencing_token));
        self.term = Some(Arc::clone(&term));
        self.shared.subscriptions.started(fencing_token);
        let guard = LeaderGuard::new(term, Arc::clone(&self.shared.link));
        // Between the question above and here the campaign may have been withdrawn.
        if let Some(unwanted) = self.shared.pending.win(guard, &self.shared.link) {
            unwanted.forget();
            let now = clock::now();
            self.election.guard_gone(now, now);
        }
    }

    fn lost(&mut self, reason: StopReason) {
        let Some(term) = &self.term else { return };
        // Whoever ended the term first has said why.
        let reason = term.end(reason);
        let level = match &reason {
            StopReason::Released | StopReason::SteppedDown => Level::Info,
            _ => Level::Warn,
        };
        log_with!(level, self.fields, reason = reason.to_string().as_str(); "stopped leading: {reason}");
        self.fields.token = None;
        if reason != StopReason::Released {
            self.shared.health.term_ended();
        }
        self.shared.subscriptions.stopped(reason);
    }
}

impl Drop for Driver {
    /// However the thread ends, nobody may be left waiting for it, and no term may outlive it.
    fn drop(&mut self) {
        if let Some(term) = self.term.take() {
            // If it has been told already, nothing more is.
            self.shared.subscriptions.stopped(term.end(StopReason::ElectorPanicked));
        }
        if std::thread::panicking() {
            self.shared.health.thread_panicked();
        }
        self.shared.pending.stop(&self.shared.link);
        self.shared.subscriptions.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::campaign::slot::Delivery;
    use crate::elector::LeaderElector;
    use crate::runtime::tests::entry;
    use crate::sync::channel;
    use crate::transition::Transition;

    /// One whose thread is this test.
    fn driver() -> Driver {
        let settings = LeaderElector::builder("jobs").settings().unwrap();
        let election = Election::new(settings.clone(), 1);
        let delays = Arc::new(InterruptDelays::new(election.interrupt_after()));
        let entry = entry();
        let (sender, commands) = channel::unbounded();
        let in_flight = Arc::new(InFlight::default());
        let told = (sender.clone(), Arc::clone(&delays), Arc::clone(&in_flight));
        let watcher = Watcher::spawn(entry.clone(), told.0, &settings, told.1, told.2).unwrap();
        let fields = LogFields::new(&entry, &settings.identity);
        let link =
            Link::new(sender, Arc::clone(&in_flight), settings.release_timeout, Arc::clone(&delays), fields.clone());
        let shared = Shared {
            link: Arc::new(link),
            pending: Arc::default(),
            delays,
            in_flight,
            subscriptions: Arc::default(),
            health: HealthCheck::new(settings.lease_duration),
        };
        Driver::new(election, &settings, entry, commands, watcher, shared, fields)
    }

    /// One whose election has found its term superseded, and has not told yet.
    fn superseded() -> (Driver, Receiver<Transition>, LeaderGuard) {
        let mut driver = driver();
        let transitions = driver.shared.subscriptions.subscribe();
        let (sender, receiver) = channel::bounded(1);
        driver.shared.pending.enter(Delivery::Term(sender), &driver.shared.link).unwrap();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        driver.elected(Arc::clone(&deadline), 7);
        let guard = receiver.recv().unwrap().unwrap();
        deadline.end(clock::now(), StopReason::Superseded { by: None });
        (driver, transitions, guard)
    }

    #[test]
    fn whoever_asks_before_the_thread_has_told_hears_the_true_reason() {
        let (_driver, _transitions, guard) = superseded();
        assert_eq!(guard.check().unwrap_err().reason, StopReason::Superseded { by: None });
        guard.forget();
    }

    #[test]
    fn whoever_drops_before_the_thread_has_told_does_not_make_it_a_release() {
        let (mut driver, transitions, guard) = superseded();
        let view = guard.leadership();
        guard.abandon();
        driver.lost(StopReason::Superseded { by: None });
        assert_eq!(view.check().unwrap_err().reason, StopReason::Superseded { by: None });
        let stopped = Transition::StoppedLeading { reason: StopReason::Superseded { by: None } };
        assert_eq!(transitions.try_iter().last(), Some(stopped));
    }

    /// The holder has ended its term, and its word is still on the way when the thread learns of another end.
    #[test]
    fn whoever_ends_a_term_first_says_why_to_everybody() {
        let mut driver = driver();
        let transitions = driver.shared.subscriptions.subscribe();
        let (sender, receiver) = channel::bounded(1);
        driver.shared.pending.enter(Delivery::Term(sender), &driver.shared.link).unwrap();
        driver.elected(Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600))), 7);
        let guard = receiver.recv().unwrap().unwrap();
        guard.step_down();
        driver.lost(StopReason::Superseded { by: None });
        assert_eq!(guard.check().unwrap_err().reason, StopReason::SteppedDown);
        let told: Vec<_> = transitions.try_iter().collect();
        let stopped = Transition::StoppedLeading { reason: StopReason::SteppedDown };
        assert_eq!(told, [Transition::StartedLeading { fencing_token: 7 }, stopped]);
        guard.forget();
    }
}
