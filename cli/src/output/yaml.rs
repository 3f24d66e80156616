//! A JSON value as YAML.
//!
//! Invariant: what is written reads back as the same value. A string is left bare only when no YAML reader, of
//! version 1.1 or 1.2, could take it for anything else; all others are quoted as JSON, which YAML contains.

use serde_json::Value;

/// The value as a YAML document.
pub(crate) fn document(value: &Value) -> String {
    let mut text = String::new();
    node(value, 0, &mut text);
    text.trim_start_matches('\n').to_owned()
}

fn node(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in ordered(map) {
                text.push('\n');
                text.push_str(&"  ".repeat(depth));
                text.push_str(&scalar(key));
                text.push(':');
                child(value, depth + 1, text);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                text.push('\n');
                text.push_str(&"  ".repeat(depth));
                text.push('-');
                let start = text.len();
                child(value, depth + 1, text);
                // The first line of a nested value stands beside its dash.
                let nested = text.split_off(start);
                text.push(' ');
                text.push_str(nested.trim_start());
            }
        }
        _ => text.push_str(&leaf(value)),
    }
    if depth == 0 {
        text.push('\n');
    }
}

fn child(value: &Value, depth: usize, text: &mut String) {
    let nested = matches!(value, Value::Object(map) if !map.is_empty())
        || matches!(value, Value::Array(list) if !list.is_empty());
    if !nested {
        text.push(' ');
    }
    node(value, depth, text);
}

/// `apiVersion` and `kind` first, as everybody expects them.
fn ordered(map: &serde_json::Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let first = |key: &str| key == "apiVersion" || key == "kind";
    map.iter().filter(move |(key, _)| first(key)).chain(map.iter().filter(move |(key, _)| !first(key)))
}

fn leaf(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

fn scalar(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
        );
    if bare { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nesting_quoting_and_order() {
        let value = json!({
            "complete": true,
            "kind": "Proof",
            "hops": [{"entry": {"id": 7}, "rule": null}, []],
            "no": "no",
            "path": "spec.ingress[0]",
        });
        assert_eq!(
            document(&value),
            "kind: Proof\ncomplete: true\nhops:\n  - entry:\n      id: 7\n    rule: null\n  - []\n\
             \"no\": \"no\"\npath: \"spec.ingress[0]\"\n"
        );
    }
}
