//! Why a write was refused, and how the real server says so.

use serde_json::json;

use crate::testing::object::key::Key;
use crate::testing::object::resource::Api;
use crate::testing::object::status::{Cause, Status};

/// Why a write was refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
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

impl Refusal {
    /// In the words of the real server; `key` is what was to be written.
    pub fn into_status(self, api: &Api, key: &Key) -> Status {
        let name = key.name.as_str();
        match self {
            Refusal::NamespaceNotFound => Status::namespace_not_found(&key.namespace),
            Refusal::NotFound => Status::not_found(api, name),
            Refusal::AlreadyExists => Status::already_exists(api, name),
            // The real server lets this one slip through as an internal error without a reason.
            Refusal::VersionOnCreate => {
                Status::new(500, "", "resourceVersion should not be set on objects to be created")
            }
            Refusal::VersionUnreadable(why) => Status::new(500, "", why),
            Refusal::VersionMissing => {
                let rule = "must be specified for an update";
                let cause = Cause::invalid("metadata.resourceVersion", &json!(0), rule);
                Status::invalid(api, &api.qualified(), name, &[cause])
            }
            Refusal::Stale => Status::conflict(
                api,
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            Refusal::WrongUid { wanted, found } => {
                let path = format!("{}/{}/{name}", api.plural(), key.namespace);
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
                );
                Status::conflict(api, name, &why)
            }
            Refusal::Precondition(why) => Status::conflict(api, name, &why),
            Refusal::Invalid(causes) => Status::invalid(api, &api.qualified_kind(), name, &causes),
        }
    }
}
