//! Certificates and keys from files that may change while the program runs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::net::error::Error;
use crate::net::file::read_file;
use crate::util::clock::Moment;
use crate::util::debug_fields::debug_fields;

/// The time after which a file is read again.
///
/// Token files have the same time. kube-rs uses the same time for certificates.
const AGE: Duration = Duration::from_secs(60);

/// PEM data from the configuration or from a file.
#[derive(Clone, PartialEq)]
pub(crate) struct PemSource {
    file: Option<PathBuf>,
    pub(crate) bytes: Vec<u8>,
}

/// A value that is created from files, and replaced when the files have usable new content.
pub(crate) struct FromFiles<T> {
    sources: Vec<PemSource>,
    pub(crate) value: T,
    read_at: Moment,
    /// The content at the last reading, if that content was unusable.
    refused: Option<Reading>,
}

/// The content of the files, or the reason why a file cannot be read.
type Reading = Result<Vec<PemSource>, String>;

impl PemSource {
    /// Creates a source without a file.
    pub(crate) fn inline(bytes: impl Into<Vec<u8>>) -> Self {
        PemSource { file: None, bytes: bytes.into() }
    }

    /// Reads a file, and keeps its path for [`read_again`](Self::read_again).
    pub(crate) fn read(file: &Path) -> io::Result<Self> {
        let bytes = read_file(file)?;
        // The path is made absolute, because the working directory may change before the file is read again.
        Ok(PemSource { file: Some(std::path::absolute(file)?), bytes })
    }

    /// Returns an error text: the path of the file, if there is a file, and the violated rule.
    pub(crate) fn breaks(&self, rule: &str) -> String {
        match &self.file {
            Some(file) => format!("{} {rule}", file.display()),
            None => rule.to_owned(),
        }
    }

    /// Returns the path of the file for messages, or `None` if there is no file.
    pub(crate) fn name(&self) -> Option<String> {
        self.file.as_ref().map(|file| file.display().to_string())
    }

    fn read_again(&self) -> Result<Self, String> {
        match &self.file {
            Some(file) => PemSource::read(file).map_err(|e| format!("cannot read {}: {e}", file.display())),
            None => Ok(self.clone()),
        }
    }
}

impl<T> FromFiles<T> {
    /// Creates an instance with a `value` that was created from `sources` at `now`.
    pub(crate) fn new(sources: Vec<PemSource>, value: T, now: Moment) -> Self {
        FromFiles { sources, value, read_at: now, refused: None }
    }

    /// Returns `true` if the files must be read again.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        now.since(self.read_at) >= AGE
    }

    /// Reads the files, and creates a new value if a file has changed.
    ///
    /// Returns `true` if there is a new value. If new content is unusable, the old value stays. The first call that
    /// finds the unusable content returns the reason, and later calls return `false`.
    pub(crate) fn read_again(
        &mut self,
        now: Moment,
        make: impl FnOnce(&[PemSource]) -> Result<T, Error>,
    ) -> Result<bool, String> {
        self.read_at = now;
        let reading: Reading = self.sources.iter().map(PemSource::read_again).collect();
        if reading.as_ref() == Ok(&self.sources) {
            self.refused = None;
            return Ok(false);
        }
        if self.refused.as_ref() == Some(&reading) {
            return Ok(false);
        }
        let made = reading.clone().and_then(|sources| match make(&sources) {
            Ok(value) => Ok((value, sources)),
            Err(e) => Err(e.to_string()),
        });
        match made {
            Ok((value, sources)) => {
                *self = FromFiles::new(sources, value, now);
                Ok(true)
            }
            Err(why) => {
                self.refused = Some(reading);
                Err(why)
            }
        }
    }
}

debug_fields!(impl Debug for PemSource { self => file: self.file, bytes: self.bytes.len() });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::Scratch;

    fn text(sources: &[PemSource]) -> Result<String, Error> {
        let text: Vec<_> = sources.iter().map(|source| String::from_utf8_lossy(&source.bytes).into_owned()).collect();
        match text.concat().contains("bad") {
            true => Err(Error::config("files", sources[0].breaks("is bad"))),
            false => Ok(text.concat()),
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn file_is_due_after_a_minute() {
        let mut files = FromFiles::new(vec![PemSource::inline("a")], "a".to_owned(), at(100));
        assert!(!files.is_due(at(159)) && files.is_due(at(160)));
        assert_eq!(files.read_again(at(170), text), Ok(false));
        assert!(!files.is_due(at(229)) && files.is_due(at(230)));
    }

    #[test]
    fn unusable_file_is_logged_once_and_the_old_content_stays() {
        let scratch = Scratch::new();
        let file = scratch.file("a.pem", "one");
        let sources = vec![PemSource::read(&file).unwrap(), PemSource::inline("+")];
        let value = text(&sources).unwrap();
        let mut files = FromFiles::new(sources, value, at(0));
        for unusable in [Some("bad 1"), Some("bad 2"), None] {
            match unusable {
                Some(content) => std::fs::write(&file, content).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let Err(why) = files.read_again(at(60), text) else { panic!("{unusable:?}") };
            assert!(why.contains("a.pem"), "{why}");
            assert_eq!(files.read_again(at(120), text), Ok(false));
            assert_eq!(files.value, "one+");
            assert!(!files.is_due(at(179)));
        }
        // When the file has its old content again, that is not a change. A later failure is reported again.
        std::fs::write(&file, "one").unwrap();
        assert_eq!(files.read_again(at(180), text), Ok(false));
        std::fs::remove_file(&file).unwrap();
        assert!(files.read_again(at(240), text).is_err());
        std::fs::write(&file, "two").unwrap();
        assert_eq!(files.read_again(at(300), text), Ok(true));
        assert_eq!(files.value, "two+");
        assert_eq!(files.read_again(at(360), text), Ok(false));
    }

    #[test]
    fn file_content_is_not_shown() {
        let scratch = Scratch::new();
        let source = PemSource::read(&scratch.file("key.pem", "hunter2")).unwrap();
        let shown = format!("{source:?} {}", source.breaks("is bad"));
        assert!(shown.contains("key.pem") && !shown.contains("hunter2"), "{shown}");
    }
}
