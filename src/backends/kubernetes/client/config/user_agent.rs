//! The `User-Agent` header, which identifies the program.
//!
//! API servers write the value to their audit logs, and the part before the first slash to `metadata.managedFields`.

use std::env::consts::{ARCH, OS};

use crate::backends::kubernetes::client::error::ClientError;

/// Maximum length of a manager in `metadata.managedFields`.
const MAX_NAME: usize = 128;

/// Maximum length of a configured value, which is short compared with a request.
const MAX_LENGTH: usize = 1024;

/// Returns `<program>/unknown (<os>/<arch>) leasehold/<version>`.
///
/// client-go uses this form for a program without a version.
pub(super) fn default() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    of(program.unwrap_or_default())
}

fn of(program: &str) -> String {
    // Keeps the token characters of RFC 9110, section 5.6.2. Other characters would end the product or begin a comment.
    let is_part = |c: &char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(*c);
    let name: String = program.chars().filter(is_part).take(MAX_NAME).collect();
    let name = if name.is_empty() { "unknown" } else { &name };
    format!("{name}/unknown ({OS}/{ARCH}) {}", crate::net::USER_AGENT)
}

pub(super) fn check(user_agent: String) -> Result<String, ClientError> {
    let is_printable = user_agent.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match is_printable && !user_agent.trim().is_empty() && user_agent.len() <= MAX_LENGTH {
        true => Ok(user_agent),
        false => Err(ClientError::config(
            "user agent",
            "must be printable ASCII, not empty, and at most 1,024 characters long",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_survives_any_file_name() {
        let rest = format!("/unknown ({OS}/{ARCH}) leasehold/{}", env!("CARGO_PKG_VERSION"));
        for (file, name) in [("jobs", "jobs"), ("my jobs (1)", "myjobs1"), ("", "unknown"), ("\u{1f980}", "unknown")] {
            assert_eq!(of(file), format!("{name}{rest}"));
        }
        assert!(of(&"x".repeat(1_000)).starts_with(&format!("{}/", "x".repeat(MAX_NAME))));
        assert!(default().starts_with("leasehold"), "{}: the name of this test", default());
    }

    #[test]
    fn invalid_header_value_is_refused() {
        for text in ["", "  ", "a\r\nb", "a\u{e9}", "\u{7f}"] {
            assert!(check(text.to_owned()).is_err(), "{text:?}");
        }
        assert!(check("x".repeat(MAX_LENGTH + 1)).is_err());
        assert!(check("jobs/1.2 (build 3)".to_owned()).is_ok() && check("x".repeat(MAX_LENGTH)).is_ok());
    }
}
