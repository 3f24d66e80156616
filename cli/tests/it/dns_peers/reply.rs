//! Replies as text, written apart from everything that is compared by it.
//!
//! Invariant: everything of a reply is told but its number, the order within a section (servers shuffle) and a SOA's
//! serial (CoreDNS has the time there). Of one that is cut short the records are only counted, for the same reason.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::question::TYPES;

const RCODES: [&str; 6] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
const SECTIONS: [&str; 3] = ["answer", "authority", "additional"];

/// The text; what cannot be read is said in place of the rest.
pub(super) fn reply(bytes: &[u8], asked: &[u8]) -> String {
    let mut text = String::new();
    if let Err(why) = write(bytes, asked, &mut text) {
        let _ = writeln!(text, "unreadable: {why}");
    }
    text
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let taken = self.bytes.get(self.at..self.at + count).ok_or("it ends too early")?;
        self.at += count;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, String> {
        let taken = self.take(2)?;
        Ok(u16::from_be_bytes([taken[0], taken[1]]))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    fn name(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let (mut at, mut jumped) = (self.at, false);
        for _ in 0..256 {
            let length = usize::from(*self.bytes.get(at).ok_or("a name ends too early")?);
            if length >= 0xc0 {
                let low = *self.bytes.get(at + 1).ok_or("a pointer ends too early")?;
                if !jumped {
                    self.at = at + 2;
                }
                jumped = true;
                at = (length & 0x3f) << 8 | usize::from(low);
                continue;
            }
            at += 1;
            if length == 0 {
                if !jumped {
                    self.at = at;
                }
                return Ok(if text.is_empty() { ".".to_owned() } else { text });
            }
            for byte in self.bytes.get(at..at + length).ok_or("a label ends too early")? {
                match byte {
                    b'!'..=b'~' if !b".\\".contains(byte) => text.push(char::from(*byte)),
                    byte => write!(text, "\\x{byte:02x}").expect("a text"),
                }
            }
            text.push('.');
            at += length;
        }
        Err("a name without an end".to_owned())
    }
}

fn kind(number: u16) -> String {
    let known = TYPES.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| format!("TYPE{number}"), |(name, _)| (*name).to_owned())
}

fn class(number: u16) -> String {
    match number {
        1 => "IN".to_owned(),
        3 => "CH".to_owned(),
        255 => "ANY".to_owned(),
        number => format!("CLASS{number}"),
    }
}

fn write(bytes: &[u8], asked: &[u8], text: &mut String) -> Result<(), String> {
    let mut reader = Reader { bytes, at: 0 };
    let (id, flags) = (reader.u16()?, reader.u16()?);
    let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
    let rcode = usize::from(flags & 15);
    *text += &RCODES.get(rcode).map_or_else(|| format!("RCODE{rcode}"), ToString::to_string);
    for (name, bit) in
        [("qr", 15), ("aa", 10), ("tc", 9), ("rd", 8), ("ra", 7), ("z", 6), ("ad", 5), ("cd", 4)]
    {
        if flags >> bit & 1 == 1 {
            *text += " ";
            *text += name;
        }
    }
    let opcode = flags >> 11 & 15;
    if opcode != 0 {
        let _ = write!(text, " opcode {opcode}");
    }
    let _ = writeln!(text, ", {} bytes", bytes.len());
    if asked.get(..2) != Some(&id.to_be_bytes()) {
        *text += "another number\n";
    }
    let start = reader.at;
    for _ in 0..counts[0] {
        let (name, of, within) = (reader.name()?, reader.u16()?, reader.u16()?);
        // The usual is not told: the one question, as it was.
        if counts[0] != 1 || bytes.get(start..reader.at) != asked.get(start..reader.at) {
            let _ = writeln!(text, "question {name} {} {}", kind(of), class(within));
        }
    }
    if counts[0] == 0 {
        *text += "no question\n";
    }
    let cut = flags >> 9 & 1 == 1;
    for (section, count) in SECTIONS.iter().zip(&counts[1..]) {
        let mut lines = Vec::new();
        for _ in 0..*count {
            lines.push(record(&mut reader)?);
        }
        lines.sort();
        let (options, lines): (Vec<String>, Vec<String>) =
            lines.into_iter().partition(|line| line.starts_with("edns"));
        if cut && !lines.is_empty() {
            let _ = writeln!(text, "{section}: {} records", lines.len());
        } else {
            for line in lines {
                let _ = writeln!(text, "{section} {line}");
            }
        }
        for line in options {
            let _ = writeln!(text, "{line}");
        }
    }
    if reader.at != bytes.len() {
        let _ = writeln!(text, "{} bytes after the end", bytes.len() - reader.at);
    }
    Ok(())
}

fn record(reader: &mut Reader<'_>) -> Result<String, String> {
    let (name, of, within) = (reader.name()?, reader.u16()?, reader.u16()?);
    let ttl = reader.u32()?;
    // CoreDNS's cache of 30 seconds counts down from one question to the next.
    let shown = if (20..30).contains(&ttl) { 30 } else { ttl };
    let length = usize::from(reader.u16()?);
    let end = reader.at + length;
    if of == 41 {
        let options = reader.take(length)?.len();
        let (extended, version, flags) = (ttl >> 24, ttl >> 16 & 255, ttl & 0xffff);
        return Ok(format!(
            "edns size {within} rcode {extended} version {version} flags {flags:#x} options {options}"
        ));
    }
    let data = match of {
        1 => <[u8; 4]>::try_from(reader.take(length)?)
            .map(|bytes| Ipv4Addr::from(bytes).to_string())
            .map_err(|_| "an A of another length")?,
        28 => <[u8; 16]>::try_from(reader.take(length)?)
            .map(|bytes| Ipv6Addr::from(bytes).to_string())
            .map_err(|_| "an AAAA of another length")?,
        2 | 5 | 12 => reader.name()?,
        33 => format!("{} {} {} {}", reader.u16()?, reader.u16()?, reader.u16()?, reader.name()?),
        6 => {
            let (server, mail) = (reader.name()?, reader.name()?);
            let _serial = reader.u32()?;
            let rest = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
            format!("{server} {mail} SERIAL {rest:?}").replace(['[', ']', ','], "")
        }
        16 => format!("{:?}", String::from_utf8_lossy(reader.take(length)?)),
        _ => format!("{:02x?}", reader.take(length)?),
    };
    if reader.at != end {
        return Err(format!("a {} that is not as long as it says", kind(of)));
    }
    Ok(format!("{name} {shown} {} {} {data}", class(within), kind(of)))
}
