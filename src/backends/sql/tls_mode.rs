//! The encryption of connections to a database server.

use crate::net::database_url::Address;
use crate::net::tls::config::{TlsConfig, refuse};
use crate::net::tls::{ClientTls, TlsSettings, Verification};
use crate::util::config_error::ConfigError;

/// The encryption of connections to a database server, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TlsMode {
    Disable,
    /// Encryption without verification of the server, unless an authority is configured.
    Require,
    /// Verification of the authority that issued the server's certificate.
    VerifyCa,
    VerifyFull,
}

impl TlsMode {
    /// Returns the mode for a URL that sets no mode.
    ///
    /// Connections within this machine are not encrypted.
    pub(crate) fn default_for(address: &Address) -> Self {
        if address.is_local() { Self::Disable } else { Self::VerifyFull }
    }

    /// Creates the TLS client of a connection to `host`, or returns `None` for plain text.
    pub(crate) fn client(self, tls: &TlsConfig, host: &str) -> Result<Option<ClientTls>, ConfigError> {
        let Some(verification) = self.verification(tls)? else { return Ok(None) };
        let settings = TlsSettings { verification, without_alpn: true, ..tls.settings.clone() };
        ClientTls::new(settings, host).map(Some).map_err(|error| refuse("tls", &error))
    }

    fn verification(self, tls: &TlsConfig) -> Result<Option<Verification>, ConfigError> {
        Ok(Some(match (self, &tls.settings.ca) {
            (Self::Disable, _) => return Ok(None),
            (Self::Require | Self::VerifyCa, Some(_)) => Verification::Authority,
            (Self::Require, None) => Verification::Nothing,
            // Each host has a certificate of an authority among the system's roots.
            (Self::VerifyCa, None) => {
                let rule = "needs the certificate of an authority; set a file, or verify the host's name, too";
                return Err(ConfigError::new("tls", "verify-ca", rule));
            }
            (Self::VerifyFull, _) => Verification::Identity,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::certificates::authority;

    #[test]
    fn configured_authority_is_never_ignored() {
        let with_ca = TlsConfig::new().with_ca_pem(authority().pem).unwrap();
        for (mode, expected) in [
            (TlsMode::Require, Verification::Authority),
            (TlsMode::VerifyCa, Verification::Authority),
            (TlsMode::VerifyFull, Verification::Identity),
        ] {
            assert_eq!(mode.verification(&with_ca), Ok(Some(expected)), "{mode:?}");
        }
        let without = TlsConfig::new();
        assert_eq!(TlsMode::Require.verification(&without), Ok(Some(Verification::Nothing)));
        assert!(TlsMode::VerifyCa.verification(&without).is_err());
        assert_eq!(TlsMode::Disable.verification(&with_ca), Ok(None));
    }
}
