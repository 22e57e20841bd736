//! The elector's thread: carries out what its session decides.

use log::Level;

use crate::campaign::slot::CampaignSlot;
use crate::clock::{self, Moment, Now};
use crate::election::deadline::Deadline;
use crate::election::{Operation, Request, Response, Step};
use crate::error::Error;
use crate::guard::LeaderGuard;
use crate::handle::{Command, InFlight, InterruptDelays, Link, ReleaseAck, this_is_a_runtime};
use crate::health::HealthCheck;
use crate::log_fields::{LogFields, log_with};
use crate::runtime::session::{Effect, Input, Session};
use crate::runtime::watcher::Watcher;
use crate::stop_reason::StopReason;
use crate::store::Call;
use crate::store::entry::Entry;
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
    session: Session,
    entry: Entry,
    commands: Receiver<Command>,
    watcher: Watcher,
    shared: Shared,
    term: Option<Arc<Term>>,
    /// Who waits for the release of the last term.
    releasing: Option<Sender<ReleaseAck>>,
    fields: LogFields,
}

impl Driver {
    pub(crate) fn new(
        session: Session,
        entry: Entry,
        commands: Receiver<Command>,
        watcher: Watcher,
        shared: Shared,
        fields: LogFields,
    ) -> Self {
        Self { session, entry, commands, watcher, shared, term: None, releasing: None, fields }
    }

    /// Runs until the elector and its last guard are gone.
    pub(crate) fn run(mut self) {
        this_is_a_runtime();
        loop {
            self.take_all();
            let step = self.session.next(Now::read());
            // What the session has just noticed comes before the next request, which may take long.
            let has_acted = self.act();
            match step {
                Step::Send(request) => self.send(request),
                Step::Wait(_) if has_acted => {}
                Step::Wait(until) => self.wait(until),
                Step::Finished => break,
            }
        }
    }

    fn wait(&mut self, until: Moment) {
        // The line never disconnects: this thread holds an end of it itself.
        if let Ok(command) = self.commands.recv_timeout(until.since(clock::now())) {
            self.take(command);
        }
    }

    fn take_all(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.take(command);
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Campaign { id, once } => self.handle(Input::Campaign { id, once }),
            Command::Withdraw(id) => self.handle(Input::Withdraw(id)),
            Command::StepDown => self.handle(Input::StepDown),
            Command::GuardGone { ack, at } => {
                let _ = ack.try_send(ReleaseAck::Received);
                self.releasing = Some(ack);
                self.handle(Input::GuardGone { at });
                self.shared.health.guard_gone();
            }
            Command::Close => self.handle(Input::Close),
            Command::Watched { received_at, change, .. } => self.handle(Input::Watched { received_at, change }),
            Command::WatchOpened { from_scratch } => self.handle(Input::WatchOpened { from_scratch }),
            Command::WatchLost => self.handle(Input::WatchEnded),
        }
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(clock::now(), input);
        self.act();
    }

    fn send(&mut self, Request { id, operation, timeout }: Request) {
        let call = Call::new(timeout, self.shared.in_flight.begin());
        let response = match operation {
            Operation::Get(context) => self.entry.get(&call).map(|observed| Response::Read(context, observed)),
            Operation::Create(record) => self.entry.create(&record, &call).map(Response::Written),
            Operation::Update(base, record) => self.entry.update(&base, &record, &call).map(Response::Written),
        };
        // A withdrawal that came while the request was under way counts before its answer.
        self.take_all();
        self.handle(Input::Response(id, response.unwrap_or_else(Response::Failed)));
        self.shared.delays.set(self.session.interrupt_after());
    }

    /// Does what the session wants done. True if there was anything.
    fn act(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(effect) = self.session.effect() {
            has_acted = true;
            match effect {
                Effect::Offer { campaign, deadline, fencing_token } => self.offer(campaign, deadline, fencing_token),
                Effect::Refuse { campaign, error } => {
                    self.shared.pending.fail(campaign, Error::Store(error), &self.shared.link);
                }
                Effect::RoundOver { campaign, error } => {
                    self.shared.pending.round_over(campaign, error.map(Error::Store), &self.shared.link);
                }
                Effect::TermEnded(reason) => self.term_ended(reason),
                Effect::Released => {
                    self.term = None;
                    if let Some(ack) = self.releasing.take() {
                        let _ = ack.try_send(ReleaseAck::Released);
                    }
                }
                Effect::Leader(leader) => {
                    match &leader {
                        Some(leader) => {
                            log_with!(Level::Info, self.fields, leader = leader.as_str(); "{leader} leads");
                        }
                        None => log_with!(Level::Info, self.fields; "nobody leads"),
                    }
                    self.shared.subscriptions.new_leader(leader);
                }
                Effect::RestartWatch => self.watcher.restart(),
                Effect::Log(notice) | Effect::IdentityConflict(notice) => notice.log(&self.fields),
            }
        }
        has_acted
    }

    fn offer(&mut self, campaign: Option<u64>, deadline: Arc<Deadline>, fencing_token: u64) {
        let Some(campaign) = campaign.filter(|id| self.shared.pending.is_waiting(*id)) else {
            return self.session.handle(clock::now(), Input::NotTaken);
        };
        self.fields.token = Some(fencing_token);
        log_with!(Level::Info, self.fields; "started leading, fencing token {fencing_token}");
        let term = Arc::new(Term::new(deadline, fencing_token));
        self.term = Some(Arc::clone(&term));
        self.shared.subscriptions.started(fencing_token);
        let guard = LeaderGuard::new(term, Arc::clone(&self.shared.link));
        // Between the question above and here the campaign may have been withdrawn.
        if let Some(unwanted) = self.shared.pending.win(campaign, guard, &self.shared.link) {
            unwanted.forget();
            self.session.handle(clock::now(), Input::NotTaken);
        }
    }

    fn term_ended(&mut self, reason: StopReason) {
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
        let session = Session::new(&settings, 1);
        let delays = Arc::new(InterruptDelays::new(session.interrupt_after()));
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
        Driver::new(session, entry, commands, watcher, shared, fields)
    }

    /// One whose election has found its term superseded, and has not told yet.
    fn superseded() -> (Driver, Receiver<Transition>, LeaderGuard) {
        let mut driver = driver();
        let transitions = driver.shared.subscriptions.subscribe();
        let (sender, receiver) = channel::bounded(1);
        let id = driver.shared.pending.enter(Delivery::Term(sender), &driver.shared.link).unwrap();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        driver.offer(Some(id), Arc::clone(&deadline), 7);
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
        driver.term_ended(StopReason::Superseded { by: None });
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
        let id = driver.shared.pending.enter(Delivery::Term(sender), &driver.shared.link).unwrap();
        driver.offer(Some(id), Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600))), 7);
        let guard = receiver.recv().unwrap().unwrap();
        guard.step_down();
        driver.term_ended(StopReason::Superseded { by: None });
        assert_eq!(guard.check().unwrap_err().reason, StopReason::SteppedDown);
        let told: Vec<_> = transitions.try_iter().collect();
        let stopped = Transition::StoppedLeading { reason: StopReason::SteppedDown };
        assert_eq!(told, [Transition::StartedLeading { fencing_token: 7 }, stopped]);
        guard.forget();
    }
}
