//! The TLS configuration of a client, which follows the files that it is made of.
//!
//! client-go does the same: for the client certificate since 1.16, for the authorities since 1.36. It looks each five
//! minutes, and as soon as the system says that a file has changed; here there is no thread, so files are looked at when a
//! request is about to be made, and when the server's answer says that what they held is old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;

use super::files::{FromFiles, PemSource, ReadOutcome};
use super::{Identity, TlsParts, TlsSettings};
#[cfg(feature = "_sql_server")]
use crate::net::calls::CallError;
use crate::net::error::{Error, NetErrorKind};
use crate::util::log_fields::TLS;
use crate::util::panics::log_line;

/// What every connection of a client is to start TLS with.
pub(crate) struct ClientTls {
    settings: TlsSettings,
    name: ServerName<'static>,
    /// Locked while files are read, which can last.
    files: Mutex<WatchedFiles>,
    /// Never locked for longer than it takes to look: an interrupt waits for nothing else.
    current: Mutex<CurrentTls>,
    /// Counts the changes that could not be put to use.
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
    /// Counts the changes.
    version: u64,
}

/// Which of the files are to be read.
#[derive(Clone, Copy)]
enum Part {
    Authorities,
    Identity,
}

impl ClientTls {
    /// For the server `host`, with what the files held when the settings were made.
    pub(crate) fn new(settings: TlsSettings, host: &str) -> Result<Self, Error> {
        let name = settings.name(host)?;
        let now = settings.clock.now();
        let authorities = settings.verifier()?;
        let identity = settings.identity.as_ref().map(Identity::of).transpose()?;
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

    /// Reads the files that are a minute old, and counts how often what they say has changed.
    ///
    /// To be called before a request, and without a lock that an interrupt takes.
    pub(crate) fn refresh(&self) -> u64 {
        let mut files = self.files.lock();
        let now = self.settings.clock.now();
        if files.authorities.is_due(now) {
            self.read_again(&mut files, Part::Authorities);
        }
        if files.identity.is_due(now) {
            self.read_again(&mut files, Part::Identity);
        }
        self.version()
    }

    /// What to start TLS with, with an identity in place of the configured one if there is any. Reads no file.
    ///
    /// As long as the files are unchanged this is the same configuration, with the sessions that it can resume.
    pub(crate) fn parts(&self, identity: Option<&Identity>) -> Result<TlsParts, Error> {
        let current = self.current.lock().clone();
        let config = match identity {
            Some(identity) => self.settings.client_config(&current.authorities, Some(identity))?,
            None => current.config,
        };
        Ok(TlsParts { config, name: self.name.clone() })
    }

    /// How often what the files say has changed. Reads none.
    pub(crate) fn version(&self) -> u64 {
        self.current.lock().version
    }

    /// How often what the files say could not be put to use. Reads none.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Reads the client certificate and its key at once. Whether there is now anything newer than what was `used`.
    pub(crate) fn has_newer_identity(&self, used: u64) -> bool {
        self.has_newer(Part::Identity, used)
    }

    /// Reads the files that may have caused a failure of this kind. Returns `true` if a file is newer than the `used` one.
    pub(crate) fn has_newer_after(&self, failure: Option<NetErrorKind>, used: u64) -> bool {
        match failure {
            Some(NetErrorKind::TlsVerification) => self.has_newer(Part::Authorities, used),
            // The server may have refused a client certificate that has expired.
            Some(NetErrorKind::Tls) => self.has_newer(Part::Identity, used),
            _ => false,
        }
    }

    /// Runs `open` with the version of the files and what they hold, and once more if a newer file may prevent the failure.
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
        self.read_again(&mut self.files.lock(), part);
        self.version() > used
    }

    fn read_again(&self, files: &mut WatchedFiles, part: Part) {
        let now = self.settings.clock.now();
        let (what, outcome) = match part {
            Part::Authorities => {
                let make = |sources: &[PemSource]| self.settings.with_ca(sources.first()).verifier();
                ("CA bundle", files.authorities.read_again(now, make))
            }
            Part::Identity => {
                let authorities = files.authorities.value();
                let make = |sources: &[PemSource]| {
                    let identity = match sources {
                        [chain, key] => Some(Identity::from_sources(chain, key)?),
                        _ => None,
                    };
                    // Says whether they belong together: half of a rotation is none.
                    self.settings.client_config(authorities, identity.as_ref())?;
                    Ok(identity)
                };
                ("client certificate", files.identity.read_again(now, make))
            }
        };
        match outcome {
            ReadOutcome::Unchanged | ReadOutcome::StillRefused => {}
            ReadOutcome::Refused(why) => {
                self.refusals.fetch_add(1, Ordering::Relaxed);
                log_line!(warn, target: TLS, "tls: keeping the {what} that was read before: {why}");
            }
            ReadOutcome::Changed => {
                match self.settings.client_config(files.authorities.value(), files.identity.value().as_ref()) {
                    Ok(config) => {
                        log_line!(info, target: TLS, "tls: using another {what}: its file has changed");
                        let authorities = Arc::clone(files.authorities.value());
                        let mut current = self.current.lock();
                        *current = CurrentTls { authorities, config, version: current.version + 1 };
                    }
                    // Each part has been tried before.
                    Err(e) => log_line!(warn, target: TLS, "tls: keeping the {what} that was used before: {e}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
