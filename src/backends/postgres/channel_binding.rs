//! The proof that both ends of a login use the same TLS connection.

use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS};

use crate::net::error::{Error, NetErrorKind};
use crate::net::tls::server_end_point;

/// The logins with a proof that both ends use the same TLS connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChannelBindingMode {
    Disable,
    /// The login has the proof if the server offers SCRAM-SHA-256-PLUS.
    #[default]
    Prefer,
    /// Every other login is refused.
    Require,
}

impl ChannelBindingMode {
    pub(super) fn parse(value: &str) -> Result<Self, String> {
        match value {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            _ => Err("possible are disable, prefer and require".to_owned()),
        }
    }

    /// Returns an error if the server must not log the client in by `method`, which has no proof.
    ///
    /// The client calls this method before it sends its password or a hash of the password.
    pub(super) fn allow_unbound(self, method: &str) -> Result<(), Error> {
        let rule = format!(
            "the URL has channel_binding=require, but the server logs in by {method}; set scram-sha-256 in pg_hba.conf, \
             or remove channel_binding from the URL"
        );
        if self == Self::Require { Err(Error::new(NetErrorKind::Credentials, rule)) } else { Ok(()) }
    }

    /// Returns the mechanism of SCRAM and its channel binding to the server's certificate.
    pub(super) fn scram(
        self,
        offers_plus: bool,
        certificate: Option<&[u8]>,
    ) -> Result<(&'static str, ChannelBinding), Error> {
        match certificate.filter(|_| self != Self::Disable).and_then(server_end_point) {
            Some(hash) if offers_plus => Ok((SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash))),
            unused => {
                self.allow_unbound(match offers_plus {
                    true => "SCRAM with a certificate that is signed neither by RSA (PKCS #1) nor by ECDSA",
                    false => "SCRAM without channel binding",
                })?;
                // If an attacker has removed the offer, a server that supports the proof refuses `unrequested`.
                let binding = unused.map_or(ChannelBinding::unsupported(), |_| ChannelBinding::unrequested());
                Ok((SCRAM_SHA_256, binding))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::ScramSha256;

    use super::ChannelBindingMode::{Disable, Prefer, Require};
    use super::*;
    use crate::net::tests::certificates::authority;

    #[test]
    fn login_is_bound_whenever_both_ends_can() {
        let certificate = authority().der;
        let bound = Some((SCRAM_SHA_256_PLUS, "p=tls-server-end-point,,"));
        // A server that has offered the proof refuses `y`, because an attacker has removed the offer.
        let (unrequested, unsupported) = (Some((SCRAM_SHA_256, "y,,")), Some((SCRAM_SHA_256, "n,,")));
        for (mode, offers_plus, is_tls, expected) in [
            (Disable, true, true, unsupported),
            (Prefer, true, true, bound),
            (Prefer, false, true, unrequested),
            (Prefer, true, false, unsupported),
            (Prefer, false, false, unsupported),
            (Require, true, true, bound),
            (Require, false, true, None),
            (Require, true, false, None),
        ] {
            let begun = mode.scram(offers_plus, Some(&certificate[..]).filter(|_| is_tls)).ok();
            let begun = begun.map(|(mechanism, binding)| (mechanism, ScramSha256::new(b"", binding)));
            let first = begun.as_ref().map(|(mechanism, scram)| (*mechanism, scram.message()));
            let is_expected = match (&first, expected) {
                (Some((mechanism, first)), Some((expected, start))) => {
                    *mechanism == expected && first.starts_with(start.as_bytes())
                }
                (first, expected) => first.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{mode:?}, offered {offers_plus}, TLS {is_tls}: {first:?}");
        }
    }
}
