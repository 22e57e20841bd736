//! For how long a term that its holder ended is renewed while its work winds down.

use std::time::Duration;

use crate::election::settings::Settings;

/// For how long a term that its holder ended is renewed while its work winds down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindDown {
    /// As it is set: where nothing is set, until the guard goes.
    AsSet,
    /// As it is set, and where nothing is for the renew deadline: the work has panicked.
    Bounded,
    /// For so long, and no longer than is set.
    Within(Duration),
}

impl WindDown {
    /// At most for so long; `None` until the guard goes.
    pub(crate) fn limit(self, settings: &Settings) -> Option<Duration> {
        match self {
            Self::AsSet => settings.wind_down,
            Self::Bounded => Some(settings.wind_down.unwrap_or(settings.renew_deadline)),
            Self::Within(limit) => Some(settings.wind_down.map_or(limit, |set| set.min(limit))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;

    #[test]
    fn of_what_is_set_and_what_was_said_the_shorter_counts() {
        let seconds = Duration::from_secs;
        let limits = |set: Option<u64>| {
            let settings = Config::default().validate().unwrap();
            let settings = Settings { wind_down: set.map(seconds), ..settings };
            [WindDown::AsSet, WindDown::Bounded, WindDown::Within(seconds(60)), WindDown::Within(seconds(1))]
                .map(|it| it.limit(&settings).map(|limit| limit.as_secs()))
        };
        assert_eq!(limits(None), [None, Some(10), Some(60), Some(1)]);
        assert_eq!(limits(Some(30)), [Some(30), Some(30), Some(30), Some(1)]);
    }
}
