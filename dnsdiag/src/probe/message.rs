//! DNS messages of one question.
//!
//! Invariant: a message is an answer only with the number, the question and the response flag of what was asked
//! (RFC 5452 section 9). What it says is kept as text, in the order of the wire.

use std::str::FromStr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use serde::{Deserialize, Serialize};

use super::{Probe, QuestionError};

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Record {
    /// Whose it is.
    pub name: String,
    /// `A`, `CNAME`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Seconds that it may be kept.
    pub ttl: u32,
    /// Its value, as a zone file would have it.
    pub data: String,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// `NOERROR`, `NXDOMAIN`, `SERVFAIL`, `REFUSED`, `FORMERR`, `NOTIMP`, or `RCODE` with its number.
    pub rcode: String,
    /// `AA`: the server is an authority for the name.
    pub authoritative: bool,
    /// `TC`: there is more, over TCP.
    pub truncated: bool,
    /// `RA`: the server asks others.
    pub recursion_available: bool,
    /// `AD`: the server has checked signatures.
    pub authentic_data: bool,
    /// Size on the wire.
    pub bytes: usize,
    /// The answer size that the server's EDNS offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edns: Option<u16>,
    /// The records that answer.
    pub answers: Vec<Record>,
    /// The records of who is in charge: a `SOA` says how long a "no" may be kept (RFC 2308).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<Record>,
}

/// What a message turned out to be.
pub(super) enum Reading {
    Answer(Answer),
    /// Of another question.
    Stray,
    Garbled(String),
}

/// The message for a probe.
pub(super) fn query(probe: &Probe) -> Result<Vec<u8>, QuestionError> {
    let mut message = Message::new(probe.id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(question(probe)?);
    if let Some(size) = probe.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(size);
        edns.set_version(0);
        message.set_edns(edns);
    }
    message
        .to_vec()
        .map_err(|error| QuestionError::Name { name: probe.name.clone(), reason: error.to_string() })
}

fn question(probe: &Probe) -> Result<Query, QuestionError> {
    let refused = |reason: String| QuestionError::Name { name: probe.name.clone(), reason };
    let whole = probe.name.strip_suffix('.').unwrap_or(&probe.name);
    // RFC 1035 section 2.3.4.
    if !whole.is_empty() && whole.split('.').any(str::is_empty) {
        return Err(refused("it has a dot with nothing before it".to_owned()));
    }
    if let Some(label) = whole.split('.').find(|label| label.len() > 63) {
        return Err(refused(format!("`{label}` has {} bytes, and a label has 63 at most", label.len())));
    }
    if whole.len() > 253 {
        return Err(refused(format!("it has {} bytes, and a name has 253 at most", whole.len())));
    }
    let mut name = Name::from_str(&probe.name).map_err(|error| refused(error.to_string()))?;
    name.set_fqdn(true);
    let record = RecordType::from_str(&probe.record.to_ascii_uppercase())
        .map_err(|_| QuestionError::Record { record: probe.record.clone() })?;
    Ok(Query::query(name, record))
}

/// Reads what came back for a probe.
pub(super) fn read(probe: &Probe, bytes: &[u8]) -> Reading {
    let message = match Message::from_vec(bytes) {
        Ok(message) => message,
        Err(error) => {
            return Reading::Garbled(format!("{} bytes that are no DNS message: {error}", bytes.len()));
        }
    };
    if message.metadata.id != probe.id || message.metadata.message_type != MessageType::Response {
        return Reading::Stray;
    }
    // Servers that understand nothing of a message may answer with a bare header.
    let same = match (message.queries.as_slice(), question(probe)) {
        ([], _) => message.answers.is_empty(),
        ([query], Ok(asked)) => query.name() == asked.name() && query.query_type() == asked.query_type(),
        _ => false,
    };
    if !same {
        return Reading::Stray;
    }
    Reading::Answer(Answer {
        rcode: rcode(u16::from(message.metadata.response_code)),
        authoritative: message.metadata.authoritative,
        truncated: message.metadata.truncation,
        recursion_available: message.metadata.recursion_available,
        authentic_data: message.metadata.authentic_data,
        bytes: bytes.len(),
        edns: message.edns.as_ref().map(Edns::max_payload),
        answers: records(&message.answers),
        authorities: records(&message.authorities),
    })
}

fn records(records: &[hickory_proto::rr::Record]) -> Vec<Record> {
    let text = |record: &hickory_proto::rr::Record| Record {
        name: record.name.to_string(),
        kind: record.record_type().to_string(),
        ttl: record.ttl,
        data: record.data.to_string(),
    };
    records.iter().map(text).collect()
}

/// The names that RFC 1035 section 4.1.1 gives, as `dig` prints them.
fn rcode(number: u16) -> String {
    match number {
        0 => "NOERROR".to_owned(),
        1 => "FORMERR".to_owned(),
        2 => "SERVFAIL".to_owned(),
        3 => "NXDOMAIN".to_owned(),
        4 => "NOTIMP".to_owned(),
        5 => "REFUSED".to_owned(),
        number => format!("RCODE{number}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hickory_proto::rr::rdata::{A, SOA, TXT};
    use hickory_proto::rr::{RData, Record as Sent};

    use super::*;
    use crate::probe::Transport;

    fn probe() -> Probe {
        Probe {
            name: "api.shop.svc.cluster.local".to_owned(),
            record: "A".to_owned(),
            server: ([10, 96, 0, 10], 53).into(),
            transport: Transport::Udp,
            id: 4711,
            edns: Some(1232),
            source_port: None,
            patience: Duration::from_secs(1),
        }
    }

    /// Answers of the kinds that servers give.
    fn corpus() -> Vec<Vec<u8>> {
        let asked = question(&probe()).expect("a question");
        let zone = Name::from_ascii("cluster.local.").expect("a name");
        let soa = SOA::new(zone.clone(), zone.clone(), 1, 7200, 1800, 86400, 30);
        let records: [Vec<Sent>; 3] = [
            (0..40)
                .map(|last| Sent::from_rdata(asked.name().clone(), 5, RData::A(A::new(10, 0, 0, last))))
                .collect(),
            vec![Sent::from_rdata(zone, 30, RData::SOA(soa))],
            vec![Sent::from_rdata(asked.name().clone(), 5, RData::TXT(TXT::new(vec!["1.1.0".to_owned()])))],
        ];
        let message = |records: &Vec<Sent>| {
            let mut message = Message::new(4711, MessageType::Response, OpCode::Query);
            message.add_query(asked.clone());
            message.add_answers(records.clone());
            message.set_edns(Edns::new());
            message.to_vec().expect("it can be written")
        };
        records.iter().map(message).chain([query(&probe()).expect("a query"), Vec::new()]).collect()
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "the seed and the count are what a reader of the run wants")]
    fn messages_that_were_changed_on_the_way_are_read_or_refused() {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("NETLAB_SEED").unwrap_or(11);
        println!("NETLAB_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let rounds = number("NETLAB_WORLDS").unwrap_or(2_000);
        let corpus = corpus();
        let (mut answers, mut strays) = (0, 0);
        for round in 0..rounds {
            let mut bytes = corpus[random.usize(..corpus.len())].clone();
            for _ in 0..random.usize(..4) {
                let at = random.usize(..=bytes.len());
                match random.u8(..3) {
                    0 if at < bytes.len() => bytes[at] = random.u8(..),
                    1 => bytes.insert(at, random.u8(..)),
                    _ => bytes.truncate(at),
                }
            }
            match read(&probe(), &bytes) {
                Reading::Answer(answer) => {
                    answers += 1;
                    assert_eq!(answer.bytes, bytes.len(), "round {round}");
                    assert_eq!(
                        bytes[..2],
                        4711_u16.to_be_bytes(),
                        "round {round}: another number is believed"
                    );
                    assert!(bytes[2] & 0x80 != 0, "round {round}: a question is believed");
                }
                Reading::Stray => strays += 1,
                Reading::Garbled(why) => assert!(why.starts_with(&format!("{} bytes", bytes.len())), "{why}"),
            }
        }
        println!("questions {rounds}");
        assert!(answers > 0 && strays > 0, "{answers} answers, {strays} strays");
    }
}
