//! What a plugin says on its stderr, and how much of it goes to the log.

use std::convert::Infallible;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use parking_lot::Mutex;

use super::TARGET;
use super::redact::Redaction;
use crate::kube::error::{Error, ErrorKind};
use crate::net::text::clean;

/// How much is shown.
const SHOWN: usize = 4 * 1024;

/// How much is kept. Secrets are struck out before the text is cut, so that none is cut in two where it shows.
const KEPT: usize = 64 * 1024;

/// How long the end of the pipe is waited for: what a plugin has left running in the background may hold it open.
const REST: Duration = Duration::from_millis(500);

/// The end of a pipe's text, read on a thread of its own.
pub(super) struct Tail {
    text: Arc<Mutex<Text>>,
    /// Disconnects at the end of the pipe.
    ended: Receiver<Infallible>,
}

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// What a run has said, with what must not be shown of it. Nothing, when it is not for the log.
#[derive(Default)]
pub(super) struct Stderr(Option<(Tail, Option<Redaction>)>);

impl Tail {
    pub(super) fn read(mut pipe: impl Read + Send + 'static) -> io::Result<Self> {
        let text = Arc::<Mutex<Text>>::default();
        let (reads, ended) = bounded(0);
        let shared = Arc::clone(&text);
        thread::Builder::new().name("leasehold-exec-err".to_owned()).spawn(move || {
            let _reads = reads;
            let mut chunk = [0; 4096];
            loop {
                match pipe.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(n) => shared.lock().push(&chunk[..n]),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        })?;
        Ok(Tail { text, ended })
    }
}

impl Text {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if let Some(excess) = self.bytes.len().checked_sub(KEPT).filter(|excess| *excess > 0) {
            self.bytes.drain(..excess);
            self.is_cut = true;
        }
    }

    /// One line, without secrets; empty if there is nothing to say.
    fn printable(&self, redaction: Option<&Redaction>) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        if text.trim().is_empty() {
            return String::new();
        }
        // The rest of a secret whose beginning is cut off cannot be known for one.
        let Some(redaction) = redaction.filter(|known| !self.is_cut || known.longest() <= KEPT - SHOWN) else {
            return "; what it said on stderr is not shown, for secrets could not be told in it".to_owned();
        };
        let text = redaction.apply(&text);
        let mut from = text.len().saturating_sub(SHOWN);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let cut = if self.is_cut || from > 0 { "…" } else { "" };
        format!("; on stderr: {cut}{}", clean(&text[from..], SHOWN))
    }
}

/// For whoever has the error and not the log.
pub(super) const IN_THE_LOG: &str = "; what it said on stderr is in the log, under leasehold::kube::exec";

impl Stderr {
    pub(super) fn new(tail: Tail, redaction: Option<Redaction>) -> Self {
        Stderr(Some((tail, redaction)))
    }

    pub(super) fn report_failure(&self, error: &Error) {
        // A program that ends while a plugin runs has seen to that itself.
        if error.kind() != &ErrorKind::Interrupted {
            let error = error.to_string();
            // This is that line.
            let error = error.strip_suffix(IN_THE_LOG).unwrap_or(&error);
            log::warn!(target: TARGET, "kube: {error}{}", self.text());
        }
    }

    pub(super) fn report_success(&self, place: &str) {
        if log::log_enabled!(target: TARGET, log::Level::Debug) {
            log::debug!(target: TARGET, "kube: {place} has given credentials{}", self.text());
        }
    }

    fn text(&self) -> String {
        let Some((tail, redaction)) = &self.0 else {
            return String::new();
        };
        let _ = tail.ended.recv_timeout(REST);
        tail.text.lock().printable(redaction.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &Text, secret: &str) -> String {
        let mut redaction = Redaction::default();
        redaction.add(secret);
        text.printable(Some(&redaction))
    }

    #[test]
    fn the_last_4_kib_are_shown_in_one_line() {
        let mut text = Text::default();
        assert_eq!(text.printable(None), "");
        text.push(b"no\tsuch \x1b[31mprofile\r\n\xff");
        assert_eq!(shown(&text, "hunter2hunter2"), "; on stderr: no such [31mprofile \u{fffd}");
        for number in 0..100_000 {
            text.push(format!("line {number}é\n").as_bytes());
        }
        let line = shown(&text, "hunter2hunter2");
        assert!(line.starts_with("; on stderr: …") && line.ends_with("line 99999é"), "{line}");
        assert!((SHOWN - 16..SHOWN + 32).contains(&line.len()), "{}", line.len());
        assert!(text.bytes.len() <= KEPT);
    }

    #[test]
    fn a_secret_that_the_cut_goes_through_is_not_shown() {
        // Where the text is cut, whatever stands before it.
        for before in [0, SHOWN - 7, KEPT - 20, KEPT + 5] {
            let mut text = Text::default();
            text.push(&vec![b'.'; before]);
            text.push(b" hunter2,hunter2,hunter2 ");
            text.push(&vec![b'.'; SHOWN - 10]);
            let line = shown(&text, "hunter2,hunter2,hunter2");
            assert!(!line.contains("ter2") && line.contains(".."), "{before}: {line}");
        }
        let mut text = Text::default();
        let secret = "hunter2,".repeat(KEPT / 8);
        text.push(b"x");
        text.push(secret.as_bytes());
        assert!(shown(&text, &secret).ends_with("could not be told in it"));
        assert!(text.printable(None).ends_with("could not be told in it"));
    }
}
