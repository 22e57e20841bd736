//! The kubeconfig file that leads to the server.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::testing::wire::tls::CertificatePair;

/// How the user of a kubeconfig proves who they are.
pub(crate) enum ShownCredentials {
    None,
    Token(String),
    Certificate(CertificatePair),
}

/// A kubeconfig in YAML. Strings are quoted as in JSON, which YAML understands.
pub(crate) fn render(url: &str, ca_pem: Option<&str>, user: &str, credentials: &ShownCredentials) -> String {
    let quoted = |text: &str| json!(text).to_string();
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    let mut cluster = format!("    server: {}\n", quoted(url));
    if let Some(pem) = ca_pem {
        // Writing to a string cannot fail.
        let _ = writeln!(cluster, "    certificate-authority-data: {}", encoded(pem));
    }
    let credentials = match credentials {
        ShownCredentials::None => "  user: {}\n".to_owned(),
        ShownCredentials::Token(token) => format!("  user:\n    token: {}\n", quoted(token)),
        ShownCredentials::Certificate(pair) => format!(
            "  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            encoded(&pair.certificate),
            encoded(&pair.key)
        ),
    };
    let user = quoted(user);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: testing\n  cluster:\n{cluster}\
         users:\n\
         - name: {user}\n{credentials}\
         contexts:\n\
         - name: testing\n  context:\n    cluster: testing\n    user: {user}\n    namespace: default\n\
         current-context: testing\n"
    )
}
