//! The objects and their versions, with the semantics of a kube-apiserver on etcd.
//!
//! This module does not depend on HTTP. Other modules convert refusals to responses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::object::key::{Filter, ObjectKey};
use crate::object::resource::Api;
use crate::object::status::{Cause, StatusObject};
use crate::object::validate;
use crate::store::history::{History, ObjectChange, Subscription};
use crate::util::debug_fields;

/// The first revision. A real cluster writes to etcd during its start, so clients never see a low revision.
const FIRST_REVISION: u64 = 1000;

/// The maximum number of started lists whose rest the store keeps.
const MAX_LISTS: usize = 100;

/// The content of a store at one moment.
///
/// [`ApiServer::restore`](crate::ApiServer::restore) restores a snapshot. A clone of a snapshot is cheap.
///
/// # Examples
///
/// ```
/// let server = leasehold_testing::ApiServer::start()?;
/// let before = server.snapshot();
/// server.restore(&before);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) revision: u64,
    objects: BTreeMap<ObjectKey, Arc<Value>>,
    pub(crate) namespaces: BTreeSet<String>,
}

pub(crate) struct ObjectTable {
    pub state: Snapshot,
    pub history: History,
    /// The rests of lists, oldest first.
    rests: VecDeque<ListPage>,
}

/// A page of a list, or the rest of a list.
#[derive(Clone)]
pub(crate) struct ListPage {
    pub objects: Vec<Arc<Value>>,
    /// The revision of all pages of the list.
    pub revision: u64,
    /// The token of the rest that follows. In a rest, the token of the rest itself.
    pub token: String,
}

impl Snapshot {
    /// Returns the store's revision at the time of the snapshot.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

debug_fields!(impl Debug for Snapshot { self => revision: self.revision, objects: self.objects.len(), .. });

impl ObjectTable {
    pub fn new(namespaces: BTreeSet<String>, history_limit: usize) -> ObjectTable {
        ObjectTable {
            state: Snapshot { revision: FIRST_REVISION, objects: BTreeMap::new(), namespaces },
            history: History::new(FIRST_REVISION, history_limit),
            rests: VecDeque::new(),
        }
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.state.objects.get(key).cloned()
    }

    pub fn list(&self, filter: &Filter) -> Vec<Arc<Value>> {
        self.matching(filter).map(|(_, object)| object.clone()).collect()
    }

    /// Returns at most `limit` objects, from the start or from the rest with the token.
    pub fn page(&mut self, filter: &Filter, limit: usize, token: &str) -> Result<ListPage, StatusObject> {
        let mut page = match token {
            "" => ListPage { objects: self.list(filter), revision: self.state.revision, token: String::new() },
            token => {
                let rest = self.rests.iter().find(|rest| rest.token == token).cloned();
                rest.ok_or_else(|| {
                    let why = "The provided continue parameter is too old to display a consistent list result.";
                    StatusObject::new(410, "Expired", why)
                })?
            }
        };
        let objects = page.objects.split_off(limit.min(page.objects.len()));
        page.token.clear();
        if !objects.is_empty() {
            page.token = random_uid();
            self.rests.push_back(ListPage { objects, revision: page.revision, token: page.token.clone() });
            if self.rests.len() > MAX_LISTS {
                self.rests.pop_front();
            }
        }
        Ok(page)
    }

    pub fn create(&mut self, api: &Api, key: ObjectKey, object: Value) -> Result<Arc<Value>, StatusObject> {
        self.check_namespace(&key)?;
        validate::check(api, &key.name, &object)?;
        // On the real server, a valid version is an internal error without a reason. An invalid version is ignored.
        if version_of(&object).is_ok_and(|version| version != 0) {
            return Err(StatusObject::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        if self.state.objects.contains_key(&key) {
            return Err(StatusObject::already_exists(api, &key.name));
        }
        Ok(self.insert(key, object))
    }

    /// Updates or creates an object. Returns the object, and `true` if it was created.
    pub fn update(&mut self, api: &Api, key: ObjectKey, mut object: Value) -> Result<(Arc<Value>, bool), StatusObject> {
        self.check_namespace(&key)?;
        let (stored, name) = (self.get(&key), key.name.as_str());
        if stored.is_none() && !api.create_on_update {
            return Err(StatusObject::not_found(api, name));
        }
        let found = stored.as_deref().map_or("", uid_of);
        let wanted = uid_of(&object);
        if !wanted.is_empty() && wanted != found {
            let path = format!("{}/{}/{name}", api.plural(), key.namespace);
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
            );
            return Err(StatusObject::conflict(api, name, &why));
        }
        let version = version_of(&object).map_err(|why| StatusObject::new(500, "", why))?;
        let Some(stored) = stored else {
            validate::check(api, name, &object)?;
            return Ok((self.insert(key, object), true));
        };
        if version == 0 && !api.unconditional_update {
            let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
            return Err(StatusObject::invalid(api, &api.qualified(), name, &[cause]));
        }
        if version != 0 && version_of(&stored) != Ok(version) {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(StatusObject::conflict(api, name, why));
        }
        validate::check(api, name, &object)?;
        for field in ["uid", "creationTimestamp", "resourceVersion"] {
            object["metadata"][field] = stored["metadata"][field].clone();
        }
        // An unchanged object is not written to etcd, so watches deliver no event.
        if object == *stored {
            return Ok((stored, false));
        }
        Ok((self.commit("MODIFIED", key, object), false))
    }

    /// Deletes an object. Returns its last state, with the version of the deletion.
    ///
    /// `preconditions` is the field `preconditions` of `DeleteOptions`, or null.
    pub fn delete(&mut self, api: &Api, key: &ObjectKey, preconditions: &Value) -> Result<Arc<Value>, StatusObject> {
        let object = self.get(key).ok_or_else(|| StatusObject::not_found(api, &key.name))?;
        let mut object = Value::clone(&object);
        for (what, field, hint) in [
            ("UID", "uid", "The object might have been deleted and then recreated"),
            ("ResourceVersion", "resourceVersion", "The object might have been modified"),
        ] {
            let found = object["metadata"][field].as_str().unwrap_or_default();
            if let Some(wanted) = preconditions[field].as_str().filter(|wanted| *wanted != found) {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {hint}"
                );
                return Err(StatusObject::conflict(api, &key.name, &why));
            }
        }
        self.state.objects.remove(key);
        self.stamp(&mut object);
        let object = Arc::new(object);
        self.publish("DELETED", key.clone(), object.clone());
        Ok(object)
    }

    /// Writes an object without any check, for the operator methods.
    pub fn force(&mut self, key: ObjectKey, mut object: Value) -> Arc<Value> {
        if !object.is_object() {
            object = json!({});
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["name"] = json!(key.name);
        object["metadata"]["namespace"] = json!(key.namespace);
        match self.get(&key) {
            None => self.insert(key, object),
            Some(stored) => {
                for field in ["uid", "creationTimestamp"] {
                    if object["metadata"][field].is_null() {
                        object["metadata"][field] = stored["metadata"][field].clone();
                    }
                }
                object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
                if object == *stored {
                    return stored;
                }
                self.commit("MODIFIED", key, object)
            }
        }
    }

    pub fn compact(&mut self) {
        self.history.compact(self.state.revision);
        self.rests.clear();
    }

    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.state = snapshot.clone();
        self.history.unsubscribe_all();
        self.compact();
    }

    /// Starts a watch. Without `after`, the watch starts with the existing objects.
    pub fn subscribe(&mut self, filter: Filter, after: Option<u64>) -> Result<Subscription, StatusObject> {
        let backlog = match after {
            Some(after) => self.history.since(after, &filter)?,
            None => self
                .matching(&filter)
                .map(|(key, object)| {
                    Arc::new(ObjectChange {
                        revision: version_of(object).unwrap_or_default(),
                        kind: "ADDED",
                        key: key.clone(),
                        object: object.clone(),
                    })
                })
                .collect(),
        };
        let after = after.unwrap_or_default();
        Ok(self.history.subscribe(filter, after, backlog))
    }

    /// Sends a bookmark to the watch `id`, or to all watches.
    pub fn bookmark(&self, id: Option<u64>) {
        self.history.bookmark(id, self.state.revision);
    }

    fn matching<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> {
        self.state.objects.iter().filter(|(key, _)| filter.matches(key))
    }

    fn check_namespace(&self, key: &ObjectKey) -> Result<(), StatusObject> {
        match self.state.namespaces.contains(&key.namespace) {
            true => Ok(()),
            false => Err(StatusObject::namespace_not_found(&key.namespace)),
        }
    }

    fn insert(&mut self, key: ObjectKey, mut object: Value) -> Arc<Value> {
        object["metadata"]["uid"] = json!(random_uid());
        object["metadata"]["creationTimestamp"] =
            json!(humantime::format_rfc3339_seconds(SystemTime::now()).to_string());
        self.commit("ADDED", key, object)
    }

    fn commit(&mut self, kind: &'static str, key: ObjectKey, mut object: Value) -> Arc<Value> {
        self.stamp(&mut object);
        let object = Arc::new(object);
        self.state.objects.insert(key.clone(), object.clone());
        self.publish(kind, key, object.clone());
        object
    }

    fn stamp(&mut self, object: &mut Value) {
        self.state.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.state.revision.to_string());
    }

    fn publish(&mut self, kind: &'static str, key: ObjectKey, object: Arc<Value>) {
        self.history.publish(Arc::new(ObjectChange { revision: self.state.revision, kind, key, object }));
    }
}

fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Returns the version of an object. Zero means that the object has no version, as on the real server.
fn version_of(object: &Value) -> Result<u64, String> {
    match object["metadata"]["resourceVersion"].as_str() {
        None | Some("") => Ok(0),
        Some(text) => text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax")),
    }
}

/// Returns a random UUID, version 4 (RFC 9562).
fn random_uid() -> String {
    let bits = fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
