//! What a plain scalar means to `kubectl` and the API server.
//!
//! They read YAML 1.1 through `sigs.k8s.io/yaml`: `yes`, `on` and `y` are booleans, `010` is octal, `1_000` is a
//! number. A label value written so is therefore not a string, which the API refuses; guessing otherwise here
//! would prove things about an object that no cluster would take.

use std::borrow::Cow;

use crate::input::node::Value;

/// The value of a plain (unquoted) scalar.
pub(super) fn resolve(text: Cow<'_, str>) -> Value<'_> {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool { value: true, text };
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool { value: false, text };
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float { value: f64::NAN, text },
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Value::Float { value: f64::INFINITY, text };
        }
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float { value: f64::NEG_INFINITY, text },
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Value::String(text);
    }
    let plain: Cow<'_, str> =
        if text.contains('_') { text.replace('_', "").into() } else { Cow::Borrowed(&text) };
    match integer(&plain) {
        Some(Integer::Fits(value)) => Value::Int { value, text },
        Some(Integer::TooLarge(value)) => Value::Float { value, text },
        None => match is_float(&plain).then(|| plain.parse().ok()).flatten() {
            Some(value) => Value::Float { value, text },
            None => Value::String(text),
        },
    }
}

enum Integer {
    Fits(i64),
    TooLarge(f64),
}

/// An integer in the notations of Go's `strconv.ParseInt` with base 0.
fn integer(text: &str) -> Option<Integer> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, &*lower)
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    // A magnitude beyond i128 has more than 38 digits: as a float it is still "a number too large".
    Some(match i128::from_str_radix(digits, radix) {
        Ok(magnitude) => match i64::try_from(if negative { -magnitude } else { magnitude }) {
            Ok(value) => Integer::Fits(value),
            Err(_) => Integer::TooLarge(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        },
        Err(_) => Integer::TooLarge(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
    })
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_kubectl_reads() {
        let kind = |text: &'static str| match resolve(text.into()) {
            Value::Null => "null".to_owned(),
            Value::Bool { value, .. } => format!("bool {value}"),
            Value::Int { value, .. } => format!("int {value}"),
            Value::Float { value, .. } => format!("float {value}"),
            Value::String(text) => format!("string {text}"),
            other => format!("{other:?}"),
        };
        for (text, expected) in [
            ("yes", "bool true"),
            ("Off", "bool false"),
            ("n", "bool false"),
            ("yEs", "string yEs"),
            ("~", "null"),
            ("80", "int 80"),
            ("010", "int 8"),
            ("0o17", "int 15"),
            ("0x1F", "int 31"),
            ("0b101", "int 5"),
            ("-0b101", "int -5"),
            ("1_000", "int 1000"),
            ("09", "float 9"),
            ("1.10", "float 1.1"),
            ("1.", "float 1"),
            (".5", "float 0.5"),
            ("1e3", "float 1000"),
            ("99999999999999999999", "float inf"),
            ("10.0.0.0/8", "string 10.0.0.0/8"),
            ("2001:db8::1", "string 2001:db8::1"),
            ("2024-01-01", "string 2024-01-01"),
            ("12:30", "string 12:30"),
            ("-", "string -"),
            ("0x", "string 0x"),
            ("web", "string web"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
