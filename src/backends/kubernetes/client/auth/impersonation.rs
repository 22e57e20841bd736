//! Impersonation of users and groups.

use ureq::http::{HeaderName, HeaderValue};

use crate::backends::kubernetes::client::error::ClientError;
use crate::net::percent;

/// The user and the groups that requests impersonate.
///
/// Source: Kubernetes documentation, "User impersonation".
#[derive(Clone, Debug, Default)]
pub(crate) struct Impersonation {
    pub(crate) user: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: Vec<(String, Vec<String>)>,
}

impl Impersonation {
    /// Returns the impersonation headers, or an error that names the invalid field.
    pub(crate) fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, ClientError> {
        let Some(user) = &self.user else {
            if self.uid.is_some() || !self.groups.is_empty() || !self.extra.is_empty() {
                return Err(ClientError::config("users[].as", "is required with as-uid, as-groups and as-user-extra"));
            }
            return Ok(Vec::new());
        };
        let value = |field: &str, text: &str| {
            // The server removes spaces and tabs at both ends, so the request would impersonate another user.
            if text.trim_matches([' ', '\t']) != text {
                return Err(ClientError::config(format!("users[].{field}"), "starts or ends with a space or a tab"));
            }
            HeaderValue::from_bytes(text.as_bytes())
                .map_err(|_| ClientError::config(format!("users[].{field}"), "contains a control character"))
        };
        let mut headers = vec![(HeaderName::from_static("impersonate-user"), value("as", user)?)];
        if let Some(uid) = &self.uid {
            headers.push((HeaderName::from_static("impersonate-uid"), value("as-uid", uid)?));
        }
        for group in &self.groups {
            let name = HeaderName::from_static("impersonate-group");
            headers.push((name, value("as-groups", group)?));
        }
        for (key, values) in &self.extra {
            let mut name = String::from("impersonate-extra-");
            percent::encode(&mut name, key, is_plain);
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| ClientError::config("users[].as-user-extra", "has a key that is too long"))?;
            for text in values {
                headers.push((name.clone(), value("as-user-extra", text)?));
            }
        }
        Ok(headers)
    }
}

/// Returns `true` if the character needs no encoding in a header name.
///
/// The API server decodes the encoded characters.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impersonation_becomes_headers() {
        let who = Impersonation {
            user: Some("jane".into()),
            uid: Some("7".into()),
            groups: vec!["a".into(), "b".into()],
            extra: vec![("example.com/scopes".into(), vec!["x".into(), "y".into()])],
        };
        let headers: Vec<_> =
            who.headers().unwrap().into_iter().map(|(n, v)| format!("{n}={}", v.to_str().unwrap())).collect();
        assert_eq!(
            headers,
            [
                "impersonate-user=jane",
                "impersonate-uid=7",
                "impersonate-group=a",
                "impersonate-group=b",
                "impersonate-extra-example.com%2fscopes=x",
                "impersonate-extra-example.com%2fscopes=y",
            ]
        );
        for (user, group) in [(" jane", "a"), ("jane\t", "a"), ("jane", "a ")] {
            let blank =
                Impersonation { user: Some(user.into()), groups: vec![group.into()], ..Impersonation::default() };
            assert!(
                blank.headers().unwrap_err().to_string().contains("starts or ends with a space or a tab"),
                "{user:?}"
            );
        }
        let groups_only = Impersonation { groups: vec!["a".into()], ..Impersonation::default() };
        assert!(groups_only.headers().unwrap_err().to_string().contains("users[].as"));
    }
}
