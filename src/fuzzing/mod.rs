//! Properties that the parsers keep for arbitrary input.
//!
//! The targets in `fuzz/` and `tests/behaviour/corpora.rs` check these properties. The properties of a parser are in a
//! module `properties` next to the parser, because most of the checked items are private.

pub(crate) mod target;

pub use target::Target;

use crate::backends::kubernetes::client::auth::{exec, rfc3339};
use crate::backends::kubernetes::client::config::kubeconfig;
use crate::backends::kubernetes::client::status;
use crate::backends::kubernetes::{annotation, object};

/// The target for kubeconfig files.
///
/// Lines of five equal signs separate the files of an input.
pub const KUBECONFIG: Target = kubeconfig::properties::TARGET;
/// The target for the output of a credential plugin.
pub const EXEC_CREDENTIAL: Target = exec::properties::TARGET;
/// The target for responses other than 2xx.
///
/// An input is a line with code and `Retry-After`, then the body.
pub const STATUS: Target = status::properties::TARGET;
/// The target for times.
///
/// An input is RFC 3339 text, and microseconds in the first eight bytes.
pub const TIMES: Target = rfc3339::properties::TARGET;
/// The target for a Lease, as the API server returns a Lease.
pub const LEASE: Target = object::properties::LEASE;
/// The target for a record in an annotation.
pub const ANNOTATION: Target = annotation::properties::TARGET;
/// The target for the stream of a watch.
pub const WATCH: Target = object::properties::WATCH;

/// All targets.
pub const TARGETS: [Target; 7] = [KUBECONFIG, EXEC_CREDENTIAL, STATUS, TIMES, LEASE, ANNOTATION, WATCH];
