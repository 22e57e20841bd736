//! Properties of the parsers for arbitrary input.
//!
//! The targets in `fuzz/` and `tests/behaviour/corpora.rs` check these properties. The properties of a parser are in a module
//! `properties` beside the parser, because most of the checked items are private.

pub(crate) mod target;

pub use target::Target;

use crate::backends::kubernetes::client::auth::{exec, rfc3339};
use crate::backends::kubernetes::client::config::kubeconfig;
use crate::backends::kubernetes::client::status;
use crate::backends::kubernetes::{annotation, object};

/// Several kubeconfig files, separated by lines of five equal signs, merged and resolved.
pub const KUBECONFIG: Target = kubeconfig::properties::TARGET;
/// The output of a credential plugin.
pub const EXEC_CREDENTIAL: Target = exec::properties::TARGET;
/// A response other than 2xx: a line with code and `Retry-After`, then the body.
pub const STATUS: Target = status::properties::TARGET;
/// A time as RFC 3339 text, and as microseconds in the first eight bytes.
pub const TIMES: Target = rfc3339::properties::TARGET;
/// A Lease as the API server returns it.
pub const LEASE: Target = object::properties::LEASE;
/// A record in an annotation.
pub const ANNOTATION: Target = annotation::properties::TARGET;
/// The stream of a watch.
pub const WATCH: Target = object::properties::WATCH;

/// All targets.
pub const TARGETS: [Target; 7] = [KUBECONFIG, EXEC_CREDENTIAL, STATUS, TIMES, LEASE, ANNOTATION, WATCH];
