//! The shapes of names in the API: objects, labels, ports (`k8s.io/apimachinery/pkg/util/validation`).
//!
//! Each function says what is wrong, or nothing.

/// RFC 1123 label: at most 63 of `a-z`, `0-9` and `-`, alphanumeric at both ends. Namespaces.
pub(crate) fn dns_label(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some(format!("{} characters, more than 63", name.len()));
    }
    (!is_dns_label(name))
        .then(|| "only a-z, 0-9 and `-`, starting and ending with a letter or digit".to_owned())
}

/// RFC 1123 subdomain: labels joined by dots, at most 253. Most objects.
pub(crate) fn dns_subdomain(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some(format!("{} characters, more than 253", name.len()));
    }
    (!name.split('.').all(is_dns_label))
        .then(|| "only a-z, 0-9, `-` and `.`, starting and ending with a letter or digit".to_owned())
}

fn is_dns_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// `[prefix/]name`: a DNS subdomain and at most 63 characters. Label keys.
pub(crate) fn label_key(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        return Some("more than one `/`".to_owned());
    }
    if let Some(problem) = prefix.and_then(dns_subdomain) {
        return Some(format!("before the `/`: {problem}"));
    }
    if name.is_empty() {
        return Some("the name is empty".to_owned());
    }
    label_value(name)
}

/// At most 63 of letters, digits, `-`, `_` and `.`, alphanumeric at both ends, or empty. Label values.
pub(crate) fn label_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some(format!("{} characters, more than 63", value.len()));
    }
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    let valid = bytes.iter().copied().all(inner) && edge(bytes.first()) && edge(bytes.last());
    (!valid).then(|| {
        "only letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit".to_owned()
    })
}

/// IANA service name: at most 15 of `a-z`, `0-9` and `-`, with a letter. Port names.
pub(crate) fn port_name(name: &str) -> Option<String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() {
        Some("it is empty".to_owned())
    } else if name.len() > 15 {
        Some(format!("{} characters, more than 15", name.len()))
    } else if !name.bytes().all(inner) {
        Some("only a-z, 0-9 and `-`".to_owned())
    } else if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        Some("it has no letter".to_owned())
    } else if name.contains("--") || name.starts_with('-') || name.ends_with('-') {
        Some("`-` stands at an end or twice in a row".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_shapes_of_the_api() {
        let long = |length: usize| "a".repeat(length);
        for (check, good, bad) in [
            (
                dns_label as fn(&str) -> Option<String>,
                vec!["a", "kube-system", "0a", &long(63)],
                vec!["", "A", "a.b", "-a", "a-", "a_b", &long(64)],
            ),
            (
                dns_subdomain,
                vec!["a.b-c.d", "a"],
                vec!["", "a..b", ".a", "a/b", "A", &format!("a.{}", long(252))],
            ),
            (
                label_key,
                vec!["app", "app.kubernetes.io/name", "A_b.c", "a"],
                vec!["", "app@b", "a/b/c", "/a", "a/", "A!/a", "-a", &long(64)],
            ),
            (
                label_value,
                vec!["", "a", "A_b-c.9", &long(63)],
                vec!["$a", "a/b", "-a", "a.", "a b", &long(64)],
            ),
            (
                port_name,
                vec!["http", "a", "0a", "a-b", "x11"],
                vec!["", "80", "HTTP", "a--b", "-a", "a-", "a_b", "a234567890123456"],
            ),
        ] {
            for name in good {
                assert_eq!(check(name), None, "{name:?}");
            }
            for name in bad {
                assert!(check(name).is_some(), "{name:?}");
            }
        }
    }
}
