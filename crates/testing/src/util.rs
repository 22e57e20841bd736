//! Helpers of several modules.

/// Calls the closure when the value is dropped.
pub(crate) struct OnDrop<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Implements `Debug` for `$type`, with the given fields and `..`.
macro_rules! debug_fields {
    (impl Debug for $type:ident { $self:ident => $($field:ident: $value:expr,)* .. }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_fields;

/// Defines public setters of `$builder`. A setter runs its body, and returns the changed builder.
macro_rules! setters {
    (
        $(#[$header:meta])*
        impl $builder:ident;
        $($(#[$attribute:meta])* pub fn $name:ident(mut $self:ident, $argument:ident: $type:ty) $body:block)+
    ) => {
        $(#[$header])*
        impl $builder {$(
            $(#[$attribute])*
            pub fn $name(mut $self, $argument: $type) -> Self {
                $body;
                $self
            }
        )+}
    };
}

pub(crate) use setters;

/// Decodes percent-encoded text. Returns `None` if the encoding is invalid.
pub(crate) fn decode_percent(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| char::from(b?).to_digit(16);
        let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
        out.push(u8::try_from(value).ok()?);
    }
    Some(out)
}

/// Returns `true` if `name` is a DNS-1123 subdomain.
pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(alphanumeric))
            && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
