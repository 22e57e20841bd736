//! Kubeconfig files: what they say, how several are merged, and what a context of theirs means.
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

/// How much text may come from aliases: a bundle of certificates that some hundred clusters share.
const MAX_ALIASED: usize = 1024 * 1024;

/// One or several kubeconfig files, merged as `kubectl` merges them.
///
/// ```no_run
/// use leasehold::kubernetes::{Client, Kubeconfig};
///
/// let kubeconfig = Kubeconfig::from_path("/etc/jobs/kubeconfig")?;
/// let client = Client::new(kubeconfig.client_config(Some("staging"))?)?;
/// # Ok::<(), leasehold::kubernetes::ClientError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Kubeconfig {
    /// For messages: where it came from.
    origin: String,
    current_context: Option<String>,
    clusters: Vec<NamedEntry<Cluster>>,
    users: Vec<NamedEntry<AuthInfo>>,
    contexts: Vec<NamedEntry<Context>>,
}

/// What to do where nothing is configured.
const SET_IT: &str = "set KUBECONFIG to a kubeconfig, or run in a pod with a service account";

/// A named entry with the file it stands in: relative paths in it are relative to that.
#[derive(Clone, Debug)]
struct NamedEntry<T> {
    name: String,
    file: PathBuf,
    value: T,
}

impl Kubeconfig {
    /// Reads the files in `KUBECONFIG`, or else `~/.kube/config`.
    ///
    /// Of several files, the first one that has a name or a current context wins. Missing ones are skipped. They are UTF-8,
    /// or UTF-16 with a byte order mark, which PowerShell writes.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when there is none, naming those that were looked for, or when one cannot be
    /// read or parsed.
    pub fn load() -> Result<Self, ClientError> {
        Self::load_from(&|name| std::env::var_os(name))
    }

    pub(crate) fn load_from(env: Env<'_>) -> Result<Self, ClientError> {
        let (origin, files, remedy) = match env("KUBECONFIG").filter(|list| !list.is_empty()) {
            // It comes before the service account, so that to run in a pod is no remedy.
            Some(list) => {
                let files = split_paths(&list);
                let origin = match &files[..] {
                    [file] => format!("{} in KUBECONFIG", file.display()),
                    _ => "KUBECONFIG".to_owned(),
                };
                (origin, files, "correct it, or unset it")
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
                true => "it names no file".to_owned(),
                false => format!("looked for {}", choices::list(looked_for.iter().map(AsRef::as_ref))),
            };
            return Err(ClientError::config(merged.origin, format!("no kubeconfig there ({looked_for}); {remedy}")));
        }
        Ok(merged)
    }

    /// Whether `~/.kube/config` is there.
    pub(super) fn is_at_home(env: Env<'_>) -> bool {
        file_at_home(env).is_some_and(|file| file.exists())
    }

    /// Reads one file.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when it cannot be read or parsed.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ClientError> {
        let path = path.as_ref();
        let mut only = Kubeconfig { origin: path.display().to_string(), ..Kubeconfig::default() };
        let bytes = read_file(path)
            .map_err(|e| ClientError::config(path.display().to_string(), "cannot be read").caused_by(e))?;
        only.add(path, &bytes)?;
        Ok(only)
    }

    /// Reads the text of a kubeconfig. Relative paths in it are relative to `directory`.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when it cannot be parsed.
    ///
    /// ```
    /// use leasehold::kubernetes::Kubeconfig;
    ///
    /// let text = "
    /// clusters: [{ name: local, cluster: { server: 'http://127.0.0.1:8001' } }]
    /// contexts: [{ name: dev, context: { cluster: local, user: '', namespace: jobs } }]
    /// current-context: dev
    /// ";
    /// let kubeconfig = Kubeconfig::from_text(text, "/etc/jobs")?;
    /// assert_eq!(kubeconfig.client_config(None)?.default_namespace(), "jobs");
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    pub fn from_text(text: &str, directory: impl AsRef<Path>) -> Result<Self, ClientError> {
        let file = directory.as_ref().join("kubeconfig");
        let mut only = Kubeconfig { origin: "kubeconfig".to_owned(), ..Kubeconfig::default() };
        only.add(&file, text.as_bytes())?;
        Ok(only)
    }

    /// The name of the current context.
    pub fn current_context(&self) -> Option<&str> {
        self.current_context.as_deref()
    }

    /// The names of all contexts.
    pub fn context_names(&self) -> impl Iterator<Item = &str> {
        self.contexts.iter().map(|entry| entry.name.as_str())
    }

    /// What a context means, the current one if none is named. Reads the certificate and key files it refers to.
    ///
    /// A context that names no namespace means, in a pod, that of the pod, as
    /// [`in_cluster`](ClientConfig::in_cluster) finds it; elsewhere `default`.
    ///
    /// `HTTPS_PROXY` and `NO_PROXY` are taken from the environment unless the cluster names a proxy of its own, by the rules
    /// of Go's `golang.org/x/net/http/httpproxy`. Which proxies there are says
    /// [`with_proxy`](ClientConfig::with_proxy).
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config), naming the file, the field and the rule; without a context to use, also the
    /// names of those that there are. A proxy of the environment that is of no use is an error only for a server that would
    /// be reached through it.
    pub fn client_config(&self, context: Option<&str>) -> Result<ClientConfig, ClientError> {
        self.client_config_from(context, &|name| std::env::var_os(name))
    }

    fn add(&mut self, file: &Path, bytes: &[u8]) -> Result<(), ClientError> {
        let parsed = parse(file, bytes)?;
        // Token files are read and plugins run much later, when the working directory may be another.
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
    field: &str,
    from: Option<Vec<Named<T>>>,
) -> Result<(), ClientError> {
    // Sets, because a file may hold some ten thousand names.
    let earlier: HashSet<String> = into.iter().map(|entry| entry.name.clone()).collect();
    let mut seen = HashSet::new();
    for Named { name, value } in from.unwrap_or_default() {
        if !seen.insert(name.clone()) {
            let place = format!("{}: {field}[{name}]", file.display());
            return Err(ClientError::config(place, "the name stands there twice"));
        }
        // The first file that has a name wins, as a whole: entries are not mixed.
        if !earlier.contains(&name) {
            into.push(NamedEntry { name, file: file.to_owned(), value });
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
    // Aliases are what YAML bombs are made of; kubeconfigs have next to none.
    let mut budget = serde_saphyr::budget::Budget::default();
    // Ten thousand contexts, or two thousand clusters with a plugin each, are half of this.
    budget.max_events = 400_000;
    budget.max_nodes = 200_000;
    budget.max_depth = 64;
    budget.max_aliases = 256;
    budget.max_anchors = 256;
    budget.max_documents = 1;
    // Few aliases of one long text are a bomb, too: without any, all texts together are no longer than the file.
    budget.max_total_scalar_bytes = text.len() + MAX_ALIASED;
    options.budget = Some(budget);
    options.alias_limits.max_total_replayed_events = 10_000;
    let document: Option<File> = serde_saphyr::from_str_with_options(&text, options).map_err(|e| {
        // The parser's own words may quote the file, so only the position is told.
        let rule = match e.location() {
            Some(at) => format!("is not a valid kubeconfig at line {} column {}", at.line(), at.column()),
            None => "is not a valid kubeconfig".to_owned(),
        };
        ClientError::config(file.display().to_string(), rule + reason(&e))
    })?;
    Ok(document.unwrap_or_default())
}

/// What is wrong with a file that other readers take, so that nobody looks for a mistake in what stands there.
fn reason(e: &serde_saphyr::Error) -> &'static str {
    use serde_saphyr::Error as E;
    use serde_saphyr::budget::BudgetBreach;
    match e.without_snippet() {
        E::DuplicateMappingKey { .. } => ", where a key stands for the second time",
        E::MultipleDocuments { .. } | E::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            ", where a second document begins"
        }
        E::Budget { .. } => ", where it gets larger or deeper than is read",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
