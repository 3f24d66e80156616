//! DNS messages: the question out of a query, and the bytes of an answer to it.
//!
//! Invariant: an answer over UDP is no longer than the asker takes (512 bytes, or what its EDNS offers: RFC 6891 section
//! 6.2.5) unless a rule wants it so; what does not fit is left out and the answer says so (TC).

use std::net::IpAddr;
use std::str::FromStr;

use hickory_proto::op::{Edns, Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinEncodable as _, BinEncoder, NameEncoding};

use super::script::Transport;
use super::zone::{Text, canonical};

/// RFC 1035 section 4.2.1.
const PLAIN: u16 = 512;

/// What a message turned out to be.
pub(super) enum Reading {
    /// A query.
    Asked(Asked),
    /// Something else that is answered at once.
    Refused([u8; 12]),
    /// What servers leave unanswered.
    Nothing,
}

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
    /// Addresses of what the answers lead to.
    pub(super) additional: Vec<Text>,
    /// The server is an authority for the name.
    pub(super) authoritative: bool,
    /// The server asks others for it.
    pub(super) recursive: bool,
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

/// Reads what came, as the library of `CoreDNS` does (`DefaultMsgAcceptFunc` of `miekg/dns`): answers are not answered,
/// of operations there are queries and notifications, and one question is one.
pub(super) fn read(bytes: &[u8]) -> Reading {
    let Some(&[id_high, id_low, flags, _, 0, count]) = bytes.first_chunk::<6>() else {
        return Reading::Nothing;
    };
    let (is_response, operation) = (flags & 0x80 != 0, flags >> 3 & 15);
    if is_response {
        return Reading::Nothing;
    }
    let refused = |rcode| Reading::Refused([id_high, id_low, flags | 0x80, rcode, 0, 0, 0, 0, 0, 0, 0, 0]);
    if !matches!(operation, 0 | 4) {
        return refused(4);
    }
    if count != 1 {
        return refused(1);
    }
    let Ok(message) = Message::from_vec(bytes) else { return Reading::Nothing };
    let Some(query) = message.queries.first() else { return Reading::Nothing };
    let (name, kind) = (canonical(&query.name().to_string()), query.query_type().to_string());
    Reading::Asked(Asked { message, name, kind })
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
        authoritative: message.metadata.authoritative,
        recursive: message.metadata.recursion_available,
        truncate: message.metadata.truncation,
        ..Said::default()
    })
}

/// The bytes of an answer.
pub(super) fn write(asked: &Asked, said: &Said, transport: Transport, server: IpAddr) -> Option<Vec<u8>> {
    let query = &asked.message;
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    let is_query = query.metadata.op_code == OpCode::Query;
    message.metadata.recursion_desired = query.metadata.recursion_desired && is_query;
    message.metadata.checking_disabled = query.metadata.checking_disabled && is_query;
    message.metadata.recursion_available = said.recursive;
    message.metadata.authoritative = said.authoritative;
    message.metadata.response_code = ResponseCode::from_low(u8::try_from(said.rcode).unwrap_or(2));
    message.queries.clone_from(&query.queries);
    let mut room = usize::from(u16::MAX);
    if let Some(edns) = &query.edns {
        let mut ours = Edns::new();
        ours.set_version(0);
        if edns.version() > 0 {
            // RFC 6891 section 6.1.3.
            message.metadata.authoritative = false;
            message.metadata.response_code = ResponseCode::BADVERS;
            ours.set_max_payload(0);
            message.set_edns(ours);
            return message.to_vec().ok();
        }
        // `CoreDNS` gives back what it is offered (`SizeAndDo` in `request/request.go`).
        ours.set_max_payload(edns.max_payload());
        ours.set_dnssec_ok(edns.flags().dnssec_ok);
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
    message.additionals = said.additional.iter().filter_map(record).collect();
    // Names are made shorter only where that is needed (`Truncate` of `miekg/dns`).
    let plain = uncompressed(&message)?;
    let unfragmented = if server.is_ipv4() { 1480 } else { 1220 };
    if plain.len() <= room {
        // And, over UDP, where it would be sent in pieces (`Scrub` in `request/request.go`).
        let is_whole = transport == Transport::Tcp || plain.len() <= unfragmented;
        return if is_whole { Some(plain) } else { message.to_vec().ok() };
    }
    loop {
        let bytes = message.to_vec().ok()?;
        if bytes.len() <= room || said.oversize {
            return Some(bytes);
        }
        message.metadata.truncation = true;
        if message.additionals.pop().is_none() && message.authorities.pop().is_none() {
            message.answers.pop()?;
        }
    }
}

fn uncompressed(message: &Message) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    message.emit(&mut encoder).ok()?;
    Some(bytes)
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
        "NS" => RData::NS(NS(name(&text.data)?)),
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
