//! Credential plugins: programs that print an `ExecCredential`.
//!
//! Source: Kubernetes documentation, "client-go credential plugins", and `client.authentication.k8s.io/v1`.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, bounded, never, select};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::credentials::{Credentials, Limits, bearer_header};
use super::error::{Error, ErrorKind};
use super::interrupt::interrupted;
use super::rfc3339;
use super::secret::Secret;
use super::status::clean;
use super::tls::Identity;

/// A plugin that asks somebody to log in gives up long before this; one that hangs must not.
const MAX_RUN: Duration = Duration::from_secs(60);

const MAX_OUTPUT: u64 = 1024 * 1024;

/// How to run a plugin.
#[derive(Clone)]
pub(super) struct ExecPlugin {
    pub(super) api_version: String,
    pub(super) command: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, Secret)>,
    pub(super) install_hint: Option<String>,
    /// What the plugin is told about the cluster, if it asks for it.
    pub(super) cluster_info: Option<Value>,
}

/// A plugin with what it last said.
pub(super) struct ExecSource {
    plugin: ExecPlugin,
    cached: Mutex<Option<Cached>>,
}

struct Cached {
    credentials: Credentials,
    expires: Option<SystemTime>,
    /// To tell whether a later run brings another certificate.
    raw: Raw,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: Option<String>,
    kind: Option<String>,
    status: Option<Raw>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
struct Raw {
    expiration_timestamp: Option<String>,
    token: Option<Secret>,
    client_certificate_data: Option<String>,
    client_key_data: Option<Secret>,
}

impl ExecSource {
    pub(super) fn new(plugin: ExecPlugin) -> Self {
        ExecSource { plugin, cached: Mutex::new(None) }
    }

    pub(super) fn current(&self, limits: Limits<'_>) -> Result<Credentials, Error> {
        self.with_cached(limits, |cached| {
            cached.expires.is_none_or(|at| SystemTime::now() < at).then(|| cached.credentials.clone())
        })
    }

    pub(super) fn after_rejection(&self, rejected: &Credentials, limits: Limits<'_>) -> Result<Credentials, Error> {
        self.with_cached(limits, |cached| {
            let newer = cached.credentials.authorization != rejected.authorization
                || cached.credentials.identity_version != rejected.identity_version;
            newer.then(|| cached.credentials.clone())
        })
    }

    /// Answers from the cache if `usable` says so, else runs the plugin; one at a time, for it may ask a person.
    fn with_cached(
        &self,
        limits: Limits<'_>,
        usable: impl Fn(&Cached) -> Option<Credentials>,
    ) -> Result<Credentials, Error> {
        let place = || format!("credential plugin {}", self.plugin.command.display());
        let Some(mut cached) = self.cached.try_lock_until(limits.deadline) else {
            return Err(Error::new(ErrorKind::Timeout, "is still running for another request").at(place()));
        };
        if let Some(credentials) = cached.as_ref().and_then(usable) {
            return Ok(credentials);
        }
        limits.interrupter.check()?;
        let raw = self.plugin.run(limits).map_err(|e| e.at(place()))?;
        let fresh =
            raw.into_cached(cached.as_ref()).map_err(|rule| Error::new(ErrorKind::Credentials, rule).at(place()))?;
        let credentials = fresh.credentials.clone();
        *cached = Some(fresh);
        Ok(credentials)
    }
}

impl Raw {
    fn into_cached(self, before: Option<&Cached>) -> Result<Cached, String> {
        let expires = match &self.expiration_timestamp {
            Some(text) => Some(
                rfc3339::parse(text)
                    .ok_or("gave an expirationTimestamp that is not RFC 3339, such as 2026-01-02T03:04:05Z")?,
            ),
            None => None,
        };
        let token = self.token.as_ref().filter(|t| !t.is_empty());
        let authorization = match token {
            Some(token) => Some(
                bearer_header(token.expose().trim()).ok_or("gave a token with characters that no header may have")?,
            ),
            None => None,
        };
        let pair = self.client_certificate_data.as_ref().zip(self.client_key_data.as_ref());
        let identity = match pair {
            Some((chain, key)) => Some(
                Identity::from_pem(chain.as_bytes(), key.expose().as_bytes())
                    .map_err(|e| format!("gave an unusable certificate: {e}"))?,
            ),
            None if self.client_certificate_data.is_some() || self.client_key_data.is_some() => {
                return Err("gave a certificate without its key, or the other way round".to_owned());
            }
            None => None,
        };
        if authorization.is_none() && identity.is_none() {
            return Err("gave neither a token nor a client certificate".to_owned());
        }
        let identity_version = match before {
            Some(old) if old.raw.same_identity(&self) => old.credentials.identity_version,
            Some(old) => old.credentials.identity_version + 1,
            None => 1,
        };
        Ok(Cached { credentials: Credentials { authorization, identity, identity_version }, expires, raw: self })
    }

    fn same_identity(&self, other: &Raw) -> bool {
        self.client_certificate_data == other.client_certificate_data && self.client_key_data == other.client_key_data
    }
}

impl ExecPlugin {
    /// Resolves the command as kubectl does: with a slash it belongs to its kubeconfig, without one to `PATH`.
    pub(super) fn resolve(command: &str, directory: &Path) -> PathBuf {
        let path = Path::new(command);
        match path.components().count() > 1 || command.contains('/') {
            true => directory.join(path),
            false => path.to_owned(),
        }
    }

    fn run(&self, limits: Limits<'_>) -> Result<Raw, Error> {
        let failed = |detail: String| Error::new(ErrorKind::Credentials, detail);
        let deadline = limits.deadline.min(Instant::now() + MAX_RUN);
        let mut spec = json!({ "interactive": false });
        if let Some(cluster) = &self.cluster_info {
            spec["cluster"] = cluster.clone();
        }
        let info = json!({ "apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec });
        let mut child = Command::new(&self.command)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, OsString::from(value.expose()))))
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Plugins print what they like there, tokens too; it must not end up in our host's log.
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| self.not_started(e))?;
        let output = match child.stdout.take() {
            Some(stdout) => read_aside(stdout),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let finished = output
            .map_err(|e| failed("cannot be read from".to_owned()).caused_by(e))
            .and_then(|output| wait(&mut child, &output, deadline, limits));
        let bytes = match finished {
            Ok(bytes) => bytes,
            Err(e) => {
                put_away(child);
                return Err(e);
            }
        };
        self.parse(&bytes)
    }

    fn not_started(&self, e: io::Error) -> Error {
        let hint = match &self.install_hint {
            Some(hint) if e.kind() == io::ErrorKind::NotFound => {
                format!("cannot be started; {}", clean(hint, 500))
            }
            _ => "cannot be started; is it installed, and in PATH or next to the kubeconfig?".to_owned(),
        };
        Error::new(ErrorKind::Credentials, hint).caused_by(e)
    }

    fn parse(&self, output: &[u8]) -> Result<Raw, Error> {
        let failed = |detail: String| Error::new(ErrorKind::Credentials, detail);
        // What the parser says may quote the output, so only the position is told.
        let answer: ExecCredential = serde_json::from_slice(output).map_err(|e| {
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

/// Reads on a thread of its own: a grandchild that keeps the pipe open must not keep us.
fn read_aside(stdout: impl Read + Send + 'static) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (done, output) = bounded(1);
    thread::Builder::new().name("leasehold-exec".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(MAX_OUTPUT + 1).read_to_end(&mut bytes);
        let _ = done.send(read.map(|_| bytes));
    })?;
    Ok(output)
}

fn wait(
    child: &mut Child,
    output: &Receiver<io::Result<Vec<u8>>>,
    deadline: Instant,
    limits: Limits<'_>,
) -> Result<Vec<u8>, Error> {
    let late = || Error::new(ErrorKind::Timeout, "did not finish in the given time and was killed");
    let failed = |detail: String| Error::new(ErrorKind::Credentials, detail);
    let bytes = select! {
        recv(output) -> read => match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(e)) => return Err(failed("cannot be read from".to_owned()).caused_by(e)),
            Err(_) => return Err(failed("cannot be read from".to_owned())),
        },
        recv(limits.interrupter.signal()) -> _ => return Err(interrupted()),
        default(deadline.saturating_duration_since(Instant::now())) => return Err(late()),
    };
    if bytes.len() as u64 > MAX_OUTPUT {
        return Err(failed("printed more than 1 MiB".to_owned()));
    }
    // It has closed its output, so its end is near; there is no portable way to wait for that with a limit.
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(bytes),
            Ok(Some(status)) => {
                return Err(failed(format!(
                    "failed ({status}); run it by hand to see why, its output is not shown for it may hold secrets"
                )));
            }
            Ok(None) => {}
            Err(e) => return Err(failed("cannot be waited for".to_owned()).caused_by(e)),
        }
        if Instant::now() >= deadline {
            return Err(late());
        }
        select! {
            recv(limits.interrupter.signal()) -> _ => return Err(interrupted()),
            recv(never::<()>()) -> _ => {}
            default(pause) => pause = (pause * 2).min(Duration::from_millis(50)),
        }
    }
}

/// Kills it and leaves the waiting to a thread: a process stuck in the kernel would hold up the caller.
fn put_away(mut child: Child) {
    let _ = child.kill();
    if !matches!(child.try_wait(), Ok(Some(_))) {
        let _ = thread::Builder::new().name("leasehold-reap".to_owned()).spawn(move || child.wait());
    }
}

impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments are left out: some plugins take secrets there.
        f.debug_struct("ExecPlugin")
            .field("command", &self.command)
            .field("api_version", &self.api_version)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "testing")]
pub(super) mod properties;
