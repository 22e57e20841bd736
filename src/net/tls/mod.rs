//! TLS: trusted authorities, the expected server name, and the client certificate.
//!
//! This module builds the rustls configuration, which ureq would otherwise build. The trust roots, the expected name
//! and the client certificate come only from the configuration of the store. No process-wide default applies.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, ConfigBuilder, InconsistentKeys, RootCertStore, WantsVerifier};

use self::der::CertificateFields;
use super::error::{Error, NetErrorKind};
use crate::util::clock::{self, Moment};
use crate::util::debug_fields::debug_fields;

pub(crate) mod config;
mod der;
#[cfg(feature = "postgres")]
mod end_point;
mod files;
mod pinned;
mod provider;
mod reload;
mod verify;

#[cfg(feature = "postgres")]
pub(crate) use end_point::server_end_point;
pub(crate) use files::PemSource;
pub(crate) use provider::provider;
pub(crate) use reload::ClientTls;

/// The TLS part of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsSettings {
    /// The trusted authorities. `None` for the system's roots.
    pub(crate) ca: Option<PemSource>,
    /// `true` if the system's roots are trusted in addition to `ca`.
    pub(crate) and_system: bool,
    pub(crate) verification: Verification,
    pub(crate) server_name: Option<String>,
    pub(crate) identity: Option<IdentitySource>,
    /// `true` if the client offers no ALPN name, because its protocol is not HTTP.
    pub(crate) without_alpn: bool,
    pub(crate) clock: Clock,
}

/// The checks of a server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verification {
    /// A trusted authority has signed the certificate, and the certificate contains the expected name.
    #[default]
    Identity,
    /// A trusted authority has signed the certificate.
    #[cfg(feature = "_sql_server")]
    Authority,
    /// Every certificate is accepted.
    Nothing,
}

/// The sources of a client certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct IdentitySource {
    pub(crate) chain: PemSource,
    pub(crate) key: PemSource,
}

/// The clock that measures the age of files, or `None` for the system's clock. Tests replace the clock.
#[derive(Clone, Default)]
pub(crate) struct Clock(pub(crate) Option<Arc<dyn Fn() -> Moment + Send + Sync>>);

/// A client certificate with its key.
#[derive(Clone, PartialEq)]
pub(crate) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    /// The files of the certificate and the key, for messages.
    files: Vec<String>,
}

/// The TLS configuration of a connection, and the expected server name.
#[derive(Clone, Debug)]
pub(crate) struct TlsParts {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl TlsSettings {
    /// Trusts only the authorities in `ca`. An error states the rule that `ca` violates.
    pub(crate) fn trust(&mut self, ca: PemSource) -> Result<(), String> {
        certificates(&ca.bytes).map_err(|rule| ca.breaks(rule))?;
        self.ca = Some(ca);
        Ok(())
    }

    /// Sets the client certificate, which is sent to a server that requests a certificate.
    pub(crate) fn show(&mut self, chain: PemSource, key: PemSource) -> Result<(), Error> {
        Identity::from_sources(&chain, &key)?;
        self.identity = Some(IdentitySource { chain, key });
        Ok(())
    }

    fn name(&self, host: &str) -> Result<ServerName<'static>, Error> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| Error::config("tls-server-name", format!("{name:?} is neither a DNS name nor an IP address")))
    }

    /// Returns the settings for a proxy, which is not a part of the cluster.
    ///
    /// The certificate of the proxy must name the proxy. The authorities of the cluster and the system's roots are
    /// trusted. The proxy does not get the client certificate.
    pub(crate) fn for_proxy(&self) -> Self {
        TlsSettings { and_system: true, server_name: None, identity: None, ..self.clone() }
    }

    /// Returns the authorities in `ca`, and the system's roots if these are trusted too.
    pub(crate) fn authorities(&self, ca: &PemSource) -> Result<Vec<CertificateDer<'static>>, Error> {
        let rule = |rule| Error::config("certificate-authority", ca.breaks(rule));
        let mut found = certificates(&ca.bytes).map_err(rule)?;
        if self.and_system {
            let system = rustls_native_certs::load_native_certs().certs.into_iter();
            found.extend(system.filter(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok()));
        }
        Ok(found)
    }

    /// Creates the verifier of server certificates.
    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        if self.verification == Verification::Nothing {
            return Ok(verify::trust_anyone());
        }
        let checks_name = self.verification == Verification::Identity;
        let Some(ca) = &self.ca else { return verify::trust_the_system(checks_name) };
        let unusable = || Error::config("certificate-authority", ca.breaks(verify::NO_AUTHORITY));
        verify::trust_these(self.authorities(ca)?, checks_name).ok_or_else(unusable)
    }

    /// Creates a rustls configuration with the verifier `authorities`.
    ///
    /// If `identity` is set, the configuration contains that client certificate.
    fn client_config(
        &self,
        authorities: &Arc<dyn ServerCertVerifier>,
        identity: Option<&Identity>,
    ) -> Result<Arc<ClientConfig>, Error> {
        let builder = config_builder()?.dangerous().with_custom_certificate_verifier(Arc::clone(authorities));
        let mut config = match identity {
            Some(identity) => identity.shown_by(builder)?,
            None => builder.with_no_client_auth(),
        };
        if !self.without_alpn {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        provider::check_fips(cfg!(feature = "fips"), &config)?;
        Ok(Arc::new(config))
    }
}

fn config_builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::config("TLS", e.to_string()))
}

impl Clock {
    fn now(&self) -> Moment {
        self.0.as_ref().map_or_else(clock::now, |read| read())
    }
}

debug_fields!(impl Debug for Clock { self => .. });

impl Identity {
    /// Creates an identity from sources. An error names the file of the source.
    ///
    /// `chain` begins with the client certificate. `key` has PKCS#8, PKCS#1 or SEC1 form.
    pub(crate) fn from_sources(chain: &PemSource, key: &PemSource) -> Result<Self, Error> {
        let certificates =
            certificates(&chain.bytes).map_err(|rule| Error::config("client certificate", chain.breaks(rule)))?;
        let parsed = PrivateKeyDer::from_pem_slice(&key.bytes).map_err(|e| {
            let rule = match e {
                PemError::NoItemsFound
                    if String::from_utf8_lossy(&key.bytes).contains("ENCRYPTED PRIVATE KEY-----") =>
                {
                    "is an encrypted key, which is not supported; store the key decrypted"
                }
                PemError::NoItemsFound => "contains no private key in PKCS#8, PKCS#1 or SEC1 form",
                _ => "is not valid PEM",
            };
            Error::config("client key", key.breaks(rule))
        })?;
        let files: Vec<_> = [chain, key].iter().filter_map(|source| source.name()).collect();
        Ok(Identity { chain: certificates, key: Arc::new(parsed), files })
    }

    /// Returns an error if certificate and key do not match.
    #[cfg(feature = "kubeconfig")]
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.shown_by(config_builder()?.with_root_certificates(RootCertStore::empty())).map(drop)
    }

    fn shown_by(&self, builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> Result<ClientConfig, Error> {
        let resolver = self.certified_key().map(|key| Arc::new(SingleCertAndKey::from(key)));
        resolver.map(|resolver| builder.with_client_cert_resolver(resolver)).map_err(|e| {
            let hint = if matches!(e, rustls::Error::General(_)) { provider::hint() } else { "" };
            let from = if self.files.is_empty() { "" } else { " of " };
            let files = self.files.join(" and ");
            let rule = format!("certificate and key{from}{files} do not work together: {e}{hint}");
            Error::config("client certificate", rule)
        })
    }

    /// Returns the certificate with its key, or an error if they do not match.
    ///
    /// rustls would refuse a certificate that is not of version 3, but servers may accept such a certificate.
    fn certified_key(&self) -> Result<CertifiedKey, rustls::Error> {
        let key = provider().key_provider.load_private_key(self.key.clone_key())?;
        let certificate = self.chain.first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let fields = CertificateFields::read(certificate).ok_or(CertificateError::BadEncoding)?;
        match key.public_key() {
            Some(public) if public.as_ref() != fields.public_key => Err(InconsistentKeys::KeyMismatch.into()),
            _ => Ok(CertifiedKey::new(self.chain.clone(), key)),
        }
    }
}

debug_fields!(impl Debug for Identity { self => certificates: self.chain.len(), .. });

/// Returns all certificates of a PEM bundle.
///
/// An error does not quote the content, because the content may be a key.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("contains no PEM certificate"),
        Ok(found) => Ok(found),
        Err(_) => Err("is not valid PEM"),
    }
}

/// Converts an error of rustls into an error with a remedy.
pub(crate) fn tls_error(error: &rustls::Error) -> Error {
    use rustls::Error as E;
    let untrusted = |text: String| Error::new(NetErrorKind::TlsVerification, text);
    let failed = |text: String| Error::new(NetErrorKind::Tls, text);
    match error {
        E::InvalidCertificate(
            e @ (CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }),
        ) => untrusted(format!("the server's certificate is not accepted ({e}){}", provider::hint())),
        E::InvalidCertificate(e) if e.to_string().contains("CaUsedAsEndEntity") => untrusted(
            "the server's certificate is not accepted: a self-signed certificate of an authority; trust the \
             authority, or give the server a certificate that an authority has issued"
                .to_owned(),
        ),
        E::InvalidCertificate(CertificateError::Other(e)) if e.to_string().contains("X.509 version") => {
            untrusted(e.to_string())
        }
        E::InvalidCertificate(e) => untrusted(format!(
            "the server's certificate is not accepted ({e}); check the configured certificate authority and server name"
        )),
        E::NoCertificatesPresented => untrusted("the server presented no certificate".to_owned()),
        E::AlertReceived(alert) => failed(format!(
            "the server ended the TLS session with the alert {alert:?}; the server may have rejected the client certificate"
        )),
        E::InvalidMessage(_) => {
            failed("the server does not speak TLS; check the scheme and the port of the server".to_owned())
        }
        other => failed(format!("TLS failed: {other}")),
    }
}
