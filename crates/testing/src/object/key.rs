//! Keys of objects, and scopes of watches.

use crate::object::resource::Resource;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub resource: Resource,
    pub namespace: String,
    pub name: String,
}

/// The scope of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub resource: Resource,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl Filter {
    pub fn matches(&self, key: &ObjectKey) -> bool {
        self.resource == key.resource
            && self.namespace.as_ref().is_none_or(|it| *it == key.namespace)
            && self.name.as_ref().is_none_or(|it| *it == key.name)
    }
}
