//! `netlab service trace`: a node's own rules, followed and compared.

use std::io::Read as _;
use std::path::Path;

use netlab_core::endpoint_ref::EndpointRef;
use netlab_core::envelope::Envelope;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::trace::{Rules, Status, trace};
use netlab_core::service::{iptables, nftables, unknown_slices};

use super::named;
use crate::args::globals::Globals;
use crate::args::service::Trace;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::service_trace::render;
use crate::output::terminal::Terminal;

/// Answers.
pub(crate) fn run(args: &Trace, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let cluster = &input.loaded.cluster;
    let (name, port) = match args.service.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (args.service.as_str(), None),
    };
    let reference: EndpointRef =
        name.parse().map_err(|error| Failure::unreadable(format!("`{name}`: {error}")))?;
    let key = named::service(&reference, globals, cluster)?;
    let (rules, source) = rules(args)?;
    let (node, ports) = ports(cluster, &key, port, &rules, args.node.as_deref())?;
    let trace = trace(&rules, &ports, &node);
    let mut not_examined = input.not_examined;
    let unknown = cluster.services.get(&key).and_then(|service| unknown_slices(cluster, &key, service));
    not_examined.extend(unknown);
    let incomplete = !not_examined.is_empty();
    terminal.answer(&Envelope::new("ServiceTrace", &trace, not_examined.clone()), |terminal| {
        not_examined.iter().fold(render(&trace, &source, terminal.charset), |text, what| {
            text + &format!("not examined: {what}\n")
        })
    })?;
    let broken = trace.ports.iter().any(|port| port.status == Status::Broken);
    Ok(match (incomplete, broken) {
        (true, _) => Exit::CannotTell,
        (false, true) => Exit::No,
        (false, false) => Exit::Yes,
    })
}

/// The rules that were named, and where they are from.
fn rules(args: &Trace) -> Result<(Rules, String), Failure> {
    let (path, command) = match (&args.iptables_save, &args.nft) {
        (Some(path), _) => (path, "iptables-save"),
        (None, Some(path)) => (path, "nft -j list table ip kube-proxy"),
        (None, None) => return Err(Failure::unreadable("no rules: name `--iptables-save` or `--nft`")),
    };
    let text = read(path)?;
    let refused = |error: &dyn std::error::Error| {
        Failure::unreadable(format!("`{}` is not what `{command}` prints", path.display()))
            .because(error)
            .hint(format!("give the whole text of `{command}`, run as root on the node"))
    };
    let rules = if args.iptables_save.is_some() {
        Rules::Iptables(iptables::dump::parse(&text).map_err(|error| refused(&error))?)
    } else {
        Rules::Nftables(nftables::dump::parse(&text).map_err(|error| refused(&error))?)
    };
    Ok((rules, path.display().to_string()))
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    let failure = || Failure::unreadable(format!("cannot read `{}`", path.display()));
    read.map_err(|error| failure().because(&error))?;
    String::from_utf8(bytes).map_err(|error| failure().because(&error))
}

/// What the node's proxy should have for the Service, or for one port of it.
fn ports(
    cluster: &Cluster,
    key: &ObjectKey,
    port: Option<&str>,
    rules: &Rules,
    node: Option<&str>,
) -> Result<(String, Vec<ExpectedPort>), Failure> {
    let family = rules.family();
    let of = |node: &str| -> Vec<ExpectedPort> {
        let mut ports = expected(cluster, node, family);
        ports.retain(|expected| expected.name.service == *key);
        ports
    };
    let (node, mut ports) = match node {
        Some(node) if cluster.nodes.contains_key(node) => (node.to_owned(), of(node)),
        Some(node) => return Err(Failure::unreadable(format!("`--node {node}`: no such Node in the input"))),
        None => {
            let mut nodes = cluster.nodes.keys();
            let first = nodes.next().cloned().unwrap_or_default();
            let ports = of(&first);
            // Which endpoints are on the node is no matter of iptables' rules.
            let placeless = |mut ports: Vec<ExpectedPort>| {
                for port in ports.iter_mut().filter(|_| matches!(rules, Rules::Iptables(_))) {
                    port.on_node.clear();
                }
                ports
            };
            let same = placeless(ports.clone());
            if let Some(other) = nodes.find(|other| placeless(of(other)) != same) {
                return Err(Failure::unreadable(format!("{key} is another one on {first} than on {other}"))
                    .hint("say with `--node` whose rules these are"));
            }
            (first, ports)
        }
    };
    if ports.is_empty() {
        let what = format!("no proxy has rules for {key} in {}", family.as_str());
        return Err(Failure::unreadable(what).hint("`netlab service endpoints` says why"));
    }
    if let Some(port) = port {
        let known: Vec<String> = ports.iter().map(|expected| expected.name.to_string()).collect();
        ports.retain(|expected| {
            expected.name.port == port
                || expected.frontends.iter().any(|frontend| frontend.key.port.to_string() == port)
        });
        if ports.is_empty() {
            return Err(Failure::unreadable(format!("{key} has no port `{port}`"))
                .hint(format!("it has {}", known.join(", "))));
        }
    }
    Ok((node, ports))
}
