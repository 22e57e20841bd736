//! The environment, as a parameter, so that nothing in here depends on the process's own.

use std::ffi::OsString;

pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;
