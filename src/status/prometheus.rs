//! The status as metrics for Prometheus.

use std::fmt::{self, Write};
use std::time::Duration;

use super::{Histogram, Status};
use crate::prometheus::{self, Escaped, Family, Samples};
use crate::store::{StoreErrorKind, StoreOperation};

impl Status {
    /// Writes it as metrics in the text format of Prometheus, each with the labels `name`, `record` and
    /// `identity`, which together are to be unique in a process.
    ///
    /// Two have client-go's names: `leader_election_master_status`, with its meaning, and `leader_election_slowpath_total`,
    /// which also counts the reads that a silent watch causes. The rest begin with `leasehold_`. For several electors use [`write_prometheus_all`](Self::write_prometheus_all): each
    /// metric may be described once only.
    ///
    /// # Errors
    ///
    /// Whatever `out` says.
    pub fn write_prometheus(&self, out: &mut impl Write) -> fmt::Result {
        Self::write_prometheus_all([self], out)
    }

    /// Writes those of several electors, as [`write_prometheus`](Self::write_prometheus) does of one.
    ///
    /// # Errors
    ///
    /// Whatever `out` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, MemoryStore, Status};
    ///
    /// let jobs = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    /// let mail = LeaderElector::builder("mail").start_on(MemoryStore::new())?;
    /// let mut text = String::new();
    /// Status::write_prometheus_all(&[jobs.status(), mail.status()], &mut text).expect("a String");
    /// assert_eq!(text.matches("# TYPE leasehold_terms_total counter").count(), 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn write_prometheus_all<'a, W: Write>(
        statuses: impl IntoIterator<Item = &'a Status>,
        out: &mut W,
    ) -> fmt::Result {
        let with_labels = |status: &'a Status| {
            let [name, record, identity] =
                [&status.name, &status.record, &status.settings.identity].map(|it| Escaped(it));
            (format!("name=\"{name}\",record=\"{record}\",identity=\"{identity}\""), status)
        };
        let statuses: Vec<_> = statuses.into_iter().map(with_labels).collect();
        prometheus::write(&families(), &statuses, out)
    }
}

fn families<W: Write>() -> [Family<Status, W>; 16] {
    [
        (
            "leader_election_master_status",
            "gauge",
            "Whether this candidate leads: 1, or 0 for a standby.",
            |samples, status| samples.put("", "", u8::from(status.is_leader)),
        ),
        (
            "leader_election_slowpath_total",
            "counter",
            "Reads of the record in the middle of a term.",
            |samples, status| samples.put("", "", status.counters.slow_paths),
        ),
        ("leasehold_terms_total", "counter", "Terms that began.", |samples, status| {
            samples.put("", "", status.counters.terms)
        }),
        (
            "leasehold_terms_lost_total",
            "counter",
            "Terms that ended otherwise than by a release or a step-down.",
            |samples, status| samples.put("", "", status.counters.terms_lost),
        ),
        (
            "leasehold_validity_seconds",
            "gauge",
            "How long the term stays valid without another renewal.",
            |samples, status| samples.put("", "", status.remaining.as_secs_f64()),
        ),
        (
            "leasehold_renewal_duration_seconds",
            "histogram",
            "From before a renewal was sent until it was known to stand.",
            |samples, status| put_histogram(samples, &status.counters.renewals),
        ),
        ("leasehold_requests_total", "counter", "Requests to the store.", |samples, status| {
            StoreOperation::ALL.into_iter().try_for_each(|operation| {
                let label = format!(",operation=\"{operation}\"");
                samples.put("", &label, status.counters.requests(operation))
            })
        }),
        (
            "leasehold_request_failures_total",
            "counter",
            "Requests to the store that failed. A conflict is another candidate's success.",
            |samples, status| {
                StoreErrorKind::ALL.into_iter().try_for_each(|kind| {
                    let label = format!(",kind=\"{}\"", kind.name());
                    samples.put("", &label, status.counters.failures(kind))
                })
            },
        ),
        ("leasehold_write_failed", "gauge", "Whether writes fail: 1, or 0.", |samples, status| {
            samples.put("", "", u8::from(status.failed_write.is_some()))
        }),
        ("leasehold_watch_up", "gauge", "Whether changes are watched, and not polled.", |samples, status| {
            samples.put("", "", u8::from(status.is_watching))
        }),
        ("leasehold_watches_total", "counter", "Watches that were opened.", |samples, status| {
            samples.put("", "", status.counters.watches_opened)
        }),
        (
            "leasehold_last_contact_seconds",
            "gauge",
            "How long ago the store last told anything; missing before the first time.",
            |samples, status| put_seconds(samples, status.last_contact),
        ),
        (
            "leasehold_fit",
            "gauge",
            "Whether this candidate is fit to lead: 1, also where nobody is asked, or 0.",
            |samples, status| samples.put("", "", u8::from(status.is_fit)),
        ),
        (
            "leasehold_unfit_seconds",
            "gauge",
            "For how long this candidate has not been fit to lead; missing while it is.",
            |samples, status| put_seconds(samples, status.unfit_for),
        ),
        (
            "leasehold_may_acquire_in_seconds",
            "gauge",
            "How long this candidate waits yet before it may acquire, being fit again; missing while it need not.",
            |samples, status| put_seconds(samples, status.may_acquire_in),
        ),
        (
            "leasehold_since_progress_seconds",
            "gauge",
            "How long ago the work of the term made progress; missing where it need not.",
            |samples, status| put_seconds(samples, status.since_progress),
        ),
    ]
}

fn put_seconds<W: Write>(samples: &mut Samples<'_, W>, duration: Option<Duration>) -> fmt::Result {
    duration.map_or(Ok(()), |duration| samples.put("", "", duration.as_secs_f64()))
}

fn put_histogram<W: Write>(samples: &mut Samples<'_, W>, histogram: &Histogram) -> fmt::Result {
    let mut count = 0;
    for (bound, new) in Histogram::BOUNDS.iter().zip(&histogram.counts) {
        count += new;
        samples.put("_bucket", &format!(",le=\"{}\"", *bound as f64 / 1000.0), count)?;
    }
    samples.put("_bucket", ",le=\"+Inf\"", histogram.count())?;
    samples.put("_sum", "", histogram.sum.as_secs_f64())?;
    samples.put("_count", "", histogram.count())
}
