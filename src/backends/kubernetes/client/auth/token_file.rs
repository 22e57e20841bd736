//! A bearer token in a file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::http::HeaderValue;

use super::credentials::bearer_header;
use crate::backends::kubernetes::client::error::{ClientError, ErrorKind};
use crate::net::file::read_file;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

/// The age after which the client reads a token again, as in client-go.
///
/// Kubelets rotate tokens well before they expire.
const TOKEN_AGE: Duration = Duration::from_secs(60);

pub(crate) struct TokenFile {
    path: PathBuf,
    /// Locked during file reads, which may block.
    cached: Mutex<Cached>,
    /// Number of reads that found another token than the read before.
    reloads: AtomicU64,
}

/// The contents of a token file at the last successful read.
#[derive(Default)]
struct Cached {
    token: Option<(HeaderValue, Instant)>,
    /// The last logged reason why a later read failed.
    refused: Option<String>,
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        TokenFile { path, cached: Mutex::default(), reloads: AtomicU64::new(0) }
    }

    pub(crate) fn current(&self) -> Result<HeaderValue, ClientError> {
        let (token, why) = self.look();
        if let Some(why) = why {
            log_line!(warn, target: CLIENT, "kubernetes: reload of the token failed, keeping the old token: {why}");
        }
        token
    }

    /// Returns the token to use now, and a reason to log if an old token stays in use.
    fn look(&self) -> (Result<HeaderValue, ClientError>, Option<String>) {
        let mut cached = self.cached.lock();
        if let Some((value, read_at)) = &cached.token
            && read_at.elapsed() < TOKEN_AGE
        {
            return (Ok(value.clone()), None);
        }
        match (read_token(&self.path), &cached.token) {
            (Ok(value), _) => {
                self.note(&mut cached, &value);
                (Ok(value), None)
            }
            // The old token may still be valid, and the file may be in the middle of a replacement.
            (Err(e), Some((value, _))) => {
                let (value, why) = (value.clone(), e.to_string());
                // Logs each reason once, because every request reads the file again until a read succeeds.
                let is_new = cached.refused.as_ref() != Some(&why);
                cached.refused = Some(why.clone());
                (Ok(value), is_new.then_some(why))
            }
            (Err(e), None) => (Err(e), None),
        }
    }

    pub(crate) fn read_again(&self) -> Result<HeaderValue, ClientError> {
        let value = read_token(&self.path)?;
        self.note(&mut self.cached.lock(), &value);
        Ok(value)
    }

    /// Returns the number of reads that found another token. Never blocks.
    pub(crate) fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    fn note(&self, cached: &mut Cached, value: &HeaderValue) {
        let is_another = cached.token.as_ref().is_some_and(|(before, _)| before != value);
        self.reloads.fetch_add(is_another.into(), Ordering::Relaxed);
        *cached = Cached { token: Some((value.clone(), Instant::now())), refused: None };
    }

    /// Makes the next request read the file again.
    #[cfg(test)]
    fn age(&self) {
        let mut cached = self.cached.lock();
        if let Some((_, read_at)) = &mut cached.token {
            *read_at = read_at.checked_sub(TOKEN_AGE).unwrap();
        }
    }
}

fn read_token(path: &Path) -> Result<HeaderValue, ClientError> {
    let failed =
        |rule: &str| ClientError::new(ErrorKind::Credentials, rule).at(format!("token file {}", path.display()));
    let bytes = read_file(path).map_err(|e| failed("cannot be read").caused_by(e))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| failed("is not UTF-8 text"))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(failed("is empty"));
    }
    bearer_header(token).ok_or_else(|| failed("is not a single token"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &str) -> TokenFile {
        let path = std::env::temp_dir().join(format!("leasehold-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        TokenFile::new(path)
    }

    #[test]
    fn a_token_is_kept_for_a_minute_and_read_again_after_it() {
        let token = file("token-age", "one\n");
        assert_eq!(token.current().unwrap(), "Bearer one");
        std::fs::write(&token.path, "two").unwrap();
        assert_eq!(token.current().unwrap(), "Bearer one");
        token.age();
        assert_eq!(token.current().unwrap(), "Bearer two");
        token.age();
        assert_eq!(token.current().unwrap(), "Bearer two");
        assert_eq!(token.reloads(), 1, "neither the first token nor the same token again is a reload");
        std::fs::write(&token.path, "three").unwrap();
        assert_eq!((token.read_again().unwrap(), token.reloads()), (HeaderValue::from_static("Bearer three"), 2));
        std::fs::write(&token.path, "two").unwrap();
        assert_eq!(token.read_again().unwrap(), "Bearer two");
        std::fs::remove_file(&token.path).unwrap();
        token.age();
        assert_eq!(token.current().unwrap(), "Bearer two");
    }

    #[test]
    fn reason_to_keep_an_old_token_is_logged_once() {
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
