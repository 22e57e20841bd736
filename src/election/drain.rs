//! The limit on renewals after a term has ended.

use std::time::Duration;

use crate::election::settings::Settings;

/// The time for which the lease of an ended term is renewed while its guard exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainLimit {
    /// The configured drain timeout. Without a drain timeout, renewals continue until the guard is dropped.
    AsSet,
    /// The configured drain timeout, or else the renew deadline.
    ///
    /// Applies after a request, after a panic, and to an unfit candidate.
    Bounded,
    /// The duration in the variant, at most the configured drain timeout.
    Within(Duration),
}

impl DrainLimit {
    /// Returns the limit, or `None` if renewals continue until the guard is dropped.
    pub(crate) fn limit(self, settings: &Settings) -> Option<Duration> {
        match self {
            Self::AsSet => settings.drain_timeout,
            Self::Bounded => Some(settings.drain_timeout.unwrap_or(settings.renew_deadline)),
            Self::Within(limit) => Some(settings.drain_timeout.map_or(limit, |set| set.min(limit))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;

    #[test]
    fn shorter_of_drain_timeout_and_step_down_limit_counts() {
        let seconds = Duration::from_secs;
        let limits = |set: Option<u64>| {
            let settings = Config::default().validate().unwrap();
            let settings = Settings { drain_timeout: set.map(seconds), ..settings };
            [DrainLimit::AsSet, DrainLimit::Bounded, DrainLimit::Within(seconds(60)), DrainLimit::Within(seconds(1))]
                .map(|it| it.limit(&settings).map(|limit| limit.as_secs()))
        };
        assert_eq!(limits(None), [None, Some(10), Some(60), Some(1)]);
        assert_eq!(limits(Some(30)), [Some(30), Some(30), Some(30), Some(1)]);
    }
}
