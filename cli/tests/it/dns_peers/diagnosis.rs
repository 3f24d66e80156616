//! What the diagnosis says of real servers: of healthy ones that they are, and of their real faults what they are.
//!
//! Invariant: the pod's questions meet the real server alone; its log and its Corefile are put into the record in the place of
//! the lab's, and the record is judged. The table is the score.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::server::{Peer, peers};
use super::{Bed, COREFILE, SERVER, text};

/// The world's server.
const ABOVE: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53))];

/// A real server, what is asked, and what has to be found.
struct Case {
    name: &'static str,
    /// Lines of kubeadm's Corefile, and what stands there instead.
    changes: &'static [(&'static str, &'static str)],
    /// The server above: `lab`, or a real one.
    above: &'static str,
    asked: &'static str,
    /// One of these words. A server above that answers with an error may also be one that answers too late.
    verdict: &'static str,
}

const FORWARD: &str = "    forward . 192.0.2.53\n";

const fn case(
    name: &'static str,
    changes: &'static [(&'static str, &'static str)],
    above: &'static str,
    asked: &'static str,
    verdict: &'static str,
) -> Case {
    Case { name, changes, above, asked, verdict }
}

const CASES: &[Case] = &[
    case("as kubeadm has it", &[], "lab", "web large.example.com", "healthy"),
    case("aliases, headless and reverse", &[], "lab", "out db db-0.db in", "healthy"),
    case(
        "serve_stale and bufsize",
        &[("cache 30", "cache 30 {\n serve_stale\n }\n bufsize 1232")],
        "lab",
        "web large.example.com",
        "healthy",
    ),
    case("pods verified", &[("pods insecure", "pods verified")], "lab", "web example.com", "healthy"),
    case("above dnsmasq", &[], "dnsmasq", "web large.example.com", "healthy"),
    case("above unbound", &[], "unbound", "web large.example.com", "healthy"),
    case("above unbound that knows its questions by case", &[], "unbound-caps", "web example.com", "healthy"),
    case("above bind9", &[], "named", "web large.example.com", "healthy"),
    case("above bind9 without minimal-responses", &[], "named-full", "web large.example.com", "healthy"),
    case("above a dnsmasq that refuses", &[], "dnsmasq-refusing", "example.org", "undetermined F22"),
    case("above an unbound that fails", &[], "unbound-servfail", "example.org", "undetermined F22"),
    case("above nobody", &[("192.0.2.53", "192.0.2.99")], "lab", "example.com", "F22"),
    case("a loop that the plugin sees", &[(FORWARD, "    forward . 127.0.0.1:5353\n")], "lab", "web", "F17"),
    case(
        "a loop without the plugin",
        &[(FORWARD, "    forward . 127.0.0.1:5353\n"), ("    loop\n", "")],
        "lab",
        "example.com",
        "F17",
    ),
    case("no forward", &[(FORWARD, ""), ("    loop\n", "")], "lab", "example.com", "undetermined"),
    case("another zone", &[("cluster.local", "clouster.local")], "lab", "web", "F35"),
    case("no API", &[("API", "NOBODY")], "lab", "web", "F19"),
    case(
        "AAAA that is denied",
        &[(
            FORWARD,
            "    template IN AAAA example.com {\n        rcode NXDOMAIN\n    }\n    forward . 192.0.2.53\n",
        )],
        "lab",
        "example.com --libc musl:1.2.5",
        "F43",
    ),
    case(
        "hosts without fallthrough",
        &[("    kubernetes", "    hosts {\n        192.0.2.7 other.example.com\n    }\n    kubernetes")],
        "lab",
        "web",
        "F80",
    ),
];

fn above<'b>(bed: &'b Bed, kind: &str, directory: &Path) -> Option<Peer<'b>> {
    let fabric = &bed.fabric;
    Some(match kind {
        "dnsmasq" => Peer::dnsmasq(fabric, &ABOVE, directory, &[]),
        // A name that is none of its own, and nobody to ask: REFUSED.
        "dnsmasq-refusing" => Peer::dnsmasq(fabric, &ABOVE, directory, &["--server=/org/#"]),
        "unbound" => Peer::unbound(fabric, &ABOVE, directory, ""),
        "unbound-caps" => {
            Peer::unbound(fabric, &ABOVE, directory, " use-caps-for-id: yes\n minimal-responses: no\n")
        }
        "unbound-servfail" => Peer::unbound(fabric, &ABOVE, directory, " local-zone: \"org\" transparent\n"),
        "named" => Peer::named(fabric, &ABOVE, directory, "recursion no;"),
        "named-full" => Peer::named(fabric, &ABOVE, directory, "recursion yes; minimal-responses no;"),
        _ => return None,
    })
}

struct Line {
    live: String,
    recorded: String,
    said: String,
    log: String,
}

fn judge(bed: &Bed, case: &Case) -> Line {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).expect("a directory");
        path
    };
    let corefile = case.changes.iter().fold(COREFILE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{}: no `{from}`", case.name);
        text.replace(from, to)
    });
    let above = above(bed, case.above, &place("above"));
    let peer = Peer::coredns(&bed.server, &SERVER, &place("server"), &corefile, &text("world.yaml"));
    // What is shown to the diagnosis is what an administrator would have written.
    let shown = corefile
        .replace(":5353", ":53")
        .replace("        endpoint API\n", "")
        .replace("        endpoint NOBODY\n", "");
    let file = directory.path().join("Corefile");
    std::fs::write(&file, &shown).expect("written");
    let record = directory.path().join("record");
    let (_, live) = bed.labs.json(&format!(
        "netlab dns diagnose t/client {} --lab lab --corefile {} --record {}",
        case.asked,
        file.display(),
        record.display()
    ));
    std::fs::create_dir_all(record.join("dns")).expect("a directory");
    std::fs::write(record.join("dns/log"), peer.told().replace(":5353", ":53")).expect("written");
    if let Ok(keep) = std::env::var("NETLAB_KEEP") {
        let to = Path::new(&keep).join(case.name.replace(' ', "-"));
        let copied = std::process::Command::new("cp").arg("-r").arg(&record).arg(&to).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot write to {keep}");
    }
    let (_, again) = bed.labs.json(&format!("netlab dns diagnose --bundle {}", record.display()));
    let found = |value: &serde_json::Value| {
        let verdict = &value["verdict"];
        verdict["mode"].as_str().or(verdict["class"].as_str()).unwrap_or("no verdict").to_owned()
    };
    let told = above.map(|above| above.told()).unwrap_or_default();
    Line {
        live: found(&live),
        recorded: found(&again),
        said: format!("{} {:#}", again["verdict"]["summary"], again["because"]),
        log: format!("{}\n{told}", peer.told()),
    }
}

#[test]
fn the_diagnosis_of_real_servers_is_right() {
    let Some(_) = peers() else { return };
    let only = std::env::var("NETLAB_FAULT").unwrap_or_default();
    let bed = Bed::new();
    let (mut wrong, mut table) = (String::new(), String::new());
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        let fits = |line: &Line| case.verdict.split(' ').any(|verdict| verdict == line.recorded);
        let mut line = judge(&bed, case);
        if !fits(&line) {
            // A machine under load loses a packet now and then, and that is told, too.
            line = judge(&bed, case);
        }
        let row = format!("{:<48} {:<8} {:<12} {:<12}", case.name, case.verdict, line.live, line.recorded);
        let _ = writeln!(table, "{row}");
        if !fits(&line) {
            let _ = writeln!(wrong, "{row} {}\n{}", line.said, line.log);
        }
    }
    let _ = writeln!(std::io::stderr(), "{table}");
    assert!(wrong.is_empty(), "{wrong}");
}
