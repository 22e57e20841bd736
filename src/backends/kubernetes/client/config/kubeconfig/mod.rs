//! Kubeconfig files: parsing, merging, and the meaning of a context.
//!
//! Source: Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files", and
//! `k8s.io/client-go/tools/clientcmd/api/v1`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Env;
use crate::backends::kubernetes::client::config::ClientConfig;
use crate::backends::kubernetes::client::error::ClientError;
use crate::net::file::read_file;

mod choices;
mod encoding;
#[cfg(feature = "_internals")]
pub(crate) mod properties;
mod resolve;
mod schema;

use schema::{AuthInfo, Cluster, Context, File, Named};

/// Maximum length of the text that YAML aliases add to a file.
///
/// The limit allows a bundle of certificates that some hundred clusters share.
const MAX_ALIASED: usize = 1024 * 1024;

/// One or several kubeconfig files, merged as `kubectl` merges them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kubeconfig {
    /// The source of the files, for messages.
    origin: String,
    current_context: Option<String>,
    clusters: Vec<NamedEntry<Cluster>>,
    users: Vec<NamedEntry<AuthInfo>>,
    contexts: Vec<NamedEntry<Context>>,
}

/// The remedy in an error if no configuration is found.
const SET_IT: &str = "set KUBECONFIG to a kubeconfig, or run in a pod with a service account";

/// A named entry and its file. Relative paths in an entry are relative to its file.
#[derive(Clone, Debug)]
struct NamedEntry<T> {
    /// The list that contains the entry, such as `users`.
    list: &'static str,
    name: String,
    file: PathBuf,
    value: T,
}

impl Kubeconfig {
    /// Reads and merges the files in `KUBECONFIG`, or else reads `~/.kube/config`.
    pub(crate) fn load() -> Result<Self, ClientError> {
        Self::load_from(&|name| std::env::var_os(name))
    }

    pub(crate) fn load_from(env: Env<'_>) -> Result<Self, ClientError> {
        let (origin, files, remedy) = match env("KUBECONFIG").filter(|list| !list.is_empty()) {
            // `KUBECONFIG` takes precedence over the service account, so running in a pod is not a remedy.
            Some(list) => {
                let files = split_paths(&list);
                let origin = match &files[..] {
                    [file] => format!("{} in KUBECONFIG", file.display()),
                    _ => "KUBECONFIG".to_owned(),
                };
                (origin, files, "correct or unset KUBECONFIG")
            }
            None => {
                let file = file_at_home(env).ok_or_else(|| {
                    ClientError::config("HOME", format!("is not set, and neither is KUBECONFIG; {SET_IT}"))
                })?;
                (file.display().to_string(), vec![file], SET_IT)
            }
        };
        let mut merged = Kubeconfig { origin, ..Kubeconfig::default() };
        let mut found = false;
        for file in &files {
            match read_file(file) {
                Ok(bytes) => merged.add(file, &bytes)?,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => {
                    return Err(ClientError::config(file.display().to_string(), "cannot be read").caused_by(e));
                }
            }
            found = true;
        }
        if !found {
            let looked_for: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
            let looked_for = match looked_for.is_empty() {
                true => "KUBECONFIG names no file".to_owned(),
                false => format!("looked for {}", choices::list(looked_for.iter().map(AsRef::as_ref))),
            };
            return Err(ClientError::config(merged.origin, format!("no kubeconfig found ({looked_for}); {remedy}")));
        }
        Ok(merged)
    }

    /// Returns `true` if `~/.kube/config` exists.
    pub(super) fn is_at_home(env: Env<'_>) -> bool {
        file_at_home(env).is_some_and(|file| file.exists())
    }

    /// Reads one file.
    pub(crate) fn from_path(path: &Path) -> Result<Self, ClientError> {
        let mut only = Kubeconfig { origin: path.display().to_string(), ..Kubeconfig::default() };
        let bytes = read_file(path)
            .map_err(|e| ClientError::config(path.display().to_string(), "cannot be read").caused_by(e))?;
        only.add(path, &bytes)?;
        Ok(only)
    }

    /// Parses the text of a kubeconfig, whose relative paths are relative to `directory`.
    #[cfg(test)]
    pub(crate) fn from_text(text: &str, directory: impl AsRef<Path>) -> Result<Self, ClientError> {
        let file = directory.as_ref().join("kubeconfig");
        let mut only = Kubeconfig { origin: "kubeconfig".to_owned(), ..Kubeconfig::default() };
        only.add(&file, text.as_bytes())?;
        Ok(only)
    }

    /// Returns the names of all contexts.
    #[cfg(any(test, feature = "_internals"))]
    pub(crate) fn context_names(&self) -> impl Iterator<Item = &str> {
        self.contexts.iter().map(|entry| entry.name.as_str())
    }

    /// Creates a configuration from `context`, or else from the current context.
    pub(crate) fn client_config(&self, context: Option<&str>) -> Result<ClientConfig, ClientError> {
        self.client_config_from(context, &|name| std::env::var_os(name))
    }

    fn add(&mut self, file: &Path, bytes: &[u8]) -> Result<(), ClientError> {
        let parsed = parse(file, bytes)?;
        // The path must be absolute, because the client reads token files and runs plugins later. The working directory
        // may then have changed.
        let absolute = std::path::absolute(file);
        let file = absolute.as_deref().unwrap_or(file);
        if self.current_context.is_none() {
            self.current_context = parsed.current_context.filter(|name| !name.is_empty());
        }
        add_all(&mut self.clusters, file, "clusters", parsed.clusters)?;
        add_all(&mut self.users, file, "users", parsed.users)?;
        add_all(&mut self.contexts, file, "contexts", parsed.contexts)
    }
}

fn file_at_home(env: Env<'_>) -> Option<PathBuf> {
    let home = ["HOME", "USERPROFILE"].into_iter().find_map(|name| env(name).filter(|home| !home.is_empty()))?;
    Some(Path::new(&home).join(".kube").join("config"))
}

fn split_paths(list: &OsString) -> Vec<PathBuf> {
    std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect()
}

fn add_all<T>(
    into: &mut Vec<NamedEntry<T>>,
    file: &Path,
    list: &'static str,
    from: Option<Vec<Named<T>>>,
) -> Result<(), ClientError> {
    // Sets are fast enough for ten thousand names in one file.
    let earlier: HashSet<String> = into.iter().map(|entry| entry.name.clone()).collect();
    let mut seen = HashSet::new();
    for Named { name, value } in from.unwrap_or_default() {
        if !seen.insert(name.clone()) {
            let place = format!("{}: {list}[{name}]", file.display());
            return Err(ClientError::config(place, "the name occurs twice"));
        }
        // The first file with a name wins as a whole, because entries are not merged.
        if !earlier.contains(&name) {
            into.push(NamedEntry { list, name, file: file.to_owned(), value });
        }
    }
    Ok(())
}

fn parse(file: &Path, bytes: &[u8]) -> Result<File, ClientError> {
    let text = encoding::decode(bytes).map_err(|rule| ClientError::config(file.display().to_string(), rule))?;
    // An empty file is an empty kubeconfig, as for kubectl.
    if text.trim().is_empty() {
        return Ok(File::default());
    }
    let mut options = serde_saphyr::Options::default();
    options.with_snippet = false;
    // Limits aliases, which can expand to huge documents (YAML bombs). Kubeconfigs contain almost no aliases.
    let mut budget = serde_saphyr::budget::Budget::default();
    // Allows twice the events of ten thousand contexts, or of two thousand clusters with a plugin each.
    budget.max_events = 400_000;
    budget.max_nodes = 200_000;
    budget.max_depth = 64;
    budget.max_aliases = 256;
    budget.max_anchors = 256;
    budget.max_documents = 1;
    // A few aliases of one long text can also expand to a huge document. Without aliases, all texts together are at
    // most as long as the file.
    budget.max_total_scalar_bytes = text.len() + MAX_ALIASED;
    options.budget = Some(budget);
    options.alias_limits.max_total_replayed_events = 10_000;
    let document: Option<File> = serde_saphyr::from_str_with_options(&text, options).map_err(|e| {
        // The parser's message may quote the file, so the error has only the position.
        let rule = match e.location() {
            Some(at) => format!("is not a valid kubeconfig at line {} column {}", at.line(), at.column()),
            None => "is not a valid kubeconfig".to_owned(),
        };
        ClientError::config(file.display().to_string(), rule + reason(&e))
    })?;
    Ok(document.unwrap_or_default())
}

/// Returns the reason why this parser rejects a file that other parsers accept.
fn reason(e: &serde_saphyr::Error) -> &'static str {
    use serde_saphyr::Error as E;
    use serde_saphyr::budget::BudgetBreach;
    match e.without_snippet() {
        E::DuplicateMappingKey { .. } => ", where a key is repeated",
        E::MultipleDocuments { .. } | E::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            ", where a second document starts"
        }
        E::Budget { .. } => ", where the document exceeds the size or depth limit",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
