//! Implementations of `Debug` that show only some fields, or the text of `Display`.

/// Implements `Debug` for `$type`, with the given fields. A final `..` means that `$type` has more fields.
macro_rules! debug_fields {
    (impl Debug for $type:ident { $self:ident => $($field:ident: $value:expr),+ }) => {
        debug_fields!($type, $self, finish, $($field: $value),+);
    };
    (impl Debug for $type:ident { $self:ident => $($field:ident: $value:expr,)* .. }) => {
        debug_fields!($type, $self, finish_non_exhaustive, $($field: $value),*);
    };
    ($type:ident, $self:ident, $finish:ident, $($field:ident: $value:expr),*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &$value))*.$finish()
            }
        }
    };
}

/// Implements `Debug` for an error by its `Display`, because `fn main() -> Result` prints `Debug`.
macro_rules! debug_as_display {
    ($type:ident) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub(crate) use {debug_as_display, debug_fields};
