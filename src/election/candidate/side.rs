//! The primary and the secondary record of a candidacy.

/// One of the records of a candidacy. A single record is the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The record that is acquired first.
    Primary,
    /// The record that is acquired while the primary is held.
    Secondary,
}

impl Side {
    /// Both sides in the order of their indexes.
    pub const BOTH: [Self; 2] = [Self::Primary, Self::Secondary];
}
