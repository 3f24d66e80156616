//! The verdict when no rule fires: healthy, or undetermined and why.
//!
//! Invariant: "healthy" only when every file whose content can show a failure that is not seen elsewhere was recorded and can be what
//! it should be, every step that needs those was taken and found no fault, what a resolver could ask was asked and answered, rightly,
//! in time and everywhere alike, and nobody reports a symptom that this does not explain.

use std::net::{IpAddr, SocketAddr};

use netlab_core::model::service::AddressType;
use netlab_plugin::check::{CheckOutcome, CheckStatus};
use netlab_plugin::evidence::{Reading, Transport};

use super::{Cause, Verdict};
use crate::bundle::layout;
use crate::rules::{Class, Confidence};
use crate::view::{Ask, Candidate, Halved, Reach, Server, View, ids};

type Conclusion = (Verdict, Vec<String>, Vec<String>, Vec<String>);

pub(super) fn conclude(
    view: &View<'_>,
    halved: Option<&Halved>,
    outcomes: &[(String, String, CheckOutcome)],
    foreign: &[Cause],
) -> Conclusion {
    let mut because = Vec::new();
    let faults: Vec<&(String, String, CheckOutcome)> =
        outcomes.iter().filter(|(_, _, outcome)| outcome.status == CheckStatus::Fault).collect();
    for (id, name, outcome) in &faults {
        because.push(format!("{id} {name}: {}", outcome.line));
    }
    because.extend(foreign.iter().map(|cause| format!("{}: {}", cause.mode, cause.summary)));
    let missing = missing(view);
    let seen = view.seen(&Ask::from_pod());
    let amiss = view.amiss();
    // What alone speaks against health is what the verdict rests on.
    let evidence = if because.is_empty() && !amiss.is_empty() {
        ids(amiss.iter().flat_map(|one| one.ids.clone()))
    } else {
        seen.ids.clone()
    };
    because.extend(amiss.iter().map(|one| one.what.clone()));
    let undetermined = |summary: String, because: Vec<String>, fixes: Vec<String>| {
        let verdict = Verdict {
            class: Class::Undetermined,
            id: None,
            mode: None,
            confidence: Confidence::Low,
            summary,
            evidence: evidence.clone(),
            against: Vec::new(),
        };
        (verdict, because, fixes, Vec::new())
    };
    let record = |missing: &[&str]| vec![format!("record {}", missing.join(", "))];
    if !because.is_empty() {
        let mut fixes = if missing.is_empty() { Vec::new() } else { record(&missing) };
        let resolve = |name: &String| view.candidates(name).iter().any(Candidate::resolves);
        let names = &view.target.names;
        let known = || !names.is_empty() || !view.cluster_dns_works().is_empty();
        let works = known() && names.iter().all(resolve) && view.evidence.symptom().is_none();
        fixes.extend(amiss.into_iter().map(|one| one.fix));
        fixes.dedup();
        let summary = if let Some(why) = view.cut_off().filter(|_| seen.answered == 0) {
            fixes.push(format!(
                "`ip address` in the network namespace of {}: what its CNI set up is not there",
                view.target
            ));
            format!("the pod is cut off: {why}")
        } else if let Some(conf) = view.conf().filter(|conf| conf.default_nameservers)
            && !servers_written(view).is_empty()
            && !works
        {
            fixes.push(format!(
                "write {} so that {} reads it: the keyword in the first column, then a blank and an address",
                layout::POD_RESOLV_CONF,
                conf.dialect
            ));
            because.push(format!(
                "{} names {}, and {} reads none of it",
                layout::POD_RESOLV_CONF,
                servers_written(view).join(", "),
                conf.dialect
            ));
            format!("{} finds no nameserver in the pod's resolv.conf", conf.dialect)
        } else if seen.reach == Reach::Unroutable {
            fixes.push(format!(
                "`ip route` in the network namespace of {}: its CNI gives it a default route",
                view.target
            ));
            "the pod has no route to its DNS servers".to_owned()
        } else if let Some(halved) = halved {
            let (summary, why, fix) = family(view, halved);
            because.extend(why);
            fixes.push(fix);
            summary
        } else if let Some((lost, others)) = view.lost_in_company() {
            because.extend(others.iter().filter(|one| one.pairs > 0 && !one.is_company()).map(|one| {
                format!("{}: of {} such pairs {} lost a half", one.server.ip(), one.pairs, one.halves)
            }));
            fixes.push(format!(
                "find what drops all but the first packets of a flow to {}: `nft list ruleset` in the pod and on its node, devices between; \
                 until then `options single-request-reopen` (glibc)",
                lost.server.ip()
            ));
            let which = if lost.second { "the second is lost" } else { "one is lost" };
            format!("of two questions from one socket {which}")
        } else if works {
            format!("{} gets answers, and not all is in order", view.target)
        } else {
            format!("{} fails, and no known cause fits", view.target)
        };
        return undetermined(summary, because, fixes);
    }
    if !seen.reach.answers() {
        let why = match seen.reach {
            Reach::NotAsked => "what became of the pod's questions is not known".to_owned(),
            reach => format!("the pod's questions: {}", reach.as_str()),
        };
        let fixes = if missing.is_empty() { Vec::new() } else { record(&missing) };
        return undetermined(format!("{} is not known to get answers", view.target), vec![why], fixes);
    }
    if !missing.is_empty() {
        let each = missing.iter().map(|file| view.unreadable.get(*file).map_or(*file, String::as_str));
        let why = format!("not examined: {}", each.collect::<Vec<_>>().join(", "));
        return undetermined(
            "what was examined is in order; the rest was not".to_owned(),
            vec![why],
            record(&missing),
        );
    }
    let doubtful: Vec<String> = vital(view).into_iter().filter_map(|file| view.illegible(file)).collect();
    if !doubtful.is_empty() {
        let fix =
            "record it again: a command that fails leaves an empty file, or its error message".to_owned();
        return undetermined(
            "what was examined is in order; the rest cannot be read".to_owned(),
            vec![format!("not examined: {}", doubtful.join("; "))],
            vec![fix],
        );
    }
    let untaken: Vec<String> = outcomes
        .iter()
        .filter(|(id, _, outcome)| outcome.status == CheckStatus::NotExamined && !OPTIONAL.contains(&&**id))
        .map(|(id, name, outcome)| format!("{id} {name}: {}", outcome.line))
        .collect();
    if !untaken.is_empty() {
        return undetermined(
            "what was examined is in order; the rest was not".to_owned(),
            vec![format!("not examined: {}", untaken.join("; "))],
            vec!["record what these steps need: netlab dns checks".to_owned()],
        );
    }
    let unasked = unasked(view);
    if !unasked.is_empty() {
        let why = format!("not asked: {}", unasked.join("; "));
        let fix = "ask it from the pod's network namespace, and record the rows".to_owned();
        return undetermined(
            "what was asked is answered; the rest was not asked".to_owned(),
            vec![why],
            vec![fix],
        );
    }
    if let Some((id, symptom)) = view.evidence.symptom() {
        let what = symptom.error.clone().unwrap_or_else(|| "a symptom".to_owned());
        let why = format!("{id} reports \"{what}\", and nothing here explains it");
        let fix = "repeat the probes while it happens (50 or more show a loss of 6%)".to_owned();
        return undetermined(
            "every hop answers now; the symptom is not explained".to_owned(),
            vec![why],
            vec![fix],
        );
    }
    let verdict = Verdict {
        class: Class::Healthy,
        id: None,
        mode: None,
        confidence: Confidence::High,
        summary: summary(view),
        evidence,
        against: Vec::new(),
    };
    (verdict, Vec::new(), Vec::new(), Vec::new())
}

/// Steps whose absence hides nothing: the kernel's counters say why questions are lost, and the libc's candidates are looked at
/// one by one where the libc is not known. Checks from elsewhere say themselves what they miss.
const OPTIONAL: [&str; 2] = ["S3", "S9"];

/// Addresses that stand in lines about name servers, however they are written.
fn servers_written(view: &View<'_>) -> Vec<String> {
    let text = view.text(layout::POD_RESOLV_CONF).unwrap_or_default();
    text.lines()
        .filter(|line| line.to_ascii_lowercase().contains("nameserver"))
        .filter_map(|line| line.split([' ', '\t', '=', ':']).find(|word| word.parse::<IpAddr>().is_ok()))
        .map(str::to_owned)
        .collect()
}

/// What is said of a family that fails for no known cause: summary, reasons, what to do.
fn family(view: &View<'_>, halved: &Halved) -> (String, Vec<String>, String) {
    let (name, other) = (halved.name(), halved.other());
    let is_it = |address: &IpAddr| AddressType::of(*address) == halved.family;
    let segments = view.segments();
    let vips: Vec<IpAddr> = segments.vips.iter().copied().filter(is_it).collect();
    let vip = view.canary(&Ask::from_pod().to(vips.clone()).port(53));
    let ends: Vec<_> = segments
        .endpoints_udp
        .iter()
        .chain(&segments.endpoints_tcp)
        .filter(|(to, seen)| is_it(&to.ip()) && seen.reach != Reach::NotAsked)
        .collect();
    let all = |what: fn(Reach) -> bool| !ends.is_empty() && ends.iter().all(|(_, seen)| what(seen.reach));
    let list = |all: &[IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let node = view.subject().and_then(|subject| subject.node()).unwrap_or("the node").to_owned();
    let mut why = vec![format!("over {other} all is well: {} answered", halved.whole.count())];
    let table = if halved.family == AddressType::Ipv6 { "ip6" } else { "ip" };
    let (summary, fix) = if vip.reach.fails() && all(Reach::answers) {
        why.push(format!("{} {}, the endpoints behind it answer", list(&vips), vip.reach.as_str()));
        (
            format!("over {name} the DNS Service fails, its pods answer"),
            format!(
                "look at what {node} does with {name} packets to {}: `nft list table {table} kube-proxy`, other rules, routes",
                list(&vips)
            ),
        )
    } else if halved.broken.reach.fails() {
        why.push(format!("over {name} nothing is answered: {}", halved.broken.reach.as_str()));
        let way = if halved.family == AddressType::Ipv6 { "ip -6 route" } else { "ip route" };
        (
            format!("over {name} no DNS server answers, over {other} all do"),
            format!(
                "compare the ways of {name} and {other} from the pod: `{way}`, filters on {node}, neighbours"
            ),
        )
    } else {
        (
            format!("over {name} DNS fails in part, over {other} it works"),
            format!("ask again over {name} alone: `netlab dns query` at each server that failed"),
        )
    };
    let servers = view.nameservers();
    if let Some(first) = servers.first()
        && servers.iter().any(|server| !is_it(server))
    {
        why.push(match (is_it(first), view.is_musl()) {
            _ if !servers.iter().any(is_it) => format!("the pod's resolv.conf names servers of {other} only"),
            (_, Some(true)) => "musl asks the servers of both families at once: it loses no time".to_owned(),
            (true, _) => format!(
                "{first} is asked first: {} s pass for each name tried before a server of {other} is asked",
                view.conf().map_or(5, |conf| conf.options.timeout.max(1))
            ),
            (false, _) => format!("servers of {name} are asked only when {first} fails"),
        });
    }
    (summary, why, fix)
}

/// Vital files that were not recorded.
fn missing(view: &View<'_>) -> Vec<&'static str> {
    vital(view).into_iter().filter(|file| !view.knows(file)).collect()
}

/// The files on which health rests, of this pod.
fn vital(view: &View<'_>) -> Vec<&'static str> {
    let musl = view.target.libc.as_deref().is_some_and(|libc| libc.starts_with("musl"));
    let proxy = layout::PROXY_DUMPS.iter().any(|dump| view.knows(dump));
    layout::FILES
        .iter()
        .filter(|file| file.vital && file.format != layout::Format::Manifest)
        .map(|file| file.path)
        .filter(|path| !(*path == layout::POD_NSSWITCH && musl))
        .filter(|path| match layout::PROXY_DUMPS.iter().position(|dump| dump == path) {
            // One dump is enough, and the first stands for all when there is none.
            Some(place) => {
                if proxy {
                    view.evidence.text(path).is_some()
                } else {
                    place == 0
                }
            }
            None => true,
        })
        .collect()
}

/// So many endpoints stand for all where there are more.
const ENDPOINTS: usize = 6;

/// Questions without which nobody knows that the pod's DNS works: each nameserver over UDP and TCP, the endpoints behind the
/// DNS Service, and what the libc asks for each name.
fn unasked(view: &View<'_>) -> Vec<String> {
    let mut left = Vec::new();
    let servers = view.nameservers();
    for (server, transport) in
        servers.iter().flat_map(|server| [(server, Transport::Udp), (server, Transport::Tcp)])
    {
        if view.canary(&Ask::from_pod().to([*server]).port(53).over(transport)).reach == Reach::NotAsked {
            left.push(format!("nameserver {server} over {transport}"));
        }
    }
    // A record made without such pairs is held to them only where something speaks for a race; else that they are missing is
    // among what was not examined.
    let together = view.together();
    let recorded = together.iter().any(|one| one.pairs > 0);
    let races = view.counter("conntrack.insert_failed").and_then(Reading::growth).is_some_and(|by| by > 0.0);
    if view.asks_from_one_socket() && (recorded || races) {
        let asked = |server: &IpAddr| together.iter().any(|one| one.server.ip() == *server && one.pairs > 0);
        left.extend(
            servers
                .iter()
                .filter(|server| !asked(server))
                .map(|server| format!("A and AAAA of {server} from one socket, as C libraries ask")),
        );
    }
    let of_cluster = |server: &IpAddr| {
        matches!(view.server(*server), Some(Server::ClusterDns(_) | Server::LinkLocal | Server::DnsPod(_)))
    };
    if servers.iter().any(of_cluster) {
        let own = view.subject().map(|subject| subject.pod.addresses.clone()).unwrap_or_default();
        for transport in [Transport::Udp, Transport::Tcp] {
            let all = view.ready_dns_addresses(transport);
            let reachable: Vec<_> =
                all.into_iter().filter(|to| own.iter().any(|own| own.is_ipv4() == to.is_ipv4())).collect();
            let silent = |to: &&SocketAddr| {
                view.canary(&Ask::from_pod().at(**to).over(transport)).reach == Reach::NotAsked
            };
            let not_asked: Vec<_> = reachable.iter().filter(silent).collect();
            if reachable.len() - not_asked.len() < reachable.len().min(ENDPOINTS) {
                left.extend(not_asked.into_iter().map(|to| format!("endpoint {to} over {transport}")));
            }
        }
    }
    for name in &view.target.names {
        if let Some(replay) = view.replay(name) {
            left.extend(replay.unasked);
            continue;
        }
        let whole = |one: &Candidate| one.a.is_some() && one.aaaa.is_some() && one.resolves();
        if !view.candidates(name).iter().any(whole) {
            left.push(format!("`{name}`, and which libc asks is not known"));
        }
    }
    left
}

fn summary(view: &View<'_>) -> String {
    match view.target.names.as_slice() {
        [] => format!("{} gets right answers", view.target),
        names => format!("{} resolves {}", view.target, names.join(", ")),
    }
}
