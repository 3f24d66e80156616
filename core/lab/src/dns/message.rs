//! DNS messages: the question out of a query, and the bytes of an answer to it.
//!
//! Invariant: an answer over UDP is no longer than the asker takes (512 bytes, or what its EDNS offers: RFC 6891 section
//! 6.2.5) unless a rule wants it so; what does not fit is left out and the answer says so (TC).

use std::net::IpAddr;
use std::str::FromStr;

use hickory_proto::op::{Edns, Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::script::Transport;
use super::zone::{Text, canonical};

/// What `CoreDNS` offers in its EDNS (plugin `bufsize`).
const OFFERED: u16 = 1232;
/// RFC 1035 section 4.2.1.
const PLAIN: u16 = 512;

/// A query.
#[derive(Debug)]
pub(super) struct Asked {
    message: Message,
    /// In lower case, with its final dot.
    pub(super) name: String,
    /// `A`, …
    pub(super) kind: String,
}

impl Asked {
    pub(super) fn id(&self) -> u16 {
        self.message.metadata.id
    }

    /// Bytes of the query.
    pub(super) fn length(&self) -> usize {
        self.message.to_vec().map_or(0, |bytes| bytes.len())
    }

    /// Bytes that the asker takes over UDP.
    pub(super) fn takes(&self) -> u16 {
        self.message.edns.as_ref().map_or(PLAIN, |edns| edns.max_payload().max(PLAIN))
    }
}

/// What is to be said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) rcode: u16,
    pub(super) answers: Vec<Text>,
    pub(super) authority: Option<Text>,
    /// The server is an authority for the name.
    pub(super) authoritative: bool,
    /// "Ask over TCP", and nothing else.
    pub(super) truncate: bool,
    /// Longer than the asker takes, if need be.
    pub(super) oversize: bool,
}

impl Said {
    pub(super) fn rcode(rcode: u16) -> Self {
        Self { rcode, ..Self::default() }
    }
}

/// Reads a query; `None` for what is none, which servers leave unanswered.
pub(super) fn read(bytes: &[u8]) -> Option<Asked> {
    let message = Message::from_vec(bytes).ok()?;
    let query = message.queries.first()?;
    let (name, kind) = (canonical(&query.name().to_string()), query.query_type().to_string());
    Some(Asked { message, name, kind })
}

/// The query for another server.
pub(super) fn ask(id: u16, name: &str, kind: &str) -> Option<Vec<u8>> {
    let mut message = Message::new(id, hickory_proto::op::MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    let kind = RecordType::from_str(kind).ok()?;
    message.add_query(hickory_proto::op::Query::query(Name::from_str(name).ok()?, kind));
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    message.set_edns(edns);
    message.to_vec().ok()
}

/// What another server said; `None` for the answer to another question.
pub(super) fn heard(id: u16, bytes: &[u8]) -> Option<Said> {
    let message = Message::from_vec(bytes).ok().filter(|message| message.metadata.id == id)?;
    let text = |record: &Record| {
        let kind = record.record_type().to_string();
        let data = match &record.data {
            RData::SOA(soa) => format!(
                "{} {} {} {} {} {} {}",
                soa.mname, soa.rname, soa.serial, soa.refresh, soa.retry, soa.expire, soa.minimum
            ),
            RData::TXT(txt) => {
                let parts = txt.txt_data.iter().map(|part| String::from_utf8_lossy(part).into_owned());
                parts.collect()
            }
            data => data.to_string(),
        };
        Text { name: canonical(&record.name.to_string()), kind, ttl: record.ttl, data }
    };
    Some(Said {
        rcode: message.metadata.response_code.into(),
        answers: message.answers.iter().map(text).collect(),
        authority: message.authorities.first().map(text),
        authoritative: false,
        truncate: message.metadata.truncation,
        oversize: false,
    })
}

/// The bytes of an answer.
pub(super) fn write(asked: &Asked, said: &Said, transport: Transport) -> Option<Vec<u8>> {
    let query = &asked.message;
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    message.metadata.recursion_desired = query.metadata.recursion_desired;
    message.metadata.recursion_available = true;
    message.metadata.authoritative = said.authoritative;
    message.metadata.response_code = ResponseCode::from_low(u8::try_from(said.rcode).unwrap_or(2));
    message.queries.clone_from(&query.queries);
    let mut room = usize::from(u16::MAX);
    if let Some(edns) = &query.edns {
        let mut ours = Edns::new();
        ours.set_max_payload(OFFERED);
        ours.set_version(0);
        message.set_edns(ours);
        if transport == Transport::Udp {
            room = usize::from(edns.max_payload().max(PLAIN));
        }
    } else if transport == Transport::Udp {
        room = usize::from(PLAIN);
    }
    if said.truncate && transport == Transport::Udp {
        message.metadata.truncation = true;
        return message.to_vec().ok();
    }
    message.answers = said.answers.iter().filter_map(record).collect();
    message.authorities = said.authority.iter().filter_map(record).collect();
    loop {
        let bytes = message.to_vec().ok()?;
        if bytes.len() <= room || said.oversize {
            return Some(bytes);
        }
        message.metadata.truncation = true;
        message.answers.pop()?;
    }
}

fn record(text: &Text) -> Option<Record> {
    let name = |text: &str| Name::from_str(text).ok();
    let mut words = text.data.split_whitespace();
    let data = match text.kind.as_str() {
        "A" | "AAAA" => match text.data.parse().ok()? {
            IpAddr::V4(address) => RData::A(A(address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(address)),
        },
        "CNAME" => RData::CNAME(CNAME(name(&text.data)?)),
        "PTR" => RData::PTR(PTR(name(&text.data)?)),
        "TXT" => RData::TXT(TXT::new(vec![text.data.clone()])),
        "SRV" => {
            let words: Vec<&str> = words.collect();
            // Priority and weight may be left to the server.
            let (priority, weight, port, target) = match *words.as_slice() {
                [port, target] => (0, 100, port.parse().ok()?, target),
                [priority, weight, port, target] => {
                    (priority.parse().ok()?, weight.parse().ok()?, port.parse().ok()?, target)
                }
                _ => return None,
            };
            RData::SRV(SRV::new(priority, weight, port, name(target)?))
        }
        "SOA" => {
            let (mname, rname) = (name(words.next()?)?, name(words.next()?)?);
            let numbers: Vec<u32> = words.map_while(|word| word.parse().ok()).collect();
            let &[serial, refresh, retry, expire, minimum] = numbers.as_slice() else { return None };
            let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
            RData::SOA(SOA::new(
                mname,
                rname,
                serial,
                signed(refresh),
                signed(retry),
                signed(expire),
                minimum,
            ))
        }
        _ => return None,
    };
    Some(Record::from_rdata(name(&text.name)?, text.ttl, data))
}
