//! The status and the transitions as data for `serde`.
//!
//! Durations are numbers of seconds, in fields whose names end with `_seconds`. Errors and reasons are their texts.

use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::observe::status::{Counters, Histogram, Status};
use crate::observe::transition::Transition;

/// Serializes a struct from its name and a list of its fields.
macro_rules! fields {
    ($serializer:ident, $name:literal, { $($field:ident: $value:expr),+ $(,)? }) => {{
        let fields = [$(stringify!($field)),+];
        let mut data = $serializer.serialize_struct($name, fields.len())?;
        $(data.serialize_field(stringify!($field), &$value)?;)+
        data.end()
    }};
}

fn seconds(duration: Option<Duration>) -> Option<f64> {
    duration.map(|duration| duration.as_secs_f64())
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |error: &Option<crate::store::StoreError>| error.as_ref().map(ToString::to_string);
        fields!(serializer, "Status", {
            name: self.name,
            record: self.record,
            identity: self.settings.identity,
            leader: self.leader,
            leader_address: self.leader_address,
            leader_lease_expired: self.leader_lease_expired,
            is_leader: self.is_leader,
            remaining_seconds: self.remaining.as_secs_f64(),
            fencing_token: self.fencing_token,
            last_contact_seconds: seconds(self.last_contact),
            last_error: text(&self.last_error),
            failed_write: text(&self.failed_write),
            is_fit: self.is_fit,
            unfit_for_seconds: seconds(self.unfit_for),
            may_acquire_in_seconds: seconds(self.may_acquire_in),
            since_progress_seconds: seconds(self.since_progress),
            is_watching: self.is_watching,
            is_running: self.is_running,
            counters: self.counters,
        })
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "Counters", {
            terms: self.terms,
            terms_lost: self.terms_lost,
            renewals: self.renewals,
            slow_paths: self.slow_paths,
            watches_opened: self.watches_opened,
            watches_lost: self.watches_lost,
        })
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "Histogram", {
            bounds_ms: Histogram::BOUNDS_MS,
            counts: self.counts,
            sum_seconds: self.sum.as_secs_f64(),
        })
    }
}

impl Serialize for Transition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::NewLeader { identity, address } => {
                fields!(serializer, "Transition", { transition: "new_leader", identity: identity, address: address })
            }
            Self::NoLeader { previous } => {
                fields!(serializer, "Transition", { transition: "no_leader", previous: previous })
            }
            Self::StartedLeading { fencing_token } => {
                fields!(serializer, "Transition", { transition: "started_leading", fencing_token: fencing_token })
            }
            Self::StoppedLeading { reason } => {
                fields!(serializer, "Transition", { transition: "stopped_leading", reason: reason.to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::LeaderElector;
    use crate::election::stop_reason::StopReason;
    use crate::store::memory::MemoryStore;

    #[test]
    fn status_of_a_leader_has_its_term_and_counters() {
        let builder = LeaderElector::builder("jobs").identity("a");
        let elector = builder.start_on(MemoryStore::new()).expect("an elector");
        let guard = elector.block_until_leader().expect("a term");
        let status = serde_json::to_value(elector.status()).expect("JSON");
        assert_eq!([&status["name"], &status["identity"], &status["leader"]], ["jobs", "a", "a"]);
        assert_eq!(status["fencing_token"], guard.fencing_token());
        assert!(status["remaining_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{status}");
        assert_eq!((&status["last_error"], &status["counters"]["terms"]), (&json!(null), &json!(1)));
        assert_eq!(status["counters"]["renewals"]["counts"].as_array().map(Vec::len), Some(12));
    }

    #[test]
    fn transitions_have_their_names() {
        let value = |transition: Transition| serde_json::to_value(transition).expect("JSON");
        let led = Transition::NewLeader { identity: "a".to_owned(), address: None };
        assert_eq!(value(led), json!({"transition": "new_leader", "identity": "a", "address": null}));
        let none = Transition::NoLeader { previous: "a".to_owned() };
        assert_eq!(value(none), json!({"transition": "no_leader", "previous": "a"}));
        let started = Transition::StartedLeading { fencing_token: 7 };
        assert_eq!(value(started), json!({"transition": "started_leading", "fencing_token": 7}));
        let reason = StopReason::Released.to_string();
        let stopped = Transition::StoppedLeading { reason: StopReason::Released };
        assert_eq!(value(stopped), json!({"transition": "stopped_leading", "reason": reason}));
    }
}
