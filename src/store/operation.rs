//! The operations of a store.

use std::fmt;

/// The operation of a request to a [`Store`](crate::store::Store).
///
/// # Examples
///
/// ```
/// use leasehold::store::StoreOperation;
///
/// assert_eq!(StoreOperation::Update.to_string(), "update");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreOperation {
    /// A read by [`Store::get`](crate::store::Store::get).
    Get,
    /// A creation by [`Store::create`](crate::store::Store::create).
    Create,
    /// A compare-and-swap by [`Store::update`](crate::store::Store::update).
    Update,
}

impl StoreOperation {
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Create, Self::Update];

    /// Returns the name of this operation, which is also its verb in RBAC rules.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
        }
    }
}

impl fmt::Display for StoreOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
