//! Where the `Authorization` header of a request comes from, and how it is renewed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use ureq::http::HeaderValue;

use super::config::AuthConfig;
use super::error::{Error, ErrorKind};
#[cfg(feature = "kubeconfig")]
use super::exec::ExecSource;
use super::interrupt::Interrupter;
use super::secret::read_file;
use super::tls::Identity;

mod echo;

/// Kubelets rotate tokens well before they expire; a minute is what client-go waits, too.
const TOKEN_AGE: Duration = Duration::from_secs(60);

/// A source of credentials that is shared by all requests of a client.
pub(super) enum Auth {
    None,
    Fixed(Credentials),
    TokenFile(TokenFile),
    #[cfg(feature = "kubeconfig")]
    Exec(Box<ExecSource>),
}

/// What goes into one request.
#[derive(Clone, Default)]
pub(super) struct Credentials {
    pub(super) authorization: Option<HeaderValue>,
    /// A client certificate from a plugin, in place of the configured one.
    pub(super) identity: Option<Identity>,
    /// Counts changes of the identity: connections that were opened with an older one must not be used.
    pub(super) identity_version: u64,
}

/// How long a source may take, and what may end it sooner.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "kubeconfig"), expect(dead_code, reason = "only plugins take time"))]
pub(super) struct Limits<'a> {
    pub(super) deadline: Instant,
    pub(super) interrupter: &'a Interrupter,
}

pub(super) struct TokenFile {
    path: PathBuf,
    cached: Mutex<Cached>,
}

/// What a token file held when it could be read last.
#[derive(Default)]
struct Cached {
    token: Option<(HeaderValue, Instant)>,
    /// Why it could not be read since, as it was told.
    refused: Option<String>,
}

impl Credentials {
    /// Overwrites the credentials wherever they occur in `text`, also where it writes some of their characters as JSON, URLs
    /// or HTML do.
    pub(super) fn strike_out(&self, text: &mut [u8]) {
        let Some(value) = &self.authorization else { return };
        // Without its scheme, for it may be quoted alone.
        let secret = value.as_bytes().splitn(2, |&byte| byte == b' ').last().unwrap_or_default();
        let password = value.as_bytes().starts_with(b"Basic ").then(|| password_of(secret)).flatten();
        for secret in [Some(secret), password.as_deref()].into_iter().flatten() {
            // What is shorter occurs in any text, and keeps no secret.
            if secret.len() >= 8 {
                echo::strike_out(secret, text);
            }
        }
    }
}

impl Auth {
    pub(super) fn new(config: AuthConfig) -> Result<Self, Error> {
        Ok(match config {
            AuthConfig::None => Auth::None,
            AuthConfig::Fixed(value) => Auth::Fixed(Credentials {
                authorization: Some(
                    header(value.expose())
                        .ok_or_else(|| Error::config("users[].token", "holds a character that no header may have"))?,
                ),
                ..Credentials::default()
            }),
            AuthConfig::TokenFile(path) => Auth::TokenFile(TokenFile { path, cached: Mutex::default() }),
            #[cfg(feature = "kubeconfig")]
            AuthConfig::Exec(plugin) => Auth::Exec(Box::new(ExecSource::new(*plugin))),
        })
    }

    /// The credentials to use now.
    #[cfg_attr(not(feature = "kubeconfig"), expect(unused_variables, reason = "only plugins take time"))]
    pub(super) fn current(&self, limits: Limits<'_>) -> Result<Credentials, Error> {
        match self {
            Auth::None => Ok(Credentials::default()),
            Auth::Fixed(credentials) => Ok(credentials.clone()),
            Auth::TokenFile(file) => file.current().map(bearer),
            #[cfg(feature = "kubeconfig")]
            Auth::Exec(source) => source.current(limits),
        }
    }

    /// Other credentials than those the server has just rejected, if there are any.
    #[cfg_attr(not(feature = "kubeconfig"), expect(unused_variables, reason = "only plugins take time"))]
    pub(super) fn after_rejection(
        &self,
        rejected: &Credentials,
        limits: Limits<'_>,
    ) -> Result<Option<Credentials>, Error> {
        let newer = match self {
            Auth::None | Auth::Fixed(_) => return Ok(None),
            Auth::TokenFile(file) => bearer(file.read_again()?),
            #[cfg(feature = "kubeconfig")]
            Auth::Exec(source) => source.after_rejection(rejected, limits)?,
        };
        let same = newer.authorization == rejected.authorization && newer.identity_version == rejected.identity_version;
        Ok((!same).then_some(newer))
    }
}

impl TokenFile {
    fn current(&self) -> Result<HeaderValue, Error> {
        let (token, why) = self.look();
        if let Some(why) = why {
            log::warn!("kube: keeping the token that was read before: {why}");
        }
        token
    }

    /// The token to use now, and why it is an old one, if that has not been told yet.
    fn look(&self) -> (Result<HeaderValue, Error>, Option<String>) {
        let mut cached = self.cached.lock();
        if let Some((value, read_at)) = &cached.token
            && read_at.elapsed() < TOKEN_AGE
        {
            return (Ok(value.clone()), None);
        }
        match (read_token(&self.path), &cached.token) {
            (Ok(value), _) => {
                cached.read(&value);
                (Ok(value), None)
            }
            // A token that was good a minute ago is a better guess than none: the file may be about to be replaced.
            (Err(e), Some((value, _))) => {
                let (value, why) = (value.clone(), e.to_string());
                // Each request tries the file again, and there is one every two seconds.
                let is_new = cached.refused.as_ref() != Some(&why);
                cached.refused = Some(why.clone());
                (Ok(value), is_new.then_some(why))
            }
            (Err(e), None) => (Err(e), None),
        }
    }

    fn read_again(&self) -> Result<HeaderValue, Error> {
        let value = read_token(&self.path)?;
        self.cached.lock().read(&value);
        Ok(value)
    }

    /// Makes the next request read the file, as if a minute had passed.
    #[cfg(test)]
    fn age(&self) {
        let mut cached = self.cached.lock();
        if let Some((_, read_at)) = &mut cached.token {
            *read_at = read_at.checked_sub(TOKEN_AGE).unwrap();
        }
    }
}

impl Cached {
    fn read(&mut self, value: &HeaderValue) {
        *self = Cached { token: Some((value.clone(), Instant::now())), refused: None };
    }
}

fn password_of(pair: &[u8]) -> Option<Vec<u8>> {
    let pair = BASE64_STANDARD.decode(pair).ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

fn bearer(authorization: HeaderValue) -> Credentials {
    Credentials { authorization: Some(authorization), ..Credentials::default() }
}

fn read_token(path: &Path) -> Result<HeaderValue, Error> {
    let failed = |rule: &str| Error::new(ErrorKind::Credentials, rule).at(format!("token file {}", path.display()));
    let bytes = read_file(path).map_err(|e| failed("cannot be read").caused_by(e))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| failed("holds no text"))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(failed("is empty"));
    }
    bearer_header(token).ok_or_else(|| failed("holds something else than one token"))
}

pub(super) fn bearer_header(token: &str) -> Option<HeaderValue> {
    header(&format!("Bearer {token}"))
}

fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &str) -> TokenFile {
        let path = std::env::temp_dir().join(format!("leasehold-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        TokenFile { path, cached: Mutex::default() }
    }

    #[test]
    fn a_token_is_kept_for_a_minute_and_read_again_after_it() {
        let token = file("token-age", "one\n");
        assert_eq!(token.current().unwrap(), "Bearer one");
        std::fs::write(&token.path, "two").unwrap();
        assert_eq!(token.current().unwrap(), "Bearer one");
        token.age();
        assert_eq!(token.current().unwrap(), "Bearer two");
        std::fs::remove_file(&token.path).unwrap();
        token.age();
        assert_eq!(token.current().unwrap(), "Bearer two");
    }

    #[test]
    fn why_an_old_token_is_kept_is_told_once() {
        let token = file("token-told", "one");
        assert_eq!(token.current().unwrap(), "Bearer one");
        token.age();
        let told = |what: &str| {
            let (value, why) = token.look();
            assert_eq!(value.unwrap(), "Bearer one");
            assert!(why.is_some_and(|why| why.contains("token-told") && why.contains(what)), "{what}");
            for _ in 0..3 {
                assert_eq!(token.look().1, None);
            }
        };
        std::fs::remove_file(&token.path).unwrap();
        told("cannot be read");
        std::fs::write(&token.path, "").unwrap();
        told("is empty");
        std::fs::write(&token.path, "one").unwrap();
        assert_eq!(token.look().1, None);
        token.age();
        std::fs::remove_file(&token.path).unwrap();
        told("cannot be read");
    }

    #[test]
    fn every_echo_of_a_credential_is_struck_out() {
        let credentials = bearer(bearer_header("sesame-sesame").unwrap());
        let mut text = b"sesame-sesame, Bearer sesame-sesame: sesame-sesamesesame-sesame, sesame-sesam".to_vec();
        credentials.strike_out(&mut text);
        let struck = "*".repeat(13);
        let expected = format!("{struck}, Bearer {struck}: {struck}{struck}, sesame-sesam");
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_password_is_struck_out_as_the_user_knows_it() {
        let pair = BASE64_STANDARD.encode("me:hunter2:hunter2");
        let credentials = bearer(header(&format!("Basic {pair}")).unwrap());
        let mut text = format!("me and hunter2:hunter2, or {pair}").into_bytes();
        credentials.strike_out(&mut text);
        let expected = format!("me and {}, or {}", "*".repeat(15), "*".repeat(pair.len()));
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_bad_token_file_is_named_and_its_content_is_not() {
        for content in ["", " \n", "hunter2\nhunter2", "hunter2\u{7}"] {
            let token = file("token-bad", content);
            let error = token.current().unwrap_err();
            std::fs::remove_file(&token.path).unwrap();
            assert_eq!(error.kind(), &ErrorKind::Credentials);
            let text = format!("{error} {error:?}");
            assert!(text.contains("token-bad") && !text.contains("hunter2"), "{text}");
        }
    }
}
