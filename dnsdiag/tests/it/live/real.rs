//! Each client against each real server: what was planned, what the client got, and what was on the wire.
//!
//! Invariant: a plan knows of a server only what [`Kind::script`] says; the server's bytes reach the client as they are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use netlab_dnsdiag::resolver::{Libc, Query, QueryPlan};
use netlab_node::Netns;

use super::peers::{KINDS, Kind, NAMESERVER, SERVER, addresses, directory};
use super::wire::Wire;
use super::{Helper, helpers, lo_up, look_up, observed, tell};
use crate::vector::{Observed, Vector, agrees};

/// Of addresses musl takes so many.
const MUSL_MOST: usize = 48;
/// A machine under load is late now and then.
const TRIES: usize = 3;

const KUBELET: &str = "search t.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n";
const ALONE: &str = "options timeout:1 attempts:2\n";
const TWO: &str = "search example.com example.org\n";

struct Case {
    name: &'static str,
    conf: &'static str,
    query: &'static str,
    family: &'static str,
}

const fn case(name: &'static str, conf: &'static str, query: &'static str, family: &'static str) -> Case {
    Case { name, conf, query, family }
}

const CASES: [Case; 20] = [
    case("absolute", ALONE, "example.com.", "unspec"),
    case("as it is", ALONE, "example.com", "inet"),
    case("through the search list", KUBELET, "example.com", "unspec"),
    case("by a suffix", TWO, "www", "unspec"),
    case("nobody", KUBELET, "nobody.example.com", "unspec"),
    case("nobody, IPv4", TWO, "nobody", "inet"),
    case("IPv4 alone", KUBELET, "v4.example.com", "unspec"),
    case("IPv4 alone, asked for IPv6", ALONE, "v4.example.com", "inet6"),
    case("a suffix without IPv6", TWO, "v4", "inet6"),
    case("an alias", KUBELET, "alias.example.com", "unspec"),
    case("an alias of nobody", ALONE, "dangling.example.com", "unspec"),
    case("an alias without IPv6", TWO, "v4alias", "inet6"),
    case("only names below it", TWO, "below", "unspec"),
    case("large", ALONE, "large.example.com", "unspec"),
    case("large through the search list", KUBELET, "large.example.com", "inet"),
    case("huge", ALONE, "huge.example.com", "unspec"),
    case("SERVFAIL", ALONE, "www.servfail.test", "unspec"),
    case("SERVFAIL, then a suffix", "search servfail.test example.com\noptions timeout:1\n", "www", "unspec"),
    case("REFUSED", ALONE, "www.refused.test", "unspec"),
    case("REFUSED, then a suffix", "search refused.test example.com\noptions timeout:1\n", "www", "unspec"),
];

/// glibc takes a NOERROR whose one record is an alias for an answer, ends the search, and finds no address in it: the call
/// fails with -2. A plan knows NOERROR without address only, which lets the search go on.
const ALIAS_ENDS_THE_SEARCH: &str = "an alias without IPv6";
/// glibc keeps answers of both families in 1024 bytes at first, 40 for an address; when they do not fit, all is asked again
/// with twice as many. A plan does not know how many addresses there are.
const FIRST_BUFFER: usize = 1024;
const OF_ONE_ADDRESS: usize = 40;

/// How often glibc begins anew.
fn beginnings(helper: &Helper, case: &Case, addresses: usize) -> usize {
    let mut count = 1;
    if matches!(helper.libc, Libc::Glibc(_)) && case.family == "unspec" {
        while (FIRST_BUFFER << (count - 1)) < addresses * OF_ONE_ADDRESS {
            count += 1;
        }
    }
    count
}

/// What was seen, if it is the same questions so often, as if they had been asked once.
fn once(seen: Observed, beginnings: usize) -> Result<Observed, String> {
    let of = |line: &String| line.split_once(' ').map(|(_, what)| what.to_owned());
    let whats: Vec<_> = seen.queries.iter().map(of).collect();
    let length = whats.len() / beginnings;
    let same =
        whats.len() % beginnings == 0 && whats.chunks(length.max(1)).all(|part| part == &whats[..length]);
    if !same {
        return Err(format!("not the same {beginnings} times: {seen:?}"));
    }
    Ok(Observed { queries: seen.queries.into_iter().take(length).collect(), ..seen })
}

/// Whether it is what was planned but for the order in a round: musl asks again for whichever type has failed first, and a
/// real server answers two questions in any order.
fn agrees_but_for_order(plan: &QueryPlan, seen: &Observed) -> bool {
    let of = |line: &str| line.split_once(' ').map(|(_, what)| what.to_owned());
    let wanted =
        |query: &Query| format!("{} {} {} {}", query.nameserver, query.transport, query.qname, query.qtype);
    plan.runs.iter().any(|run| {
        let planned: BTreeSet<String> = run.queries.iter().map(wanted).collect();
        let asked: BTreeSet<String> = seen.queries.iter().filter_map(|line| of(line)).collect();
        run.outcome.rc == Some(seen.rc) && planned == asked && run.queries.len() == seen.queries.len()
    })
}

/// Why what a client got and sent is not what was planned.
fn judge(kind: Kind, case: &Case, helper: &Helper, wire: &Wire, directory: &Path) -> Result<(), String> {
    let musl = matches!(helper.libc, Libc::Musl(_));
    let vector = Vector {
        name: case.name.to_owned(),
        resolv_conf: format!("{}nameserver {NAMESERVER}\n", case.conf),
        server: kind.script(helper.libc),
        query: case.query.to_owned(),
        family: case.family.to_owned(),
        observed: std::collections::BTreeMap::default(),
    };
    wire.take();
    let looked_up = look_up(&vector, helper, directory);
    let plan = vector.plan(helper.libc);
    let resolved = plan.runs.first().and_then(|run| run.resolved.as_deref());
    let mut wanted = resolved.map(addresses).unwrap_or_default();
    let seen = once(observed(&looked_up, wire.take()), beginnings(helper, case, wanted.len()))?;
    let failing = musl && case.name.contains("SERVFAIL");
    if let Err(why) = agrees(&plan, &seen)
        && !(failing && agrees_but_for_order(&plan, &seen))
    {
        return Err(format!("{why}\n  measured {seen:?}"));
    }
    wanted.retain(|address| match case.family {
        "inet" => address.is_ipv4(),
        "inet6" => address.is_ipv6(),
        _ => true,
    });
    let got: &[IpAddr] = &looked_up.addresses;
    let all = wanted.iter().all(|address| got.contains(address));
    let enough = all || (musl && (1..=MUSL_MOST).contains(&got.len()) && wanted.len() > got.len());
    if enough && got.iter().all(|address| wanted.contains(address)) {
        Ok(())
    } else {
        Err(format!("it got {} of {}: {got:?}", got.len(), wanted.len()))
    }
}

#[test]
fn clients_of_real_servers_do_what_is_planned() {
    if directory().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let helpers = helpers(directory.path()).expect("clients");
    std::fs::write(directory.path().join("nsswitch.conf"), "hosts: files dns\n").expect("written");
    let mut wrong = String::new();
    for kind in KINDS {
        let place = directory.path().join(format!("{kind:?}"));
        std::fs::create_dir(&place).expect("a directory");
        let compare = || {
            lo_up();
            let peer = kind.start(&place);
            let wire = Wire::lay(NAMESERVER, SERVER).expect("the wire");
            let mut told = String::new();
            let mut tally = std::collections::BTreeMap::<String, (usize, usize)>::new();
            for case in CASES.iter().filter(|case| kind.can_fail() || !case.name.contains("SERVFAIL")) {
                for helper in &helpers {
                    let mut verdict = judge(kind, case, helper, &wire, directory.path());
                    for _ in 1..TRIES {
                        if verdict.is_err() {
                            verdict = judge(kind, case, helper, &wire, directory.path());
                        }
                    }
                    let libc = helper.libc.to_string();
                    let glibc = matches!(helper.libc, Libc::Glibc(_));
                    let known = glibc && case.name == ALIAS_ENDS_THE_SEARCH;
                    let (same, otherwise) = tally.entry(libc.clone()).or_default();
                    *same += usize::from(verdict.is_ok());
                    *otherwise += usize::from(verdict.is_err());
                    match verdict {
                        Ok(()) if known => {
                            let _ = writeln!(told, "{kind:?}, {}, {libc}: no difference any more", case.name);
                        }
                        Err(why) if !known => {
                            let _ = writeln!(told, "{kind:?}, {}, {libc}: {why}", case.name);
                        }
                        Ok(()) | Err(_) => {}
                    }
                }
            }
            tell(&format!("{kind:?}: (as planned, otherwise) {tally:?}"));
            if !told.is_empty() && std::env::var_os("NETLAB_KEEP").is_some() {
                tell(&peer.told());
            }
            told
        };
        let (_, told) = Netns::create_with(compare).expect("a namespace");
        wrong += &told;
    }
    assert!(wrong.is_empty(), "{wrong}");
}
