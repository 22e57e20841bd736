//! The operator's hand: what tests do to the store behind the code under test.

use serde_json::{Value, json};

use crate::testing::object::key::Filter;
use crate::testing::object::key::ObjectKey;
use crate::testing::object::resource::Resource;
use crate::testing::server::api_server::ApiServer;
use crate::testing::store::table::{Preconditions, Snapshot};

/// The operator's hand: working on the store directly, without HTTP, rights, validation or faults.
/// Watchers see these changes like any others.
impl ApiServer {
    /// An object, if it is there.
    pub fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        let object = self.server.store.lock().get(&key(resource, namespace, name));
        object.map(|object| Value::clone(&object))
    }

    /// All objects of a resource in a namespace, by name.
    pub fn list(&self, resource: Resource, namespace: &str) -> Vec<Value> {
        let filter = Filter { resource, namespace: Some(namespace.to_owned()), name: None };
        let objects = self.server.store.lock().list(&filter);
        objects.iter().map(|object| Value::clone(object)).collect()
    }

    /// Creates or replaces an object, and gives back what was stored. `kind`, `apiVersion` and the
    /// metadata that identifies it are filled in; what else it holds is up to you, the impossible
    /// included. Replacing keeps uid and creation time unless others are given. As over HTTP,
    /// nothing is written when nothing changes.
    ///
    /// ```
    /// use leasehold::testing::{ApiServer, Resource};
    /// use leasehold::testing::json;
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

    /// Changes an object in place, and gives back what was stored; `None` when there is no such
    /// object. Nothing else can be written in between. The closure must not call this server: that
    /// would deadlock.
    ///
    /// ```
    /// use leasehold::testing::{ApiServer, Resource};
    /// use leasehold::testing::json;
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

    /// Deletes an object. Gives back what it was, under the version of the deletion.
    pub fn delete(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        let key = key(resource, namespace, name);
        let deleted = self.server.store.lock().delete(resource.storage_api(), &key, &Preconditions::default());
        deleted.ok().map(|object| Value::clone(&object))
    }

    /// Adds a namespace; does nothing if it exists.
    pub fn add_namespace(&self, name: &str) {
        self.server.store.lock().state.namespaces.insert(name.to_owned());
    }

    /// The store-wide revision: the `resourceVersion` of the latest write.
    pub fn revision(&self) -> u64 {
        self.server.store.lock().state.revision
    }

    /// Moves the revision ahead, as writes to other objects of a busy cluster would.
    pub fn advance_revision(&self, by: u64) {
        let mut store = self.server.store.lock();
        store.state.revision = store.state.revision.saturating_add(by);
    }

    /// Forgets the history: a watch from before the present revision is [expired](crate::testing::ExpiredWatch).
    pub fn compact(&self) {
        self.server.store.lock().compact();
    }

    /// Sends a bookmark to every watch that has asked for bookmarks. They also go out once a
    /// minute.
    pub fn send_bookmarks(&self) {
        self.server.store.lock().bookmark(None);
    }

    /// What the store holds now.
    pub fn snapshot(&self) -> Snapshot {
        self.server.store.lock().state.clone()
    }

    /// Goes back to a snapshot, of this server or another, as when an etcd is restored from a
    /// backup: the revision is that of the snapshot, the history before it is gone, and every
    /// connection is cut.
    ///
    /// ```
    /// use leasehold::testing::{ApiServer, Resource};
    /// use leasehold::testing::json;
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
        // The connections are cut first, so that no watch ends in order.
        self.server.cut_sockets();
        store.restore(snapshot);
        drop(store);
        self.server.wake();
    }
}

fn key(resource: Resource, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { resource, namespace: namespace.to_owned(), name: name.to_owned() }
}
