//! What is asked of a store.

use std::fmt;

/// What a request asks a [`Store`](crate::Store) to do.
///
/// # Examples
///
/// ```
/// use leasehold::StoreOperation;
///
/// assert_eq!(StoreOperation::Update.to_string(), "update");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreOperation {
    /// [`Store::get`](crate::Store::get).
    Get,
    /// [`Store::create`](crate::Store::create).
    Create,
    /// [`Store::update`](crate::Store::update).
    Update,
}

impl StoreOperation {
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Create, Self::Update];

    /// As it is called in rights.
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
