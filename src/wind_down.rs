//! For how long a term that its holder ended is renewed while its work winds down.

use std::time::Duration;

use crate::config::Settings;

/// For how long a term that its holder ended is renewed while its work winds down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindDown {
    /// As it is set: where nothing is set, until the guard goes.
    AsSet,
    /// As it is set, and where nothing is for the renew deadline: the work has panicked.
    Bounded,
    /// For so long.
    Within(Duration),
}

impl WindDown {
    /// At most for so long; `None` until the guard goes.
    pub(crate) fn limit(self, settings: &Settings) -> Option<Duration> {
        match self {
            Self::AsSet => settings.wind_down,
            Self::Bounded => Some(settings.wind_down.unwrap_or(settings.renew_deadline)),
            Self::Within(limit) => Some(limit),
        }
    }
}
