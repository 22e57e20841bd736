//! The fields that every line about an election has, for loggers that write more than text.

use std::fmt::{self, Write};

use crate::store::entry::Entry;

/// What `lease`, `identity` and `token` are in the lines of one elector.
#[derive(Clone)]
pub(crate) struct LogFields {
    /// What lines begin with.
    pub(crate) described: String,
    pub(crate) identity: String,
    /// The fencing token of the present term.
    pub(crate) token: Option<u64>,
}

impl LogFields {
    pub(crate) fn new(entry: &Entry, identity: &str) -> Self {
        Self { described: entry.describe(), identity: identity.to_owned(), token: None }
    }

    /// Those of lines that are about another record as well.
    pub(crate) fn and(self, entry: &Entry) -> Self {
        Self { described: format!("{} and {}", self.described, entry.describe()), ..self }
    }

    /// The name alone, where it is known what it is the name of.
    pub(crate) fn lease(&self) -> &str {
        self.described.strip_prefix("lease ").unwrap_or(&self.described)
    }
}

/// A text in which nobody else can begin a line, or change what a terminal shows: identities are what others wrote.
pub(crate) struct OneLine<'a>(pub(crate) fmt::Arguments<'a>);

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaping(f).write_fmt(self.0)
    }
}

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let control = part.chars().next_back().filter(|last| last.is_control());
            self.0.write_str(&part[..part.len() - control.map_or(0, char::len_utf8)])?;
            if let Some(control) = control {
                write!(self.0, "{}", control.escape_default())?;
            }
        }
        Ok(())
    }
}

/// A line at `$level`, with the fields.
macro_rules! log_with {
    ($level:expr, $fields:expr $(, $key:ident = $value:expr)*; $($message:tt)+) => {{
        let fields: &$crate::log_fields::LogFields = &$fields;
        log::log!(
            $level,
            lease = fields.lease(),
            identity = fields.identity.as_str(),
            token = fields.token
            $(, $key = $value)*;
            "{}", $crate::log_fields::OneLine(format_args!("{}: {}", fields.described, format_args!($($message)+)))
        )
    }};
}

pub(crate) use log_with;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_begins_a_line() {
        let line = |identity: &str| OneLine(format_args!("{identity} leads")).to_string();
        assert_eq!(line("a"), "a leads");
        assert_eq!(line("x\n[INFO] \u{1b}[2Jé\u{85}"), "x\\n[INFO] \\u{1b}[2Jé\\u{85} leads");
    }
}
