//! Blocking leader election on a Kubernetes `Lease`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod builder;
mod callbacks;
mod campaign;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod clock;
#[cfg(not(feature = "testing"))]
mod clock;
mod config;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod deadline;
#[cfg(not(feature = "testing"))]
mod deadline;
mod driver;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod election;
#[cfg(not(feature = "testing"))]
mod election;
mod elector;
mod error;
mod guard;
mod health;
pub mod kube;
mod link;
mod lock;
mod record;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod transition;

pub use builder::LeaderElectorBuilder;
pub use callbacks::Callbacks;
pub use campaign::Campaign;
pub use config::{ConfigError, Settings};
pub use crossbeam_channel;
pub use election::StopReason;
pub use elector::LeaderElector;
pub use error::Error;
pub use guard::{LeaderGuard, Leadership, LeadershipLost, Scope};
pub use health::{HealthCheck, Unhealthy};
pub use lock::lease::LeaseLock;
pub use lock::{Lock, LockError, LockErrorKind};
pub use record::{LeaderElectionRecord, MicroTime, Observed, Rest};
pub use transition::Transition;
