//! Stored objects, and their forms in the API.

pub(crate) mod key;
pub(crate) mod microtime;
pub(crate) mod resource;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod validate;

pub use resource::{Resource, Verb};
