//! The counters of a client, which all electors on the client share, and their metrics.

use std::fmt::{self, Write};

use crate::util::prometheus::escaped;

/// Counters of a client's credential and certificate renewals, as of one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientCounters {
    /// The URL of the server, without credentials.
    pub(super) server: String,
    /// Completed runs of the credential plugin, including failed starts.
    pub(super) plugin_runs: u64,
    /// Runs of the credential plugin that returned no usable credentials.
    pub(super) plugin_failures: u64,
    /// Reloads of changed certificate files.
    ///
    /// The files contain the certificate authorities, or the client certificate and its key. A certificate and a key
    /// that change together count once.
    pub(super) certificate_reloads: u64,
    /// Reloads of changed certificate files that failed because a file was unusable.
    ///
    /// The previous certificates stay in use. An unusable file counts once until it changes again.
    pub(super) certificate_reload_failures: u64,
    /// Changes of the token in a token file.
    pub(super) token_reloads: u64,
}

/// Writes the counters of several clients as metrics in the text format of Prometheus.
pub(super) fn write_prometheus(counters: &[ClientCounters], out: &mut impl Write) -> fmt::Result {
    for (name, help, value) in METRICS {
        writeln!(out, "# HELP leasehold_client_{name}_total {help}\n# TYPE leasehold_client_{name}_total counter")?;
        for counters in counters {
            let (server, value) = (escaped(&counters.server), value(counters));
            writeln!(out, "leasehold_client_{name}_total{{server=\"{server}\"}} {value}")?;
        }
    }
    Ok(())
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
