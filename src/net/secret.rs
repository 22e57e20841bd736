//! A secret text.

use std::fmt;

/// Text that `Debug` does not show.
#[derive(Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "_http", derive(serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Returns the text. The name `expose` makes every use visible in a review.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    #[cfg(feature = "kubeconfig")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Secret::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_value() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "[redacted]");
    }
}
