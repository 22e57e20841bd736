//! Why a write was refused, and how the real server says so.

use serde_json::json;

use crate::testing::object::key::ObjectKey;
use crate::testing::object::resource::Api;
use crate::testing::object::status::{Cause, StatusObject};

/// Why a write was refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WriteRefusal {
    NamespaceNotFound,
    NotFound,
    AlreadyExists,
    VersionOnCreate,
    VersionMissing,
    VersionUnreadable(String),
    Stale,
    WrongUid { wanted: String, found: String },
    Precondition(String),
    Invalid(Vec<Cause>),
}

impl WriteRefusal {
    /// In the words of the real server; `key` is what was to be written.
    pub fn into_status(self, api: &Api, key: &ObjectKey) -> StatusObject {
        let name = key.name.as_str();
        match self {
            WriteRefusal::NamespaceNotFound => StatusObject::namespace_not_found(&key.namespace),
            WriteRefusal::NotFound => StatusObject::not_found(api, name),
            WriteRefusal::AlreadyExists => StatusObject::already_exists(api, name),
            // The real server lets this one slip through as an internal error without a reason.
            WriteRefusal::VersionOnCreate => {
                StatusObject::new(500, "", "resourceVersion should not be set on objects to be created")
            }
            WriteRefusal::VersionUnreadable(why) => StatusObject::new(500, "", why),
            WriteRefusal::VersionMissing => {
                let rule = "must be specified for an update";
                let cause = Cause::invalid("metadata.resourceVersion", &json!(0), rule);
                StatusObject::invalid(api, &api.qualified(), name, &[cause])
            }
            WriteRefusal::Stale => StatusObject::conflict(
                api,
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            WriteRefusal::WrongUid { wanted, found } => {
                let path = format!("{}/{}/{name}", api.plural(), key.namespace);
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
                );
                StatusObject::conflict(api, name, &why)
            }
            WriteRefusal::Precondition(why) => StatusObject::conflict(api, name, &why),
            WriteRefusal::Invalid(causes) => StatusObject::invalid(api, &api.qualified_kind(), name, &causes),
        }
    }
}
