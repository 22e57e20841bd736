//! Operator methods, which change the store independently of the code under test.

use serde_json::{Value, json};

use crate::object::key::{Filter, ObjectKey};
use crate::object::resource::Resource;
use crate::server::api_server::ApiServer;
use crate::store::table::Snapshot;

/// Operator methods, which access the store directly, without HTTP, rights, validation or faults.
///
/// Watches deliver the changes of these methods like all other changes.
impl ApiServer {
    /// Returns an object, or `None` if the object does not exist.
    pub fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        let object = self.server.store.lock().get(&key(resource, namespace, name));
        object.map(|object| Value::clone(&object))
    }

    /// Returns all objects of a resource in a namespace, sorted by name.
    pub fn list(&self, resource: Resource, namespace: &str) -> Vec<Value> {
        let filter = Filter { resource, namespace: Some(namespace.to_owned()), name: None };
        let objects = self.server.store.lock().list(&filter);
        objects.iter().map(|object| Value::clone(object)).collect()
    }

    /// Creates or replaces an object, and returns the stored object.
    ///
    /// The method sets name and namespace, and adds `kind` and `apiVersion` if they are absent. Other fields are not
    /// validated. If `object` has no uid or creation time, a replaced object keeps its own. As over HTTP, an unchanged
    /// object is not written.
    ///
    /// # Examples
    /// ```
    /// use leasehold_testing::{ApiServer, Resource};
    /// use leasehold_testing::json;
    ///
    /// let server = ApiServer::start()?;
    /// let spec = json!({"holderIdentity": "them"});
    /// let lease = server.put(Resource::Leases, "default", "x", json!({"spec": spec}));
    /// assert_eq!(lease["metadata"]["resourceVersion"], server.revision().to_string());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn put(&self, resource: Resource, namespace: &str, name: &str, object: Value) -> Value {
        let mut object = object;
        let api = resource.storage_api();
        if let Some(fields) = object.as_object_mut() {
            fields.entry("kind").or_insert_with(|| json!(api.kind));
            fields.entry("apiVersion").or_insert_with(|| json!(api.api_version()));
        }
        let key = key(resource, namespace, name);
        Value::clone(&*self.server.store.lock().force(key, object))
    }

    /// Changes an object, and returns the stored object, or `None` if the object does not exist.
    ///
    /// No other write happens while `change` runs. `change` must not call this server, because the call would deadlock.
    ///
    /// # Examples
    /// ```
    /// use leasehold_testing::{ApiServer, Resource};
    /// use leasehold_testing::json;
    ///
    /// let server = ApiServer::start()?;
    /// server.put(Resource::Leases, "default", "x", json!({"spec": {}}));
    /// server.edit(Resource::Leases, "default", "x", |lease| {
    ///     lease["metadata"]["labels"] = json!({"touched": "yes"});
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn edit(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        let key = key(resource, namespace, name);
        let mut store = self.server.store.lock();
        let mut object = Value::clone(&*store.get(&key)?);
        change(&mut object);
        Some(Value::clone(&*store.force(key, object)))
    }

    /// Deletes an object. Returns its last state, with the version of the deletion.
    pub fn delete(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        let key = key(resource, namespace, name);
        let deleted = self.server.store.lock().delete(resource.storage_api(), &key, &Value::Null);
        deleted.ok().map(|object| Value::clone(&object))
    }

    /// Adds a namespace, unless the namespace exists.
    pub fn add_namespace(&self, name: &str) {
        self.server.store.lock().state.namespaces.insert(name.to_owned());
    }

    /// Returns the store-wide revision: the `resourceVersion` of the latest write.
    pub fn revision(&self) -> u64 {
        self.server.store.lock().state.revision
    }

    /// Advances the revision, as writes to other objects of a busy cluster would.
    pub fn advance_revision(&self, by: u64) {
        let mut store = self.server.store.lock();
        store.state.revision = store.state.revision.saturating_add(by);
    }

    /// Removes all changes from the history.
    ///
    /// A watch that resumes from before the current revision is [expired](crate::ExpiredWatch). The server
    /// answers the next page of a started list with 410.
    pub fn compact(&self) {
        self.server.store.lock().compact();
    }

    /// Sends a bookmark to every watch that has requested bookmarks.
    ///
    /// The server also sends a bookmark once a minute.
    pub fn send_bookmarks(&self) {
        self.server.store.lock().bookmark(None);
    }

    /// Returns the current content of the store.
    pub fn snapshot(&self) -> Snapshot {
        self.server.store.lock().state.clone()
    }

    /// Restores a snapshot of any server, like an etcd restored from a backup.
    ///
    /// The store gets the revision of the snapshot, the history is removed, and every connection is cut.
    ///
    /// # Examples
    /// ```
    /// use leasehold_testing::{ApiServer, Resource};
    /// use leasehold_testing::json;
    ///
    /// let server = ApiServer::start()?;
    /// let before = server.snapshot();
    /// server.put(Resource::Leases, "default", "x", json!({"spec": {}}));
    /// server.restore(&before);
    /// assert_eq!(server.revision(), before.revision());
    /// assert_eq!(server.get(Resource::Leases, "default", "x"), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut store = self.server.store.lock();
        // The connections are cut first, so that every watch is cut instead of ending without an error.
        self.server.cut_sockets();
        store.restore(snapshot);
        drop(store);
        self.server.wake();
    }
}

fn key(resource: Resource, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { resource, namespace: namespace.to_owned(), name: name.to_owned() }
}
