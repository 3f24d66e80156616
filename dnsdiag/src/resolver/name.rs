//! Names as resolvers check and join them.
//!
//! Invariant: everything here is about text; nothing asks anybody.

/// The name with its final dot.
pub(super) fn absolute(name: &str) -> String {
    if name.ends_with('.') { name.to_owned() } else { format!("{name}.") }
}

/// The same name to DNS.
pub(super) fn same(one: &str, other: &str) -> bool {
    one.strip_suffix('.').unwrap_or(one).eq_ignore_ascii_case(other.strip_suffix('.').unwrap_or(other))
}

/// Dots, all of them.
pub(super) fn dots(name: &str) -> usize {
    name.bytes().filter(|byte| *byte == b'.').count()
}

/// RFC 1035, 2.3.4: labels of 1 to 63 bytes, 255 in all.
pub(super) fn fits_a_query(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.is_empty() || (name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len())))
}

/// glibc's `res_hnok`: letters, digits, `-` and `_`, and no `-` in front. Others are not asked for (2.29 and later).
pub(super) fn is_host_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.bytes().all(legal) && !name.starts_with('-') && fits_a_query(name)
}

/// Go's `isDomainName`: a label's ends are no `-`, it has a letter or `_` somewhere, and it is no longer than 254.
pub(super) fn is_go_domain_name(name: &str) -> bool {
    if name == "." {
        return true;
    }
    let longest = if name.ends_with('.') { 254 } else { 253 };
    let labels = name.strip_suffix('.').unwrap_or(name);
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=longest).contains(&name.len())
        && labels.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(legal)
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
        && labels.bytes().any(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(same("Foo.", "foo") && !same("foo", "foo.bar"));
        assert!(
            is_host_name("a_b.c-d.") && !is_host_name("-a") && !is_host_name("a b") && !is_host_name("a..b")
        );
        assert!(!fits_a_query(&"a".repeat(64)) && fits_a_query(&"a".repeat(63)));
        assert!(!fits_a_query(&["a"; 128].join(".")) && fits_a_query(&["a"; 127].join(".")));
        assert!(is_go_domain_name("foo.") && !is_go_domain_name("foo-.bar") && !is_go_domain_name("1.2"));
    }
}
