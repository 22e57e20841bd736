//! The rules of the API server for names.

use crate::util::config_error::{ConfigError, require};

/// Checks the name of a Lease or another object, which must be a DNS-1123 subdomain.
pub(crate) fn check_name(name: &str) -> Result<(), ConfigError> {
    let rule = "must be a DNS-1123 subdomain: at most 253 lower case letters, digits, '-' and '.', \
                each part beginning and ending with a letter or digit";
    require(is_dns_subdomain(name), "name", format_args!("{name:?}"), rule)
}

/// Checks a namespace, which must be a DNS-1123 label.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), ConfigError> {
    let rule = "must be a DNS-1123 label: at most 63 lower case letters, digits and '-', \
                beginning and ending with a letter or digit";
    let is_label = namespace.len() <= 63 && is_dns_label_of_any_length(namespace);
    require(is_label, "namespace", format_args!("{namespace:?}"), rule)
}

/// Checks the key of a label or an annotation.
///
/// A key is an optional prefix and a name of at most 63 characters. A prefix is a DNS-1123 subdomain and a slash.
///
/// Source: the documentation of Kubernetes, 'Labels and Selectors', 'Syntax and character set'.
pub(crate) fn check_qualified_name(field: &'static str, key: &str) -> Result<(), ConfigError> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let rule = "the key must be at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or \
                digit, after an optional prefix of a DNS name and '/'";
    let is_qualified = prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_text(name);
    require(is_qualified, field, format_args!("{key:?}"), rule)
}

/// Checks the value of the label `key`. The value may be empty.
pub(crate) fn check_label_value(key: &str, value: &str) -> Result<(), ConfigError> {
    let rule = "the value must be at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or \
                digit";
    require(is_label_text(value), "label", format_args!("{key:?} = {value:?}"), rule)
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends.into_iter().flatten().all(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label_of_any_length)
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
    fn label_keys_and_values_follow_api_server_rules() {
        let long = "x".repeat(63);
        for good in ["a", "A_b.c-0", "example.com/a", &long, &format!("{}/{long}", "x".repeat(253))] {
            assert!(check_qualified_name("label", good).is_ok(), "{good}");
        }
        for bad in ["", "/", "a/", "/a", "a/b/c", "A.com/a", "-a", "a-", "a b", "ä", &"x".repeat(64)] {
            assert!(check_qualified_name("label", bad).is_err(), "{bad}");
        }
        for good in ["", "0", "v1.2_x-Y", &long] {
            assert!(check_label_value("a", good).is_ok(), "{good}");
        }
        for bad in ["a/b", ".", "a b", "é", &"x".repeat(64)] {
            assert!(check_label_value("a", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_follow_api_server_rules() {
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
