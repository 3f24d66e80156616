//! Scripted servers: what each of them answers, written down as JSON.
//!
//! `{"10.96.0.10": [["foo.shop.svc.cluster.local.", "*", "ok"]], "_notcp": ["10.96.0.10"]}`: by server a list of
//! `[name or *, type or *, mode]`. The first row that fits decides, and without one the answer is NXDOMAIN. A server
//! that is not in the script, or is in `_noudp` or `_notcp`, has nobody listening there.
//!
//! Invariant: what cannot be meant is an error with line and field, never a guess. `tc` truncates over UDP alone: over
//! TCP the whole answer comes. `droponce` loses the first of each question and then answers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::answers::{Answer, Answers, Qtype, Question, Transport};

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One address.
    Ok,
    /// NXDOMAIN.
    Nx,
    /// NOERROR, no address.
    NoData,
    /// SERVFAIL.
    ServFail,
    /// REFUSED.
    Refused,
    /// FORMERR.
    FormErr,
    /// NOTIMP.
    NotImp,
    /// An empty referral from a server that does not recurse.
    Lame,
    /// Truncated over UDP, whole over TCP.
    Tc,
    /// Silence.
    Drop,
    /// Silence for the first of each question.
    DropOnce,
}

const MODES: [(&str, Mode); 11] = [
    ("ok", Mode::Ok),
    ("nx", Mode::Nx),
    ("nodata", Mode::NoData),
    ("servfail", Mode::ServFail),
    ("refused", Mode::Refused),
    ("formerr", Mode::FormErr),
    ("notimp", Mode::NotImp),
    ("lame", Mode::Lame),
    ("tc", Mode::Tc),
    ("drop", Mode::Drop),
    ("droponce", Mode::DropOnce),
];

impl Mode {
    /// What becomes of a question to a server that listens.
    pub const fn answer(self, transport: Transport, asked_before: u32) -> Answer {
        match self {
            Self::Tc if matches!(transport, Transport::Udp) => Answer::Truncated,
            Self::DropOnce if asked_before == 0 => Answer::Silence,
            Self::Ok | Self::Tc | Self::DropOnce => Answer::Addresses,
            Self::Nx => Answer::NxDomain,
            Self::NoData => Answer::NoData,
            Self::ServFail => Answer::ServFail,
            Self::Refused => Answer::Refused,
            Self::FormErr => Answer::FormErr,
            Self::NotImp => Answer::NotImp,
            Self::Lame => Answer::Lame,
            Self::Drop => Answer::Silence,
        }
    }

    /// The word in a script.
    pub fn as_str(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("", |(word, _)| word)
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name with its final dot, in lower case; `None` for `*`.
    pub name: Option<String>,
    /// The type; `None` for `*`.
    pub qtype: Option<Qtype>,
    /// What happens.
    pub mode: Mode,
}

/// All servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Rows by server.
    pub servers: BTreeMap<IpAddr, Vec<Row>>,
    /// Servers without a UDP listener.
    pub no_udp: BTreeSet<IpAddr>,
    /// Servers without a TCP listener.
    pub no_tcp: BTreeSet<IpAddr>,
}

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}{}: {what}", if field.is_empty() { String::new() } else { format!(", `{field}`") })]
pub struct ScriptError {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// Where in the script, `["10.96.0.10"][0][2]`; empty for the whole.
    pub field: String,
    /// What is wrong, and what may stand there.
    pub what: String,
}

impl Script {
    /// The mode of a question; NXDOMAIN without a row.
    pub fn mode(&self, nameserver: IpAddr, name: &str, qtype: Qtype) -> Mode {
        let rows = self.servers.get(&nameserver).map(Vec::as_slice).unwrap_or_default();
        rows.iter()
            .find(|row| {
                row.name.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
                    && row.qtype.is_none_or(|wanted| wanted == qtype)
            })
            .map_or(Mode::Nx, |row| row.mode)
    }

    /// Whether anybody listens there.
    pub fn listens(&self, nameserver: IpAddr, transport: Transport) -> bool {
        let closed = match transport {
            Transport::Udp => &self.no_udp,
            Transport::Tcp => &self.no_tcp,
        };
        self.servers.contains_key(&nameserver) && !closed.contains(&nameserver)
    }
}

impl Answers for Script {
    fn answer(&self, question: &Question<'_>) -> Answer {
        if self.listens(question.nameserver, question.transport) {
            self.mode(question.nameserver, question.name, question.qtype)
                .answer(question.transport, question.asked_before)
        } else {
            Answer::Unreachable
        }
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    /// Reads a script, or an object that has one as `server`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = RefCell::new(Vec::new());
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = Whole(&path)
            .deserialize(&mut deserializer)
            .and_then(|script| deserializer.end().map(|()| script));
        read.map_err(|error| {
            let whole = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            ScriptError {
                line: error.line().max(1),
                column: error.column().max(1),
                field: path.borrow().concat(),
                what: whole.strip_suffix(&place).unwrap_or(&whole).to_owned(),
            }
        })
    }
}

/// The path to what is being read; it stays as it is when something is wrong.
type Path = RefCell<Vec<String>>;

fn within<T, E>(path: &Path, part: String, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    path.borrow_mut().push(part);
    let value = read()?;
    path.borrow_mut().pop();
    Ok(value)
}

struct Whole<'a>(&'a Path);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = Script;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Script, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = Script;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object: by server a list of [name, type, mode]")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Script, M::Error> {
        let mut script = Script::default();
        let mut inner = None;
        let mut others = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let part = format!("[{key:?}]");
            within(self.0, part, || match key.as_str() {
                "server" => {
                    inner = Some(map.next_value_seed(Whole(self.0))?);
                    Ok(())
                }
                "_noudp" | "_notcp" => {
                    let list = map.next_value_seed(Addresses(self.0))?;
                    let closed = if key == "_noudp" { &mut script.no_udp } else { &mut script.no_tcp };
                    closed.extend(list);
                    Ok(())
                }
                _ => {
                    let Ok(address) = key.parse() else {
                        map.next_value::<IgnoredAny>()?;
                        others.push(key.clone());
                        return Ok(());
                    };
                    match script.servers.insert(address, map.next_value_seed(Rows(self.0))?) {
                        Some(_) => Err(M::Error::custom(format!("`{key}` stands there twice"))),
                        None => Ok(()),
                    }
                }
            })?;
        }
        match (inner, others.first()) {
            // An object around the script may say other things, too.
            (Some(inner), _) if script == Script::default() => Ok(inner),
            (Some(_), _) => Err(M::Error::custom("`server` and servers side by side: one script is wanted")),
            (None, Some(other)) => Err(M::Error::custom(format!(
                "`{other}` is neither an address nor `_noudp`, `_notcp` or `server`"
            ))),
            (None, None) => Ok(script),
        }
    }
}

struct Addresses<'a>(&'a Path);

impl<'de> DeserializeSeed<'de> for Addresses<'_> {
    type Value = Vec<IpAddr>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Addresses<'_> {
    type Value = Vec<IpAddr>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of addresses")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
        let mut list = Vec::new();
        loop {
            let next = within(self.0, format!("[{}]", list.len()), || {
                let Some(text) = seq.next_element::<String>()? else { return Ok(None) };
                let address =
                    text.parse().map_err(|_| S::Error::custom(format!("`{text}` is no address")))?;
                Ok(Some(address))
            })?;
            match next {
                Some(address) => list.push(address),
                None => return Ok(list),
            }
        }
    }
}

struct Rows<'a>(&'a Path);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = Vec<Row>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = Vec<Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of [name, type, mode]")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
        let mut rows = Vec::new();
        while let Some(row) =
            within(self.0, format!("[{}]", rows.len()), || seq.next_element_seed(OneRow(self.0)))?
        {
            rows.push(row);
        }
        Ok(rows)
    }
}

struct OneRow<'a>(&'a Path);

impl<'de> DeserializeSeed<'de> for OneRow<'_> {
    type Value = Row;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for OneRow<'_> {
    type Value = Row;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("three words: name, type and mode")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Row, S::Error> {
        let mut word = |index: usize| {
            let part = format!("[{index}]");
            let missing = || S::Error::custom("a row has three words: name, type and mode");
            within(self.0, part, || seq.next_element::<String>()?.ok_or_else(missing))
        };
        let name = word(0)?;
        let name = match name.as_str() {
            "*" => None,
            _ => Some(format!("{}.", name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase())),
        };
        let text = word(1)?;
        let qtype = within(self.0, "[1]".to_owned(), || match text.to_ascii_uppercase().as_str() {
            "*" => Ok(None),
            "A" => Ok(Some(Qtype::A)),
            "AAAA" => Ok(Some(Qtype::Aaaa)),
            _ => Err(S::Error::custom(format!("`{text}` is no type that is asked for: A, AAAA or `*`"))),
        })?;
        let text = word(2)?;
        let mode = within(self.0, "[2]".to_owned(), || {
            let words: Vec<&str> = MODES.iter().map(|(word, _)| *word).collect();
            let known = MODES.iter().find(|(word, _)| *word == text);
            known
                .map(|(_, mode)| *mode)
                .ok_or_else(|| S::Error::custom(format!("`{text}` is no mode: one of {}", words.join(", "))))
        })?;
        if seq.next_element::<IgnoredAny>()?.is_some() {
            return Err(S::Error::custom("a row has three words: name, type and mode"));
        }
        Ok(Row { name, qtype, mode })
    }
}
