//! The fields that every line about an election has, for loggers that write more than text.

/// The targets of log lines. A filter names these, not private modules.
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
    /// What lines begin with.
    pub(crate) described: String,
    pub(crate) identity: String,
    /// The fencing token of the present term.
    pub(crate) fencing_token: Option<u64>,
}

impl LogFields {
    pub(crate) fn new(described: String, identity: &str) -> Self {
        Self { described, identity: identity.to_owned(), fencing_token: None }
    }

    /// Those of lines that are about another record as well.
    pub(crate) fn and(self, described: &str) -> Self {
        Self { described: format!("{} and {described}", self.described), ..self }
    }

    /// The name alone, where it is known what it is the name of.
    pub(crate) fn lease(&self) -> &str {
        self.described.strip_prefix("lease ").unwrap_or(&self.described)
    }
}

/// A line at `$level`, with the fields.
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
            "{}", $crate::util::one_line::OneLine(format_args!("{}: {}", fields.described, format_args!($($message)+)))
        );
    }};
}

pub(crate) use log_with;
