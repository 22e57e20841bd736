//! The output of a plugin, and the credentials in the output.

use std::time::SystemTime;

use serde::Deserialize;

use super::ExecPlugin;
use crate::backends::kubernetes::client::auth::credentials::{Credentials, bearer_header};
use crate::backends::kubernetes::client::auth::rfc3339;
use crate::backends::kubernetes::client::error::{ClientError, ErrorKind};
use crate::net::secret::Secret;
use crate::net::tls::{Identity, PemSource};

/// Go's zero time, which a plugin may print if the credentials have no expiry.
///
/// client-go also reads the zero time as no expiry.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// The credentials from one run of the plugin.
pub(super) struct Issued {
    pub(super) credentials: Credentials,
    pub(super) expires: Option<SystemTime>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: Option<String>,
    kind: Option<String>,
    status: Option<ExecCredentialStatus>,
}

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecCredentialStatus {
    pub(super) expiration_timestamp: Option<String>,
    pub(super) token: Option<Secret>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key_data: Option<Secret>,
}

impl ExecPlugin {
    pub(super) fn parse(&self, output: &[u8]) -> Result<ExecCredentialStatus, ClientError> {
        let failed = |detail: String| ClientError::new(ErrorKind::Credentials, detail);
        // PowerShell writes a byte order mark before UTF-8, and client-go accepts the mark.
        let json = output.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(output);
        // The parser's message may quote a secret from the output, so the error has only the position.
        let answer: ExecCredential = serde_json::from_slice(json).map_err(|e| {
            failed(format!(
                "did not print an ExecCredential as JSON (line {} column {}; {} bytes, not shown)",
                e.line(),
                e.column(),
                output.len()
            ))
        })?;
        if answer.kind.as_deref() != Some("ExecCredential") {
            return Err(failed("printed JSON whose kind is not ExecCredential".to_owned()));
        }
        if answer.api_version.as_deref() != Some(self.api_version.as_str()) {
            return Err(failed(format!("printed an ExecCredential of another apiVersion than {}", self.api_version)));
        }
        answer.status.ok_or_else(|| failed("printed an ExecCredential without a status".to_owned()))
    }
}

impl ExecCredentialStatus {
    /// Returns the credentials in the output, or the rule that the output violates.
    pub(super) fn issue(&self) -> Result<Issued, String> {
        let rule = "printed an expirationTimestamp that is not RFC 3339, such as 2026-01-02T03:04:05Z";
        let expires = self.expiration_timestamp.as_deref().filter(|text| *text != NO_TIME);
        let expires = expires.map(|text| rfc3339::parse(text).ok_or(rule)).transpose()?;
        let token = self.token.as_ref().filter(|t| !t.is_empty());
        let header =
            |token: &Secret| bearer_header(token.expose().trim()).ok_or("printed a token that is invalid in a header");
        let authorization = token.map(header).transpose()?;
        // An empty field counts as absent, as in client-go's `exec.go`.
        let chain = self.client_certificate_data.as_ref().filter(|chain| !chain.is_empty());
        let key = self.client_key_data.as_ref().filter(|key| !key.is_empty());
        let identity = match (chain, key) {
            (Some(chain), Some(key)) => Some(
                Identity::from_sources(&PemSource::inline(chain.as_bytes()), &PemSource::inline(key.expose()))
                    // Checks the key now. With a wrong key, every request would fail until the credentials expire,
                    // because TLS errors start no new run.
                    .and_then(|identity| identity.check().map(|()| identity))
                    .map_err(|e| format!("printed an unusable certificate: {e}"))?,
            ),
            (None, None) => None,
            _ => return Err("printed a certificate without its key, or a key without its certificate".to_owned()),
        };
        if authorization.is_none() && identity.is_none() {
            return Err("printed neither a token nor a client certificate".to_owned());
        }
        Ok(Issued { credentials: Credentials { authorization, identity, identity_version: 1 }, expires })
    }
}

impl Issued {
    /// Continues the identity version of `before`, plus one if the certificate has changed.
    ///
    /// Connections with another version are not reused.
    pub(super) fn count_from(&mut self, before: Option<&Issued>) {
        if let Some(Issued { credentials: before, .. }) = before {
            let is_new = self.credentials.identity != before.identity;
            self.credentials.identity_version = before.identity_version + u64::from(is_new);
        }
    }
}
