//! Properties that every set of kubeconfig files must have, checked by fuzzing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::*;
use crate::backends::kubernetes::client::auth::Auth;
use crate::backends::kubernetes::client::config::AuthConfig;
use crate::fuzzing::target::{MARKER, Target, holds_marker};
use crate::net::secret::Secret;

pub(crate) const TARGET: Target = Target { name: "kubeconfig", base: 4 * MAX_ALIASED, read, check };

/// Separates two files in the input.
const SEPARATOR: &str = "\n=====\n";

/// Maximum number of files in an input, because each file needs a buffer of a fixed size.
const FILES: usize = 8;

/// Maximum number of contexts to resolve, because ten thousand would take too long.
const CONTEXTS: usize = 8;

fn files(input: &[u8]) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut parts, mut rest) = (Vec::new(), input);
    while parts.len() + 1 < FILES
        && let Some(end) = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR.as_bytes())
    {
        parts.push(&rest[..end]);
        rest = &rest[end + SEPARATOR.len()..];
    }
    parts.push(rest);
    let file = |(number, bytes): (usize, &[u8])| (format!("/etc/kube/{number}/config").into(), bytes.to_vec());
    parts.into_iter().enumerate().map(file).collect()
}

fn merge(files: &[(PathBuf, Vec<u8>)]) -> Result<Kubeconfig, ClientError> {
    let mut merged = Kubeconfig { origin: "KUBECONFIG".to_owned(), ..Kubeconfig::default() };
    for (file, bytes) in files {
        merged.add(file, bytes)?;
    }
    // Removes the paths of certificate files, because the input does not contain these files.
    for cluster in &mut merged.clusters {
        cluster.value.certificate_authority = None;
    }
    for user in &mut merged.users {
        user.value.client_certificate = None;
        user.value.client_key = None;
    }
    Ok(merged)
}

fn resolve(kubeconfig: &Kubeconfig) -> Vec<Result<ClientConfig, ClientError>> {
    let names = kubeconfig.context_names().map(Some).take(CONTEXTS);
    names.chain([None]).map(|name| kubeconfig.client_config_from(name, &|_| None)).collect()
}

fn read(input: &[u8]) {
    if let Ok(kubeconfig) = merge(&files(input)) {
        resolve(&kubeconfig);
    }
}

fn check(input: &[u8]) {
    let files = files(input);
    let each: Vec<_> = files.iter().map(|file| merge(std::slice::from_ref(file))).collect();
    let merged = match merge(&files) {
        Ok(merged) => merged,
        Err(e) => {
            let first = each.iter().find_map(|file| file.as_ref().err()).expect("one of the files is at fault");
            assert_eq!(e.to_string(), first.to_string());
            assert_eq!(e.kind(), &crate::backends::kubernetes::client::ErrorKind::Config);
            return assert_says_only_where(&files, &e);
        }
    };
    let each: Vec<_> = each.into_iter().map(|file| file.unwrap_or_else(|e| panic!("{e}"))).collect();
    check_first_wins(&each, &merged);
    for (file, (path, _)) in each.iter().zip(&files) {
        check_rewritten(file, path);
    }
    for config in resolve(&merged) {
        match config {
            Ok(config) => drop(Auth::new(config.auth, false)),
            Err(e) => assert_eq!(e.kind(), &crate::backends::kubernetes::client::ErrorKind::Config, "{e}"),
        }
    }
    if !holds_marker(input) {
        check_secrets(&merged);
    }
}

/// Checks that an error about a file quotes no content except a repeated name.
///
/// If the file cannot be parsed, the error has only the position.
fn assert_says_only_where(files: &[(PathBuf, Vec<u8>)], error: &ClientError) {
    let text = error.to_string();
    let at_fault = |path: &PathBuf| text.starts_with(&path.display().to_string());
    let (path, bytes) = files.iter().find(|(path, _)| at_fault(path)).expect("a file is named");
    if parse(path, bytes).is_ok() {
        assert!(text.ends_with("the name occurs twice"), "{text}");
    } else {
        let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let rule = words(&text[path.display().to_string().len()..]);
        let known = [
            ": is not a valid kubeconfig at line 1 column 1",
            ": is not a valid kubeconfig at line 1 column 1, where a key is repeated",
            ": is not a valid kubeconfig at line 1 column 1, where a second document starts",
            ": is not a valid kubeconfig at line 1 column 1, where the document exceeds the size or depth limit",
            ": is not a valid kubeconfig",
            ": is not UTF-8 text",
            ": is not UTF-16 text despite its byte order mark",
        ];
        assert!(known.map(words).contains(&rule), "{text}");
    }
}

fn check_first_wins(files: &[Kubeconfig], merged: &Kubeconfig) {
    assert_eq!(merged.current_context, files.iter().find_map(|file| file.current_context.clone()));
    first_wins(files.iter().flat_map(|file| &file.clusters), &merged.clusters);
    first_wins(files.iter().flat_map(|file| &file.users), &merged.users);
    first_wins(files.iter().flat_map(|file| &file.contexts), &merged.contexts);
}

fn first_wins<'a, T: Serialize + 'a>(all: impl Iterator<Item = &'a NamedEntry<T>>, merged: &[NamedEntry<T>]) {
    let mut first = BTreeMap::new();
    for entry in all {
        first.entry(&entry.name).or_insert(entry);
    }
    assert_eq!(first.len(), merged.len());
    for entry in merged {
        let expected = first[&entry.name];
        assert_eq!(entry.file, expected.file);
        assert_eq!(json!(entry.value), json!(expected.value));
    }
}

/// Checks that another YAML form of the file has the same meaning.
fn check_rewritten(file: &Kubeconfig, path: &Path) {
    let text = write(file);
    let again = merge(&[(path.to_owned(), text.clone().into_bytes())]).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(write(&again), text);
}

/// Checks that no visible text has a secret, by a mark on all secrets.
fn check_secrets(kubeconfig: &Kubeconfig) {
    let mut marked = kubeconfig.clone();
    let mark = |secret: &mut Secret| {
        if !secret.is_empty() {
            *secret = Secret::new(format!("{MARKER}{}", secret.expose()));
        }
    };
    let mark_url = |url: &mut Secret| {
        let (scheme, rest) = url.expose().split_once("://").unwrap_or(("http", url.expose()));
        *url = Secret::new(format!("{scheme}://{MARKER}:{MARKER}@{rest}"));
    };
    for NamedEntry { value: user, .. } in &mut marked.users {
        let single = [&mut user.token, &mut user.password, &mut user.client_key_data].into_iter().flatten();
        let exec = user.exec.iter_mut();
        let many = exec.flat_map(|exec| {
            let variables = exec.env.iter_mut().flatten().map(|variable| &mut variable.value);
            exec.args.iter_mut().flatten().chain(variables)
        });
        single.chain(many).for_each(mark);
    }
    for NamedEntry { value: cluster, .. } in &mut marked.clusters {
        cluster.proxy_url.iter_mut().filter(|url| !url.is_empty()).for_each(mark_url);
    }
    assert_hidden(&marked);
    for NamedEntry { value: cluster, .. } in &mut marked.clusters {
        cluster.server.iter_mut().for_each(mark_url);
    }
    assert_hidden(&marked);
}

fn assert_hidden(kubeconfig: &Kubeconfig) {
    let mut shown = vec![format!("{kubeconfig:?}")];
    for config in resolve(kubeconfig) {
        match config {
            Ok(config) => {
                shown.push(format!("{config:?}"));
                if let AuthConfig::Fixed(authorization) = &config.auth {
                    let (_, coded) = authorization.expose().split_once(' ').expect("a scheme");
                    assert!(coded.len() < MARKER.len() || !shown.iter().any(|text| text.contains(coded)));
                }
                shown.extend(Auth::new(config.auth, false).err().map(|e| format!("{e} {e:?}")));
            }
            Err(e) => shown.push(format!("{e} {e:?}")),
        }
    }
    for text in shown {
        assert!(!text.contains(MARKER), "{text}");
    }
}

/// Returns a kubeconfig as JSON on one line.
///
/// Characters beyond printable ASCII are escaped. Such characters occur only in JSON strings.
fn write(kubeconfig: &Kubeconfig) -> String {
    let document = json!({
        "current-context": kubeconfig.current_context,
        "clusters": list("cluster", &kubeconfig.clusters),
        "users": list("user", &kubeconfig.users),
        "contexts": list("context", &kubeconfig.contexts),
    });
    let mut out = String::new();
    for c in document.to_string().chars() {
        match c {
            ' '..='~' => out.push(c),
            _ => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out
}

fn list<T: Serialize>(key: &str, entries: &[NamedEntry<T>]) -> Vec<Value> {
    entries.iter().map(|entry| json!({ "name": entry.name, key: entry.value })).collect()
}
