//! The objects that exist when a watch of several objects starts.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Codec, ObjectStore, resource_version};
use crate::backends::kubernetes::client::{ErrorKind, Method, Request};
use crate::store::{CallContext, StoreError, StoreErrorKind, WatchEvent, WatchScope, check_watch};
use crate::util::cancel::CancelToken;

/// Time limit for each page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for all pages.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of objects in a page, which is the page size of client-go.
const PAGE_LIMIT: u32 = 500;

/// A list of objects, which is read page by page.
pub(super) struct ObjectList<'a> {
    scope: WatchScope<'a>,
    call: CallContext,
    /// The maximum number of objects in the next page.
    limit: u32,
    /// The objects of the last page.
    items: Vec<Value>,
    /// The version of the first page, after which a watch misses no change.
    pub(super) version: u64,
    /// The token of the next page. Empty if the last page was read.
    token: String,
}

impl<C: Codec> ObjectStore<C> {
    /// Reads the first page of the objects in the namespace.
    pub(super) fn list<'a>(&self, scope: WatchScope<'a>, cancel: &CancelToken) -> Result<ObjectList<'a>, StoreError> {
        let call = CallContext::new(LIST_TIMEOUT, cancel.clone());
        let mut list =
            ObjectList { scope, call, limit: PAGE_LIMIT, items: Vec::new(), version: 0, token: String::new() };
        list.version = self.read_page(&mut list)?;
        Ok(list)
    }

    /// Delivers the objects in scope, reads the other pages, and then sends [`WatchEvent::Synced`].
    pub(super) fn deliver(
        &self,
        mut list: ObjectList<'_>,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        loop {
            for mut object in std::mem::take(&mut list.items) {
                let key = object["metadata"]["name"].as_str().filter(|name| list.scope.includes(name));
                let Some(key) = key.map(str::to_owned) else { continue };
                // Only the list has these fields, but each update needs the fields.
                object["kind"] = json!(C::KIND);
                object["apiVersion"] = json!(C::API_VERSION);
                let changed = WatchEvent::read(list.scope, &key, self.parse(&key, object))?;
                check_watch(list.call.cancel())?;
                on_event(changed);
            }
            check_watch(list.call.cancel())?;
            if list.token.is_empty() {
                on_event(WatchEvent::Synced);
                return Ok(());
            }
            match self.read_page(&mut list) {
                // The server no longer has the state of the first page, so the list starts again. The watch has started
                // after the first page, and reports all deletions since then.
                Err(error) if error.kind() == StoreErrorKind::Expired => {
                    list.token.clear();
                    self.read_page(&mut list)?;
                }
                read => _ = read?,
            }
        }
    }

    /// Reads the next page, and returns the version.
    ///
    /// If a page exceeds the response limit of the client, reads a smaller page.
    fn read_page(&self, list: &mut ObjectList<'_>) -> Result<u64, StoreError> {
        let path = self.path(None);
        let mut page = loop {
            let limit = list.limit.to_string();
            let mut query = vec![("limit", limit.as_str())];
            query.extend((!list.token.is_empty()).then_some(("continue", list.token.as_str())));
            let timeout = PAGE_TIMEOUT.min(list.call.remaining());
            let request = Request { method: Method::Get, path: &path, query: &query, body: None };
            let call = CallContext::new(timeout, list.call.cancel().clone());
            match self.client.request(request, &call).and_then(|response| response.json::<Value>()) {
                Err(error) if *error.kind() == ErrorKind::BodyTooLarge && list.limit > 1 => {
                    list.limit = (list.limit / 10).max(1);
                }
                page => break page.map_err(|error| self.explain("list", list.scope, error))?,
            }
        };
        let is_list = page["kind"].as_str().and_then(|kind| kind.strip_suffix("List")) == Some(C::KIND);
        let version = resource_version(&page).filter(|_| is_list).ok_or_else(|| {
            let message = format!("cannot list {}: invalid list of {}", self.describe_scope(list.scope), C::RESOURCE);
            StoreError::new(StoreErrorKind::Malformed, message)
        })?;
        list.token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        list.items = if let Value::Array(items) = page["items"].take() { items } else { Vec::new() };
        Ok(version)
    }
}
