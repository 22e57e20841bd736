//! The counters of a client, which all electors on the client share.

use std::fmt::{self, Write};

use crate::util::prometheus::escaped;

/// Counters of a client's credential and certificate renewals, as of one moment.
///
/// [`Client::counters`](super::Client::counters) returns the counters. The counters belong to the client and not to an
/// elector, because several electors may share a client. Clones of a client share the counters.
///
/// # Examples
///
/// ```
/// use leasehold::kubernetes::{Client, ClientConfig};
///
/// let client = Client::new(ClientConfig::new("http://127.0.0.1:8001")?)?;
/// let counters = client.counters();
/// assert_eq!((counters.plugin_runs, counters.certificate_reloads), (0, 0));
///
/// // A scrape response contains this text after the metrics of the electors.
/// let mut text = String::new();
/// counters.write_prometheus(&mut text).expect("writing to a String does not fail");
/// assert!(text.contains("leasehold_client_plugin_runs_total{server=\"http://127.0.0.1:8001\"} 0"));
/// # Ok::<(), leasehold::kubernetes::ClientError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCounters {
    /// The URL of the server, without credentials.
    pub server: String,
    /// Completed runs of the credential plugin, including failed starts.
    pub plugin_runs: u64,
    /// Runs of the credential plugin that returned no usable credentials.
    pub plugin_failures: u64,
    /// Reloads of changed certificate files.
    ///
    /// The files contain the certificate authorities, or the client certificate and its key. A certificate and a key
    /// that change together count once.
    pub certificate_reloads: u64,
    /// Reloads of changed certificate files that failed because a file was unusable.
    ///
    /// The previous certificates stay in use. An unusable file counts once until it changes again.
    pub certificate_reload_failures: u64,
    /// Changes of the token in a token file.
    pub token_reloads: u64,
}

impl ClientCounters {
    /// Writes the counters as metrics in the text format of Prometheus, with the label `server`.
    ///
    /// A client without a plugin or without files writes zeros. If there are several clients, use
    /// [`write_prometheus_all`](Self::write_prometheus_all), because the format allows only one description for each
    /// metric.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn write_prometheus(&self, out: &mut impl Write) -> fmt::Result {
        Self::write_prometheus_all([self], out)
    }

    /// Writes the counters of several clients as metrics in the text format of Prometheus.
    ///
    /// Each client must have a different server.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn write_prometheus_all<'a, W: Write>(
        counters: impl IntoIterator<Item = &'a Self>,
        out: &mut W,
    ) -> fmt::Result {
        let counters: Vec<_> = counters.into_iter().collect();
        for (name, help, value) in METRICS {
            writeln!(out, "# HELP leasehold_client_{name}_total {help}\n# TYPE leasehold_client_{name}_total counter")?;
            for counters in &counters {
                let (server, value) = (escaped(&counters.server), value(counters));
                writeln!(out, "leasehold_client_{name}_total{{server=\"{server}\"}} {value}")?;
            }
        }
        Ok(())
    }
}

type Metric = (&'static str, &'static str, fn(&ClientCounters) -> u64);

const METRICS: [Metric; 5] = [
    ("plugin_runs", "Runs of the credential plugin that have ended.", |it| it.plugin_runs),
    ("plugin_failures", "Runs of the credential plugin that returned no usable credentials.", |it| it.plugin_failures),
    ("certificate_reloads", "Changed certificate files that were loaded.", |it| it.certificate_reloads),
    ("certificate_reload_failures", "Changed certificate files that were invalid.", |it| {
        it.certificate_reload_failures
    }),
    ("token_reloads", "Changed token files that were loaded.", |it| it.token_reloads),
];
