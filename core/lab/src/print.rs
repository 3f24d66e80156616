//! The commands that a person would type to build the same lab by hand.
//!
//! Invariant: they come from the same [`Plan`] that [`crate::Lab::build`] carries out, in the same order, so that
//! they cannot drift; the output is a script for `sh -e` that needs iproute2 and procps only. Unlike the lab
//! itself, what the script makes has names and stays until [`undo`].

use std::fmt::Write as _;
use std::net::IpAddr;

use netlab_node::netlink::Scope;

use crate::place::Place;
use crate::plan::{NamespacePlan, Plan};

/// The script. `prefix` goes before every namespace's name, so that two labs can stand at once.
pub fn script(plan: &Plan, prefix: &str) -> String {
    let mut text = String::new();
    let names = Names { plan, prefix };
    section(&mut text, "one namespace for the fabric, for each node and for each pod");
    for namespace in &plan.namespaces {
        line(&mut text, format_args!("ip netns add {}", names.of(&namespace.place)));
    }
    for namespace in &plan.namespaces {
        let name = names.of(&namespace.place);
        section(&mut text, &format!("{name}: sysctls before links, for links inherit them"));
        for sysctl in &namespace.sysctls {
            let key = sysctl.name.replace('/', ".");
            line(&mut text, format_args!("ip netns exec {name} sysctl -q -w net.{key}={}", sysctl.value));
        }
        line(&mut text, format_args!("ip -n {name} link set lo up"));
    }
    if !plan.veths.is_empty() {
        section(&mut text, "cables: the end nearer to the fabric first");
    }
    for veth in &plan.veths {
        let (here, there) = (&veth.here, &veth.there);
        let (near, far) = (names.of(&here.place), names.of(&there.place));
        line(
            &mut text,
            format_args!(
                "ip -n {near} link add {} address {} type veth peer name {} address {} netns {far}",
                here.name, here.mac, there.name, there.mac
            ),
        );
        line(&mut text, format_args!("ip -n {near} link set {} up", here.name));
        line(&mut text, format_args!("ip -n {far} link set {} up", there.name));
    }
    for namespace in &plan.namespaces {
        configure(&mut text, namespace, &names.of(&namespace.place));
    }
    text
}

/// The commands that take it all away again: links and routes go with their namespaces.
pub fn undo(plan: &Plan, prefix: &str) -> String {
    let names = Names { plan, prefix };
    let mut text = String::new();
    for namespace in plan.namespaces.iter().rev() {
        line(&mut text, format_args!("ip netns del {}", names.of(&namespace.place)));
    }
    text
}

/// What [`script`] calls the namespace of a place.
pub fn namespace_name(plan: &Plan, prefix: &str, place: &Place) -> Option<String> {
    let home = plan.home(place);
    plan.namespaces.iter().any(|namespace| namespace.place == *home).then(|| Names { plan, prefix }.of(home))
}

struct Names<'a> {
    plan: &'a Plan,
    prefix: &'a str,
}

impl Names<'_> {
    fn of(&self, place: &Place) -> String {
        let name = self
            .plan
            .namespaces
            .iter()
            .find(|namespace| namespace.place == *place)
            .map_or("", |namespace| namespace.name.as_str());
        format!("{}{name}", self.prefix)
    }
}

fn configure(text: &mut String, namespace: &NamespacePlan, name: &str) {
    let count = namespace.addresses.len() + namespace.neighbours.len() + namespace.routes.len();
    if count > 0 {
        section(text, &format!("{name}: addresses, neighbours, routes"));
    }
    for address in &namespace.addresses {
        let extra = match (address.address.addr(), address.scope) {
            (IpAddr::V6(_), _) => " nodad",
            (IpAddr::V4(_), Scope::Link) => " scope link",
            (IpAddr::V4(_), Scope::Global) => "",
        };
        line(
            text,
            format_args!("ip -n {name} addr add {} dev {}{extra}", address.address, address.interface),
        );
    }
    for neighbour in &namespace.neighbours {
        line(
            text,
            format_args!(
                "ip -n {name} neigh replace {} lladdr {} dev {} nud permanent",
                neighbour.address, neighbour.mac, neighbour.interface
            ),
        );
    }
    for route in &namespace.routes {
        let family = if route.destination.addr().is_ipv6() { " -6" } else { "" };
        let mut words = format!("ip -n {name}{family} route add {}", route.destination);
        if let Some(via) = route.via {
            let _ = write!(words, " via {via}");
        }
        let _ = write!(words, " dev {}", route.interface);
        if route.via.is_some() {
            words.push_str(" onlink");
        }
        if let Some(source) = route.source {
            let _ = write!(words, " src {source}");
        }
        line(text, format_args!("{words}"));
    }
}

fn section(text: &mut String, title: &str) {
    let gap = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{gap}# {title}");
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{words}");
}
