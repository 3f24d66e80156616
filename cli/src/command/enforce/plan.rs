//! `netlab enforce plan`: what would be programmed, and where.

use std::collections::BTreeMap;

use netlab_core::envelope::Envelope;
use netlab_core::model::cluster::{Labels, ObjectKey};
use netlab_core::policy::change::Change;
use netlab_core::policy::frontends::Site;
use netlab_core::policy::image::Image;
use netlab_core::policy::{Numbers, Rulesets, Scope};
use netlab_ebpf::abi::Direction;
use netlab_enforcer::maps::pod::bytes_of;
use netlab_lab::{LabError, Place, Plan, Selection};
use serde::Serialize;

use super::twin;
use crate::args::globals::{Format, Globals};
use crate::command::lab::{failure, run_dir};
use crate::enforcement::hex;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::layout::counted;
use crate::output::style::{STRONG, paint};
use crate::output::table::Table;
use crate::output::terminal::Terminal;
use crate::question::compile_on;

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    nodes: Vec<NodePlan>,
}

/// What a node's maps would hold.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePlan {
    node: String,
    /// Rows by map.
    rows: BTreeMap<&'static str, usize>,
    change: Change,
    /// The policy map's rows as bytes.
    policy: Vec<Row>,
    /// What was compiled.
    #[serde(skip)]
    rulesets: Rulesets,
}

/// A row as bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    key_hex: String,
    value_hex: String,
}

/// Compiles for each node and prints.
pub(crate) fn run(globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let cluster = &input.loaded.cluster;
    let plan = Plan::new(cluster, &Selection::everything())
        .map_err(|error| failure(&LabError::from(error), &run_dir()))?;
    let mut interfaces: BTreeMap<String, BTreeMap<ObjectKey, String>> = BTreeMap::new();
    for veth in &plan.veths {
        if let (Place::Node(node), Place::Pod(pod)) = (&veth.here.place, &veth.there.place) {
            interfaces.entry(node.clone()).or_default().insert(pod.clone(), veth.here.name.clone());
        }
    }
    let no_labels = Labels::new();
    let shown = |key: &ObjectKey| {
        globals.shows(&key.namespace, cluster.pods.get(key).map_or(&no_labels, |pod| &pod.labels))
    };
    let mut numbers = Numbers::default();
    let mut nodes = Vec::new();
    for (node, pods) in interfaces {
        // As an enforcer on that node would: only the classes that its own pods' policies tell apart.
        let scope = Scope::Pods(pods.keys().cloned().collect());
        let rulesets = compile_on(&input.loaded, &scope, &numbers)?.rulesets;
        numbers = rulesets.numbers.clone();
        let addresses = plan.own_addresses(&Place::Node(node.clone()));
        let wires = plan.wires(&node);
        let site = Site { cluster, node: &node, addresses: &addresses, wires: &wires };
        nodes.extend(node_plan(site, rulesets, |key| pods.get(key).filter(|_| shown(key)).cloned())?);
    }
    let answer = Answer { nodes };
    let incomplete = !input.not_examined.is_empty();
    terminal.answer(&Envelope::new("EnforcePlan", &answer, input.not_examined), |terminal| {
        render(&answer, terminal.format == Format::Wide)
    })?;
    Ok(if incomplete { Exit::CannotTell } else { Exit::Yes })
}

fn node_plan(
    site: Site<'_>,
    rulesets: Rulesets,
    interface: impl Fn(&ObjectKey) -> Option<String>,
) -> Result<Option<NodePlan>, Failure> {
    let change = rulesets.change(1, interface);
    if change.pods.is_empty() {
        return Ok(None);
    }
    let (node, change) = (site.node.to_owned(), change.serving(site));
    let image = Image::from_change(&change).map_err(|error| {
        Failure::unreadable("the policies make tables that cannot be used").because(&error)
    })?;
    let policy = image
        .policy
        .iter()
        .map(|(key, value)| Row { key_hex: hex(bytes_of(key)), value_hex: hex(bytes_of(value)) })
        .collect();
    let rows = BTreeMap::from([
        ("CIDRS", image.cidrs.len()),
        ("DEVICES", change.pods.len()),
        ("PEERS", image.peers.len()),
        ("POLICY", image.policy.len()),
        ("PORT_CLASSES", image.port_classes.len()),
        ("PORT_PAGES", image.port_pages.len()),
        ("RULESETS", image.ruleset_ports.len()),
        ("SERVICES", image.services.len()),
    ]);
    Ok(Some(NodePlan { node, rows, change, policy, rulesets }))
}

fn render(answer: &Answer, wide: bool) -> String {
    let pods: usize = answer.nodes.iter().map(|node| node.change.pods.len()).sum();
    let rows: usize = answer.nodes.iter().filter_map(|node| node.rows.get("POLICY")).sum();
    let head = format!(
        "{} on {}, {}",
        counted(pods, "pod"),
        counted(answer.nodes.len(), "node"),
        counted(rows, "policy-map row")
    );
    let mut text = format!("{}  {head}\n\n", paint(STRONG, "PLAN"));
    let mut table = Table::new(["NODE", "POD", "INTERFACE", "RULESET", "INGRESS", "EGRESS"]);
    for node in &answer.nodes {
        for pod in &node.change.pods {
            let posture =
                |direction| node.rulesets.posture(pod.ruleset, direction).unwrap_or_default().to_string();
            table.row([
                node.node.clone(),
                format!("{}/{}", pod.namespace, pod.name),
                pod.interface.clone(),
                pod.ruleset.to_string(),
                posture(Direction::Ingress),
                posture(Direction::Egress),
            ]);
        }
    }
    text += &table.finish();
    text.push('\n');
    let mut table = Table::new(["NODE", "MAP", "ROWS"]);
    for node in &answer.nodes {
        for (map, rows) in &node.rows {
            table.row([node.node.clone(), (*map).to_owned(), rows.to_string()]);
        }
    }
    text += &table.finish();
    for node in &answer.nodes {
        text += &format!("\n{}: the same by hand, one line for each row", node.node);
        text += if wide { "\n" } else { " (`-o wide` prints all)\n" };
        let most = if wide { usize::MAX } else { 1 };
        for Row { key_hex, value_hex } in node.policy.iter().take(most) {
            text += &twin(&format!("bpftool map update name POLICY key hex {key_hex} value hex {value_hex}"));
        }
    }
    text
}
