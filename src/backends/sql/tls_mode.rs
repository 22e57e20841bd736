//! The encryption of connections to a database server.

use crate::net::database_url::Address;
use crate::net::tls::config::{TlsConfig, refuse};
use crate::net::tls::{ClientTls, TlsSettings, Verification};
use crate::util::config_error::ConfigError;

/// The encryption of connections to a database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    Disable,
    /// Encryption without verification of the server.
    Require,
    VerifyFull,
}

impl TlsMode {
    /// Returns the mode for a URL that sets no mode.
    ///
    /// Connections within this machine are not encrypted.
    pub(crate) fn default_for(address: &Address) -> Self {
        if address.is_local() { Self::Disable } else { Self::VerifyFull }
    }

    /// Creates the TLS client of a connection, or returns `None` for plain text.
    pub(crate) fn client(self, tls: &TlsConfig, address: &Address) -> Result<Option<ClientTls>, ConfigError> {
        let verification = match self {
            Self::Require => Verification::Nothing,
            _ => Verification::Identity,
        };
        let settings = TlsSettings { verification, without_alpn: true, ..tls.settings.clone() };
        match self {
            Self::Disable => Ok(None),
            _ => ClientTls::new(settings, address.host()).map(Some).map_err(|error| refuse("tls", &error)),
        }
    }
}
