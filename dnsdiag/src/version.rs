//! Versions of libcs and of Go, as their makers write them.
//!
//! Invariant: versions compare as numbers, part by part; what is not written counts as 0.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A version such as `2.36` or `1.2.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First part.
    pub major: u16,
    /// Second part.
    pub minor: u16,
    /// Third part; 0 when it is not written.
    pub patch: u16,
}

impl Version {
    /// A version of three parts.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }
}

/// What is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no version: write two or three numbers, such as 2.36 or 1.2.5")]
pub struct VersionError {
    /// What was written.
    pub text: String,
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Option<Vec<u16>> = text
            .split('.')
            .map(|part| {
                let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                digits.then(|| part.parse().ok()).flatten()
            })
            .collect();
        match parts.as_deref() {
            Some([major, minor]) => Ok(Self::new(*major, *minor, 0)),
            Some([major, minor, patch]) => Ok(Self::new(*major, *minor, *patch)),
            _ => Err(VersionError { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch == 0 { Ok(()) } else { write!(f, ".{}", self.patch) }
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        let version = |text: &str| text.parse::<Version>();
        assert!(version("2.4").expect("a version") < version("2.36").expect("a version"));
        assert_eq!(version("1.2.5").expect("a version").to_string(), "1.2.5");
        assert_eq!(version("2.36").expect("a version").to_string(), "2.36");
        for text in ["", "2", "2.", "2.x", "2.36.1.1", "+2.3", "99999.1"] {
            assert!(version(text).is_err(), "{text}");
        }
    }
}
