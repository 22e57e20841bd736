//! What is worth a line in the log, before it is written.

use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::Works;
use crate::election::candidate::side::Side;
use crate::election::stop_reason::StopReason;
use crate::store::StoreError;
use crate::util::log_fields::{LogFields, log_with};

/// Follows the identity in the record, if another process wrote the record under the identity of this candidate.
pub(crate) const TWIN: &str = ": another process uses this identity, or one that ended without a release did";

/// A change of the election's state: the field `event` of its line, and what else that line has as a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogEvent {
    StartedLeading,
    StoppedLeading(StopReason),
    NewLeader(Option<String>),
    BecameFit,
    BecameUnfit,
}

/// A line, without the fields that every line about an election has.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    pub(crate) level: Level,
    text: String,
    event: Option<LogEvent>,
    error: Option<String>,
    /// A candidacy limits how often such a line is a warning.
    pub(crate) is_about_lateness: bool,
}

impl Notice {
    pub(crate) fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), event: None, error: None, is_about_lateness: false }
    }

    /// `text`, a colon, and the error, which is a field of the line as well.
    pub(crate) fn of_error(level: Level, text: impl std::fmt::Display, error: &StoreError) -> Self {
        Self { error: Some(error.to_string()), ..Self::new(level, format!("{text}: {error}")) }
    }

    /// The line about a change of the election's state.
    pub(crate) fn of_event(level: Level, event: LogEvent, text: impl Into<String>) -> Self {
        Self { event: Some(event), ..Self::new(level, text) }
    }

    /// The line about a new holder of the record, or none.
    pub(crate) fn of_leader(leader: Option<String>, identity: &str, has_twin: bool) -> Self {
        let text = match &leader {
            Some(leader) if *leader != identity => format!("{leader} leads"),
            Some(leader) if has_twin => format!("{leader} leads{TWIN}"),
            Some(leader) => format!("{leader} leads, which is this candidate"),
            None => "nobody leads".to_owned(),
        };
        Self::of_event(Level::Info, LogEvent::NewLeader(leader), text)
    }

    /// The line about the end of a term.
    pub(crate) fn of_end(reason: &StopReason) -> Self {
        let level = if reason.was_asked_for() { Level::Info } else { Level::Warn };
        Self::of_event(level, LogEvent::StoppedLeading(reason.clone()), format!("stopped leading: {reason}"))
    }

    /// The line beside the end of a term, if the term ended because its work made no progress.
    pub(crate) fn of_stall(reason: &StopReason, within: Option<Duration>) -> Option<Self> {
        let within = humantime::format_duration(within.filter(|_| *reason == StopReason::NoProgress)?);
        let text = format!(
            "no progress for {within}: if the work hangs, the end of the process alone ends it; if it is slow, progress_timeout is too short"
        );
        Some(Self::new(Level::Warn, text))
    }

    /// The line about an acquisition whose work would have had to make progress already.
    pub(crate) fn too_late(took: Duration, within: Duration) -> Self {
        let within = humantime::format_duration(within);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let took = humantime::format_duration(Duration::from_millis(millis));
        let text = format!(
            "won, and given back: that took {took}, and the work has to make progress within {within}: raise progress_timeout"
        );
        Self { is_about_lateness: true, ..Self::new(Level::Warn, text) }
    }

    /// That `what` works again, which had failed, perhaps long ago: who only watches asks for nothing.
    pub(crate) fn works_again(what: &str, Works { level, failed, ago }: &Works) -> Self {
        let ago = humantime::format_duration(Duration::from_millis(ago.as_millis().try_into().unwrap_or(u64::MAX)));
        Self::new(*level, format!("{what} works again: it last failed {ago} ago, with `{}`", failed.name()))
    }

    pub(crate) fn log(&self, fields: &LogFields) {
        use LogEvent::{BecameFit, BecameUnfit, NewLeader, StartedLeading, StoppedLeading};
        let (level, text) = (self.level, &self.text);
        match (&self.event, self.error.as_deref()) {
            (Some(StartedLeading), _) => log_with!(level, *fields, event = "started_leading"; "{text}"),
            (Some(StoppedLeading(reason)), _) => {
                log_with!(level, *fields, event = "stopped_leading", reason = reason.to_string().as_str(); "{text}");
            }
            (Some(NewLeader(leader)), _) => {
                log_with!(level, *fields, event = "new_leader", leader = leader.as_deref(); "{text}");
            }
            (Some(BecameFit), _) => log_with!(level, *fields, event = "became_fit"; "{text}"),
            (Some(BecameUnfit), _) => log_with!(level, *fields, event = "became_unfit"; "{text}"),
            (None, Some(error)) => log_with!(level, *fields, error = error; "{text}"),
            (None, None) => log_with!(level, *fields; "{text}"),
        }
    }
}

/// A line about an election, with the record and the token of the term that it is about.
pub(crate) struct LogRecord {
    /// `None` where it is about all of them.
    pub(crate) about: Option<Side>,
    pub(crate) fencing_token: Option<u64>,
    pub(crate) notice: Notice,
}
