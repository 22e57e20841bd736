//! The setters of builders.

/// Defines public setters of `$builder`. A setter runs its body, and returns the changed builder.
macro_rules! setters {
    (
        $(#[$header:meta])*
        impl $builder:ident;
        $($(#[$attribute:meta])* pub fn $name:ident(mut $self:ident, $($argument:ident: $type:ty),+) $body:block)+
    ) => {
        $(#[$header])*
        impl $builder {$(
            $(#[$attribute])*
            pub fn $name(mut $self, $($argument: $type),+) -> Self {
                $body;
                $self
            }
        )+}
    };
}

pub(crate) use setters;
