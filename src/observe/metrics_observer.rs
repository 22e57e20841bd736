//! An observer that reports metrics through the `metrics` facade.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::election::group::OwnershipEnd;
use crate::observe::observer::{Event, Observer, RequestOutcome};

/// An observer that reports metrics to the installed recorder of the `metrics` crate.
///
/// Each metric has the label `name`. Metric names are the same as in
/// [`Status::write_prometheus`](crate::Status::write_prometheus), but only metrics that change with events exist. If
/// the observer misses an event, a gauge may be stale. The gauges of the status are always exact.
///
/// In a [group](crate::group::LeaseGroup), the observer also reports the number of owned shards as
/// `leasehold_shards_owned`, and the number of lost shards as `leasehold_shards_lost_total`.
///
/// Install the recorder before [`new`](Self::new), which describes the metrics and sets the gauges of a standby.
///
/// # Examples
///
/// ```
/// use leasehold::metrics::MetricsObserver;
/// use leasehold::store::MemoryStore;
/// use leasehold::LeaderElector;
///
/// let builder = LeaderElector::builder("jobs").observer(MetricsObserver::new("jobs"));
/// let elector = builder.start_on(MemoryStore::new())?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MetricsObserver {
    name: String,
}

impl MetricsObserver {
    /// Creates an observer whose metrics have the label `name`, usually the name of the Lease.
    ///
    /// Describes the metrics, and sets the gauges of a standby.
    pub fn new(name: impl Into<String>) -> Self {
        let observer = Self { name: name.into() };
        describe_gauge!("leader_election_master_status", "1 while this candidate leads, else 0.");
        describe_gauge!("leasehold_watch_up", "1 while a watch is open, else 0 (polling).");
        describe_gauge!("leasehold_fit", "1 while this candidate is fit to lead, else 0.");
        describe_counter!("leader_election_slowpath_total", "Reads of the record during a term.");
        describe_counter!("leasehold_terms_total", "Terms started.");
        describe_counter!("leasehold_terms_lost_total", "Terms ended other than by release or step-down.");
        describe_counter!("leasehold_requests_total", "Requests to the store.");
        describe_counter!("leasehold_request_failures_total", "Failed requests to the store. A conflict is normal.");
        describe_counter!("leasehold_watches_opened_total", "Watches opened.");
        describe_gauge!("leasehold_shards_owned", "Shards of a group that this process owns.");
        describe_counter!("leasehold_shards_lost_total", "Ownerships of shards ended before the worker returned.");
        describe_histogram!("leasehold_renewal_duration_seconds", Unit::Seconds, "Durations of renewals.");
        gauge!("leader_election_master_status", "name" => observer.name.clone()).set(0.0);
        gauge!("leasehold_watch_up", "name" => observer.name.clone()).set(0.0);
        observer
    }
}

impl Observer for MetricsObserver {
    fn on_event(&self, event: &Event) {
        let gauge = |name: &'static str| gauge!(name, "name" => self.name.clone());
        let count = |name: &'static str| counter!(name, "name" => self.name.clone()).increment(1);
        match event {
            Event::StartedLeading { .. } => {
                gauge("leader_election_master_status").set(1.0);
                count("leasehold_terms_total");
            }
            Event::StoppedLeading { reason } => {
                gauge("leader_election_master_status").set(0.0);
                if !reason.was_asked_for() {
                    count("leasehold_terms_lost_total");
                }
            }
            Event::Renewed { latency } => {
                histogram!("leasehold_renewal_duration_seconds", "name" => self.name.clone()).record(*latency);
            }
            Event::Request(outcome) => self.request(outcome),
            Event::WatchOpened => {
                gauge("leasehold_watch_up").set(1.0);
                count("leasehold_watches_opened_total");
            }
            Event::WatchLost => gauge("leasehold_watch_up").set(0.0),
            Event::ShardStarted { .. } => gauge("leasehold_shards_owned").increment(1.0),
            Event::ShardEnded { reason, .. } => {
                gauge("leasehold_shards_owned").decrement(1.0);
                if *reason != OwnershipEnd::Returned {
                    count("leasehold_shards_lost_total");
                }
            }
            Event::Fit { .. } => gauge("leasehold_fit").set(1.0),
            Event::Unfit => gauge("leasehold_fit").set(0.0),
            Event::NewLeader { .. } | Event::NoLeader { .. } => {}
        }
    }
}

impl MetricsObserver {
    fn request(&self, outcome: &RequestOutcome) {
        let operation = outcome.operation.name();
        counter!("leasehold_requests_total", "name" => self.name.clone(), "operation" => operation).increment(1);
        if let Some(kind) = outcome.failure {
            let kind = kind.name();
            counter!("leasehold_request_failures_total", "name" => self.name.clone(), "kind" => kind).increment(1);
        }
        if outcome.is_slow_path {
            counter!("leader_election_slowpath_total", "name" => self.name.clone()).increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use metrics::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
        Unit,
    };
    use parking_lot::Mutex;

    use super::*;
    use crate::election::stop_reason::StopReason;
    use crate::store::{StoreErrorKind, StoreOperation};

    /// A recorder that keeps the value of each metric, by name and labels.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<BTreeMap<String, f64>>>);

    struct Metric {
        said: Said,
        key: String,
    }

    impl Metric {
        fn change(&self, change: impl FnOnce(f64) -> f64) {
            let mut said = self.said.0.lock();
            let value = said.entry(self.key.clone()).or_default();
            *value = change(*value);
        }
    }

    impl CounterFn for Metric {
        fn increment(&self, value: u64) {
            self.change(|before| before + value as f64);
        }
        fn absolute(&self, value: u64) {
            self.change(|_| value as f64);
        }
    }

    impl GaugeFn for Metric {
        fn increment(&self, value: f64) {
            self.change(|before| before + value);
        }
        fn decrement(&self, value: f64) {
            self.change(|before| before - value);
        }
        fn set(&self, value: f64) {
            self.change(|_| value);
        }
    }

    impl HistogramFn for Metric {
        fn record(&self, value: f64) {
            self.change(|before| before + value);
        }
    }

    impl Said {
        fn metric(&self, key: &Key) -> Arc<Metric> {
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            Arc::new(Metric { said: self.clone(), key: format!("{} {}", key.name(), labels.join(" ")) })
        }
    }

    impl Recorder for Said {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.metric(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.metric(key))
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.metric(key))
        }
    }

    #[test]
    fn facts_are_recorded_under_the_names_of_the_status() {
        let said = Said::default();
        let observer = metrics::with_local_recorder(&said, || MetricsObserver::new("jobs"));
        let of_a_standby = [("leader_election_master_status name=jobs", 0.0), ("leasehold_watch_up name=jobs", 0.0)];
        assert_eq!(*said.0.lock(), of_a_standby.map(|(key, value)| (key.to_owned(), value)).into());
        let outcome = RequestOutcome {
            operation: StoreOperation::Get,
            latency: Duration::ZERO,
            failure: Some(StoreErrorKind::Timeout),
            is_slow_path: true,
        };
        metrics::with_local_recorder(&said, || {
            observer.on_event(&Event::WatchOpened);
            observer.on_event(&Event::Fit { pause: Duration::ZERO });
            observer.on_event(&Event::StartedLeading { fencing_token: 7 });
            observer.on_event(&Event::Renewed { latency: Duration::from_millis(250) });
            observer.on_event(&Event::Request(outcome));
            observer.on_event(&Event::Request(RequestOutcome { failure: None, is_slow_path: false, ..outcome }));
            observer.on_event(&Event::StoppedLeading { reason: StopReason::Expired });
            observer.on_event(&Event::StartedLeading { fencing_token: 8 });
            observer.on_event(&Event::StoppedLeading { reason: StopReason::Released });
            observer.on_event(&Event::StartedLeading { fencing_token: 9 });
        });
        let before = said.0.lock().clone();
        let expected = [
            ("leader_election_master_status name=jobs", 1.0),
            ("leader_election_slowpath_total name=jobs", 1.0),
            ("leasehold_fit name=jobs", 1.0),
            ("leasehold_renewal_duration_seconds name=jobs", 0.25),
            ("leasehold_request_failures_total name=jobs kind=timeout", 1.0),
            ("leasehold_requests_total name=jobs operation=get", 2.0),
            ("leasehold_terms_lost_total name=jobs", 1.0),
            ("leasehold_terms_total name=jobs", 3.0),
            ("leasehold_watch_up name=jobs", 1.0),
            ("leasehold_watches_opened_total name=jobs", 1.0),
        ];
        assert_eq!(before, expected.map(|(key, value)| (key.to_owned(), value)).into());
        metrics::with_local_recorder(&said, || {
            observer.on_event(&Event::WatchLost);
            observer.on_event(&Event::Unfit);
            observer.on_event(&Event::StoppedLeading { reason: StopReason::Released });
        });
        let gauges = ["leader_election_master_status", "leasehold_fit", "leasehold_watch_up"];
        assert_eq!(gauges.map(|gauge| said.0.lock()[&format!("{gauge} name=jobs")]), [0.0; 3]);
        assert_eq!(said.0.lock()["leasehold_terms_lost_total name=jobs"], 1.0);
        metrics::with_local_recorder(&said, || {
            (0..4).for_each(|shard| observer.on_event(&Event::ShardStarted { shard, fencing_token: 7 }));
            observer.on_event(&Event::ShardEnded { shard: 0, reason: OwnershipEnd::Returned });
            observer.on_event(&Event::ShardEnded { shard: 1, reason: OwnershipEnd::DrainTimeout });
            observer.on_event(&Event::ShardEnded { shard: 2, reason: OwnershipEnd::WatchLost });
        });
        assert_eq!(said.0.lock()["leasehold_shards_owned name=jobs"], 1.0);
        assert_eq!(said.0.lock()["leasehold_shards_lost_total name=jobs"], 2.0);
    }
}
