//! The limit of renewals after a term has ended while its guard still exists.

use std::time::Duration;

use crate::election::settings::Settings;

/// The limit of renewals after a term has ended while its guard still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainLimit {
    /// The drain timeout. If there is none, renewals continue until the guard is dropped.
    AsSet,
    /// The drain timeout. If there is none, the renew deadline. Used after a panic and for an unfit candidate.
    Bounded,
    /// This duration, but at most the drain timeout.
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
