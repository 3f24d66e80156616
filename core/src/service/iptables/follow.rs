//! Following a packet through the rules of iptables mode.
//!
//! Invariant: [`follow`] does what the kernel does with the first packet of a connection, share by share: a rule with
//! a probability takes its part of what came so far, a chain that ends gives back what it did not decide. A rule with
//! a word that is not understood matches nothing and is told about.

use std::cell::{Cell, OnceCell, RefCell};

use super::dump::{Dump, Rule};
use super::{beyond, foreign, masquerade};
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::fault::Place;
use crate::service::follow::{Client, DEEPEST, Followed, Hop};
use crate::service::passage::{
    Fate, Flow, Match, Outcomes, Packet, arrive, before_translation, goes_on, told, unsure,
};

/// Follows packets of a client to an address of a port.
#[must_use]
pub fn follow(dump: &Dump, to: FrontendKey, client: Client, port: &ExpectedPort) -> Followed {
    let way = Way { dump, to, client };
    way.arrived(way.entered(|| way.translated()), port)
}

/// Follows packets of pods, and of the node itself, to a cluster IP: the same chains translate both.
#[must_use]
pub fn follow_inside(dump: &Dump, to: FrontendKey, port: &ExpectedPort) -> (Followed, Followed) {
    let pods = Way { dump, to, client: Client::Pod };
    let node = Way { client: Client::Node, ..pods };
    let same = jump(dump, "nat", pods.hook(), SERVICES).is_some()
        && jump(dump, "nat", node.hook(), SERVICES).is_some();
    // The list of all Services is long: it is walked once.
    let walked = OnceCell::new();
    let walk = || walked.get_or_init(|| pods.translated()).clone();
    let of_node =
        || if same { Entered { marked: node.is_marked(&walk()), ..walk() } } else { node.translated() };
    (pods.arrived(pods.entered(walk), port), node.arrived(node.entered(of_node), port))
}

const SERVICES: &str = "KUBE-SERVICES";

/// What the chains before and at translation did.
#[derive(Clone)]
struct Entered {
    followed: Followed,
    /// The share that nothing translated.
    left: f64,
    /// Whether packets are marked for masquerading.
    marked: bool,
    /// Whether somebody else may have marked them, too.
    others: bool,
}

/// Packets of one client to one address.
#[derive(Clone, Copy)]
struct Way<'a> {
    dump: &'a Dump,
    to: FrontendKey,
    client: Client,
}

impl Way<'_> {
    const fn hook(self) -> &'static str {
        if matches!(self.client, Client::Node) { "OUTPUT" } else { "PREROUTING" }
    }

    /// What rules of others do before the proxy's are asked, then those.
    fn entered(self, translate: impl FnOnce() -> Entered) -> Entered {
        let Self { dump, to, client } = self;
        let mut followed = Followed::default();
        let mut doubts = foreign::Doubts::default();
        let found = foreign::first(dump, (self.hook(), client), to, &mut doubts);
        followed.unread = doubts.unread;
        followed.unsure = doubts.unsure;
        if let Some(found) = found {
            followed.hops.push(Hop { place: found.place(), to: found.target(), choice: None, depth: 0 });
            let mut left = 0.0;
            let destinations = found.destinations();
            #[expect(clippy::cast_precision_loss, reason = "far fewer addresses than 2^52")]
            let share = 1.0 / destinations.len() as f64;
            match (found.redirected_to(), found.leaves_untranslated()) {
                _ if !destinations.is_empty() => {
                    followed.shares.to.extend(destinations.into_iter().map(|to| (to, share)));
                }
                (_, true) => left = 1.0,
                (Some(port), _) if !self.is_dropped_at_node(port) => followed.shares.refused = 1.0,
                _ => followed.shares.silent = 1.0,
            }
            return Entered { followed, left, marked: false, others: true };
        }
        let mut packet = self.packet();
        let before = beyond::before(dump, &mut packet);
        if !before_translation(&mut followed, before, &packet) {
            return Entered { followed, left: 0.0, marked: false, others: true };
        }
        let Entered { followed: mut translated, left, marked, .. } = translate();
        translated.unread.extend(followed.unread);
        translated.unsure.extend(followed.unsure);
        Entered { followed: translated, left, marked, others: packet.mark != Some(0) }
    }

    /// What the proxy's chains do.
    fn translated(self) -> Entered {
        let mut followed = Followed::default();
        let walk = Walk {
            dump: self.dump,
            to: self.to,
            client: self.client,
            marked: Cell::new(false),
            path: RefCell::default(),
        };
        let left = match jump(self.dump, "nat", self.hook(), SERVICES) {
            Some(position) => {
                followed.rules += count(position);
                let mut accepted = 0.0;
                let back = walk.chain("nat", SERVICES, 1.0, 0, (&mut accepted, &mut followed));
                back + accepted
            }
            None => 1.0,
        };
        Entered { followed, left, marked: walk.marked.get(), others: false }
    }

    /// Whether the chain that pods' packets went to marks those of others.
    fn is_marked(self, pods: &Entered) -> bool {
        let mut rules =
            pods.followed.hops.first().into_iter().flat_map(|hop| self.dump.rules("nat", &hop.to));
        rules.any(|rule| rule.target.as_deref() == Some("KUBE-MARK-MASQ"))
    }

    /// As it comes, before it is translated.
    fn packet(self) -> Packet {
        Packet {
            client: self.client,
            to: self.to.address,
            port: self.to.port,
            protocol: self.to.protocol,
            to_node: self.to.address.is_none(),
            translated: false,
            mark: Some(0),
            pods: None,
            flow: Flow::First,
        }
    }

    /// Whether what comes to a port of the node itself is dropped, and not refused where nobody listens.
    fn is_dropped_at_node(self, port: u16) -> bool {
        let packet = Packet { to: None, to_node: true, port, ..self.packet() };
        beyond::is_dropped_at_input(self.dump, packet)
    }

    /// What the chains after translation do.
    fn arrived(self, entered: Entered, port: &ExpectedPort) -> Followed {
        let Entered { mut followed, left, marked, others } = entered;
        let mark = if marked { masquerade::marked(self.dump, &self.packet()) } else { 0 };
        let mut keep_source = std::collections::BTreeSet::new();
        let (mut perhaps, mut strange) = (Vec::new(), Vec::new());
        arrive(&mut followed, |endpoint| {
            let mut packet = Packet {
                to: Some(endpoint.ip()),
                port: endpoint.port(),
                to_node: port.on_host.contains(&endpoint),
                translated: true,
                mark: (!others).then_some(mark),
                ..self.packet()
            };
            let (outcomes, remarks) = beyond::after(self.dump, &mut packet);
            // What the node's own endpoints answer comes by here, whomever they answer.
            let elsewhere = !packet.to_node && !port.on_node.contains(&endpoint);
            if self.client == Client::Outside && elsewhere && !others {
                let leaving = masquerade::is_masqueraded(self.dump, (mark, &packet), &remarks);
                match leaving.is {
                    Match::No => {
                        keep_source.insert(endpoint);
                        strange.extend(leaving.strange());
                    }
                    Match::Perhaps => perhaps.push(leaving.unsure(format!("from outside to {endpoint}"))),
                    Match::Yes => {}
                }
            }
            goes_on(packet, outcomes, (!others).then_some(0), |packet| {
                let mut outcomes = Outcomes::undecided();
                if packet.flow == Flow::Later {
                    // Later packets, too, are addressed to the Service until they are translated.
                    let mut coming =
                        Packet { translated: true, flow: packet.flow, mark: packet.mark, ..self.packet() };
                    outcomes = beyond::before(self.dump, &mut coming);
                }
                if outcomes.passes() {
                    outcomes.then(beyond::after(self.dump, packet).0);
                }
                outcomes
            })
        });
        followed.keep_source = keep_source;
        followed.unsure.extend(perhaps);
        followed.strange.extend(strange);
        if left > 0.0 {
            self.ended(left, &mut followed);
        }
        followed
    }

    /// What is not translated meets the ends of Services without endpoints, and else goes to an address that nobody has.
    fn ended(self, left: f64, followed: &mut Followed) {
        let mut packet = self.packet();
        let (refused, dropped) = match beyond::untranslated(self.dump, &mut packet) {
            None => ends(self.dump, self.to, self.client),
            Some(outcomes) => match outcomes.fate() {
                Fate::Passes => (false, false),
                Fate::Refused => (true, false),
                Fate::Dropped => {
                    // Else nobody would be answered without it.
                    if ends(self.dump, self.to, self.client).0 {
                        told(&mut followed.strange, outcomes, &packet, "dropped");
                    }
                    (false, true)
                }
                Fate::Unsure => {
                    unsure(&mut followed.unsure, &outcomes, &packet);
                    ends(self.dump, self.to, self.client)
                }
            },
        };
        // A node port is at the node itself, where nobody listens.
        let no_listener = self.to.address.is_none() && !self.is_dropped_at_node(self.to.port);
        if !dropped && (refused || no_listener) {
            followed.shares.refused += left;
        } else {
            followed.shares.silent += left;
        }
    }
}

/// The position of a jump in its chain; one that only some packets take is none.
fn jump(dump: &Dump, table: &str, from: &str, to: &str) -> Option<usize> {
    let mut rules = dump.rules(table, from).iter();
    rules.find(|rule| rule.target.as_deref() == Some(to) && rule.is_for_all(true)).map(|rule| rule.position)
}

/// Whether a chain marks a client's packets for masquerading.
pub(super) fn marks(dump: &Dump, to: FrontendKey, client: Client, chain: &str) -> bool {
    let walk = Walk { dump, to, client, marked: Cell::new(false), path: RefCell::default() };
    walk.chain("nat", chain, 1.0, 0, (&mut 0.0, &mut Followed::default()));
    walk.marked.get()
}

/// Whether the filter table refuses, or drops, what is still addressed to the Service.
fn ends(dump: &Dump, to: FrontendKey, client: Client) -> (bool, bool) {
    let walk = Walk { dump, to, client, marked: Cell::new(false), path: RefCell::default() };
    let chains: &[&str] = match client {
        Client::Pod | Client::Node => &["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"],
        Client::Outside => &["KUBE-EXTERNAL-SERVICES", "KUBE-SERVICES"],
    };
    let mut seen = Followed::default();
    for chain in chains {
        for rule in dump.rules("filter", chain) {
            if walk.matches(rule, ("filter", chain), &mut seen) {
                match rule.target.as_deref() {
                    Some("REJECT") => return (true, false),
                    Some("DROP") => return (false, true),
                    _ => {}
                }
            }
        }
    }
    (false, false)
}

struct Walk<'a> {
    dump: &'a Dump,
    to: FrontendKey,
    client: Client,
    /// Whether packets were marked for masquerading on the way.
    marked: Cell<bool>,
    /// The chains that it is in, but for the last.
    path: RefCell<Vec<String>>,
}

impl Walk<'_> {
    /// Walks a chain with a share of the packets; the answer is what it gives back. What a rule accepts is not
    /// translated any more, whatever comes after.
    fn chain(
        &self,
        table: &str,
        name: &str,
        share: f64,
        depth: usize,
        (accepted, followed): (&mut f64, &mut Followed),
    ) -> f64 {
        let mut left = share;
        let mut returned = 0.0;
        if depth > DEEPEST {
            followed.unread.push(Place::within(table, name));
            return left;
        }
        let rules = self.dump.rules(table, name);
        // The list of all Services is long, and has none.
        let may_choose = name != "KUBE-SERVICES";
        let choices = if may_choose { rules.iter().filter(|rule| is_choice(rule)).count() } else { 0 };
        let mut chosen = 0;
        for rule in rules {
            if left <= 0.0 {
                break;
            }
            followed.rules += left;
            // One without a target only counts, whatever it asks for.
            let Some(target) = rule.target.as_deref().filter(|_| !self.is_to_another(rule)) else { continue };
            let choice = is_choice(rule).then(|| {
                chosen += 1;
                (chosen, choices)
            });
            if !self.matches(rule, (table, name), followed) {
                continue;
            }
            let taken = left * rule.probability.unwrap_or(1.0);
            let hop = |to: String| Hop {
                place: place(table, name, rule),
                to,
                choice: choice.filter(|(_, all)| *all > 1),
                depth,
            };
            match target {
                "DNAT" => {
                    if let Some(to) = rule.to_destination {
                        *followed.shares.to.entry(to).or_default() += taken;
                        followed.hops.push(hop(format!("DNAT {to}")));
                        if !name.starts_with("KUBE-SEP-") {
                            followed.strange.push((place(table, name, rule), format!("DNAT {to}")));
                        }
                        left -= taken;
                    }
                }
                // In these chains the proxy writes none of them.
                "DROP" | "REJECT" | "RETURN" | "ACCEPT" => {
                    match target {
                        "DROP" => followed.shares.silent += taken,
                        "REJECT" => followed.shares.refused += taken,
                        "RETURN" => returned += taken,
                        _ => *accepted += taken,
                    }
                    followed.hops.push(hop(target.to_owned()));
                    followed.strange.push((place(table, name, rule), target.to_owned()));
                    left -= taken;
                }
                chain if chain == name || self.path.borrow().iter().any(|entered| entered == chain) => {
                    let what = format!(
                        "{chain}: it leads back to a chain that the packet is in, and no kernel loads that; it was taken to match nothing"
                    );
                    followed.strange.push((place(table, name, rule), what));
                }
                chain if self.dump.chain(table, chain).is_some() => {
                    if chain == "KUBE-MARK-MASQ" {
                        self.marked.set(true);
                    }
                    if chain != "KUBE-MARK-MASQ" && chain != "KUBE-NODEPORTS" {
                        followed.hops.push(hop(chain.to_owned()));
                    }
                    self.path.borrow_mut().push(name.to_owned());
                    let back = self.chain(table, chain, taken, depth + 1, (&mut *accepted, &mut *followed));
                    self.path.borrow_mut().pop();
                    left = left - taken + back;
                }
                "MARK" | "CONNMARK" | "LOG" | "NFLOG" | "TRACE" => {}
                // A chain of the proxy's that is not there is compared elsewhere.
                chain if chain.starts_with("KUBE-") => {}
                _ => followed.unread.push(place(table, name, rule)),
            }
        }
        left.max(0.0) + returned
    }

    /// The cheapest question first: most rules of the list of all Services are about another one.
    fn is_to_another(&self, rule: &Rule) -> bool {
        match (&rule.destination, self.to.address) {
            (Some(net), Some(address)) => net.value.contains(&address) == net.negated,
            _ => false,
        }
    }

    fn matches(&self, rule: &Rule, (table, chain): (&str, &str), followed: &mut Followed) -> bool {
        let about = rule.protocol.is_none_or(|protocol| protocol == self.to.protocol)
            // After the port of the frontend was matched no rule names another; endpoints' rules have none.
            && rule.destination_port.is_none_or(|port| port == self.to.port)
            && match (&rule.destination, self.to.address) {
                (None, _) => true,
                (Some(net), Some(address)) => net.value.contains(&address) != net.negated,
                // Some address of the node: none that is named, any but those that are excluded.
                // With `--nodeport-addresses` a rule names each that has node ports.
                (Some(net), None) => {
                    net.negated
                        || rule.target.as_deref() == Some("KUBE-NODEPORTS")
                            && net.value.prefix_len() == net.value.max_prefix_len()
                }
            }
            && (!rule.to_node || self.to.address.is_none())
            && (!rule.from_node || self.client == Client::Node)
            && rule.takes_new()
            // Who was there before is no first packet.
            && rule.recent.as_ref().is_none_or(|recent| recent.set);
        let interface = by_interface(rule).filter(|_| asks_for_pods_there(rule, chain));
        let how = rule.other.first().is_some_and(|word| word == "--reject-with") && rule.other.len() == 2;
        let is_known = rule.other.is_empty() || interface.is_some() || how;
        if about && (!is_known || rule.mark.is_some() || !is_source_of_proxy(rule, chain)) {
            followed.unread.push(place(table, chain, rule));
            return false;
        }
        let host = |prefix: u8, all: u8| prefix == all;
        let from = match &rule.source {
            None => true,
            Some(_) if chain.starts_with("KUBE-FW-") => true,
            // One host is an endpoint that asks itself.
            Some(net) if host(net.value.prefix_len(), net.value.max_prefix_len()) => net.negated,
            // Else a net is the pods'.
            Some(net) => (self.client == Client::Pod) != net.negated,
        };
        let by = interface.is_none_or(|(_, negated)| (self.client == Client::Pod) != negated);
        about && from && by
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer rules than 2^52")]
fn count(position: usize) -> f64 {
    position as f64
}

/// Whether a rule asks for the source only where a proxy does: to mark, and to let in.
fn is_source_of_proxy(rule: &Rule, chain: &str) -> bool {
    let target = rule.target.as_deref().unwrap_or_default();
    rule.source.is_none()
        || target == "KUBE-MARK-MASQ"
        || chain.starts_with("KUBE-EXT-") && target.starts_with("KUBE-SVC-")
        || chain.starts_with("KUBE-FW-") && target.starts_with("KUBE-EXT-")
}

/// Whether a proxy asks for pods where a rule is, by whatever it was told to know them by.
fn asks_for_pods_there(rule: &Rule, chain: &str) -> bool {
    let target = rule.target.as_deref().unwrap_or_default();
    match chain.get(..9) {
        Some("KUBE-SVC-" | "KUBE-SVL-") => target == "KUBE-MARK-MASQ",
        Some("KUBE-EXT-") => target.starts_with("KUBE-SVC-"),
        _ => false,
    }
}

/// A rule that sends a share of the packets to an endpoint's chain.
pub(super) fn is_choice(rule: &Rule) -> bool {
    rule.target.as_deref().is_some_and(|target| target.starts_with("KUBE-SEP-")) && rule.recent.is_none()
}

/// Where a rule is.
pub(super) fn place(table: &str, chain: &str, rule: &Rule) -> Place {
    Place {
        table: table.to_owned(),
        chain: chain.to_owned(),
        position: Some(rule.position),
        handle: None,
        line: Some(rule.line),
    }
}

/// The interface, or the start of its name, by which a rule asks for pods, and whether for all others
/// (`--detect-local-mode` `BridgeInterface` and `InterfaceNamePrefix`).
pub(super) fn by_interface(rule: &Rule) -> Option<(&str, bool)> {
    match rule.other.as_slice() {
        [option, name] if option == "-i" => Some((name, false)),
        [not, option, name] if not == "!" && option == "-i" => Some((name, true)),
        _ => None,
    }
}
