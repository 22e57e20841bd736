//! The TLS configuration of a client, which reloads changed files.
//!
//! client-go also reloads: the client certificate since Kubernetes 1.16, the authorities since 1.36. client-go reads
//! the files every five minutes, and after a notification of the operating system. This module has no thread. The
//! client reads the files before a request, and after a failure that an old file may have caused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use log::Level;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;

use super::files::{FromFiles, PemSource};
use super::{Identity, TlsParts, TlsSettings};
#[cfg(feature = "_sql_server")]
use crate::net::calls::CallError;
use crate::net::error::{Error, NetErrorKind};
use crate::util::log_fields::TLS;
use crate::util::panics::log_line;

/// The TLS configuration for all connections of a client.
pub(crate) struct ClientTls {
    settings: TlsSettings,
    name: ServerName<'static>,
    /// Locked while files are read, which may take a long time.
    files: Mutex<WatchedFiles>,
    /// Locked only briefly, because an interrupt may wait for this lock.
    current: Mutex<CurrentTls>,
    /// The number of file changes that were unusable.
    refusals: AtomicU64,
}

struct WatchedFiles {
    authorities: FromFiles<Arc<dyn ServerCertVerifier>>,
    identity: FromFiles<Option<Identity>>,
}

#[derive(Clone)]
struct CurrentTls {
    authorities: Arc<dyn ServerCertVerifier>,
    config: Arc<ClientConfig>,
    /// The number of file changes that were applied.
    version: u64,
}

/// The files to read: the certificate authorities, or the client certificate with its key.
#[derive(Clone, Copy)]
enum Part {
    Authorities,
    Identity,
}

impl ClientTls {
    /// Creates the configuration for the server `host`.
    ///
    /// Uses the content that the files had when `settings` was created.
    pub(crate) fn new(settings: TlsSettings, host: &str) -> Result<Self, Error> {
        let name = settings.name(host)?;
        let now = settings.clock.now();
        let authorities = settings.verifier()?;
        let identity =
            settings.identity.as_ref().map(|pair| Identity::from_sources(&pair.chain, &pair.key)).transpose()?;
        let config = settings.client_config(&authorities, identity.as_ref())?;
        let current = CurrentTls { authorities: Arc::clone(&authorities), config, version: 0 };
        let ca = settings.ca.iter().cloned().collect();
        let pair = settings.identity.iter().flat_map(|pair| [pair.chain.clone(), pair.key.clone()]).collect();
        let files = WatchedFiles {
            authorities: FromFiles::new(ca, authorities, now),
            identity: FromFiles::new(pair, identity, now),
        };
        let (files, current) = (Mutex::new(files), Mutex::new(current));
        Ok(ClientTls { settings, name, files, current, refusals: AtomicU64::new(0) })
    }

    /// Reads each file whose last reading is at least a minute old, and returns the version.
    ///
    /// Called before a request. The caller must not hold a lock that an interrupt takes.
    pub(crate) fn refresh(&self) -> u64 {
        let now = self.settings.clock.now();
        self.read_again(Part::Authorities, |files| files.authorities.is_due(now));
        self.read_again(Part::Identity, |files| files.identity.is_due(now));
        self.version()
    }

    /// Returns the configuration. Reads no file.
    ///
    /// If `identity` is set, it replaces the configured client certificate. If `identity` is `None` and the files are
    /// unchanged, each call returns the same configuration object, so that its TLS sessions can be resumed.
    pub(crate) fn parts(&self, identity: Option<&Identity>) -> Result<TlsParts, Error> {
        let current = self.current.lock().clone();
        let config = match identity {
            Some(identity) => self.settings.client_config(&current.authorities, Some(identity))?,
            None => current.config,
        };
        Ok(TlsParts { config, name: self.name.clone() })
    }

    /// Returns the number of file changes that were applied. Reads no file.
    pub(crate) fn version(&self) -> u64 {
        self.current.lock().version
    }

    /// Returns the number of file changes that were unusable. Reads no file.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Reads the client certificate and its key.
    ///
    /// Returns `true` if the version is now newer than `used`.
    pub(crate) fn has_newer_identity(&self, used: u64) -> bool {
        self.has_newer(Part::Identity, used)
    }

    /// Reads the files that may have caused a failure of this kind.
    ///
    /// Returns `true` if the version is now newer than `used`.
    pub(crate) fn has_newer_after(&self, failure: Option<NetErrorKind>, used: u64) -> bool {
        match failure {
            Some(NetErrorKind::TlsVerification) => self.has_newer(Part::Authorities, used),
            // The server may have rejected an expired client certificate.
            Some(NetErrorKind::Tls) => self.has_newer(Part::Identity, used),
            _ => false,
        }
    }

    /// Runs `open` with the version and the content of the TLS files.
    ///
    /// If `open` fails and a newer file may prevent the failure, runs `open` once more.
    #[cfg(feature = "_sql_server")]
    pub(crate) fn open<T, E: CallError>(
        tls: Option<&Self>,
        open: impl Fn(u64, Option<TlsParts>) -> Result<T, E>,
    ) -> Result<T, E> {
        let run = |files| open(files, tls.map(|tls| tls.parts(None)).transpose()?);
        let files = tls.map_or(0, Self::refresh);
        match (run(files), tls) {
            (Err(error), Some(tls)) if tls.has_newer_after(error.net_kind(), files) => run(tls.version()),
            (other, _) => other,
        }
    }

    fn has_newer(&self, part: Part, used: u64) -> bool {
        self.read_again(part, |_| true);
        self.version() > used
    }

    /// Reads the files of a part if `is_due` returns `true`, and logs the outcome.
    fn read_again(&self, part: Part, is_due: impl FnOnce(&WatchedFiles) -> bool) {
        let mut files = self.files.lock();
        let line = if is_due(&files) { self.reload(&mut files, part) } else { None };
        // Releases the lock first, because every call takes the lock, and logging may block.
        drop(files);
        if let Some((level, line)) = line {
            log_line!(log, target: TLS, level, "{line}");
        }
    }

    /// Returns the log line about a change or a failure.
    fn reload(&self, files: &mut WatchedFiles, part: Part) -> Option<(Level, String)> {
        let now = self.settings.clock.now();
        let (what, outcome) = match part {
            Part::Authorities => {
                let make = |sources: &[PemSource]| {
                    TlsSettings { ca: sources.first().cloned(), ..self.settings.clone() }.verifier()
                };
                ("CA bundle", files.authorities.read_again(now, make))
            }
            Part::Identity => {
                let authorities = &files.authorities.value;
                let make = |sources: &[PemSource]| {
                    let identity = match sources {
                        [chain, key] => Some(Identity::from_sources(chain, key)?),
                        _ => None,
                    };
                    // The call fails if certificate and key do not match, as in the middle of a rotation.
                    self.settings.client_config(authorities, identity.as_ref())?;
                    Ok(identity)
                };
                ("client certificate", files.identity.read_again(now, make))
            }
        };
        match outcome {
            Ok(false) => None,
            Err(why) => {
                self.refusals.fetch_add(1, Ordering::Relaxed);
                Some((Level::Warn, format!("tls: reload of the {what} failed, keeping the old {what}: {why}")))
            }
            Ok(true) => {
                match self.settings.client_config(&files.authorities.value, files.identity.value.as_ref()) {
                    Ok(config) => {
                        let authorities = Arc::clone(&files.authorities.value);
                        let mut current = self.current.lock();
                        *current = CurrentTls { authorities, config, version: current.version + 1 };
                        Some((Level::Info, format!("tls: reloaded the {what}")))
                    }
                    // This failure is unexpected, because each part alone was usable.
                    Err(e) => Some((Level::Warn, format!("tls: new {what} unusable, keeping the old {what}: {e}"))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
