//! How the command exits when it has failed itself.

/// An error of ours, so that no code of a command's is taken for it: as env(1) and timeout(1).
pub const FAILED: u8 = 125;
