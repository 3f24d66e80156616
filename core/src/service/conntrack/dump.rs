//! What lists the kernel's connections: `/proc/net/nf_conntrack`, `conntrack -L` with or without `-o extended`, `-o xml`.
//!
//! Invariant: an entry keeps its line; entries of protocols without ports are left out, and a line that is no entry is an
//! error. Source of the forms: `net/netfilter/nf_conntrack_standalone.c` `ct_seq_show`, and the tool's own output.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use crate::model::port::Protocol;

/// A text that lists no connections.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}; expected {expected}")]
pub struct DumpError {
    /// Counted from 1.
    pub line: usize,
    /// What is there.
    pub what: String,
    /// What should be.
    pub expected: &'static str,
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Counted from 1.
    pub line: usize,
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// Who opened it.
    pub from: SocketAddr,
    /// What it was opened to.
    pub to: SocketAddr,
    /// Where replies come from: what the first packet was translated to.
    pub answers: SocketAddr,
    /// True when nothing came back.
    pub unreplied: bool,
    /// Seconds until the entry goes; `None` where it is not said.
    pub expires_in: Option<u64>,
}

/// Reads any of the forms.
///
/// # Errors
/// [`DumpError`] at the first line that is none of them.
pub fn parse(text: &str) -> Result<Vec<Entry>, DumpError> {
    if text.trim_start().starts_with('<') { xml(text) } else { lines(text) }
}

fn lines(text: &str) -> Result<Vec<Entry>, DumpError> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // The tool's own last word, when both of its streams went to one file.
        if line.trim().is_empty() || line.starts_with("conntrack v") {
            continue;
        }
        let fail = |expected| DumpError { line: index + 1, what: shorten(line), expected };
        let mut direction = [Half::default(), Half::default()];
        let mut which = 0;
        let mut unreplied = false;
        let mut head = Vec::new();
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some(("src", address)) => {
                    if direction.first().is_some_and(|half| half.src.is_some()) {
                        which = 1;
                    }
                    let address = address.parse().map_err(|_| fail("an address after src="))?;
                    half(&mut direction, which).src = Some(address);
                }
                Some(("dst", address)) => {
                    let address = address.parse().map_err(|_| fail("an address after dst="))?;
                    half(&mut direction, which).dst = Some(address);
                }
                Some((key @ ("sport" | "dport"), port)) => {
                    let port = port.parse().map_err(|_| fail("a number after sport= and dport="))?;
                    let half = half(&mut direction, which);
                    *(if key == "sport" { &mut half.sport } else { &mut half.dport }) = Some(port);
                }
                None if word == "[UNREPLIED]" => unreplied = true,
                None if !word.starts_with('[')
                    && direction.first().is_some_and(|half| half.src.is_none()) =>
                {
                    head.push(word);
                }
                Some(_) | None => {}
            }
        }
        let [original, reply] = direction;
        if original.src.is_none() || reply.src.is_none() {
            return Err(fail("`udp 17 29 src=… dst=… sport=… dport=… src=… dst=… sport=… dport=…`"));
        }
        // `ipv4 2 udp 17 29 …`, or without the first two.
        let skipped = if matches!(head.first(), Some(&("ipv4" | "ipv6"))) { 2 } else { 0 };
        let head = head.get(skipped..).unwrap_or_default();
        let [protocol, _number, rest @ ..] = head else { return Err(fail("a protocol first")) };
        let expires_in = rest.first().and_then(|seconds| seconds.parse().ok());
        entries.extend(entry(index + 1, protocol, original, reply, unreplied, expires_in));
    }
    Ok(entries)
}

fn half(direction: &mut [Half; 2], which: usize) -> &mut Half {
    let [original, reply] = direction;
    if which == 0 { original } else { reply }
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    sport: Option<u16>,
    dport: Option<u16>,
}

impl Half {
    fn source(self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.src?, self.sport?))
    }

    fn destination(self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.dst?, self.dport?))
    }
}

/// An entry of a protocol with ports.
fn entry(
    line: usize,
    protocol: &str,
    original: Half,
    reply: Half,
    unreplied: bool,
    expires_in: Option<u64>,
) -> Option<Entry> {
    Some(Entry {
        line,
        protocol: Protocol::ALL.into_iter().find(|known| known.lower() == protocol)?,
        from: original.source()?,
        to: original.destination()?,
        answers: reply.source()?,
        unreplied,
        expires_in,
    })
}

/// The tool's XML: a flow with a `meta` for each direction and one more.
fn xml(text: &str) -> Result<Vec<Entry>, DumpError> {
    let mut entries = Vec::new();
    let mut rest = text;
    let mut line = 1;
    let mut flow: Option<Flow> = None;
    // Text between the tag before and this one.
    while let Some((before, tail)) = rest.split_once('<') {
        line += before.matches('\n').count();
        let fail = |what: &str, expected| DumpError { line, what: shorten(what), expected };
        let Some((tag, after)) = tail.split_once('>') else {
            return Err(fail(tail, "`>` after every `<`"));
        };
        let name = tag.split_whitespace().next().unwrap_or_default().trim_end_matches('/');
        let value = before.trim();
        match (name, &mut flow) {
            ("flow", _) => flow = Some(Flow { line, ..Flow::default() }),
            ("/flow", Some(found)) => {
                entries.extend(found.finish());
                flow = None;
            }
            ("meta", Some(flow)) => {
                let direction = attribute(tag, "direction").ok_or_else(|| fail(tag, "a direction"))?;
                flow.reply = direction == "reply";
            }
            ("layer4", Some(flow)) => {
                attribute(tag, "protoname").unwrap_or_default().clone_into(&mut flow.protocol);
            }
            ("/src" | "/dst", Some(flow)) => {
                let address = value.parse().map_err(|_| fail(value, "an address"))?;
                let half = flow.half();
                *(if name == "/src" { &mut half.src } else { &mut half.dst }) = Some(address);
            }
            ("/sport" | "/dport", Some(flow)) => {
                let port = value.parse().map_err(|_| fail(value, "a port"))?;
                let half = flow.half();
                *(if name == "/sport" { &mut half.sport } else { &mut half.dport }) = Some(port);
            }
            ("/timeout", Some(flow)) => flow.expires_in = value.parse().ok(),
            ("unreplied", Some(flow)) => flow.unreplied = true,
            ("?xml" | "conntrack" | "/conntrack", None) | (_, Some(_)) => {}
            (_, None) => {
                return Err(fail(tag, "`<conntrack>` with flows, as `conntrack -L -o xml` prints it"));
            }
        }
        line += tag.matches('\n').count();
        rest = after;
    }
    if flow.is_some() {
        let what = "the text ends inside a flow".to_owned();
        return Err(DumpError { line, what, expected: "`</flow>`" });
    }
    Ok(entries)
}

#[derive(Debug, Default)]
struct Flow {
    line: usize,
    protocol: String,
    reply: bool,
    halves: [Half; 2],
    unreplied: bool,
    expires_in: Option<u64>,
}

impl Flow {
    fn half(&mut self) -> &mut Half {
        half(&mut self.halves, usize::from(self.reply))
    }

    fn finish(&self) -> Option<Entry> {
        let [original, reply] = self.halves;
        entry(self.line, &self.protocol, original, reply, self.unreplied, self.expires_in)
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// Enough of a text to find it.
fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(MOST).collect();
    if line.chars().count() > MOST {
        short.push('…');
    }
    format!("`{short}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One flow in every form in which the kernel and its tool write it (conntrack-tools 1.4.7, kernel 6.18).
    #[test]
    fn every_form_says_the_same() {
        let tuple = "src=10.99.0.1 dst=10.96.0.10 sport=52097 dport=53 [UNREPLIED] src=127.0.0.1 dst=10.99.0.1 sport=99 dport=52097 mark=0";
        let proc = format!("ipv4     2 udp      17 29 {tuple} zone=0 use=2\n");
        let extended = format!("ipv4     2 udp      17 29 {tuple} use=1\n");
        let short = format!(
            "udp      17 29 {tuple} use=1\nconntrack v1.4.7 (conntrack-tools): 1 flow entries have been shown.\n"
        );
        let counted = format!(
            "ipv4     2 udp      17 29 {} use=1\n",
            tuple.replace(" [UNREPLIED]", " packets=1 bytes=29 [UNREPLIED]")
        );
        let xml = "<?xml version=\"1.0\" encoding=\"utf-8\"?><conntrack><flow><meta direction=\"original\"><layer3 protonum=\"2\" protoname=\"ipv4\"><src>10.99.0.1</src><dst>10.96.0.10</dst></layer3><layer4 protonum=\"17\" protoname=\"udp\"><sport>52097</sport><dport>53</dport></layer4></meta><meta direction=\"reply\"><layer3 protonum=\"2\" protoname=\"ipv4\"><src>127.0.0.1</src><dst>10.99.0.1</dst></layer3><layer4 protonum=\"17\" protoname=\"udp\"><sport>99</sport><dport>52097</dport></layer4></meta><meta direction=\"independent\"><timeout>29</timeout><mark>0</mark><use>1</use><id>3172473362</id><unreplied/></meta></flow>\n</conntrack>\n".to_owned();
        let expected = Entry {
            line: 1,
            protocol: Protocol::Udp,
            from: "10.99.0.1:52097".parse().expect("an address"),
            to: "10.96.0.10:53".parse().expect("an address"),
            answers: "127.0.0.1:99".parse().expect("an address"),
            unreplied: true,
            expires_in: Some(29),
        };
        for text in [proc, extended, short, counted, xml] {
            assert_eq!(parse(&text), Ok(vec![expected]), "{text}");
        }
    }

    #[test]
    fn what_has_no_ports_is_left_out() {
        let text = "ipv4     2 icmp     1 29 src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=7 src=10.0.0.2 dst=10.0.0.1 type=0 code=0 id=7 mark=0 use=1\n\
            ipv6     10 tcp      6 431999 ESTABLISHED src=fd00::1 dst=fd00::2 sport=1 dport=2 src=fd00::2 dst=fd00::1 sport=2 dport=1 [ASSURED] mark=0 use=1\n";
        let entries = parse(text).expect("well formed");
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].line, entries[0].protocol, entries[0].expires_in),
            (2, Protocol::Tcp, Some(431_999))
        );
    }

    #[test]
    fn other_texts_are_refused_with_their_line() {
        for (text, line, said) in [
            ("hello\n", 1, "`hello`"),
            ("\nudp 17 29 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2\n", 2, "src=…"),
            ("udp 17 29 src=here dst=10.0.0.2 sport=1 dport=2\n", 1, "src="),
            ("udp 17 29 src=10.0.0.1 dst=10.0.0.2 sport=x dport=2\n", 1, "sport="),
            ("<conntrack>\n<flow><meta direction=\"original\"><src>x</src>", 2, "`x`"),
            ("<conntrack>\n<flow>\n", 2, "ends inside a flow"),
            ("<conntrack>\n<flow", 2, "`>`"),
            ("<html>", 1, "html"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.to_string().contains(said), "{text:?}: {error}");
        }
    }
}
