//! `resolv.conf` as each of its readers understands it: the same file means different things to glibc, musl, Go and
//! kubelet.
//!
//! Invariant: reading never fails and never drops a line silently: what the dialect does not use, caps or reads
//! otherwise than it looks is a [`Note`] with its line. It does not know the process: the environment variables
//! `LOCALDOMAIN` and `RES_OPTIONS` and the host name are not read; see [`ResolvConf::or_domain_of`].
//!
//! Sources: glibc `resolv/res_init.c`, musl `src/network/resolvconf.c`, Go `net/dnsconfig_unix.go`, kubelet
//! `pkg/kubelet/network/dns/dns.go`.

mod address;
mod file;
mod glibc;
mod go;
mod kubelet;
mod musl;

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

pub use address::Nameserver;

use crate::version::Version;

/// Whose reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The GNU C library's stub resolver.
    Glibc(Version),
    /// musl's stub resolver.
    Musl(Version),
    /// Go's own resolver (`netdns=go`).
    Go(Version),
    /// kubelet, which reads the node's file to make a pod's.
    Kubelet,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glibc(version) => write!(f, "glibc {version}"),
            Self::Musl(version) => write!(f, "musl {version}"),
            Self::Go(version) => write!(f, "Go {version}"),
            Self::Kubelet => f.write_str("kubelet"),
        }
    }
}

/// What a reader takes from the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// Whose reading it is.
    pub dialect: Dialect,
    /// The servers that are asked, in order; the reader's default where the file names none (kubelet: none).
    pub nameservers: Vec<Nameserver>,
    /// True when `nameservers` is the default.
    pub default_nameservers: bool,
    /// The suffixes, in order, as the reader keeps them.
    pub search: Vec<String>,
    /// What the options amount to.
    pub options: Options,
    /// The words of all `options` lines in order, as written; kubelet keeps the last of each key.
    pub option_words: Vec<String>,
    /// What is worth saying, by line.
    pub notes: Vec<Note>,
}

/// Options that change what a resolver does, with its defaults where the file says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// Names with at least so many dots are tried as they are first (musl: only).
    pub ndots: u32,
    /// Seconds to wait; glibc's may be negative and then counts as 1.
    pub timeout: i64,
    /// How often each server is asked (musl: how often all are, within the one timeout).
    pub attempts: i64,
    /// Begin with another server each time.
    pub rotate: bool,
    /// Ask for A, wait, then for AAAA.
    pub single_request: bool,
    /// The same with a new socket for each.
    pub single_request_reopen: bool,
    /// Ask over TCP.
    pub use_vc: bool,
    /// Send an OPT record.
    pub edns0: bool,
    /// Send and believe the AD bit.
    pub trust_ad: bool,
    /// Never ask for AAAA.
    pub no_aaaa: bool,
    /// Never ask for a name without a dot as it is.
    pub no_tld_query: bool,
    /// Do not read the file again when it changes.
    pub no_reload: bool,
    /// Report the failure of one half of a dual lookup.
    pub strict_error: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ndots: 1,
            timeout: 5,
            attempts: 2,
            rotate: false,
            single_request: false,
            single_request_reopen: false,
            use_vc: false,
            edns0: false,
            trust_ad: false,
            no_aaaa: false,
            no_tld_query: false,
            no_reload: false,
            strict_error: false,
        }
    }
}

/// Something about one line, or about the whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// What kind of thing it is.
    pub kind: NoteKind,
    /// In words, with what follows from it.
    pub text: String,
}

/// Kinds of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum NoteKind {
    /// The line begins with a blank and this reader wants the keyword in column 1.
    Indented,
    /// Longer than the reader's buffer; the line is not used.
    LineTooLong,
    /// A NUL byte hides what follows.
    NulByte,
    /// A carriage return became part of a value.
    CarriageReturn,
    /// No keyword of this reader.
    UnknownKeyword,
    /// The keyword stands alone.
    MissingValue,
    /// A name server that is no address to this reader.
    NotAnAddress,
    /// A name server after the third.
    TooManyNameservers,
    /// Text after the value is not used.
    TextAfterValue,
    /// A later `search` or `domain` line takes this one's place.
    Overruled,
    /// `#` or `;` within a line is no comment: the words became suffixes.
    CommentBecameSuffix,
    /// The suffix `.`, which readers treat in different ways.
    RootSuffix,
    /// Suffixes that do not fit this reader's limits.
    SearchTruncated,
    /// A value above (or below) the limit was replaced by it.
    Capped,
    /// A value that is no number.
    NotANumber,
    /// An option that no reader has.
    UnknownOption,
    /// An option that others have and this reader ignores.
    IgnoredOption,
    /// An option was found inside other text, because the reader looks for its letters only.
    OptionInsideText,
    /// The file names no server, so the reader's default is used.
    DefaultNameserver,
}

/// Reads the file as `dialect` does.
pub fn read(bytes: &[u8], dialect: Dialect) -> ResolvConf {
    let conf = ResolvConf {
        dialect,
        nameservers: Vec::new(),
        default_nameservers: false,
        search: Vec::new(),
        options: Options::default(),
        option_words: Vec::new(),
        notes: Vec::new(),
    };
    match dialect {
        Dialect::Glibc(version) => glibc::read(bytes, conf, version),
        Dialect::Musl(_) => musl::read(bytes, conf),
        Dialect::Go(version) => go::read(bytes, conf, version),
        Dialect::Kubelet => kubelet::read(bytes, conf),
    }
}

impl ResolvConf {
    /// The same with the host name's domain as the only suffix where the file has none: what glibc and Go do. A pod's
    /// host name rarely has a dot.
    #[must_use]
    pub fn or_domain_of(mut self, hostname: &str) -> Self {
        let domain = match (self.dialect, hostname.split_once('.')) {
            (Dialect::Glibc(_), Some((_, domain))) => domain.to_owned(),
            (Dialect::Go(_), Some((_, domain))) if !domain.is_empty() => rooted(domain),
            _ => return self,
        };
        if self.search.is_empty() {
            self.search.push(domain);
        }
        self
    }

    fn note(&mut self, line: u32, kind: NoteKind, text: impl Into<String>) {
        self.notes.push(Note { line, kind, text: text.into() });
    }

    /// Takes the place of the suffixes so far, and says so of the line they are from.
    fn replace_search(&mut self, last: &mut Option<u32>, line: u32, search: Vec<String>) {
        if let Some(before) = last.replace(line)
            && !self.search.is_empty()
        {
            let text =
                format!("not used: line {line} takes its place, the last `search` or `domain` line wins");
            self.note(before, NoteKind::Overruled, text);
        }
        self.search = search;
    }

    /// Says what is odd about suffixes, whoever reads them.
    fn remark_suffixes(&mut self, line: u32) {
        let words: Vec<String> =
            self.search.iter().filter(|word| word.starts_with(['#', ';'])).cloned().collect();
        if let Some(first) = words.first() {
            let text = format!(
                "`{first}` begins no comment within a line: it and the words after it are suffixes, and each is \
                 asked for"
            );
            self.note(line, NoteKind::CommentBecameSuffix, text);
        }
        if self.search.iter().any(|word| word.ends_with('\r')) {
            let text = "the line ends with a carriage return, which is now the end of the last suffix";
            self.note(line, NoteKind::CarriageReturn, text);
        }
    }

    fn finish(mut self, default: &[Nameserver]) -> Self {
        if self.nameservers.is_empty() {
            self.nameservers = default.to_vec();
            self.default_nameservers = true;
            let names: Vec<String> = default.iter().map(ToString::to_string).collect();
            let text = format!("no name server: {} is asked", names.join(", then "));
            self.note(0, NoteKind::DefaultNameserver, text);
        }
        self.notes.sort_by_key(|note| note.line);
        self
    }
}

/// With the final dot that Go gives every suffix.
fn rooted(suffix: &str) -> String {
    if suffix.ends_with('.') { suffix.to_owned() } else { format!("{suffix}.") }
}

/// Words of `options` lines that some reader understands.
const KNOWN_OPTIONS: [&str; 16] = [
    "debug",
    "edns0",
    "inet6",
    "no-aaaa",
    "no-check-names",
    "no-reload",
    "no-tld-query",
    "no_tld_query",
    "rotate",
    "single-request",
    "single-request-reopen",
    "strict-error",
    "tcp",
    "trust-ad",
    "use-vc",
    "usevc",
];

/// The note about an option word that this reader does not use.
fn unused_option(conf: &mut ResolvConf, line: u32, word: &str) {
    let known = KNOWN_OPTIONS.contains(&word.trim_start_matches('-'));
    let reader = conf.dialect;
    if known {
        conf.note(line, NoteKind::IgnoredOption, format!("`{word}` is ignored by {reader}"));
    } else {
        conf.note(line, NoteKind::UnknownOption, format!("`{word}` is no option that {reader} knows"));
    }
}

/// A name that is an address.
pub(crate) struct Literal {
    pub(crate) address: IpAddr,
    pub(crate) zone: Zone,
}

/// What is behind the `%` of an address.
pub(crate) enum Zone {
    /// Nothing, or what no interface has to bear.
    Known,
    /// It names an interface, which may exist or not.
    Interface(String),
    /// What this address cannot have: the library says that there is no such name, and asks nobody.
    Refused,
}

/// A name that is an address to glibc and musl, which then ask nobody. Only an address within one link has a zone by
/// name; a number is taken from all (`__inet6_scopeid_pton`, `__lookup_ipliteral`).
pub(crate) fn literal(text: &str) -> Option<Literal> {
    if let Some(address) = address::inet_aton(text) {
        return Some(Literal { address: address.into(), zone: Zone::Known });
    }
    let (address, zone) = address::inet6(text)?;
    let zone = match zone {
        None => Zone::Known,
        Some(zone) if zone.parse::<u32>().is_ok() => Zone::Known,
        Some(zone) if address::is_link_local(address) && !zone.is_empty() => Zone::Interface(zone),
        Some(_) => Zone::Refused,
    };
    Some(Literal { address: address.into(), zone })
}

/// A name that is an address to Go, whose zones are any text (`netip.ParseAddr`).
pub(crate) fn go_literal(text: &str) -> Option<Literal> {
    let address = match address::inet6(text) {
        Some((_, Some(zone))) if zone.is_empty() => return None,
        Some((address, _)) => address.into(),
        None => text.parse().ok()?,
    };
    Some(Literal { address, zone: Zone::Known })
}
