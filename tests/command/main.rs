//! The command `leasehold`, as users run it.

mod deploy;
mod duties;
mod faults;
mod flags;
mod groups;
mod guardian;
mod jobs;
mod leader;
mod observe;
mod periods;
mod rollout;
mod run;
mod sessions;
mod sidecar;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod terms;
