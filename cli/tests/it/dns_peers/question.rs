//! Questions of `questions.txt` as bytes, written apart from everything that is compared by them.
//!
//! Invariant: what a line does not ask for beside its name and type is as a resolver would send it.

/// A line of the file.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) line: String,
    pub(super) tcp: bool,
    /// To the server's IPv6 address.
    pub(super) v6: bool,
    pub(super) bytes: Vec<u8>,
}

/// Types by name.
pub(super) const TYPES: [(&str, u16); 14] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
    ("OPT", 41),
    ("HTTPS", 65),
    ("IXFR", 251),
    ("AXFR", 252),
    ("ANY", 255),
];

/// The questions of a text; lines that begin with `#` and empty ones are none.
pub(super) fn questions(text: &str) -> Vec<Question> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.zip(1..).map(|(line, id)| question(line, id)).collect()
}

fn question(line: &str, id: u16) -> Question {
    let words: Vec<&str> = line.split(' ').collect();
    let [how, name, kind] = words.as_slice() else { panic!("`{line}` is not: how, name, type") };
    let mut hows = how.split('+');
    let transport = hows.next().unwrap_or_default();
    let (tcp, v6) = (transport.starts_with("tcp"), transport.ends_with('6'));
    let wanted: Vec<&str> = hows.collect();
    let has = |what: &str| wanted.contains(&what);
    let kind = TYPES
        .iter()
        .find(|(known, _)| known == kind)
        .map_or_else(|| kind.trim_start_matches("TYPE").parse().expect("a type"), |(_, number)| *number);
    let class: u16 = if has("ch") {
        3
    } else if has("any") {
        255
    } else {
        1
    };
    let opcode: u8 = wanted.iter().find_map(|what| what.strip_prefix("opcode")?.parse().ok()).unwrap_or(0);
    let offered = wanted.iter().find_map(|what| what.parse::<u16>().ok());
    let edns = offered.or((has("edns1") || has("do")).then_some(1232));
    let count = if has("none") { 0 } else { 1 + u8::from(has("two")) };
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.push(u8::from(has("response")) << 7 | opcode << 3 | u8::from(!has("norec")));
    bytes.push(u8::from(has("cd")) << 4);
    bytes.extend([0, count, 0, 0, 0, 0, 0, u8::from(edns.is_some())]);
    for _ in 0..count {
        bytes.extend(self::name(name));
        bytes.extend(kind.to_be_bytes());
        bytes.extend(class.to_be_bytes());
    }
    if let Some(size) = edns {
        let flags = u8::from(has("do")) << 7;
        bytes.extend([0, 0, 41, size.to_be_bytes()[0], size.to_be_bytes()[1]]);
        bytes.extend([0, u8::from(has("edns1")), flags, 0, 0, 0]);
    }
    if has("rest") {
        bytes.extend([0; 4]);
    }
    if has("cut") {
        bytes.truncate(bytes.len() - 4);
    }
    Question { line: line.to_owned(), tcp, v6, bytes }
}

/// A name on the wire.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        let label = match label.strip_prefix('*').and_then(|count| count.parse().ok()) {
            Some(count) => vec![b'x'; count],
            None => unescaped(label),
        };
        bytes.push(u8::try_from(label.len()).expect("a label"));
        bytes.extend(label);
    }
    bytes.push(0);
    bytes
}

fn unescaped(label: &str) -> Vec<u8> {
    let mut parts = label.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend(rest.as_bytes());
    }
    bytes
}
