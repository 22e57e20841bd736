//! The log of requests.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;

use crate::object::resource::{Resource, Verb};

/// The maximum number of entries. The oldest entries are removed, so that a long test uses bounded memory.
const KEPT: usize = 100_000;

/// A request that reached the server.
///
/// # Examples
///
/// ```
/// use leasehold_testing::{ApiServer, Verb};
///
/// let server = ApiServer::start()?;
/// assert!(!server.requests().iter().any(|request| request.verb == Some(Verb::Delete)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestLog {
    /// The time at which the server had read the whole request.
    pub at: Instant,
    /// The connection of the request, counted from 1.
    pub connection: u64,
    /// The HTTP method.
    pub method: String,
    /// The path as sent, without the query.
    pub path: String,
    /// The query as sent, empty when there is none.
    pub query: String,
    /// The operation; `None` for `/version` and unknown paths.
    pub verb: Option<Verb>,
    /// The resource; `None` for `/version` and unknown paths.
    pub resource: Option<Resource>,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name, from the path, the field selector, or the body of a POST.
    pub name: Option<String>,
    /// The user, after impersonation.
    ///
    /// `None` if the credentials were refused, or if the server has no users and the request impersonates no user.
    pub user: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: Option<String>,
    /// The status of the response.
    ///
    /// `None` while there is no response, and forever if a fault dropped or corrupted the response.
    pub status: Option<u16>,
}

#[derive(Debug, Default)]
pub(crate) struct ServerLog(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    kept: VecDeque<RequestLog>,
    /// The number of entries that were removed.
    gone: u64,
}

impl ServerLog {
    /// Adds an entry, and returns its number, by which the server later adds the status.
    pub fn begin(&self, request: RequestLog) -> u64 {
        let mut entries = self.0.lock();
        if entries.kept.len() == KEPT {
            entries.kept.pop_front();
            entries.gone += 1;
        }
        entries.kept.push_back(request);
        entries.gone + entries.kept.len() as u64 - 1
    }

    pub fn answered(&self, entry: u64, status: u16) {
        let mut entries = self.0.lock();
        let index = entry.checked_sub(entries.gone);
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
