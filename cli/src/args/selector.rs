//! `-l`: label selectors in the form that `kubectl` takes.
//!
//! Grammar (apimachinery `labels.Parse`): `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`,
//! joined by commas.

use netlab_core::model::selector::{Operator, Requirement, Selector};

/// Parses a selector.
pub(crate) fn parse_selector(text: &str) -> Result<Selector, String> {
    let requirements: Result<Vec<_>, _> =
        split(text)?.into_iter().filter(|part| !part.is_empty()).map(parse_requirement).collect();
    Ok(Selector::new(requirements?))
}

/// Splits at the commas that are not inside parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        if !(0..=1).contains(&depth) {
            return Err(format!("parentheses do not pair in `{text}`"));
        }
    }
    if depth != 0 {
        return Err(format!("parentheses do not pair in `{text}`"));
    }
    parts.push(text[start..].trim());
    Ok(parts)
}

fn parse_requirement(text: &str) -> Result<Requirement, String> {
    if let Some(key) = text.strip_prefix('!') {
        return Ok(Requirement { key: parse_key(key)?, operator: Operator::DoesNotExist });
    }
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((key, value)) = text.split_once(sign) {
            let values = [parse_value(value)?].into();
            let operator = if equal { Operator::In(values) } else { Operator::NotIn(values) };
            return Ok(Requirement { key: parse_key(key)?, operator });
        }
    }
    let Some((head, list)) = text.split_once('(') else {
        return Ok(Requirement { key: parse_key(text)?, operator: Operator::Exists });
    };
    let list = list.trim_end().strip_suffix(')').ok_or_else(|| format!("`{text}` goes on after `)`"))?;
    let values = list.split(',').map(parse_value).collect::<Result<_, _>>()?;
    let mut words = head.split_whitespace();
    let operator = match (words.next(), words.next(), words.next()) {
        (Some(_), Some("in"), None) => Operator::In(values),
        (Some(_), Some("notin"), None) => Operator::NotIn(values),
        _ => return Err(format!("`{text}` is neither `key in (…)` nor `key notin (…)`")),
    };
    Ok(Requirement { key: parse_key(head.split_whitespace().next().unwrap_or_default())?, operator })
}

fn parse_key(text: &str) -> Result<String, String> {
    let text = text.trim();
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if text.is_empty() || !text.chars().all(valid) {
        return Err(format!("`{text}` is not a label key"));
    }
    Ok(text.to_owned())
}

fn parse_value(text: &str) -> Result<String, String> {
    let text = text.trim();
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.chars().all(valid) { Ok(text.to_owned()) } else { Err(format!("`{text}` is not a label value")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator() {
        let labels = [("app", "web"), ("tier", "front")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        for (text, expected) in [
            ("app=web", true),
            ("app == web,tier!=back", true),
            ("app in (api, web)", true),
            ("app notin (web)", false),
            ("tier", true),
            ("!tier", false),
            ("zone!=a", true),
            ("", true),
        ] {
            assert_eq!(parse_selector(text).map(|s| s.matches(&labels)), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["app in web", "app in (web", "app in (a))", "(a)", "a b", "app=ü", "=x", "app in (a) b"]
        {
            assert!(parse_selector(text).is_err(), "{text}");
        }
    }
}
