//! Strikes secrets out of a text.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::net::percent;

/// What is shorter occurs in any text, and keeps no secret.
const SHORTEST: usize = 8;

/// No word for people is that long without a break.
const LONGEST_WORD: usize = 64;

/// The lines of a key are struck out one by one as well. What is longer than this is no key.
const LONGEST_KEY: usize = 32 * 1024;

const STRUCK_OUT: &str = "[redacted]";

/// Words of an `ExecCredential` that are no secrets.
const PUBLIC: [&str; 9] = [
    "ExecCredential",
    "apiVersion",
    "authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
    "clientCertificateData",
    "clientKeyData",
    "expirationTimestamp",
    "interactive",
];

/// What goes before a secret.
const NAMES: [&str; 10] =
    ["token", "secret", "password", "passwd", "apikey", "api_key", "api-key", "access_key", "accesskey", "bearer"];

/// What to strike out, beside what looks like a secret of itself.
#[derive(Default)]
pub(super) struct Redaction {
    /// Without white space, for a line may be broken anywhere.
    secrets: HashSet<String>,
    /// As they stand between delimiters.
    words: HashSet<String>,
}

impl Redaction {
    /// Strikes out this, in one piece or over several lines, its lines, and what base64 makes of it.
    pub(super) fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        self.add_one(secret);
        self.add_one(BASE64_STANDARD.encode(secret).trim_end_matches('='));
        self.add_one(&BASE64_URL_SAFE_NO_PAD.encode(secret));
        if secret.len() <= LONGEST_KEY {
            secret.lines().filter(|line| !line.starts_with("-----")).for_each(|line| self.add_one(line));
        }
    }

    fn add_one(&mut self, secret: &str) {
        let dense: String = secret.chars().filter(|c| !is_gap(*c)).collect();
        if dense.len() >= SHORTEST {
            self.secrets.insert(dense);
        }
    }

    /// Strikes out each word of this, whatever it is: nobody knows which of them is a secret.
    pub(super) fn add_words(&mut self, output: &[u8]) {
        let output = String::from_utf8_lossy(output);
        let words = output.split(is_delimiter).filter(|word| word.len() >= SHORTEST && !PUBLIC.contains(word));
        self.words.extend(words.map(str::to_owned));
    }

    /// Strikes out the user information of a URL, as it stands there and as it is meant.
    pub(super) fn add_password_of(&mut self, url: &str) {
        if let Some((user, _)) = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')) {
            let password = user.split_once(':').map_or("", |(_, password)| password);
            self.add(user);
            self.add(password);
            if let Some(password) = percent::decode(password) {
                self.add(&String::from_utf8_lossy(&password));
            }
        }
    }

    /// Strikes out every text in this, but not the names of its members.
    pub(super) fn add_texts_of(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Array(elements) => elements.iter().for_each(|element| self.add_texts_of(element)),
            Value::Object(members) => members.values().for_each(|member| self.add_texts_of(member)),
            _ => {}
        }
    }

    /// The length of the longest secret, without white space.
    pub(super) fn longest(&self) -> usize {
        self.secrets.iter().chain(&self.words).map(String::len).max().unwrap_or(0)
    }

    pub(super) fn apply(&self, text: &str) -> String {
        let mut struck = vec![false; text.len()];
        self.strike_secrets(text, &mut struck);
        self.strike_words(text, &mut struck);
        strike_named(text, &mut struck);
        strike_private_keys(text, &mut struck);
        let mut out = String::new();
        for (at, c) in text.char_indices() {
            match (struck[at], at > 0 && struck[at - 1]) {
                (false, _) => out.push(c),
                (true, false) => out.push_str(STRUCK_OUT),
                (true, true) => {}
            }
        }
        out
    }

    /// Wherever they stand, also in the middle of a word.
    fn strike_secrets(&self, text: &str, struck: &mut [bool]) {
        let mut dense = String::new();
        let mut places = Vec::new();
        for (at, c) in text.char_indices().filter(|(_, c)| !is_gap(*c)) {
            dense.push(c);
            places.extend(at..at + c.len_utf8());
        }
        for secret in &self.secrets {
            for (at, _) in dense.match_indices(secret.as_str()) {
                places[at..at + secret.len()].iter().for_each(|place| struck[*place] = true);
            }
        }
    }

    fn strike_words(&self, text: &str, struck: &mut [bool]) {
        for (at, word) in words(text, is_delimiter) {
            let is_long = || {
                word.split(|c: char| !is_of_a_token(c))
                    .any(|run| run.len() > LONGEST_WORD && run.contains(char::is_alphanumeric))
            };
            // `{"` in base64: the beginning of every JWT.
            let is_jwt = || word.len() >= 2 * SHORTEST && word.contains("eyJ");
            if self.words.contains(word) || is_jwt() || is_long() {
                struck[at..at + word.len()].fill(true);
            }
        }
    }
}

/// The values in `token=…`, `"password": "…"` and `Bearer …`.
fn strike_named(text: &str, struck: &mut [bool]) {
    let lower = text.to_ascii_lowercase();
    for name in NAMES {
        let mut done = 0;
        for (at, _) in lower.match_indices(name) {
            let after = at + name.len();
            let value = text[after..].trim_start_matches(|c: char| is_gap(c) || matches!(c, '"' | '\'' | ':' | '='));
            let at = text.len() - value.len();
            // In a value that is full of names each of them would be followed by all of the rest.
            if at == after || at < done {
                continue;
            }
            let end =
                value.find(|c: char| is_gap(c) || matches!(c, '"' | '\'' | ',' | '&' | ';')).unwrap_or(value.len());
            // Messages go on with words: `token expired`.
            let is_value = value[..end].chars().any(|c| c.is_ascii_digit()) || end > 20;
            if end >= SHORTEST && is_value {
                done = at + end;
                struck[at..done].fill(true);
            }
        }
    }
}

/// Up to their end, or that of the text.
fn strike_private_keys(text: &str, struck: &mut [bool]) {
    const BEGIN: &str = "PRIVATE KEY-----";
    let mut from = 0;
    while let Some(at) = text[from..].find(BEGIN) {
        let begin = from + at + BEGIN.len();
        let end = text[begin..].find("-----").map_or(text.len(), |end| begin + end);
        struck[begin..end].fill(true);
        // Past the END line, which has the same words.
        from = text[end..].find(BEGIN).map_or(text.len(), |at| end + at + BEGIN.len());
    }
}

/// The pieces between delimiters, and where they stand.
fn words(text: &str, is_delimiter: fn(char) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let pieces = text.split(is_delimiter);
    pieces.map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

fn is_delimiter(c: char) -> bool {
    is_gap(c)
        || matches!(
            c,
            '"' | '\'' | '`' | '\\' | ',' | ';' | ':' | '=' | '&' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>'
        )
}

fn is_gap(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

fn is_of_a_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_whatever_form() {
        let mut redaction = Redaction::default();
        redaction.add("hunter2/hunter2+é\n");
        redaction.add("short");
        let standard = BASE64_STANDARD.encode("hunter2/hunter2+é");
        for (text, expected) in [
            ("got hunter2/hunter2+é and left".to_owned(), "got [redacted] and left".to_owned()),
            ("xhunter2/hunter2+éx".to_owned(), "x[redacted]x".to_owned()),
            ("hunter2/\n  hunter2+é".to_owned(), "[redacted]\n  [redacted]".to_owned()),
            (format!("code {standard}"), "code [redacted]".to_owned()),
            ("short words stay".to_owned(), "short words stay".to_owned()),
            (String::new(), String::new()),
        ] {
            assert_eq!(redaction.apply(&text), expected, "{text}");
        }
        assert!(redaction.longest() >= 17);
    }

    #[test]
    fn a_key_is_struck_out_line_by_line() {
        let mut redaction = Redaction::default();
        redaction.add("-----BEGIN PRIVATE KEY-----\nQUJDREVGR0g\nSUpLTE1OT1A\n-----END PRIVATE KEY-----\n");
        let shown = redaction.apply("-----BEGIN PRIVATE KEY----- line SUpLTE1OT1A only");
        assert!(shown.starts_with("-----BEGIN PRIVATE KEY-----") && !shown.contains("SUpL"), "{shown}");
        assert_eq!(redaction.apply("and SUpLTE1OT1A alone"), "and [redacted] alone");
    }

    #[test]
    fn words_of_the_output_are_struck_out_and_the_forms_of_it_are_not() {
        let mut redaction = Redaction::default();
        redaction.add_words(br#"{"kind":"ExecCredential","status":{"refresh":"a/b/c/hunter2"},"#);
        assert_eq!(
            redaction.apply("ExecCredential with refresh <a/b/c/hunter2> refused"),
            "ExecCredential with refresh <[redacted]> refused"
        );
    }

    #[test]
    fn what_looks_like_a_secret_is_struck_out_and_what_a_person_needs_is_not() {
        let redaction = Redaction::default();
        for hidden in [
            "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
            "Authorization: Bearer a1b2c3d4e5",
            "{\"access_token\": \"a1b2c3d4e5\"}",
            "client_secret=a1b2c3d4e5&x=y",
            "token=x1token:a1b2c3d4e5 token=x1x1x1x1token: a1b2c3d4e5",
            "PASSWORD='a1b2c3d4e5'",
            &format!("k8s-aws-v1.{}", "a1b2c3d4e5".repeat(9)),
            "-----BEGIN RSA PRIVATE KEY-----\na1b2c3d4e5\n",
            "-----BEGIN PRIVATE KEY-----\nQQ==\n-----END PRIVATE KEY-----\n-----BEGIN EC PRIVATE KEY-----\na1b2c3d4e5\n",
        ] {
            let shown = redaction.apply(hidden);
            assert!(shown.contains(STRUCK_OUT), "{shown}");
            assert!(!shown.contains("a1b2c3d4e5") && !shown.contains("eyJ"), "{shown}");
        }
        for shown in [
            "An error occurred (ExpiredTokenException): The security token included in the request is expired",
            "error: token expired, run `aws sso login --profile production-europe`",
            "open /home/jane/.config/gcloud/application_default_credentials.json: no such file or directory",
            "Get \"https://login.example.com:8443/oauth2/token\": dial tcp 10.0.0.1:8443: i/o timeout",
            "Bearer authentication is required",
        ] {
            assert_eq!(redaction.apply(shown), shown);
        }
    }

    #[test]
    fn a_text_that_is_full_of_names_takes_no_longer_than_another() {
        for name in ["token:", "token", "token: ", "secret=\"", "PRIVATE KEY-----", "eyJ"] {
            let text = name.repeat(64 * 1024 / name.len());
            let began = std::time::Instant::now();
            Redaction::default().apply(&text);
            // Ten thousand times ten thousand steps take far more than this.
            assert!(began.elapsed().as_secs() < 5, "{name}: {:?}", began.elapsed());
        }
    }

    #[test]
    fn the_password_in_a_url_is_a_secret() {
        let mut redaction = Redaction::default();
        redaction.add_password_of("http://me:hunter2hunter2@proxy:3128");
        redaction.add_password_of("http://proxy:3128");
        assert_eq!(redaction.apply("proxy:3128 refuses hunter2hunter2"), "proxy:3128 refuses [redacted]");
        redaction.add_password_of("http://me:correct%40horse@proxy:3128");
        assert_eq!(redaction.apply("not correct@horse, nor correct%40horse"), "not [redacted], nor [redacted]");
    }

    #[test]
    fn texts_of_a_configuration_are_struck_out_and_its_names_are_not() {
        let mut redaction = Redaction::default();
        redaction
            .add_texts_of(&serde_json::json!({ "clientSecret": ["correcthorse", { "other": "batterystaple" }, 1] }));
        let shown = redaction.apply("clientSecret: correcthorse and batterystaple");
        assert_eq!(shown, "clientSecret: [redacted] and [redacted]");
    }
}
