//! The one place that imports atomics, locks and channels, so that a model checker can put its own in their stead.

pub(crate) use crossbeam_channel as channel;
pub(crate) use parking_lot::Mutex;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
