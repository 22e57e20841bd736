//! The status of an elector as Prometheus metrics.

use std::fmt::{self, Write};
use std::time::Duration;

use super::{Histogram, Status};
use crate::store::{StoreErrorKind, StoreOperation};
use crate::util::prometheus::escaped;

impl Status {
    /// Writes the status of each elector as metrics in the text format of Prometheus.
    ///
    /// Serve the text with the content type `text/plain; version=0.0.4`. The format allows only one description for
    /// each metric, so pass the status of all electors in one call. Each
    /// metric has the labels `name`, `record` and `identity`. Two electors of a process must differ in a label.
    ///
    /// Two metrics have client-go's names. `leader_election_master_status` has client-go's meaning.
    /// `leader_election_slowpath_total` also counts reads that a silent watch causes. All other names begin with
    /// `leasehold_`.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::MemoryStore;
    /// use leasehold::{LeaderElector, Status};
    ///
    /// let jobs = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    /// let mail = LeaderElector::builder("mail").start_on(MemoryStore::new())?;
    /// let mut text = String::new();
    /// Status::write_prometheus(&[jobs.status(), mail.status()], &mut text).expect("a String");
    /// assert_eq!(text.matches("# TYPE leasehold_terms_total counter").count(), 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write_prometheus<'a>(statuses: impl IntoIterator<Item = &'a Status>, out: &mut impl Write) -> fmt::Result {
        let with_labels = |status: &'a Status| {
            let [name, record, identity] =
                [&status.name, &status.record, &status.settings.identity].map(|it| escaped(it));
            (format!("name=\"{name}\",record=\"{record}\",identity=\"{identity}\""), status)
        };
        let statuses: Vec<_> = statuses.into_iter().map(with_labels).collect();
        for (metric, kind, help, samples) in METRICS {
            writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}")?;
            for (labels, status) in &statuses {
                for (suffix, label, value) in samples(status) {
                    writeln!(out, "{metric}{suffix}{{{labels}{label}}} {value}")?;
                }
            }
        }
        Ok(())
    }
}

/// A sample: the suffix of its name, its additional label, and its value.
type Sample = (&'static str, String, f64);

/// A metric: its name, type and help text, and a function that returns its samples.
type StatusMetric = (&'static str, &'static str, &'static str, fn(&Status) -> Vec<Sample>);

const METRICS: [StatusMetric; 17] = [
    ("leader_election_master_status", "gauge", "1 while this candidate leads, else 0.", |status| {
        flag(status.is_leader)
    }),
    (
        "leasehold_leader_info",
        "gauge",
        "1 with the identity and the advertised address of the leader; absent without a leader.",
        |Status { leader, leader_address, leader_lease_expired, .. }| {
            let leader = leader.iter().filter(|_| !leader_lease_expired);
            let sample = |leader: &String| {
                let address = escaped(leader_address.as_deref().unwrap_or_default());
                ("", format!(",leader=\"{}\",address=\"{address}\"", escaped(leader)), 1.0)
            };
            leader.map(sample).collect()
        },
    ),
    ("leader_election_slowpath_total", "counter", "Reads of the record during a term.", |status| {
        count(status.counters.slow_paths)
    }),
    ("leasehold_terms_total", "counter", "Terms started.", |status| count(status.counters.terms)),
    ("leasehold_terms_lost_total", "counter", "Terms ended other than by release or step-down.", |status| {
        count(status.counters.terms_lost)
    }),
    ("leasehold_term_remaining_seconds", "gauge", "Time until the term ends without another renewal.", |status| {
        seconds(Some(status.remaining))
    }),
    (
        "leasehold_renewal_duration_seconds",
        "histogram",
        "Time from just before sending a renewal until its success is known.",
        |status| buckets(&status.counters.renewals),
    ),
    ("leasehold_requests_total", "counter", "Requests to the store.", |Status { counters, .. }| {
        let sample = |it: StoreOperation| ("", format!(",operation=\"{it}\""), counters.requests(it) as f64);
        StoreOperation::ALL.into_iter().map(sample).collect()
    }),
    (
        "leasehold_request_failures_total",
        "counter",
        "Failed requests to the store. A conflict is normal.",
        |Status { counters, .. }| {
            let sample = |(it, name)| ("", format!(",kind=\"{name}\""), counters.failures(it) as f64);
            StoreErrorKind::ALL.into_iter().map(sample).collect()
        },
    ),
    ("leasehold_write_failed", "gauge", "1 while writes fail, else 0.", |status| flag(status.failed_write.is_some())),
    ("leasehold_watch_up", "gauge", "1 while a watch is open, else 0 (polling).", |status| flag(status.is_watching)),
    ("leasehold_watches_opened_total", "counter", "Watches opened.", |status| count(status.counters.watches_opened)),
    (
        "leasehold_last_contact_age_seconds",
        "gauge",
        "Time since the last contact with the store; absent before the first.",
        |status| seconds(status.last_contact),
    ),
    ("leasehold_fit", "gauge", "1 while this candidate is fit to lead or has no fitness check, else 0.", |status| {
        flag(status.is_fit)
    }),
    ("leasehold_unfit_seconds", "gauge", "Time since this candidate became unfit; absent while fit.", |status| {
        seconds(status.unfit_for)
    }),
    (
        "leasehold_may_acquire_in_seconds",
        "gauge",
        "Time until a recovered candidate may acquire the lease; absent if zero.",
        |status| seconds(status.may_acquire_in),
    ),
    (
        "leasehold_progress_age_seconds",
        "gauge",
        "Time since the work last reported progress; absent without a progress timeout.",
        |status| seconds(status.since_progress),
    ),
];

fn flag(is_set: bool) -> Vec<Sample> {
    count(is_set.into())
}

fn count(count: u64) -> Vec<Sample> {
    vec![("", String::new(), count as f64)]
}

/// Returns a sample in seconds, or no sample if there is no duration.
fn seconds(duration: Option<Duration>) -> Vec<Sample> {
    duration.iter().map(|duration| ("", String::new(), duration.as_secs_f64())).collect()
}

fn buckets(histogram: &Histogram) -> Vec<Sample> {
    let counts = histogram.counts.iter().scan(0, |sum, new| {
        *sum += new;
        Some(*sum as f64)
    });
    let bounds = Histogram::BOUNDS_MS.iter().map(|bound| format!(",le=\"{}\"", *bound as f64 / 1000.0));
    let buckets = bounds.zip(counts).map(|(bound, count)| ("_bucket", bound, count));
    let total = histogram.count() as f64;
    buckets
        .chain([
            ("_bucket", ",le=\"+Inf\"".to_owned(), total),
            ("_sum", String::new(), histogram.sum.as_secs_f64()),
            ("_count", String::new(), total),
        ])
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::LeaderElector;
    use crate::observe::status::*;
    use crate::store::MemoryStore;

    #[test]
    fn metrics_have_the_numbers_of_the_status() {
        let elector = LeaderElector::builder("jobs").identity("me").start_on(MemoryStore::new()).unwrap();
        let mut status = elector.status();
        let seconds = Duration::from_secs;
        (status.is_leader, status.is_fit, status.is_watching) = (true, false, true);
        (status.remaining, status.last_contact, status.unfit_for) = (seconds(2), Some(seconds(3)), Some(seconds(4)));
        (status.may_acquire_in, status.since_progress) = (Some(seconds(5)), Some(Duration::from_millis(6_500)));
        status.failed_write = Some(StoreError::new(StoreErrorKind::Conflict, "made up"));
        let counters = &mut status.counters;
        (counters.terms, counters.terms_lost, counters.slow_paths, counters.watches_opened) = (7, 8, 9, 10);
        (counters.requests, counters.failures) = ([11, 12, 13], std::array::from_fn(|kind| 20 + kind as u64));
        for micros in [0, 1_000, 1_001, 5_000, 5_000_000, 5_000_001] {
            counters.renewals.add(Duration::from_micros(micros));
        }
        let mut text = String::new();
        Status::write_prometheus([&status], &mut text).unwrap();
        let labels = "{name=\"jobs\",record=\"jobs in memory\",identity=\"me\"";
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.replacen(labels, "", 1));
        let shorter = |line: String| line.replace("leasehold_", "").replace("renewal_duration_seconds", "renewal");
        assert_eq!(
            samples.map(shorter).collect::<Vec<_>>().join(";").replace('"', "").replace("request_failures_total,", ""),
            "leader_election_master_status} 1;leader_election_slowpath_total} 9;terms_total} 7;terms_lost_total} 8;\
             term_remaining_seconds} 2;renewal_bucket,le=0.001} 2;renewal_bucket,le=0.005} 4;renewal_bucket,le=0.01} 4;\
             renewal_bucket,le=0.025} 4;renewal_bucket,le=0.05} 4;renewal_bucket,le=0.1} 4;renewal_bucket,le=0.25} 4;\
             renewal_bucket,le=0.5} 4;renewal_bucket,le=1} 4;renewal_bucket,le=2.5} 4;renewal_bucket,le=5} 5;\
             renewal_bucket,le=+Inf} 6;renewal_sum} 10.007002;renewal_count} 6;requests_total,operation=get} 11;\
             requests_total,operation=create} 12;requests_total,operation=update} 13;kind=conflict} 20;\
             kind=already_exists} 21;kind=not_applied} 22;kind=forbidden} 23;kind=unauthorized} 24;kind=not_found} 25;\
             kind=untrusted} 26;kind=rejected} 27;kind=malformed} 28;kind=timeout} 29;kind=interrupted} 30;\
             kind=expired} 31;kind=unsupported} 32;kind=connection_closed} 33;kind=unavailable} 34;write_failed} 1;\
             watch_up} 1;watches_opened_total} 10;last_contact_age_seconds} 3;fit} 0;unfit_seconds} 4;may_acquire_in_seconds} 5;\
             progress_age_seconds} 6.5"
        );
    }
}
