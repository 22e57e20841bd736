//! A candidacy: a session, and the decision whether the candidate is fit.

use std::time::Duration;

use log::Level;

use crate::election::Step;
use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::fitness::{FitnessChange, FitnessPolicy};
use crate::election::candidate::notice::{LogEvent, Notice};
use crate::election::candidate::session::{Effect, Input, Session};
use crate::election::settings::Settings;
use crate::election::timer::Timer;
use crate::store::StoreErrorKind;
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

/// A candidacy without I/O, threads or channels.
///
/// The candidacy decides whether the candidate is fit, and limits the log lines about fitness.
#[derive(Debug)]
pub struct Candidacy {
    settings: Arc<Settings>,
    session: Session,
    fitness: FitnessPolicy,
    /// The log of changes of fitness.
    flaps: FailureLog,
}

impl Candidacy {
    /// Creates a candidacy without observations.
    ///
    /// `seed` feeds the jitter and the random digits of `acquireTime`.
    pub fn new(settings: impl Into<Arc<Settings>>, seed: u64) -> Self {
        let settings = settings.into();
        let fitness = FitnessPolicy::new(Arc::clone(&settings));
        let mut session = Session::new(Arc::clone(&settings), seed);
        if !fitness.may_acquire() {
            let line = "fitness unknown: not acquiring the lease until the probe or this process reports fit";
            session.push(Effect::Log(Notice::new(Level::Debug, line)));
            session.push(Effect::Fitness { is_fit: false, pause: Duration::ZERO });
        }
        Self { settings, session, fitness, flaps: FailureLog::default() }
    }

    /// Handles an input at any time, even while a request is under way.
    pub fn handle(&mut self, now: Moment, input: Input) {
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
                self.session.push(Effect::NotFit { campaign: id });
            }
            input => self.session.handle(now, input),
        }
        if std::mem::take(&mut self.session.is_requested) {
            self.fitness.step_aside();
        } else if self.session.other_holder().is_some() {
            self.fitness.another_leads();
        }
        self.judge_fitness(timer);
    }

    /// Returns the next effect.
    pub fn effect(&mut self) -> Option<Effect> {
        self.session.effect()
    }

    /// Returns the next step.
    ///
    /// The driver calls this function when no request is under way.
    pub fn next(&mut self, now: Now) -> Step {
        let mut timer = Timer::new(now.local, now.local + self.settings.lease_duration);
        self.judge_fitness(&mut timer);
        if self.session.is_finished(&mut timer) {
            return Step::Finished;
        }
        self.session.next(now, &mut timer).map_or_else(|| Step::Wait(timer.wake()), Step::Send)
    }

    /// Returns the time when the leader's lease expires without another renewal.
    pub fn leader_until(&self) -> Option<Moment> {
        self.session.leader_until()
    }

    /// Returns `true` if this candidate may hold the record without a guard.
    pub fn may_hold(&self) -> bool {
        self.session.may_hold()
    }

    /// Returns `true` if another process wrote this candidate's identity to the record.
    pub fn has_twin(&self) -> bool {
        self.session.has_twin()
    }

    /// Returns the identity of this candidate.
    pub fn identity(&self) -> &str {
        self.session.identity()
    }

    #[cfg(test)]
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Adds the effects of each change of fitness, and passes each change to the sessions.
    fn judge_fitness(&mut self, timer: &mut Timer) {
        let now = timer.now();
        while let Some(change) = self.fitness.change(timer) {
            let round = self.session.round().filter(|_| matches!(change, FitnessChange::Unfit(_)));
            round.into_iter().for_each(|campaign| self.session.push(Effect::NotFit { campaign }));
            fitness_effects(change, &mut self.flaps, now).for_each(|effect| self.session.push(effect));
            self.session.handle(now, Input::SetFit(self.fitness.may_acquire()));
            round.into_iter().for_each(|campaign| self.session.handle(now, Input::Withdraw(campaign)));
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
