//! Helpers for tests of the threads.

use crate::store::entry::Entry;
use crate::store::memory::MemoryStore;
use crate::util::sync::Arc;

/// An entry for tests that send no request.
pub(crate) fn entry() -> Entry {
    Entry::new(Arc::new(MemoryStore::new()), "jobs")
}
