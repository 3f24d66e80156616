//! A node's `resolv.conf` as kubelet reads it, which is not as a libc reads it.
//!
//! Source: `parseResolvConf` in `pkg/kubelet/network/dns/dns.go`. Indentation is taken, only `#` starts a comment, and
//! `domain` is not read. Invariant: each value keeps the line it came from.

use thiserror::Error;

/// A value and its line, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostLine {
    /// The value.
    pub value: String,
    /// The line.
    pub line: u32,
}

/// What kubelet takes from the node's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFile {
    /// `nameserver`: all of them, whatever is written.
    pub nameservers: Vec<HostLine>,
    /// `search`: of the last such line, without trailing dots and without `.` itself (so since 1.25).
    pub searches: Vec<HostLine>,
    /// `options`: the last of each name, in the order of first mention.
    pub options: Vec<HostLine>,
}

/// Why kubelet cannot make a sandbox for any pod: the file is read for each, whatever its `dnsPolicy`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostFileError {
    /// `nameserver` with nothing behind it.
    #[error(
        "line {line}: `nameserver` without an address: kubelet refuses the file, and no pod starts on the node"
    )]
    NoAddress {
        /// The line.
        line: u32,
    },
    /// More than is read.
    #[error("more than 10 MiB: kubelet refuses the file, and no pod starts on the node")]
    TooLarge,
}

/// `maxResolvConfLength`.
const MOST_BYTES: usize = 10 << 20;

impl HostFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`HostFileError`] where kubelet would fail.
    pub fn read(text: &str) -> Result<Self, HostFileError> {
        if text.len() > MOST_BYTES {
            return Err(HostFileError::TooLarge);
        }
        let mut file = Self::default();
        let mut problem = None;
        for (line, text) in (1..).zip(text.split('\n')) {
            let mut words = text.split_whitespace();
            let keyword = words.next().filter(|word| !word.starts_with('#'));
            match keyword {
                Some("nameserver") => match words.next() {
                    Some(value) => file.nameservers.push(HostLine { value: value.to_owned(), line }),
                    None => problem = problem.or(Some(HostFileError::NoAddress { line })),
                },
                Some("search") => {
                    let domains = words.filter(|word| *word != ".");
                    let domains = domains.map(|word| word.strip_suffix('.').unwrap_or(word).to_owned());
                    file.searches = domains.map(|value| HostLine { value, line }).collect();
                }
                Some("options") => {
                    for value in words {
                        let option = HostLine { value: value.to_owned(), line };
                        match file.options.iter_mut().find(|known| name(&known.value) == name(value)) {
                            Some(known) => *known = option,
                            None => file.options.push(option),
                        }
                    }
                }
                _ => {}
            }
        }
        problem.map_or(Ok(file), Err)
    }
}

/// The name of an option: what stands before its colon.
pub(super) fn name(option: &str) -> &str {
    option.split(':').next().unwrap_or(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(lines: &[HostLine]) -> String {
        lines.iter().map(|line| line.value.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// dns.md §5, edges 13 to 15, and each rule of the reader.
    #[test]
    fn the_reader_is_kubelet_s() {
        for (text, nameservers, searches, options) in [
            ("nameserver 10.0.0.1\nnameserver 10.0.0.2\n", "10.0.0.1 10.0.0.2", "", ""),
            (
                "  nameserver\t10.0.0.1 rest\r\n\tsearch a.example\tb.example \r\n",
                "10.0.0.1",
                "a.example b.example",
                "",
            ),
            ("#nameserver 1.1.1.1\n # nameserver 1.1.1.1\n;nameserver 1.1.1.1\n", "", "", ""),
            ("search a\nsearch b. .\ndomain c\n", "", "b", ""),
            ("search a\nsearch\n", "", "", ""),
            ("search a.\n", "", "a", ""),
            ("options ndots:2 edns0\noptions ndots:3 rotate\n", "", "", "ndots:3 edns0 rotate"),
            ("options ndots:2 ndots:4\n", "", "", "ndots:4"),
            ("nameserver not-an-address\n", "not-an-address", "", ""),
            ("nameservers 10.0.0.1\n", "", "", ""),
            ("", "", "", ""),
        ] {
            let file = HostFile::read(text).expect("a file");
            assert_eq!(values(&file.nameservers), nameservers, "{text:?}");
            assert_eq!(values(&file.searches), searches, "{text:?}");
            assert_eq!(values(&file.options), options, "{text:?}");
        }
        assert_eq!(HostFile::read("search a\nnameserver \n"), Err(HostFileError::NoAddress { line: 2 }));
        assert_eq!(HostFile::read(&"#".repeat((10 << 20) + 1)), Err(HostFileError::TooLarge));
    }
}
