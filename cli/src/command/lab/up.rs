//! `netlab lab up`: the cluster as namespaces, with the policies enforced.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::Command;

use netlab_core::envelope::Envelope;
use netlab_core::model::cluster::Cluster;
use netlab_lab::named::{Spec, up};
use netlab_lab::proxy::ProxyMode;
use netlab_lab::{LabError, Place, Plan, Selection};
use netlab_node::capability::missing_capabilities;
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::lab::{ProxyArg, Up};
use crate::command::lab::{connect, failure, run_dir};
use crate::ends::nearest;
use crate::enforcement::{InForce, Order, Policies, operation};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lab::Manifests;
use crate::lab::names::{self, Naming};
use crate::load;
use crate::output::layout::counted;
use crate::output::style::{STRONG, paint};
use crate::output::table::Table;
use crate::output::terminal::Terminal;

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    name: String,
    pid: u32,
    /// `nftables` or `iptables`, where the nodes have rules for Services.
    proxy: Option<String>,
    /// Where names are resolved, if the lab has DNS.
    dns: Option<DnsLine>,
    pods: Vec<PodLine>,
    /// Services that no proxy serves, for want of a cluster IP in the manifests.
    unserved: Vec<String>,
    enforced: InForce,
}

/// The lab's DNS.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DnsLine {
    /// The Service.
    service: String,
    /// Its addresses, which pods have as nameservers.
    addresses: Vec<IpAddr>,
    /// The pods whose servers stand behind it.
    servers: Vec<String>,
    /// The servers of the world outside.
    above: Vec<IpAddr>,
}

impl From<&Naming> for DnsLine {
    fn from(naming: &Naming) -> Self {
        let servers = naming.servers.iter().filter_map(|server| match &server.place {
            Place::Pod(key) => Some(key.to_string()),
            Place::Node(_) | Place::Fabric => None,
        });
        Self {
            service: naming.service().to_string(),
            addresses: naming.cluster_dns.clone(),
            servers: servers.collect(),
            above: naming.above.clone(),
        }
    }
}

/// A pod of the lab.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodLine {
    node: String,
    pod: String,
    addresses: Vec<String>,
}

/// Builds.
pub(crate) fn run(args: &Up, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let run_dir = run_dir();
    let lay_out = |cluster: &Cluster, external: &[IpAddr]| {
        let selection = external
            .iter()
            .fold(select(cluster, &args.node)?, |selection, address| selection.and_external(*address));
        Plan::new(cluster, &selection).map_err(|error| failure(&LabError::from(error), &run_dir))
    };
    let mut plan = lay_out(&input.loaded.cluster, &[])?;
    let mut manifests = Manifests { documents: load::documents(&input.loaded), ..Manifests::default() };
    let naming = if args.dns {
        let cannot = |reason| Failure::unreadable("the lab cannot have DNS").caused_by(reason);
        let mut naming = names::complete(&mut manifests, &plan).map_err(cannot)?;
        let cluster = manifests.load().map_err(cannot)?.cluster;
        plan = lay_out(&cluster, &naming.outside())?;
        naming.servers = names::servers(&naming, &cluster, &plan);
        Some(naming)
    } else {
        None
    };
    let incomplete = !input.not_examined.is_empty();
    let exit = if incomplete { Exit::CannotTell } else { Exit::Yes };
    if args.print {
        terminal.text(&netlab_lab::print::script(&plan, &format!("{}-", args.name)))?;
        return Ok(exit);
    }
    let missing = missing_capabilities();
    if !missing.is_empty() {
        return Err(Failure::not_allowed("a lab with an enforcer needs root")
            .caused_by(format!("{} missing", missing.join(", ")))
            .hint("run it as root, or see `netlab check`; `--print` works without"));
    }
    let proxy = args.proxy.or(args.dns.then_some(ProxyArg::Nftables)).map(ProxyMode::from);
    // With DNS every Service got an address.
    let mut unserved: Vec<String> = Vec::new();
    if proxy.is_some() && naming.is_none() {
        let services = input.loaded.cluster.services.iter();
        let waiting = services.filter(|(_, service)| service.awaits_cluster_ip());
        unserved.extend(waiting.map(|(key, _)| key.to_string()));
    }
    let dns = naming.as_ref().map(DnsLine::from);
    let order = Order {
        policies: Policies { documents: manifests.documents },
        open: args.open,
        proxy,
        name: args.name.clone(),
        run_dir: run_dir.clone(),
        added: manifests.with,
        naming,
    };
    let payload = serde_json::to_value(order)
        .map_err(|error| Failure::new(Exit::CannotTell, "cannot write the order").because(&error))?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::not_allowed("cannot find this program again").because(&error))?;
    let mut supervisor = Command::new(program);
    supervisor.arg("supervise-lab");
    let spec = Spec { name: args.name.clone(), run_dir, plan, rootless: false, payload };
    let state = up(&spec, supervisor).map_err(|error| failure(&error, &spec.run_dir))?;
    let mut client = connect(&args.name)?;
    let status = client
        .ask(operation::STATUS, serde_json::Value::Null)
        .map_err(|error| failure(&error, &spec.run_dir))?;
    let enforced = serde_json::from_value(status)
        .map_err(|error| Failure::new(Exit::CannotTell, "the lab's answer is unreadable").because(&error))?;
    let proxy = proxy.map(|mode| mode.to_string());
    let answer =
        Answer { name: state.name, pid: state.pid, proxy, dns, pods: pods(&spec.plan), unserved, enforced };
    terminal.answer(&Envelope::new("Lab", &answer, input.not_examined), |_| render(&answer))?;
    if !answer.unserved.is_empty() {
        terminal.remark(&format!(
            "no proxy serves {}, which the manifests give no cluster IP: write one, or have `--dns` give them some",
            answer.unserved.join(", ")
        ));
    }
    Ok(exit)
}

/// The named nodes with their pods, or everything.
fn select(cluster: &Cluster, nodes: &[String]) -> Result<Selection, Failure> {
    if nodes.is_empty() {
        return Ok(Selection::everything());
    }
    for node in nodes {
        if !cluster.nodes.contains_key(node) {
            let failure = Failure::unreadable(format!("`--node {node}`: there is no such node in the input"));
            return Err(match nearest(node, cluster.nodes.keys().map(String::as_str)) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure,
            });
        }
    }
    let nodes: BTreeSet<String> = nodes.iter().cloned().collect();
    let pods = cluster
        .pods
        .iter()
        .filter(|(_, pod)| pod.node.as_ref().is_some_and(|node| nodes.contains(node)))
        .filter(|(_, pod)| pod.is_policed() || (pod.host_network && !pod.terminal))
        .map(|(key, _)| key.clone());
    let mut selection = Selection::pods(pods);
    selection.nodes = Some(nodes);
    Ok(selection)
}

fn pods(plan: &Plan) -> Vec<PodLine> {
    let places = plan.places();
    let pods = places.keys().filter_map(|place| match place {
        Place::Pod(key) => Some((*place, key)),
        Place::Node(_) | Place::Fabric => None,
    });
    let mut lines: Vec<PodLine> = pods
        .map(|(place, key)| PodLine {
            node: plan.node_of(place).unwrap_or_default().to_owned(),
            pod: key.to_string(),
            addresses: plan.addresses_of(place).iter().map(ToString::to_string).collect(),
        })
        .collect();
    lines.sort_by(|a, b| (&a.node, &a.pod).cmp(&(&b.node, &b.pod)));
    lines
}

fn render(answer: &Answer) -> String {
    let nodes: BTreeSet<&str> = answer.pods.iter().map(|line| line.node.as_str()).collect();
    let claimed = answer.enforced.nodes.iter().flat_map(|node| &node.pods).filter(|pod| pod.claimed).count();
    let enforced = if answer.enforced.generation == 0 {
        "nothing is enforced".to_owned()
    } else {
        format!("policies enforced on {claimed}")
    };
    let proxy = answer.proxy.as_ref().map(|mode| format!(", Services by {mode}")).unwrap_or_default();
    let dns = answer.dns.as_ref().map(|dns| {
        let addresses: Vec<String> = dns.addresses.iter().map(ToString::to_string).collect();
        format!(", names by {} {}", dns.service, addresses.join(" "))
    });
    let dns = dns.unwrap_or_default();
    let head = format!(
        "{}: {}, {}, {enforced}{proxy}{dns}",
        answer.name,
        counted(nodes.len(), "node"),
        counted(answer.pods.len(), "pod")
    );
    let mut text = format!("{}  {head}\n\n", paint(STRONG, "UP"));
    let mut table = Table::new(["NODE", "POD", "ADDRESSES"]);
    for line in &answer.pods {
        table.row([line.node.clone(), line.pod.clone(), line.addresses.join(", ")]);
    }
    text += &table.finish();
    text
}
