//! Properties that every output of a credential plugin must have, checked by fuzzing.

use serde_json::json;

use super::credential::{ExecCredentialStatus, Issued};
use super::*;
use crate::backends::kubernetes::client::error::ClientError;
use crate::fuzzing::target::{MARKER, Target, assert_loggable, holds_marker};

pub(crate) const TARGET: Target = Target { name: "exec_credential", base: 64 * 1024, read, check };

const VERSION: &str = "client.authentication.k8s.io/v1";

fn plugin() -> ExecPlugin {
    ExecPlugin {
        api_version: VERSION.to_owned(),
        command: PathBuf::from("plugin"),
        args: Vec::new(),
        env: Vec::new(),
        install_hint: None,
        cluster_info: None,
        limit: DEFAULT_LIMIT,
        stderr: ExecStderr::default(),
    }
}

fn read(input: &[u8]) {
    if let Ok(raw) = plugin().parse(input) {
        let _ = raw.issue();
    }
}

fn check(input: &[u8]) {
    let raw = match plugin().parse(input) {
        Ok(raw) => raw,
        Err(e) => return assert_says_nothing_of_the_output(&e),
    };
    let first = raw.issue();
    let mut again = plugin().parse(&print(&raw)).unwrap_or_else(|e| panic!("{e}")).issue();
    if let Ok(again) = &mut again {
        again.count_from(first.as_ref().ok());
    }
    match (&first, &again) {
        (Ok(first), Ok(again)) => assert_same(first, again),
        (Err(first), Err(again)) => assert_eq!(first, again),
        _ => panic!("two parses of the same output differ: {:?} {:?}", first.as_ref().err(), again.as_ref().err()),
    }
    if !holds_marker(input) {
        check_secrets(&raw);
    }
}

/// Returns `raw` as a plugin would print it.
fn print(raw: &ExecCredentialStatus) -> Vec<u8> {
    json!({ "apiVersion": VERSION, "kind": "ExecCredential", "status": raw }).to_string().into_bytes()
}

fn assert_same(first: &Issued, again: &Issued) {
    assert_eq!(first.expires, again.expires);
    assert_eq!(first.credentials.authorization, again.credentials.authorization);
    assert_eq!(first.credentials.identity.is_some(), again.credentials.identity.is_some());
    assert_eq!(first.credentials.identity_version, again.credentials.identity_version, "connections stay usable");
}

/// Checks that the error is a known text, except numbers, and so quotes no output.
fn assert_says_nothing_of_the_output(error: &ClientError) {
    let words = |error: &ClientError| error.to_string().replace(|c: char| c.is_ascii_digit(), "");
    let others = [
        "x".to_owned(),
        "{}".to_owned(),
        r#"{"kind":"ExecCredential"}"#.to_owned(),
        format!(r#"{{"kind":"ExecCredential","apiVersion":"{VERSION}"}}"#),
    ];
    let known = others.iter().filter_map(|other| plugin().parse(other.as_bytes()).err());
    assert!(known.map(|other| words(&other)).any(|other| other == words(error)), "{error}");
}

fn check_secrets(raw: &ExecCredentialStatus) {
    let marked = |text: &str| Secret::new(format!("{MARKER}{text}"));
    let mark = |secret: &Option<Secret>| secret.as_ref().filter(|s| !s.is_empty()).map(|s| marked(s.expose()));
    let marked = ExecCredentialStatus {
        expiration_timestamp: raw.expiration_timestamp.clone(),
        token: mark(&raw.token),
        // The certificate is marked like a secret, because its text may contain a key by mistake.
        client_certificate_data: raw.client_certificate_data.as_ref().map(|text| format!("{text}\n{MARKER}")),
        client_key_data: raw.client_key_data.as_ref().map(|key| Secret::new(format!("{MARKER}\n{}", key.expose()))),
    };
    let shown = match marked.issue() {
        Ok(issued) => {
            let authorization = issued.credentials.authorization;
            assert!(authorization.as_ref().is_none_or(|value| value.is_sensitive()));
            format!("{authorization:?} {:?}", issued.credentials.identity)
        }
        Err(rule) => rule,
    };
    assert_loggable(&shown, 512);
    assert!(!shown.contains(MARKER), "{shown}");
}
