//! What names the API server takes.

use super::{ConfigError, require};

/// Checks the name of a Lease: a DNS-1123 subdomain, as the API server takes it.
pub(crate) fn check_name(name: &str) -> Result<(), ConfigError> {
    let valid = name.len() <= 253 && name.split('.').all(is_dns_label_of_any_length);
    require(
        valid,
        "name",
        format_args!("{name:?}"),
        "a Lease's name must be a DNS-1123 subdomain: at most 253 lower case letters, digits, '-' and '.', \
         each part beginning and ending with a letter or digit",
    )
}

/// Checks a namespace: a DNS-1123 label, as the API server takes it.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), ConfigError> {
    require(
        namespace.len() <= 63 && is_dns_label_of_any_length(namespace),
        "namespace",
        format_args!("{namespace:?}"),
        "a namespace must be a DNS-1123 label: at most 63 lower case letters, digits and '-', \
         beginning and ending with a letter or digit",
    )
}

fn is_dns_label_of_any_length(label: &str) -> bool {
    let bytes = label.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_api_server_takes() {
        for good in ["a", "my-controller", "a.b-c.d", "0", &"x".repeat(253)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "ä", "a b", &"x".repeat(254)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_namespace(&"x".repeat(63)).is_ok());
        for bad in ["", "a.b", &"x".repeat(64)] {
            assert!(check_namespace(bad).is_err(), "{bad}");
        }
    }
}
