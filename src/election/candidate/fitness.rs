//! The fitness of a candidate, and the delay after a recovery: the rule 'Fitness'.

use std::time::Duration;

use crate::election::settings::Settings;
use crate::election::timer::Timer;
use crate::util::backoff::Backoff;
use crate::util::clock::Moment;
use crate::util::sync::Arc;

/// The source of a fitness report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FitnessSource {
    /// A probe, which must report repeatedly.
    Probe,
    /// The program, which reports each change.
    Program,
}

/// The fitness of a candidate, by its sources and by accepted requests to step down.
///
/// Without a report, the candidate is unfit.
#[derive(Debug)]
pub struct FitnessPolicy {
    settings: Arc<Settings>,
    /// The last report of the probe. `None` if there is no probe.
    probe: Option<FitUntil>,
    /// The last report of the program. `None` if the program does not report.
    program: Option<FitUntil>,
    state: EvaluatedFitness,
    /// The delays after recoveries, which grow.
    ///
    /// The delays start over after fitness for twice the last delay.
    recoveries: Backoff,
    pause: Duration,
    after_request: AfterRequest,
}

/// The unfitness after an accepted request to step down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterRequest {
    Over,
    /// The requested term still drains.
    Drains,
    /// The guard of the requested term was dropped. The unfitness ends at this moment.
    Until(Moment),
}

/// The fitness by one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FitUntil {
    NoReport,
    Unfit,
    /// The source reported fit. Without another report, the candidate becomes unfit at this moment.
    Moment(Moment),
    NextReport,
}

/// The last evaluation of the sources.
#[derive(Debug, Clone, Copy)]
enum EvaluatedFitness {
    /// Before the first evaluation.
    New,
    /// The candidate has not been fit since this time.
    NeverFit {
        since: Moment,
        /// `true` if the reason was reported.
        is_explained: bool,
    },
    Unfit,
    /// Unfit only because of a request to step down.
    Aside,
    Fit {
        since: Moment,
        /// The end of the delay after a recovery.
        waits_until: Option<Moment>,
    },
}

/// A change of fitness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FitnessChange {
    /// The candidate became unfit, for this reason.
    Unfit(&'static str),
    /// The candidate became unfit for at most this duration, because it was asked to step down.
    Aside(Duration),
    /// The candidate has not been fit yet, for this reason.
    NotYet(&'static str),
    /// The candidate became fit, and may acquire the lease after this delay.
    Fit(Duration),
    /// The delay after a recovery has ended.
    MayAcquire,
}

impl FitnessPolicy {
    /// Creates a policy for the fitness sources in `settings`.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self {
            probe: settings.is_probed.then_some(FitUntil::NoReport),
            program: settings.has_fitness.then_some(FitUntil::NoReport),
            state: match settings.has_fitness_source() {
                true => EvaluatedFitness::New,
                false => EvaluatedFitness::Fit { since: Moment::default(), waits_until: None },
            },
            recoveries: Backoff::default(),
            pause: Duration::ZERO,
            after_request: AfterRequest::Over,
            settings,
        }
    }

    /// Notes the report of a source.
    pub(crate) fn report(&mut self, now: Moment, source: FitnessSource, is_fit: bool) {
        let (report, fit_until) = match source {
            FitnessSource::Probe => (&mut self.probe, FitUntil::Moment(now + self.settings.probe_timeout)),
            FitnessSource::Program => (&mut self.program, FitUntil::NextReport),
        };
        *report = Some(if is_fit { fit_until } else { FitUntil::Unfit });
    }

    /// Makes the candidate unfit until a lease duration after [`guard_dropped`](Self::guard_dropped), because it was asked to
    /// step down.
    pub(crate) fn step_aside(&mut self) {
        self.after_request = AfterRequest::Drains;
    }

    /// Notes that the guard of the term was dropped.
    pub(crate) fn guard_dropped(&mut self, now: Moment) {
        if self.after_request != AfterRequest::Over {
            self.after_request = AfterRequest::Until(now + self.settings.lease_duration);
        }
    }

    /// Ends the effect of a request to step down.
    pub(crate) fn another_leads(&mut self) {
        self.after_request = AfterRequest::Over;
    }

    /// Returns the next change up to now, if there is one. Otherwise registers the time of the next change.
    pub(crate) fn change(&mut self, timer: &mut Timer) -> Option<FitnessChange> {
        let now = timer.now();
        let is_fit = [self.program, self.probe].into_iter().flatten().all(|source| source.is_fit(timer));
        if matches!(self.after_request, AfterRequest::Until(until) if timer.is_due(until)) {
            self.after_request = AfterRequest::Over;
        }
        if let EvaluatedFitness::New = self.state {
            self.state = EvaluatedFitness::NeverFit { since: now, is_explained: false };
        }
        match self.state {
            EvaluatedFitness::Fit { since, .. } if !is_fit => {
                self.state = EvaluatedFitness::Unfit;
                if now.since(since) >= self.pause.saturating_mul(2) {
                    self.recoveries.reset();
                }
                Some(FitnessChange::Unfit(self.reason()))
            }
            EvaluatedFitness::Fit { .. } if self.after_request != AfterRequest::Over => {
                self.state = EvaluatedFitness::Aside;
                Some(FitnessChange::Aside(self.settings.lease_duration))
            }
            EvaluatedFitness::Fit { since, waits_until: Some(until) } if timer.is_due(until) => {
                self.state = EvaluatedFitness::Fit { since, waits_until: None };
                Some(FitnessChange::MayAcquire)
            }
            EvaluatedFitness::Fit { .. } => None,
            _ if is_fit && self.after_request == AfterRequest::Over => Some(FitnessChange::Fit(self.becomes_fit(now))),
            EvaluatedFitness::Aside if !is_fit => {
                self.state = EvaluatedFitness::Unfit;
                None
            }
            EvaluatedFitness::NeverFit { since, is_explained: false }
                if self.probe == Some(FitUntil::Unfit) || timer.is_due(since + self.settings.probe_timeout) =>
            {
                self.state = EvaluatedFitness::NeverFit { since, is_explained: true };
                Some(FitnessChange::NotYet(self.reason()))
            }
            _ => None,
        }
    }

    /// Notes that the candidate has become fit, and returns the delay before it may acquire.
    fn becomes_fit(&mut self, now: Moment) -> Duration {
        self.pause = match self.state {
            EvaluatedFitness::Unfit => {
                let longest = self.settings.lease_duration.saturating_mul(4);
                self.recoveries.pause(self.settings.retry_period, longest)
            }
            // The first time and after a request, the candidate has not recovered, so there is no delay.
            _ => Duration::ZERO,
        };
        let waits_until = (!self.pause.is_zero()).then_some(now + self.pause);
        self.state = EvaluatedFitness::Fit { since: now, waits_until };
        self.pause
    }

    pub(crate) fn may_acquire(&self) -> bool {
        matches!(self.state, EvaluatedFitness::Fit { waits_until: None, .. })
    }

    /// Returns the reason why the candidate is unfit.
    fn reason(&self) -> &'static str {
        match (self.program, self.probe) {
            (Some(FitUntil::NoReport), _) => "this process has not reported that it is fit",
            (Some(FitUntil::Unfit), _) => "this process reported that it is unfit",
            (_, Some(FitUntil::NoReport)) => "the probe has not returned yet",
            (_, Some(FitUntil::Unfit)) => "the probe returned false or panicked",
            _ => "the probe did not return true within the probe timeout",
        }
    }
}

impl FitUntil {
    /// Returns `true` if the source reports fit now. Registers the moment at which the report expires.
    fn is_fit(self, timer: &mut Timer) -> bool {
        match self {
            Self::NoReport | Self::Unfit => false,
            Self::Moment(until) => !timer.is_due(until),
            Self::NextReport => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    impl FitnessPolicy {
        fn changed(&mut self, now: Moment) -> Option<FitnessChange> {
            self.change(&mut Timer::new(now, now))
        }

        /// Returns the time of the next change without another report.
        fn wakes(&mut self, now: Moment) -> Option<Moment> {
            let mut timer = Timer::new(now, Moment::from_nanos(u64::MAX));
            assert_eq!(self.change(&mut timer), None);
            Some(timer.wake()).filter(|at| *at != Moment::from_nanos(u64::MAX))
        }
    }

    /// Returns a policy for the defaults.
    ///
    /// The lease duration is 15 s, the renew deadline 10 s, and the retry period 2 s.
    fn fitness(is_probed: bool, has_fitness: bool) -> FitnessPolicy {
        let settings = Config::default().validate().unwrap();
        FitnessPolicy::new(Arc::new(Settings { is_probed, has_fitness, ..settings }))
    }

    const fn fit_after(seconds: u64) -> Option<FitnessChange> {
        Some(FitnessChange::Fit(Duration::from_secs(seconds)))
    }

    #[test]
    fn candidate_without_probe_is_fit() {
        let mut fitness = fitness(false, false);
        assert!(fitness.may_acquire());
        assert_eq!((fitness.changed(at(0)), fitness.wakes(at(0))), (None, None));
    }

    #[test]
    fn unknown_fitness_is_unfit_and_the_first_yes_counts_at_once() {
        let mut fitness = fitness(true, false);
        assert_eq!(fitness.changed(at(5)), None, "unfit from the beginning");
        assert!(!fitness.may_acquire());
        fitness.report(at(6), FitnessSource::Probe, true);
        assert_eq!(fitness.changed(at(6)), fit_after(0));
        assert!(fitness.may_acquire());
    }

    #[test]
    fn silence_is_a_no() {
        let mut fitness = fitness(true, false);
        fitness.report(at(0), FitnessSource::Probe, true);
        fitness.changed(at(0));
        fitness.report(at(2), FitnessSource::Probe, true);
        assert_eq!((fitness.changed(at(11)), fitness.wakes(at(11))), (None, Some(at(12))));
        assert_eq!(
            fitness.changed(at(12)),
            Some(FitnessChange::Unfit("the probe did not return true within the probe timeout"))
        );
        assert_eq!((fitness.changed(at(13)), fitness.wakes(at(13))), (None, None));
    }

    #[test]
    fn every_fitness_source_must_agree() {
        let mut fitness = fitness(true, true);
        fitness.report(at(0), FitnessSource::Probe, true);
        assert_eq!(fitness.changed(at(0)), None);
        fitness.report(at(1), FitnessSource::Program, true);
        assert_eq!(fitness.changed(at(1)), fit_after(0));
        fitness.report(at(2), FitnessSource::Program, false);
        assert_eq!(fitness.changed(at(2)), Some(FitnessChange::Unfit("this process reported that it is unfit")));
        fitness.report(at(3), FitnessSource::Program, true);
        fitness.report(at(3), FitnessSource::Probe, false);
        assert_eq!(fitness.changed(at(3)), None);
    }

    #[test]
    fn flapping_candidate_waits_longer_until_it_stays_fit() {
        let mut fitness = fitness(false, true);
        fitness.report(at(0), FitnessSource::Program, true);
        assert_eq!(fitness.changed(at(0)), fit_after(0));
        let mut seconds = 10;
        // The candidate is unfit for a second, waits for the delay, and stays fit for `fit_for` seconds after the
        // delay.
        let mut recovers = |fit_for: fn(u64) -> u64| {
            fitness.report(at(seconds), FitnessSource::Program, false);
            fitness.changed(at(seconds));
            seconds += 1;
            fitness.report(at(seconds), FitnessSource::Program, true);
            let Some(FitnessChange::Fit(pause)) = fitness.changed(at(seconds)) else { panic!("{fitness:?}") };
            assert!(!fitness.may_acquire());
            let fit_at = at(seconds);
            seconds += pause.as_secs();
            assert_eq!(fitness.wakes(fit_at), Some(at(seconds)));
            assert_eq!(fitness.changed(at(seconds)), Some(FitnessChange::MayAcquire));
            assert!(fitness.may_acquire());
            seconds += fit_for(pause.as_secs());
            pause.as_secs()
        };
        let pauses: Vec<_> = (0..40).map(|_| recovers(|pause| pause - 1)).collect();
        assert_eq!(pauses[..7], [2, 4, 8, 16, 32, 60, 60]);
        assert!(pauses[7..].iter().all(|pause| *pause == 60));
        assert_eq!([recovers(|pause| pause), recovers(|_| 0)], [60, 2]);
    }

    #[test]
    fn requested_candidate_returns_without_a_delay() {
        let mut asked = fitness(false, false);
        for another_leads in [false, true, false] {
            asked.step_aside();
            assert_eq!(asked.changed(at(0)), Some(FitnessChange::Aside(Duration::from_secs(15))));
            asked.guard_dropped(at(0));
            assert_eq!((asked.changed(at(14)), asked.may_acquire()), (None, false));
            assert_eq!(asked.wakes(at(14)), Some(at(15)));
            if another_leads {
                asked.another_leads();
            }
            let returns_at = at(if another_leads { 14 } else { 15 });
            assert_eq!(asked.changed(returns_at), fit_after(0));
            assert_eq!((asked.changed(returns_at), asked.may_acquire()), (None, true));
        }
    }

    #[test]
    fn requested_candidate_that_becomes_unfit_has_to_recover() {
        let mut asked = fitness(false, true);
        asked.report(at(0), FitnessSource::Program, true);
        asked.changed(at(0));
        asked.step_aside();
        asked.guard_dropped(at(1));
        assert_eq!(asked.changed(at(1)), Some(FitnessChange::Aside(Duration::from_secs(15))));
        asked.report(at(2), FitnessSource::Program, false);
        assert_eq!(asked.changed(at(2)), None, "already unfit");
        asked.report(at(3), FitnessSource::Program, true);
        assert_eq!((asked.changed(at(3)), asked.may_acquire()), (None, false), "the request still applies");
        assert_eq!((asked.changed(at(16)), asked.may_acquire()), (fit_after(2), false));
    }

    #[test]
    fn reason_for_initial_unfitness_is_logged_once() {
        let why = |why| Some(FitnessChange::NotYet(why));
        let mut silent = fitness(true, false);
        assert_eq!((silent.changed(at(0)), silent.wakes(at(0))), (None, Some(at(10))));
        assert_eq!(silent.changed(at(10)), why("the probe has not returned yet"));
        assert_eq!((silent.changed(at(11)), silent.wakes(at(11))), (None, None));

        let mut refused = fitness(true, false);
        refused.changed(at(0));
        for second in 1..20 {
            refused.report(at(second), FitnessSource::Probe, false);
            assert_eq!(
                refused.changed(at(second)),
                if second == 1 { why("the probe returned false or panicked") } else { None }
            );
        }

        let mut refused = fitness(false, true);
        refused.report(at(0), FitnessSource::Program, false);
        assert_eq!(refused.changed(at(0)), None);
        assert_eq!(refused.changed(at(10)), why("this process reported that it is unfit"));
        let mut silent = fitness(false, true);
        assert_eq!(silent.changed(at(0)), None);
        assert_eq!(silent.changed(at(10)), why("this process has not reported that it is fit"));
    }

    #[test]
    fn candidate_unfit_while_it_waits_restarts_its_wait() {
        let mut fitness = fitness(false, true);
        for (second, is_fit) in [(0, true), (1, false), (2, true), (3, false)] {
            fitness.report(at(second), FitnessSource::Program, is_fit);
            fitness.changed(at(second));
        }
        assert_eq!(fitness.wakes(at(3)), None);
        fitness.report(at(4), FitnessSource::Program, true);
        assert_eq!((fitness.changed(at(4)), fitness.wakes(at(4))), (fit_after(4), Some(at(8))));
    }
}
