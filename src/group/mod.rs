//! Groups, which divide shards over processes.

pub(crate) mod builder;
pub(crate) mod core;
pub(crate) mod lease_group;
mod member;
pub(crate) mod shard;
pub(crate) mod status;
mod threads;
