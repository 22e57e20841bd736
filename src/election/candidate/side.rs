//! Which of a candidacy's records something is about.

/// Which of a candidacy's records something is about. Where there is one, it is the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that is taken first.
    Primary,
    /// The one that is campaigned for while the primary is held.
    Secondary,
}

impl Side {
    /// In the order of their places in what is kept for each.
    pub const BOTH: [Self; 2] = [Self::Primary, Self::Secondary];
}
