//! Durations as people type them: `500ms`, `10s`, `2m`.

use std::time::Duration;

/// Parses a duration; a number alone is seconds.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|_| "a duration begins with a number, as in `10s`".to_owned())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" | "" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err(format!("unknown unit `{unit}`: use ms, s, m or h")),
    };
    match milliseconds {
        Some(0) => Err("a timeout of nothing is over before it begins".to_owned()),
        Some(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        None => Err("too long".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(parse_timeout("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_timeout("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_timeout("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "5d", "0s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(parse_timeout(wrong).is_err(), "{wrong}");
        }
    }
}
