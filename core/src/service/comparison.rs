//! The answer of `netlab service trace --compare`: one Service in the rules of three kinds of proxies, side by side.
//!
//! Invariant: what was read and what is only predicted is never mixed: a column without a source is the rules that
//! follow from the model. Costs are counted in the rules themselves, on the way of a pod's first packet to the cluster
//! IP, as an average over the endpoints.

use serde::Serialize;

use super::expected::ExpectedPort;
use super::iptables::ProxyOptions;
use super::nftables::Layout;
use super::trace::{PortTrace, Rules, SharedFault, trace};
use super::{RouteKind, cilium, iptables, nftables};
use crate::model::service::AddressType;

/// Rules that were read, and where.
#[derive(Clone, Debug)]
pub struct Given {
    /// The rules.
    pub rules: Rules,
    /// A file or a namespace.
    pub source: String,
    /// What decides about the same packets there and is not followed, in words.
    pub beside: Vec<String>,
}

/// One Service in the rules of several proxies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The node whose proxies are compared.
    pub node: String,
    /// What had to be assumed, in words.
    pub assumed: Vec<String>,
    /// By kind of proxy and family.
    pub columns: Vec<Column>,
    /// What the rules that were read do not tell, in words.
    #[serde(skip)]
    pub not_examined: Vec<String>,
}

/// One kind of proxy in one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// iptables, nftables or cilium.
    pub proxy_mode: &'static str,
    /// IPv4 or IPv6.
    pub family: &'static str,
    /// Where the rules are from; null for a prediction.
    pub source: Option<String>,
    /// The version of the rules' shape, where there are several.
    pub layout: Option<&'static str>,
    /// By service port.
    pub ports: Vec<ComparedPort>,
    /// Faults in what all Services share.
    pub shared: Vec<SharedFault>,
}

/// One service port in the rules of one proxy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedPort {
    /// What was found.
    #[serde(flatten)]
    pub trace: PortTrace,
    /// What a first packet costs.
    pub cost: Cost,
}

/// What the first packet of a connection costs, and what that depends on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Rules that it is compared with, on average over the endpoints.
    pub rules: f64,
    /// Maps that it is looked up in.
    pub lookups: f64,
    /// The place of this Service in the list that every first packet walks; null where there is none.
    pub position: Option<usize>,
    /// How many rules that list has; null where there is none.
    pub listed: Option<usize>,
    /// What of the cluster makes `rules` and `lookups` grow: services, endpoints.
    pub grows_with: &'static [&'static str],
    /// Rules of the node's proxy in all.
    pub total_rules: usize,
    /// Elements and rows of its maps in all.
    pub total_entries: usize,
}

/// Ports of one family: those that are asked for, and all of the node.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'a> {
    /// The family.
    pub family: AddressType,
    /// Asked for.
    pub asked: &'a [ExpectedPort],
    /// All: what a prediction is made of.
    pub all: &'a [ExpectedPort],
    /// What rules depend on beside Services.
    pub options: &'a ProxyOptions,
}

/// Compares what was given with the model, and fills up with predictions.
#[must_use]
pub fn compare(given: &[Given], families: &[Ports<'_>], node: &str) -> Comparison {
    let mut columns = Vec::new();
    let mut not_examined = Vec::new();
    for mode in ["iptables", "nftables", "cilium"] {
        for ports in families {
            let of = |one: &&Given| one.rules.mode() == mode && one.rules.family() == ports.family;
            let column = match given.iter().find(of) {
                Some(given) => {
                    let (column, unknown) = column(&given.rules, Some(&given.source), ports, node);
                    not_examined.extend(unknown);
                    not_examined.extend(given.beside.iter().cloned());
                    column
                }
                None => match predict(mode, ports) {
                    Some(rules) => column(&rules, None, ports, node).0,
                    None => continue,
                },
            };
            columns.push(column);
        }
    }
    not_examined.sort_unstable();
    not_examined.dedup();
    let mut assumed = vec![
        "endpoints are chosen as kube-proxy does; Cilium follows hints only with loadBalancer.serviceTopology"
            .to_owned(),
    ];
    if columns.iter().any(|column| column.source.is_none()) {
        assumed.push("a predicted column is what the model says, and no node was read for it".to_owned());
    }
    Comparison { node: node.to_owned(), assumed, columns, not_examined }
}

/// The rules of a node that has what the model says; `None` if they cannot be read back, which would be a defect.
fn predict(mode: &str, ports: &Ports<'_>) -> Option<Rules> {
    match mode {
        "iptables" => {
            iptables::dump::parse(&iptables::emit(ports.all, ports.options)).ok().map(Rules::Iptables)
        }
        "nftables" => {
            let listing = nftables::listing(ports.all, ports.family, Layout::Maps, ports.options);
            nftables::dump::read(&listing).ok().map(Rules::Nftables)
        }
        _ => {
            let maps = cilium::emit(ports.all, ports.family);
            let raw = maps.iter().map(|(name, rows)| cilium::dump::read_map(name, &rows.to_string()));
            let raw = raw.collect::<Result<Vec<_>, _>>().ok()?;
            let mut dumps = cilium::dump::assemble(&raw.concat()).ok()?;
            dumps.pop().map(Rules::Cilium)
        }
    }
}

fn column(rules: &Rules, source: Option<&String>, ports: &Ports<'_>, node: &str) -> (Column, Vec<String>) {
    let traced = trace(rules, ports.asked, node);
    let compared = ports.asked.iter().zip(traced.ports);
    let column = Column {
        proxy_mode: traced.proxy_mode,
        family: ports.family.as_str(),
        source: source.cloned(),
        layout: traced.layout,
        ports: compared.map(|(port, trace)| ComparedPort { trace, cost: cost(rules, port) }).collect(),
        shared: traced.shared,
    };
    (column, traced.not_examined)
}

fn cost(rules: &Rules, port: &ExpectedPort) -> Cost {
    let frontend = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp);
    let followed = frontend.and_then(|frontend| rules.read().follow(frontend, port).into_iter().next());
    let followed = followed.map(|(_, followed)| followed).unwrap_or_default();
    let round = |count: f64| (count * 100.0).round() / 100.0;
    let cost = Cost {
        rules: round(followed.rules),
        lookups: round(followed.lookups),
        position: None,
        listed: None,
        grows_with: &[],
        total_rules: 0,
        total_entries: 0,
    };
    match rules {
        Rules::Iptables(dump) => {
            let first = followed.hops.first().filter(|hop| hop.place.chain == "KUBE-SERVICES");
            let chains = dump.tables.values().flat_map(|table| &table.chains);
            let ours = chains.filter(|(name, _)| name.starts_with("KUBE-"));
            Cost {
                position: first.and_then(|hop| hop.place.position),
                listed: Some(dump.rules("nat", "KUBE-SERVICES").len()),
                grows_with: &["services", "endpoints"],
                total_rules: ours.map(|(_, chain)| chain.rules.len()).sum(),
                ..cost
            }
        }
        Rules::Nftables(dump) => Cost {
            total_rules: dump.chains.values().map(Vec::len).sum(),
            total_entries: dump.maps.values().map(std::collections::BTreeMap::len).sum::<usize>()
                + dump.sets.values().map(std::collections::BTreeSet::len).sum::<usize>(),
            // Those of a sticky client are asked for one by one.
            grows_with: if port.affinity.is_some() { &["endpoints"] } else { &[] },
            ..cost
        },
        Rules::Cilium(dump) => Cost {
            total_entries: dump.services.len()
                + dump.backends.as_ref().map_or(0, std::collections::BTreeMap::len)
                + dump.reverse.as_ref().map_or(0, std::collections::BTreeMap::len),
            ..cost
        },
    }
}
