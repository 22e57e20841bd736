//! Whether a candidate is fit to lead, and from when it may acquire: the rule 'Fitness'.

use std::time::Duration;

use crate::clock::Moment;
use crate::config::Settings;

/// Who says whether a candidate is fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FitnessSource {
    /// A probe, that is to say so again and again.
    Probe,
    /// The program, once it has changed.
    Program,
}

/// What has been said, and what follows. What is not known is a no.
#[derive(Debug)]
pub struct FitnessPolicy {
    retry_period: Duration,
    longest_pause: Duration,
    probe_timeout: Duration,
    /// When the probe last said yes, unless it said no then. `None` where none is asked.
    probe: Option<Option<Moment>>,
    /// What the program said last. `None` where it is not asked.
    program: Option<bool>,
    is_fit: bool,
    /// Whether it was ever fit.
    was_fit: bool,
    /// How often it has become fit again since a term lasted for as long as that had it wait.
    recoveries: u32,
    pause: Duration,
    /// Until when it waits, having become fit again.
    waits_until: Option<Moment>,
}

/// What changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FitnessChange {
    /// It is not fit, and why.
    Unfit(&'static str),
    /// It is fit, and may acquire after so long.
    Fit(Duration),
    /// It may acquire.
    MayAcquire,
}

impl FitnessPolicy {
    /// Of a candidate whose settings say who is asked.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            retry_period: settings.retry_period,
            longest_pause: settings.lease_duration.saturating_mul(4),
            probe_timeout: settings.probe_timeout,
            probe: settings.is_probed.then_some(None),
            program: settings.has_fitness.then_some(false),
            is_fit: !(settings.is_probed || settings.has_fitness),
            was_fit: false,
            recoveries: 0,
            pause: Duration::ZERO,
            waits_until: None,
        }
    }

    /// Somebody who is asked has said whether it is fit.
    pub(crate) fn said(&mut self, now: Moment, source: FitnessSource, is_fit: bool) {
        match source {
            FitnessSource::Probe => self.probe = Some(is_fit.then_some(now)),
            FitnessSource::Program => self.program = Some(is_fit),
        }
    }

    /// What has changed by now, if anything has.
    pub(crate) fn change(&mut self, now: Moment) -> Option<FitnessChange> {
        let is_fit = self.program != Some(false) && self.silent_at().is_none_or(|at| at.is_some_and(|at| now < at));
        match (self.is_fit, is_fit) {
            (true, false) => {
                (self.is_fit, self.waits_until) = (false, None);
                Some(FitnessChange::Unfit(match self.probe {
                    _ if self.program == Some(false) => "the program says so",
                    Some(Some(_)) => "its probe has said nothing for the probe timeout",
                    _ => "its probe says so",
                }))
            }
            (false, true) => {
                self.is_fit = true;
                // What has never been fit has not failed either.
                self.pause =
                    if std::mem::replace(&mut self.was_fit, true) { self.next_pause() } else { Duration::ZERO };
                self.waits_until = (!self.pause.is_zero()).then_some(now + self.pause);
                Some(FitnessChange::Fit(self.pause))
            }
            (true, true) if self.waits_until.take_if(|until| *until <= now).is_some() => {
                Some(FitnessChange::MayAcquire)
            }
            _ => None,
        }
    }

    /// A term is over that lasted so long.
    pub(crate) fn term_over(&mut self, lasted: Duration) {
        if lasted >= self.pause {
            self.recoveries = 0;
        }
    }

    /// When the silence of the probe makes it unfit.
    fn falls_silent_at(&self) -> Option<Moment> {
        self.silent_at().flatten().filter(|_| self.is_fit)
    }

    /// How long a request may take that might take so long: it does not hold up what the silence of a probe means.
    pub(crate) fn cap(&self, now: Moment, timeout: Duration) -> Duration {
        self.falls_silent_at().map_or(timeout, |at| timeout.min(at.since(now)).max(Duration::from_millis(1)))
    }

    /// When something changes by itself.
    pub(crate) fn changes_at(&self) -> Option<Moment> {
        [self.falls_silent_at(), self.waits_until].into_iter().flatten().min()
    }

    pub(crate) fn may_acquire(&self) -> bool {
        self.is_fit && self.waits_until.is_none()
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.retry_period.saturating_mul(1_u32.checked_shl(self.recoveries).unwrap_or(u32::MAX));
        self.recoveries = self.recoveries.saturating_add(1).min(31);
        pause.min(self.longest_pause)
    }

    /// When the silence of a probe is a no; now, if it has said so.
    #[expect(clippy::option_option, reason = "the outer one is whether there is a probe")]
    fn silent_at(&self) -> Option<Option<Moment>> {
        self.probe.map(|yes_at| yes_at.map(|at| at + self.probe_timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elector::LeaderElector;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    /// With 15 s, 10 s and 2 s.
    fn fitness(is_probed: bool, has_fitness: bool) -> FitnessPolicy {
        let settings = LeaderElector::builder("jobs").settings().unwrap();
        FitnessPolicy::new(&Settings { is_probed, has_fitness, ..settings })
    }

    const fn fit_after(seconds: u64) -> Option<FitnessChange> {
        Some(FitnessChange::Fit(Duration::from_secs(seconds)))
    }

    #[test]
    fn who_is_not_asked_is_fit() {
        let mut fitness = fitness(false, false);
        assert!(fitness.may_acquire());
        assert_eq!((fitness.change(at(0)), fitness.changes_at()), (None, None));
    }

    #[test]
    fn what_is_not_known_is_a_no_and_the_first_yes_counts_at_once() {
        let mut fitness = fitness(true, false);
        assert_eq!(fitness.change(at(5)), None, "unfit from the beginning");
        assert!(!fitness.may_acquire());
        fitness.said(at(6), FitnessSource::Probe, true);
        assert_eq!(fitness.change(at(6)), fit_after(0));
        assert!(fitness.may_acquire());
    }

    #[test]
    fn silence_is_a_no() {
        let mut fitness = fitness(true, false);
        fitness.said(at(0), FitnessSource::Probe, true);
        fitness.change(at(0));
        fitness.said(at(2), FitnessSource::Probe, true);
        assert_eq!((fitness.change(at(11)), fitness.changes_at()), (None, Some(at(12))));
        assert_eq!(
            fitness.change(at(12)),
            Some(FitnessChange::Unfit("its probe has said nothing for the probe timeout"))
        );
        assert_eq!((fitness.change(at(13)), fitness.changes_at()), (None, None));
    }

    #[test]
    fn each_who_is_asked_has_to_say_yes() {
        let mut fitness = fitness(true, true);
        fitness.said(at(0), FitnessSource::Probe, true);
        assert_eq!(fitness.change(at(0)), None);
        fitness.said(at(1), FitnessSource::Program, true);
        assert_eq!(fitness.change(at(1)), fit_after(0));
        fitness.said(at(2), FitnessSource::Program, false);
        assert_eq!(fitness.change(at(2)), Some(FitnessChange::Unfit("the program says so")));
        fitness.said(at(3), FitnessSource::Program, true);
        fitness.said(at(3), FitnessSource::Probe, false);
        assert_eq!(fitness.change(at(3)), None);
    }

    #[test]
    fn who_becomes_fit_again_and_again_waits_longer_and_longer_until_a_term_has_lasted_that_long() {
        let mut fitness = fitness(false, true);
        let mut seconds = 0;
        let mut recovers = |fitness: &mut FitnessPolicy| {
            seconds += 1_000;
            fitness.said(at(seconds), FitnessSource::Program, false);
            fitness.change(at(seconds));
            fitness.said(at(seconds + 1), FitnessSource::Program, true);
            let Some(FitnessChange::Fit(pause)) = fitness.change(at(seconds + 1)) else { panic!("{fitness:?}") };
            assert_eq!(fitness.may_acquire(), pause.is_zero());
            if !pause.is_zero() {
                assert_eq!(fitness.changes_at(), Some(at(seconds + 1) + pause));
                assert_eq!(fitness.change(at(seconds + 1) + pause), Some(FitnessChange::MayAcquire));
            }
            assert!(fitness.may_acquire());
            pause.as_secs()
        };
        let pauses: Vec<_> = (0..40).map(|_| recovers(&mut fitness)).collect();
        assert_eq!(pauses[..8], [0, 2, 4, 8, 16, 32, 60, 60]);
        assert!(pauses[8..].iter().all(|pause| *pause == 60));
        fitness.term_over(Duration::from_secs(59));
        assert_eq!(recovers(&mut fitness), 60);
        fitness.term_over(Duration::from_secs(60));
        assert_eq!(recovers(&mut fitness), 2);
    }

    #[test]
    fn who_is_unfit_while_it_waits_waits_anew() {
        let mut fitness = fitness(false, true);
        for (second, is_fit) in [(0, true), (1, false), (2, true), (3, false)] {
            fitness.said(at(second), FitnessSource::Program, is_fit);
            fitness.change(at(second));
        }
        assert_eq!(fitness.changes_at(), None);
        fitness.said(at(4), FitnessSource::Program, true);
        assert_eq!((fitness.change(at(4)), fitness.changes_at()), (fit_after(4), Some(at(8))));
    }
}
