//! What a client has counted, which all electors on it share.

use std::fmt::{self, Write};

use crate::prometheus::{self, Escaped, Family};

/// How often a client's credentials and certificates were renewed since it was made, at the moment that
/// [`Client::counters`](super::Client::counters) was called.
///
/// They are the client's, and not an elector's: several electors may share one. Clones of a client are the same client.
///
/// # Examples
///
/// ```
/// use leasehold::kube::{Client, ClientConfig};
///
/// let client = Client::new(ClientConfig::new("http://127.0.0.1:8001")?)?;
/// let counters = client.counters();
/// assert_eq!((counters.plugin_runs, counters.certificate_reloads), (0, 0));
///
/// // What a scrape is answered with, after the metrics of the electors.
/// let mut text = String::new();
/// counters.write_prometheus(&mut text).expect("writing to a String does not fail");
/// assert!(text.contains("leasehold_client_plugin_runs_total{server=\"http://127.0.0.1:8001\"} 0"));
/// # Ok::<(), leasehold::kube::Error>(())
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
        let with_labels = |counters: &'a Self| (format!("server=\"{}\"", Escaped(&counters.server)), counters);
        let counters: Vec<_> = counters.into_iter().map(with_labels).collect();
        prometheus::write(&families(), &counters, out)
    }
}

fn families<W: Write>() -> [Family<ClientCounters, W>; 5] {
    [
        (
            "leasehold_client_plugin_runs_total",
            "counter",
            "Runs of the credential plugin that have ended.",
            |samples, counters| samples.put("", "", counters.plugin_runs),
        ),
        (
            "leasehold_client_plugin_failures_total",
            "counter",
            "Runs of the credential plugin that brought no usable credentials.",
            |samples, counters| samples.put("", "", counters.plugin_failures),
        ),
        (
            "leasehold_client_certificate_reloads_total",
            "counter",
            "Changes of the files of authorities, or of the client certificate, that were put to use.",
            |samples, counters| samples.put("", "", counters.certificate_reloads),
        ),
        (
            "leasehold_client_certificate_reload_failures_total",
            "counter",
            "Changes of these files that could not be put to use.",
            |samples, counters| samples.put("", "", counters.certificate_reload_failures),
        ),
        (
            "leasehold_client_token_reloads_total",
            "counter",
            "Changes of the token file that were put to use.",
            |samples, counters| samples.put("", "", counters.token_reloads),
        ),
    ]
}
