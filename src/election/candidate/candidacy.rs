//! A candidacy: the sessions on one or two records, with the decisions about all of them.

use std::time::Duration;

use log::Level;

use crate::election::Step;
use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::fitness::{FitnessChange, FitnessPolicy};
use crate::election::candidate::notice::{LogEvent, Notice};
use crate::election::candidate::pair::Pair;
use crate::election::candidate::session::{Effect, Input, Session};
use crate::election::candidate::side::Side;
use crate::election::settings::Settings;
use crate::election::timer::Timer;
use crate::store::StoreErrorKind;
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

/// A candidacy without I/O, threads or channels.
///
/// A runtime drives a candidacy like a [`Session`], with a side for each input and step.
///
/// The candidacy decides whether the candidate is fit, and limits the log lines about fitness.
#[derive(Debug)]
pub struct Candidacy {
    settings: Arc<Settings>,
    records: Sessions,
    fitness: FitnessPolicy,
    /// The log of changes of fitness.
    flaps: FailureLog,
}

#[derive(Debug)]
enum Sessions {
    /// A single record, whose side is the primary.
    One(Box<Session>),
    Both(Box<Pair>),
}

impl Candidacy {
    /// Creates a candidacy on one record, or on two records if `second` is a seed.
    ///
    /// Each seed feeds the session of one record.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64, second: Option<u64>) -> Self {
        let settings = settings.into();
        let fitness = FitnessPolicy::new(Arc::clone(&settings));
        let mut records = match second {
            None => Sessions::One(Box::new(Session::new(Arc::clone(&settings), seed))),
            Some(second) => Sessions::Both(Box::new(Pair::new(Arc::clone(&settings), [seed, second]))),
        };
        if !fitness.may_acquire() {
            let line = "fitness unknown: not acquiring the lease until the probe or this process reports fit";
            records.push(Effect::Log(Notice::new(Level::Debug, line)));
            records.push(Effect::Fitness { is_fit: false, pause: Duration::ZERO });
        }
        Self { settings, records, fitness, flaps: FailureLog::default() }
    }

    /// Handles an input at any time, even while a request is under way.
    ///
    /// `side` only matters for an input about one record.
    pub fn handle(&mut self, now: Moment, side: Side, input: Input) {
        // The time aside starts with the release, because the work may drain for longer than a lease duration.
        if let Input::GuardGone { .. } | Input::NotTaken = input {
            self.fitness.guard_gone(now);
        }
        // The call of `next` after the input registers the wakeups.
        let timer = &mut Timer::new(now, now);
        // The probe timeout may have passed before this event.
        self.judge_fitness(timer);
        match input {
            Input::Fitness(source, is_fit) => {
                self.fitness.report(now, source, is_fit);
                self.judge_fitness(timer);
            }
            Input::Campaign { id, once: true } if !self.fitness.may_acquire() => {
                self.records.push(Effect::NotFit { campaign: id });
            }
            input => self.records.handle(now, side, input),
        }
        // Requests are for candidates on one record.
        if let Sessions::One(session) = &mut self.records {
            if std::mem::take(&mut session.is_requested) {
                self.fitness.step_aside();
            } else if session.other_holder().is_some() {
                self.fitness.another_leads();
            }
            self.judge_fitness(timer);
        }
    }

    /// Returns the next effect, and its side.
    pub fn effect(&mut self) -> Option<(Side, Effect)> {
        match &mut self.records {
            Sessions::One(session) => session.effect().map(|effect| (Side::Primary, effect)),
            Sessions::Both(pair) => pair.effect(),
        }
    }

    /// Returns the next step of a side.
    ///
    /// The driver calls this function when no request of the side is under way.
    pub fn next(&mut self, now: Now, side: Side) -> Step {
        let mut timer = Timer::new(now.local, now.local + self.settings.lease_duration);
        self.judge_fitness(&mut timer);
        match &mut self.records {
            Sessions::One(session) => {
                if session.is_finished(&mut timer) {
                    return Step::Finished;
                }
                session.next(now, &mut timer).map_or_else(|| Step::Wait(timer.wake()), Step::Send)
            }
            Sessions::Both(pair) => pair.next(now, &mut timer, side),
        }
    }

    /// Returns a side whose last step is outdated.
    ///
    /// The driver must call [`next`](Self::next) for this side again.
    pub fn touched(&mut self) -> Option<Side> {
        match &mut self.records {
            Sessions::One(_) => None,
            Sessions::Both(pair) => pair.touched(),
        }
    }

    /// Returns the time when the leader's lease expires without another renewal.
    pub fn leader_until(&self) -> Option<Moment> {
        self.ask(Session::leader_until, Pair::leader_until)
    }

    /// Returns `true` if this candidate may hold a record without a guard.
    pub fn may_hold(&self) -> bool {
        self.ask(Session::may_hold, Pair::may_hold)
    }

    /// Returns `true` if a record that must be released is not released yet.
    #[cfg(feature = "_internals")]
    pub fn is_giving_back(&self) -> bool {
        self.ask(|_| false, Pair::is_giving_back)
    }

    /// Returns `true` if another process wrote this candidate's identity to the record.
    pub fn has_twin(&self) -> bool {
        self.ask(Session::has_twin, Pair::has_twin)
    }

    /// Returns the identity of this candidate.
    pub fn identity(&self) -> &str {
        self.ask(Session::identity, Pair::identity)
    }

    fn ask<'a, T>(&'a self, one: fn(&'a Session) -> T, both: fn(&'a Pair) -> T) -> T {
        match &self.records {
            Sessions::One(session) => one(session),
            Sessions::Both(pair) => both(pair),
        }
    }

    /// Returns the session of a candidacy on one record.
    #[cfg(test)]
    pub(super) fn session(&self) -> &Session {
        let Sessions::One(session) = &self.records else { panic!("two records") };
        session
    }

    /// Adds the effects of each change of fitness, and passes each change to the sessions.
    fn judge_fitness(&mut self, timer: &mut Timer) {
        let now = timer.now();
        while let Some(change) = self.fitness.change(timer) {
            let round = self.ask(Session::round, Pair::round).filter(|_| matches!(change, FitnessChange::Unfit(_)));
            round.into_iter().for_each(|campaign| self.records.push(Effect::NotFit { campaign }));
            fitness_effects(change, &mut self.flaps, now).for_each(|effect| self.records.push(effect));
            self.records.handle(now, Side::Primary, Input::SetFit(self.fitness.may_acquire()));
            round.into_iter().for_each(|campaign| self.records.handle(now, Side::Primary, Input::Withdraw(campaign)));
        }
    }
}

impl Sessions {
    fn handle(&mut self, now: Moment, side: Side, input: Input) {
        match self {
            Self::One(session) => session.handle(now, input),
            Self::Both(pair) => pair.handle(now, side, input),
        }
    }

    /// Adds an effect that is about the whole candidacy.
    fn push(&mut self, effect: Effect) {
        match self {
            Self::One(session) => session.push(effect),
            Self::Both(pair) => pair.push(effect),
        }
    }
}

/// Returns the effects of a change of fitness.
///
/// Repeated changes are logged at `warn` at most once a minute.
fn fitness_effects(change: FitnessChange, log: &mut FailureLog, now: Moment) -> impl Iterator<Item = Effect> + use<> {
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
        FitnessChange::Fit(pause) if pause.is_zero() => (Some((true, pause)), Level::Info, "fit to lead".to_owned()),
        FitnessChange::Fit(pause) => {
            let level = log.works(now).map_or(Level::Info, |works| works.level);
            let line = format!("fit again: may acquire the lease in {}", humantime::format_duration(pause));
            (Some((true, pause)), level, line)
        }
        FitnessChange::MayAcquire => (None, Level::Debug, "fit again: may acquire the lease now".to_owned()),
    };
    let notice = match &fitness {
        Some((true, _)) => Notice::of_event(level, LogEvent::BecameFit, line),
        Some((false, _)) => Notice::of_event(level, LogEvent::BecameUnfit, line),
        None => Notice::new(level, line),
    };
    let fitness = fitness.map(|(is_fit, pause)| Effect::Fitness { is_fit, pause });
    std::iter::once(Effect::Log(notice)).chain(fitness)
}
