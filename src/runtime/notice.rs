//! What is worth a line in the log, before it is written.

use log::Level;

use crate::log_fields::{LogFields, log_with};
use crate::store::StoreError;

/// A line, without the fields that every line about an election has.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    pub(crate) level: Level,
    text: String,
    reason: Option<String>,
}

impl Notice {
    pub(crate) fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), reason: None }
    }

    /// `text`, a colon, and the error, which is a field of the line as well.
    pub(crate) fn of_error(level: Level, text: impl std::fmt::Display, error: &StoreError) -> Self {
        Self { level, text: format!("{text}: {error}"), reason: Some(error.to_string()) }
    }

    pub(crate) fn log(&self, fields: &LogFields) {
        match self.reason.as_deref() {
            Some(reason) => log_with!(self.level, *fields, reason = reason; "{}", self.text),
            None => log_with!(self.level, *fields; "{}", self.text),
        }
    }
}
