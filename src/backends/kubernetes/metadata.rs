//! Labels, annotations and owners of an elector's objects.
//!
//! Each update keeps the labels, annotations and owners of other writers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::annotation;
use crate::util::config_error::{ConfigError, require};
use crate::util::names::{check_label_value, check_qualified_name};

/// An owner of the object that holds the record.
///
/// If the owner is deleted, the cluster's garbage collector deletes the object.
///
/// See [`LeaderElectorBuilder::owner_reference`](crate::LeaderElectorBuilder::owner_reference).
///
/// # Examples
///
/// ```
/// use leasehold::kubernetes::OwnerReference;
///
/// let owner = OwnerReference::new("apps/v1", "Deployment", "my-controller", "c2a1a9f0-6a8f-4f4e-9d54-0f1e6b8f7a11");
/// assert_eq!(owner.kind, "Deployment");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerReference {
    /// The `apiVersion`, such as `apps/v1`.
    pub api_version: String,
    /// The `kind`, such as `Deployment`.
    pub kind: String,
    /// The name of the owner. The owner must be in the object's namespace, or cluster-scoped.
    pub name: String,
    /// The `metadata.uid` of the owner.
    ///
    /// With a wrong uid, the cluster's garbage collector deletes the owned object.
    pub uid: String,
}

impl OwnerReference {
    /// Creates a reference to the object with this `apiVersion`, `kind`, `name` and `uid`.
    pub fn new(
        api_version: impl Into<String>,
        kind: impl Into<String>,
        name: impl Into<String>,
        uid: impl Into<String>,
    ) -> Self {
        Self { api_version: api_version.into(), kind: kind.into(), name: name.into(), uid: uid.into() }
    }

    /// Adds this owner to the list, unless the list has an owner with the same uid.
    ///
    /// The other fields of an owner in the list must not change.
    fn write(&self, owners: &mut Vec<Value>) {
        if !owners.iter().any(|owner| owner["uid"] == self.uid.as_str()) {
            let Self { api_version, kind, name, uid } = self;
            owners.push(json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid }));
        }
    }
}

/// The prefix of the annotations with notes.
const RESERVED: &str = "leasehold.dev/";

/// The metadata that the store writes when it creates an object, and again with each update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) owners: Vec<OwnerReference>,
}

impl Metadata {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.owners.is_empty()
    }

    /// Returns an error if the API server would reject the metadata.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in &self.labels {
            check_qualified_name("label", key)?;
            check_label_value(key, value)?;
        }
        for key in self.annotations.keys() {
            // The API server requires a lowercase prefix in label keys, but ignores the case of annotation keys.
            check_qualified_name("annotation", &key.to_lowercase())?;
            let is_free = key != annotation::KEY && !key.starts_with(RESERVED);
            require(is_free, "annotation", format_args!("{key:?}"), "reserved for the election")?;
        }
        for owner @ OwnerReference { api_version, kind, name, uid } in &self.owners {
            let is_complete = ![api_version, kind, name, uid].contains(&&String::new());
            let rule = "apiVersion, kind, name and uid of an owner must not be empty";
            require(is_complete, "owner_reference", format_args!("{owner:?}"), rule)?;
        }
        Ok(())
    }

    pub(super) fn write(&self, object: &mut Value) {
        let metadata = member(as_object(object), "metadata");
        for (field, ours) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !ours.is_empty() {
                member(metadata, field).extend(ours.iter().map(|(key, value)| (key.clone(), json!(value))));
            }
        }
        if !self.owners.is_empty() {
            let owners = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
            if !owners.is_array() {
                *owners = json!([]);
            }
            self.owners.iter().for_each(|owner| owner.write(owners.as_array_mut().expect("just made an array")));
        }
    }
}

/// Returns the annotations of an object for a change.
pub(super) fn annotations(object: &mut Value) -> &mut Map<String, Value> {
    member(member(as_object(object), "metadata"), "annotations")
}

fn member<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    as_object(object.entry(name).or_insert(Value::Null))
}

/// Returns `value` as an object, after replacing any other value by an empty object.
///
/// A write into an invalid response therefore cannot panic.
fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("just made an object")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Metadata {
        Metadata {
            labels: BTreeMap::from([("team".into(), "blue".into())]),
            annotations: BTreeMap::from([("example.com/why".into(), "because".into())]),
            owners: vec![OwnerReference::new("apps/v1", "Deployment", "x", "u-1")],
        }
    }

    #[test]
    fn ours_is_put_beside_that_of_others() {
        let mut object = json!({ "metadata": {
            "labels": { "team": "red", "tier": "1" }, "annotations": { "a": "b" },
            "ownerReferences": [{ "uid": "u-0" }, { "uid": "u-1", "controller": true }],
        } });
        ours().write(&mut object);
        assert_eq!(object["metadata"]["labels"], json!({ "team": "blue", "tier": "1" }));
        assert_eq!(object["metadata"]["annotations"], json!({ "a": "b", "example.com/why": "because" }));
        assert_eq!(
            object["metadata"]["ownerReferences"],
            json!([{ "uid": "u-0" }, { "uid": "u-1", "controller": true }])
        );
    }

    #[test]
    fn ours_is_put_where_there_is_nothing_or_nonsense() {
        let expected = json!({
            "labels": { "team": "blue" }, "annotations": { "example.com/why": "because" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "u-1" }],
        });
        let nonsense = json!({ "metadata": { "labels": 5, "annotations": "x", "ownerReferences": {} } });
        for mut object in [json!({}), json!(null), json!({ "metadata": [] }), nonsense] {
            ours().write(&mut object);
            assert_eq!(object["metadata"], expected);
        }
        let mut object = json!({ "metadata": { "labels": null } });
        Metadata::default().write(&mut object);
        assert_eq!(object, json!({ "metadata": { "labels": null } }), "empty metadata changes nothing");
    }

    #[test]
    fn metadata_that_the_server_would_refuse_is_refused() {
        assert!(ours().check().is_ok());
        let label = |key: &str, value: &str| Metadata {
            labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
            ..Metadata::default()
        };
        for (key, value) in [("a b", "x"), ("a/b/c", "x"), ("", "x"), ("a", "x y"), ("a", "-")] {
            assert_eq!(label(key, value).check().unwrap_err().field(), "label", "{key} {value}");
        }
        let mut metadata = ours();
        metadata.annotations.insert(annotation::KEY.into(), "x".into());
        assert_eq!(metadata.check().unwrap_err().field(), "annotation");
        let mut metadata = ours();
        metadata.owners.push(OwnerReference::new("v1", "Pod", "", "u"));
        assert_eq!(metadata.check().unwrap_err().field(), "owner_reference");
    }
}
