//! Log lines of a candidate: their texts, levels and events.

use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::Recovery;
use crate::election::stop_reason::StopReason;
use crate::store::StoreError;
use crate::util::log_fields::{LogFields, log_with};

/// The text after a leader's identity if another process uses this candidate's identity.
pub(crate) const SHARED_IDENTITY: &str =
    " (another process uses this identity, or used this identity and ended without a release)";

/// A change of the election's state.
///
/// The log line has the field `event` and a field for the data of the variant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogEvent {
    StartedLeading,
    StoppedLeading(StopReason),
    NewLeader(Option<String>),
    BecameFit,
    BecameUnfit,
}

/// A log line without common fields such as the lease and the identity.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    pub(crate) level: Level,
    text: String,
    event: Option<LogEvent>,
    error: Option<String>,
}

impl Notice {
    pub(crate) fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), event: None, error: None }
    }

    /// Creates a line of `text`, a colon and the error. The line also has a field with the error.
    pub(crate) fn of_error(level: Level, text: impl std::fmt::Display, error: &StoreError) -> Self {
        Self { error: Some(error.to_string()), ..Self::new(level, format!("{text}: {error}")) }
    }

    /// Creates a line about a change of the election's state.
    pub(crate) fn of_event(level: Level, event: LogEvent, text: impl Into<String>) -> Self {
        Self { event: Some(event), ..Self::new(level, text) }
    }

    /// Creates a line about a new leader.
    pub(crate) fn of_leader(leader: &str, identity: &str, identity_is_shared: bool) -> Self {
        let remark = match identity_is_shared {
            _ if leader != identity => "",
            true => SHARED_IDENTITY,
            false => " (this candidate)",
        };
        let event = LogEvent::NewLeader(Some(leader.to_owned()));
        Self::of_event(Level::Info, event, format!("new leader: {leader}{remark}"))
    }

    /// Creates a line about the lack of a leader.
    pub(crate) fn of_no_leader(is_expiry: bool) -> Self {
        let cause = if is_expiry { "the lease has expired" } else { "no candidate holds the lease" };
        Self::of_event(Level::Info, LogEvent::NewLeader(None), format!("no leader: {cause}"))
    }

    /// Creates a line about the end of a term, with the last failure since the last renewal.
    pub(crate) fn of_end(reason: &StopReason, error: Option<&StoreError>) -> Self {
        let level = if reason.was_asked_for() { Level::Info } else { Level::Warn };
        let error = error.map(StoreError::to_string);
        let cause = error.as_ref().map_or_else(String::new, |error| format!("; last error: {error}"));
        let event = LogEvent::StoppedLeading(reason.clone());
        Self { error, ..Self::of_event(level, event, format!("stopped leading: {reason}{cause}")) }
    }

    /// Creates a line about the end of a drain. `None` means that the drain limit has passed.
    pub(crate) fn of_drain_end(reason: Option<StopReason>) -> Self {
        let why = reason.map_or_else(|| "the drain timeout elapsed".to_owned(), |reason| reason.to_string());
        let text =
            format!("renewals of the ended term stopped: {why}; another candidate can lead once the lease expires");
        Self::new(Level::Warn, text)
    }

    /// Creates a second line about the end of a term, if the term ended for missing progress.
    pub(crate) fn of_stall(reason: &StopReason, within: Option<Duration>) -> Option<Self> {
        let within = humantime::format_duration(within.filter(|_| *reason == StopReason::NoProgress)?);
        let text = format!(
            "no progress for {within}: restart the process if the work hangs, or raise progress_timeout if the work is slow"
        );
        Some(Self::new(Level::Warn, text))
    }

    /// Creates a line about a standby that waits for the leader, whose lease expires in `left`.
    pub(crate) fn of_standby(leader: &str, left: Duration) -> Self {
        let left = rounded_up(left);
        Self::new(Level::Info, format!("standby: {leader} holds the lease, which expires in {left} unless renewed"))
    }

    /// Creates a line about a request to step down that comes too early.
    pub(crate) fn of_deferred_request(pause: Duration) -> Self {
        Self::new(Level::Info, format!("request to step down deferred for {}", rounded_up(pause)))
    }

    /// Creates a line about a record of an earlier process with this identity.
    pub(crate) fn of_predecessor(reclaims: bool) -> Self {
        let rest = match reclaims {
            true => "reclaiming the lease",
            false => {
                "waiting until the lease expires; reclaim_own_identity(true) acquires the lease at once if no two processes share an identity"
            }
        };
        Self::new(Level::Info, format!("lease held by an earlier process with this identity: {rest}"))
    }

    /// Creates a line about an acquisition that took longer than the progress timeout.
    pub(crate) fn too_late(level: Level, took: Duration, within: Duration) -> Self {
        let within = humantime::format_duration(within);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let took = humantime::format_duration(Duration::from_millis(millis));
        let text = format!(
            "acquired and released the lease: acquiring took {took}, longer than progress_timeout ({within}); raise progress_timeout"
        );
        Self::new(level, text)
    }

    /// Creates a line about the first success of `what` after a failure.
    ///
    /// The failure may be long ago, because a candidate that watches sends no requests.
    pub(crate) fn of_recovery(what: &str, Recovery { level, failed, ago }: &Recovery) -> Self {
        let ago = humantime::format_duration(Duration::from_millis(ago.as_millis().try_into().unwrap_or(u64::MAX)));
        Self::new(*level, format!("{what} recovered: last failure {ago} ago (`{}`)", failed.name()))
    }

    /// Changes a line of the elector of a slot, because a member of a group does not lead.
    pub(crate) fn of_slot(self) -> Self {
        match &self.event {
            Some(LogEvent::StoppedLeading(reason)) if !reason.was_asked_for() => {
                Self { text: self.text.replacen("stopped leading", "lost the slot", 1), ..self }
            }
            Some(LogEvent::StartedLeading | LogEvent::StoppedLeading(_) | LogEvent::NewLeader(_)) => {
                Self { level: Level::Debug, ..self }
            }
            _ => self,
        }
    }

    pub(crate) fn log(&self, fields: &LogFields) {
        use LogEvent::{BecameFit, BecameUnfit, NewLeader, StartedLeading, StoppedLeading};
        let (level, text) = (self.level, &self.text);
        match (&self.event, self.error.as_deref()) {
            (Some(StartedLeading), _) => log_with!(level, *fields, event = "started_leading"; "{text}"),
            (Some(StoppedLeading(reason)), error) => {
                let reason = reason.to_string();
                log_with!(level, *fields, event = "stopped_leading", reason = reason.as_str(), error = error; "{text}");
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

/// Returns the text of a duration in whole seconds.
fn rounded_up(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs_f64().ceil() as u64))
}

/// A log line with the fencing token of the term.
pub(crate) struct LogRecord {
    pub(crate) fencing_token: Option<u64>,
    pub(crate) notice: Notice,
}
