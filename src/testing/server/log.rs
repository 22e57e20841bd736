//! What was asked of the server.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;

use crate::testing::object::resource::{Resource, Verb};

/// Older entries make room, so that a long soak test does not eat the memory.
const KEPT: usize = 100_000;

/// One request that reached the server, in order of arrival.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestLog {
    /// When the request had been read in full.
    pub at: Instant,
    /// The connection it came on; connections are counted from 1.
    pub connection: u64,
    /// The HTTP method.
    pub method: String,
    /// The path as sent, without the query.
    pub path: String,
    /// The query as sent, empty when there is none.
    pub query: String,
    /// What it asks for; `None` for `/version` and unknown paths.
    pub verb: Option<Verb>,
    /// What it is about; `None` for `/version` and unknown paths.
    pub resource: Option<Resource>,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name: from the path, the field selector, or the body of a POST.
    pub name: Option<String>,
    /// Who sent it (after impersonation); `None` while the server has no users, or when the
    /// credentials were refused.
    pub user: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: Option<String>,
    /// The status that was answered; `None` as long as there is no answer, and for good when a
    /// fault swallowed it or sent garbage.
    pub status: Option<u16>,
}

/// Names an entry whose status is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEntryId(u64);

#[derive(Debug, Default)]
pub(crate) struct ServerLog(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    kept: VecDeque<RequestLog>,
    /// Entries that are no longer kept.
    gone: u64,
}

impl ServerLog {
    pub fn begin(&self, request: RequestLog) -> LogEntryId {
        let mut entries = self.0.lock();
        if entries.kept.len() == KEPT {
            entries.kept.pop_front();
            entries.gone += 1;
        }
        entries.kept.push_back(request);
        LogEntryId(entries.gone + entries.kept.len() as u64 - 1)
    }

    pub fn answered(&self, entry: LogEntryId, status: u16) {
        let mut entries = self.0.lock();
        let index = entry.0.checked_sub(entries.gone);
        let request = index.and_then(|index| entries.kept.get_mut(usize::try_from(index).ok()?));
        if let Some(request) = request {
            request.status = Some(status);
        }
    }

    pub fn all(&self) -> Vec<RequestLog> {
        self.0.lock().kept.iter().cloned().collect()
    }

    pub fn clear(&self) {
        let mut entries = self.0.lock();
        entries.gone += entries.kept.len() as u64;
        entries.kept.clear();
    }
}
