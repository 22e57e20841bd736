//! The start and the fields of every log line about an election.

/// The targets of log lines. A target stays the same when a module moves, so that log filters keep working.
pub(crate) const ELECTION: &str = "leasehold::election";
#[cfg(feature = "_tls")]
pub(crate) const CLIENT: &str = "leasehold::client";
#[cfg(feature = "_tls")]
pub(crate) const TLS: &str = "leasehold::tls";
#[cfg(any(feature = "_tls", feature = "_sql"))]
pub(crate) const STORE: &str = "leasehold::store";

/// The fields `lease`, `identity` and `fencing_token` of the lines of one elector.
#[derive(Clone)]
pub(crate) struct LogFields {
    /// The record, as [`Store::describe`](crate::store::Store::describe) names the record.
    pub(crate) described: String,
    pub(crate) identity: String,
    /// The fencing token of the current term.
    pub(crate) fencing_token: Option<u64>,
}

impl LogFields {
    pub(crate) fn new(described: String, identity: &str) -> Self {
        Self { described, identity: identity.to_owned(), fencing_token: None }
    }

    /// Returns the field `lease`: the record without the word `lease`, which is the name of the field.
    pub(crate) fn lease(&self) -> &str {
        self.described.strip_prefix("lease ").unwrap_or(&self.described)
    }
}

/// Logs a line at `$level` with the fields `$fields`. The text begins with the values of the fields `lease` and
/// `identity`.
///
/// Only this macro escapes the text, in which a record or an identity may contain invisible characters.
macro_rules! log_with {
    ($level:expr, $fields:expr $(, $key:ident = $value:expr)*; $($message:tt)+) => {{
        let fields: &$crate::util::log_fields::LogFields = &$fields;
        $crate::util::panics::log_line!(
            log,
            target: $crate::util::log_fields::ELECTION,
            $level,
            lease = fields.lease(),
            identity = fields.identity.as_str(),
            fencing_token = fields.fencing_token
            $(, $key = $value)*;
            "{}", $crate::util::one_line::OneLine(
                format_args!("{} {}: {}", fields.lease(), fields.identity, format_args!($($message)+))
            )
        );
    }};
}

pub(crate) use log_with;
