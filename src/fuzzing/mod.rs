//! What must hold of every parser, whatever it is given: for the targets in `fuzz/` and for `tests/behaviour/corpora.rs`.
//!
//! The properties of a parser stand beside it, in a module `properties`: most of what they look at is private.

pub(crate) mod target;

pub use target::Target;

use crate::backends::kubernetes::client::auth::{exec, rfc3339};
use crate::backends::kubernetes::client::config::kubeconfig;
use crate::backends::kubernetes::client::status;
use crate::backends::kubernetes::{annotation, object};

/// Several kubeconfig files, between lines of five equal signs, merged and resolved.
pub const KUBECONFIG: Target = kubeconfig::properties::TARGET;
/// What a credential plugin prints.
pub const EXEC_CREDENTIAL: Target = exec::properties::TARGET;
/// An answer that is not 2xx: a line with the code and the `Retry-After` header, then the body.
pub const STATUS: Target = status::properties::TARGET;
/// A time: as RFC 3339 in the text, and as microseconds in the first eight bytes.
pub const TIMES: Target = rfc3339::properties::TARGET;
/// A lease as the API server answers it.
pub const LEASE: Target = object::properties::LEASE;
/// The record in an annotation.
pub const ANNOTATION: Target = annotation::properties::TARGET;
/// The stream of a watch.
pub const WATCH: Target = object::properties::WATCH;

/// All of them.
pub const TARGETS: [Target; 7] = [KUBECONFIG, EXEC_CREDENTIAL, STATUS, TIMES, LEASE, ANNOTATION, WATCH];
