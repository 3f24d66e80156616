//! What an application's error text means.
//!
//! Invariant: a text is recognised by words that only its maker uses; one that is not known has no meaning. Sources: the tables
//! of glibc's and musl's `gai_strerror`, Go's `net`, Node's and Java's documented texts.

use super::View;

/// What the resolver told the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// `EAI_NONAME`: no such name, as far as it came.
    NoName,
    /// `EAI_AGAIN`: no answer, or an error.
    Again,
    /// `EAI_NODATA`: the name has no address.
    NoData,
}

impl ErrorClass {
    /// `getaddrinfo`'s number.
    #[must_use]
    pub const fn rc(self) -> i32 {
        match self {
            Self::NoName => -2,
            Self::Again => -3,
            Self::NoData => -5,
        }
    }

    /// Its name in `netdb.h`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoName => "EAI_NONAME",
            Self::Again => "EAI_AGAIN",
            Self::NoData => "EAI_NODATA",
        }
    }
}

const TEXTS: [(&str, ErrorClass); 19] = [
    ("temporary failure in name resolution", ErrorClass::Again),
    ("try again", ErrorClass::Again),
    ("eai_again", ErrorClass::Again),
    ("eservfail", ErrorClass::Again),
    ("etimeout", ErrorClass::Again),
    ("i/o timeout", ErrorClass::Again),
    ("server misbehaving", ErrorClass::Again),
    ("could not be resolved (110", ErrorClass::Again),
    ("could not be resolved (2", ErrorClass::Again),
    ("resolving timed out", ErrorClass::Again),
    ("no address associated with hostname", ErrorClass::NoData),
    ("name has no usable address", ErrorClass::NoData),
    ("enodata", ErrorClass::NoData),
    ("name or service not known", ErrorClass::NoName),
    ("name does not resolve", ErrorClass::NoName),
    ("no such host", ErrorClass::NoName),
    ("enotfound", ErrorClass::NoName),
    ("could not resolve host", ErrorClass::NoName),
    ("could not be resolved (3", ErrorClass::NoName),
];

/// What a text means.
#[must_use]
pub fn error_class(text: &str) -> Option<ErrorClass> {
    let text = text.to_lowercase();
    TEXTS.iter().find(|(words, _)| text.contains(words)).map(|(_, class)| *class)
}

impl View<'_> {
    /// What the reported error means.
    #[must_use]
    pub fn error_class(&self) -> Option<ErrorClass> {
        let (_, symptom) = self.evidence.symptom()?;
        error_class(symptom.error.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_makers_are_known() {
        let again = "getaddrinfo EAI_AGAIN api";
        assert_eq!(error_class(again), Some(ErrorClass::Again));
        assert_eq!(error_class("lookup api on 10.96.0.10:53: no such host"), Some(ErrorClass::NoName));
        assert_eq!(error_class("java.net.UnknownHostException: api"), None);
    }
}
