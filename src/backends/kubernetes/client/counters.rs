//! What a client has counted, which all electors on it share.

use std::fmt::{self, Write};

use crate::util::prometheus::escaped;

/// How often a client's credentials and certificates were renewed since it was made, at the moment that
/// [`Client::counters`](super::Client::counters) was called.
///
/// They are the client's, and not an elector's: several electors may share one. Clones of a client are the same client.
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
/// // What a scrape is answered with, after the metrics of the electors.
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
    /// Runs of the credential plugin that have ended, also those that could not be started.
    pub plugin_runs: u64,
    /// Those of the runs that brought no usable credentials.
    pub plugin_failures: u64,
    /// How often the file of the certificate authorities, or those of the client certificate and its key, had changed, and
    /// were put to use. A certificate that changes together with its key counts once.
    pub certificate_reloads: u64,
    /// How often such files were found unusable; what they held before stays in use. As long as they stay as they are, that
    /// counts once.
    pub certificate_reload_failures: u64,
    /// How often a token file held another token than before.
    pub token_reloads: u64,
}

impl ClientCounters {
    /// Writes them as metrics in the text format of Prometheus, with the label `server`. A client that has no plugin or no
    /// files writes zeros. For several clients use [`write_prometheus_all`](Self::write_prometheus_all): each metric may be
    /// described once only.
    ///
    /// # Errors
    ///
    /// Whatever `out` says.
    pub fn write_prometheus(&self, out: &mut impl Write) -> fmt::Result {
        Self::write_prometheus_all([self], out)
    }

    /// Writes those of several clients, as [`write_prometheus`](Self::write_prometheus) does of one. Their servers are to be
    /// different ones.
    ///
    /// # Errors
    ///
    /// Whatever `out` says.
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
