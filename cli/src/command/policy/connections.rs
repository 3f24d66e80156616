//! `netlab policy connections`: who may talk to whom.

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::diagnostic::code;
use netlab_core::endpoint_ref::{EndpointRef, EndpointType, PortName, PortRef};
use netlab_core::envelope::Envelope;
use netlab_core::input::{Loaded, owner_splits};
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::port::{PortRange, Protocol};
use netlab_core::model::service::{Service, ServicePort};
use netlab_core::policy::Scope;
use netlab_core::policy::backends::{backends, led, service, service_port};
use netlab_core::policy::clash::{self, claimants};
use netlab_core::policy::connections::exposure::{Exposure, Future};
use netlab_core::policy::connections::{
    Allowed, Connections as Answer, Focus, HostNetwork, OpenBlock, alone, as_if_running, connections,
    finished, leave_out_finished, on_host_network, workload_of,
};
use netlab_core::policy::frontends::node_port;
use netlab_core::policy::headless::behind;
use netlab_core::policy::outside::Outside;
use netlab_core::policy::query::{End, owner};
use netlab_core::service::{left_out, unknown_hints};
use serde::Serialize;

use crate::args::globals::{Format, Globals};
use crate::args::policy::{Connections, HostNetworkArg, Switch};
use crate::ends;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::connections::{csv, dot, exposed, markdown, summary, table, wide};
use crate::output::matrix::matrix;
use crate::output::svg::svg;
use crate::output::terminal::Terminal;
use crate::question::compile;

/// The answer and what it depends on beyond policy.
#[derive(Serialize)]
struct WithNotes<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exposure: Option<&'a Exposure>,
}

/// Lists.
pub(crate) fn run(args: &Connections, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let busy = terminal.busy("listing connections");
    let mut input = load::read_in_silence(&globals.filename, &globals.what_if, globals, terminal)?;
    let mut notes = notes(args, &input.loaded.cluster);
    let reading = match args.host_network {
        HostNetworkArg::Pods => HostNetwork::AsPods,
        HostNetworkArg::Nodes => HostNetwork::AsNodes,
    };
    let to = args.to.as_ref().map(|to| &to.endpoint);
    let port = match &args.to {
        Some(to) => ends::port(to, args.port.as_ref())?,
        None => args.port.as_ref(),
    };
    let behind = to.and_then(|to| Some((to, ends::service_named(to, port, globals, &input.loaded.cluster)?)));
    let mut of_service = BehindService::default();
    let ports = if let Some((to, key)) = behind {
        notes.extend(ends::about_address(to, &[&key]));
        of_service = ports_behind(to, &key, port, &input.loaded.cluster, &mut notes)?;
        // A Service that leads nowhere lists nothing.
        of_service.ports.is_empty().then(|| Allowed::from_ranges([]))
    } else {
        let cluster = &input.loaded.cluster;
        notes.extend(to.zip(port).and_then(|(to, port)| about_node_port(to, port, cluster)));
        port.map(ports).transpose()?
    };
    let named: Vec<ObjectKey> = [args.from.as_ref(), to]
        .into_iter()
        .flatten()
        .filter_map(|end| pod_named(end, globals, &input.loaded.cluster))
        .collect();
    notes.extend(named.iter().filter_map(|key| about_pod(&input.loaded.cluster, key)));
    let focus = Focus {
        workloads_only: args.external == Switch::Off,
        from: ends("--from", args.from.as_ref(), globals, &input.loaded.cluster)?,
        to: ends("--to", to, globals, &input.loaded.cluster)?,
        about: about(globals, &input.loaded.cluster),
        ports,
        ports_of: of_service.ports,
        led: of_service.led,
        admitted: of_service.outside.admitted,
    };
    let one_of_several: Vec<&ObjectKey> =
        named.iter().filter(|key| siblings(&input.loaded.cluster, key) > 1).collect();
    alone(&mut input.loaded.cluster, one_of_several);
    if args.finished == Switch::Off {
        leave_out_finished(&mut input.loaded.cluster);
    }
    let exposure = exposure(args, &input.loaded, reading, &focus, terminal.format)?;
    input.loaded.cluster = as_if_running(&input.loaded.cluster, &input.loaded.policies, reading);
    let compiled = compile(&input.loaded, &Scope::Cluster)?;
    let answer = connections(&input.loaded.cluster, &compiled.rulesets, &focus);
    drop(busy);
    only_splits_of(&answer, &mut input.loaded);
    load::show_open(&mut input, &answer.ties, terminal);

    let incomplete = !input.not_examined.is_empty();
    let is_data = matches!(terminal.format, Format::Json | Format::Yaml);
    notes.extend(notes_on(&answer.open_blocks, is_data));
    notes.extend(of_service.outside.narrowed);
    let meets = of_service.outside.pods_too || answer.has_source_outside();
    notes.extend(of_service.outside.undefined.filter(|_| meets));
    if !is_data {
        for note in &notes {
            terminal.remark(note);
        }
    }
    match terminal.format {
        Format::Csv => terminal.stream(|out| {
            csv(&answer, true, out)?;
            exposure.iter().try_for_each(|exposure| csv(&exposure.connections, false, out))
        }),
        Format::Md => terminal.stream(|out| {
            markdown(&answer, out)?;
            exposure.iter().try_for_each(|exposure| {
                writeln!(out, "\nWith pods that do not exist yet:\n")?;
                markdown(&exposure.connections, out)
            })
        }),
        Format::Dot => terminal.stream(|out| dot(&answer, out)),
        Format::Svg => terminal.whole(&svg(&answer)),
        Format::Json | Format::Yaml => {
            let with_notes = WithNotes { answer: &answer, notes, exposure: exposure.as_ref() };
            terminal.data(&Envelope::new("Connections", with_notes, input.not_examined))
        }
        _ => match (terminal.quiet, terminal.format) {
            (true, _) => terminal.text(&summary(&answer)),
            (false, Format::Matrix) => terminal.text(&matrix(&answer)),
            (false, Format::Wide) => {
                terminal.rows(|out| wide(&answer, out))?;
                terminal.text(&exposure.as_ref().map(|exposure| exposed(exposure, true)).unwrap_or_default())
            }
            (false, _) => {
                let more = exposure.as_ref().map(|exposure| exposed(exposure, false));
                terminal.text(&(table(&answer) + &more.unwrap_or_default()))
            }
        },
    }?;
    Ok(if incomplete { Exit::CannotTell } else { Exit::Yes })
}

/// What pods that do not exist yet could do, with `--exposure`.
fn exposure(
    args: &Connections,
    loaded: &Loaded,
    reading: HostNetwork,
    focus: &Focus,
    format: Format,
) -> Result<Option<Exposure>, Failure> {
    if !args.exposure {
        return Ok(None);
    }
    if matches!(format, Format::Dot | Format::Svg | Format::Matrix) {
        return Err(Failure::unreadable("`--exposure` is no part of graphs, pictures and truth tables")
            .hint("use `-o table`, `wide`, `csv`, `md`, `json` or `yaml`"));
    }
    let mut future = Future::new(&loaded.cluster, &loaded.policies);
    let mut then = loaded.clone();
    then.cluster = as_if_running(&future.cluster, &loaded.policies, reading);
    let compiled = compile(&then, &Scope::Cluster)?;
    future.impossible.sort();
    Ok(Some(future.exposure(&then.cluster, &compiled.rulesets, focus)))
}

/// The pod that a reference means, if it means one: by its name, or by its address.
fn pod_named(reference: &EndpointRef, globals: &Globals, cluster: &Cluster) -> Option<ObjectKey> {
    match reference {
        EndpointRef::Address(address) => match owner(cluster, *address) {
            End::Pod(key) => Some(key),
            End::Node(_) | End::Address(_) => None,
        },
        EndpointRef::Named { kind: None | Some(EndpointType::Pod), namespace, name } => {
            let default = globals.namespace.as_deref().unwrap_or("default");
            let key = ObjectKey::new(namespace.as_deref().unwrap_or(default), name);
            cluster.pods.contains_key(&key).then_some(key)
        }
        EndpointRef::Named { .. } => None,
    }
}

/// That a pod is listed by itself, where it is one of several.
fn about_pod(cluster: &Cluster, key: &ObjectKey) -> Option<String> {
    let pod = cluster.pods.get(key)?;
    if pod.terminal {
        return Some(format!("pod {key} has finished: policies are not about it"));
    }
    match siblings(cluster, key) {
        0 | 1 => None,
        count => Some(format!("pod {key}, one of {count} of {}, is listed by itself", workload_of(key, pod))),
    }
}

/// How many pods that have not finished a pod's workload has.
fn siblings(cluster: &Cluster, key: &ObjectKey) -> usize {
    let Some(pod) = cluster.pods.get(key) else { return 0 };
    let workload = workload_of(key, pod);
    let running = cluster.pods.iter().filter(|(_, pod)| !pod.terminal);
    running.filter(|(key, pod)| workload_of(key, pod) == workload).count()
}

/// Leaves of the findings about workloads whose pods differ those about workloads in the list.
fn only_splits_of(answer: &Answer, loaded: &mut Loaded) {
    let listed: BTreeSet<&str> = (0..answer.workloads().len())
        .filter(|position| answer.is_about(*position))
        .map(|position| answer.peers[position].id.as_str())
        .collect();
    let mut seen = loaded.cluster.clone();
    seen.pods.retain(|key, pod| listed.contains(workload_of(key, pod).as_str()));
    loaded.diagnostics.retain(|finding| finding.code != code::OWNER_SPLIT);
    loaded.diagnostics.extend(owner_splits(&loaded.policies.list, &seen));
    loaded.diagnostics.sort();
}

fn ends(
    flag: &str,
    reference: Option<&EndpointRef>,
    globals: &Globals,
    cluster: &Cluster,
) -> Result<Option<Vec<End>>, Failure> {
    let resolved = reference.map(|reference| ends::resolve(flag, reference, globals, cluster)).transpose()?;
    Ok(resolved.map(|(_, ends)| ends))
}

/// The ports that a number stands for: of one protocol, or of every one where none is said.
fn ports(wanted: &PortRef) -> Result<Allowed, Failure> {
    let PortName::Number(port) = wanted.port else {
        return Err(Failure::unreadable("`--port` of a list is a number: a name differs from pod to pod")
            .hint("as in `--port 5432` or `--port 53/udp`"));
    };
    let protocols = match wanted.protocol {
        Some(protocol) => vec![protocol],
        None => Protocol::ALL.to_vec(),
    };
    Ok(Allowed::from_ranges(protocols.into_iter().map(|protocol| (protocol, PortRange::single(port)))))
}

/// What a Service leads to.
#[derive(Default)]
struct BehindService {
    /// By destination its ports.
    ports: BTreeMap<End, Allowed>,
    /// By source its destinations, where they are not all.
    led: BTreeMap<ObjectKey, BTreeSet<End>>,
    /// Which sources outside may come.
    outside: Outside,
}

/// The ports on which each of the pods behind a Service listens for it, and to which of them each source is led, where that
/// is not all.
fn ports_behind(
    to: &EndpointRef,
    key: &ObjectKey,
    wanted: Option<&PortRef>,
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> Result<BehindService, Failure> {
    let unusable = |error| ends::unusable("--to", to, &error);
    let found = service(cluster, key).map_err(unusable)?;
    notes.extend(left_out(cluster, key, found));
    notes.extend(unknown_hints(cluster, key, found));
    if found.headless {
        let ports = ports_of_headless(to, (key, found), wanted, cluster, notes)?;
        return Ok(BehindService { ports, ..BehindService::default() });
    }
    let chosen: Vec<&ServicePort> = match wanted {
        Some(_) => vec![service_port(cluster, key, wanted).map_err(unusable)?],
        None => found.ports.iter().collect(),
    };
    let mut ports: BTreeMap<End, Vec<(Protocol, PortRange)>> = BTreeMap::new();
    for backend in chosen.iter().flat_map(|port| backends(cluster, key, port)) {
        ports.entry(backend.end).or_default().push((backend.protocol, PortRange::single(backend.port)));
    }
    notes.push(if ports.is_empty() {
        format!("svc/{key} has no endpoint: nothing is behind it")
    } else {
        let all = Allowed::from_ranges(ports.values().flatten().copied());
        format!("listed are the ports behind svc/{key}: {all}, of each end its own")
    });
    let addresses = match to {
        EndpointRef::Address(address) => vec![*address],
        EndpointRef::Named { .. } => found.cluster_ips.clone(),
    };
    for port in &chosen {
        for address in &addresses {
            let asked = (*address, port.port, port.protocol);
            let services: Vec<&ObjectKey> =
                claimants(cluster, asked).into_iter().map(|(key, _)| key).collect();
            if services.len() > 1 {
                notes.push(format!("{}; listed is what svc/{key} leads to", clash::words(&services, asked)));
            }
        }
    }
    let led = led(cluster, key, &chosen, &addresses);
    if led.is_some() && !ports.is_empty() {
        notes.push(format!(
            "each source is listed with those ends behind svc/{key} alone to which its own node's proxy leads it"
        ));
    }
    let ports = ports.into_iter().map(|(end, ports)| (end, Allowed::from_ranges(ports))).collect();
    let outside = Outside::of(key, found, &addresses);
    Ok(BehindService { ports, led: led.unwrap_or_default(), outside })
}

/// The ports of each pod that a headless Service's name leads to: those that are asked, else those that the Service has and
/// those that its SRV records name.
fn ports_of_headless(
    to: &EndpointRef,
    (key, service): (&ObjectKey, &Service),
    wanted: Option<&PortRef>,
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<End, Allowed>, Failure> {
    let asked: Vec<PortRef> = wanted.map_or_else(
        || {
            let of = |port: &ServicePort, name| PortRef { port: name, protocol: Some(port.protocol) };
            let numbers = service.ports.iter().map(|port| of(port, PortName::Number(port.port)));
            let names = service
                .ports
                .iter()
                .filter_map(|port| port.name.as_ref().map(|name| of(port, PortName::Name(name.clone()))));
            numbers.chain(names).collect()
        },
        |wanted| vec![wanted.clone()],
    );
    let mut ports: BTreeMap<End, Vec<(Protocol, PortRange)>> = BTreeMap::new();
    for one in &asked {
        let behind = behind(cluster, key, Some(one)).map_err(|error| ends::unusable("--to", to, &error))?;
        if wanted.is_some() || behind.backends.is_empty() {
            notes.extend(behind.note.filter(|note| !notes.contains(note)));
        }
        for backend in behind.backends {
            ports.entry(backend.end).or_default().push((backend.protocol, PortRange::single(backend.port)));
        }
    }
    let ports: BTreeMap<End, Allowed> =
        ports.into_iter().map(|(end, ports)| (end, Allowed::from_ranges(ports))).collect();
    if wanted.is_none() && !ports.is_empty() {
        notes.push(format!(
            "svc/{key} is headless: its name leads to its pods, and nothing keeps clients to its ports; listed are those that it \
             has and those that its SRV records name"
        ));
    }
    Ok(ports)
}

/// The pods that the listing is limited to, if it is.
pub(super) fn about(globals: &Globals, cluster: &Cluster) -> Option<BTreeSet<ObjectKey>> {
    let limited = globals.listed_namespace().is_some() || globals.selector.is_some();
    limited.then(|| {
        let shown = cluster.pods.iter().filter(|(key, pod)| globals.shows(&key.namespace, &pod.labels));
        shown.map(|(key, _)| key.clone()).collect()
    })
}

/// Most names and most blocks in notes for people.
const MOST_NAMES: usize = 3;
const MOST_BLOCKS: usize = 5;

/// What the list owes to addresses that no input gives: all of it as data, the beginning for people.
pub(super) fn notes_on(blocks: &[OpenBlock], is_data: bool) -> Vec<String> {
    let (names, most) = if is_data { (usize::MAX, usize::MAX) } else { (MOST_NAMES, MOST_BLOCKS) };
    let mut notes: Vec<String> = blocks.iter().take(most).map(|block| block.words(names)).collect();
    match blocks.len().saturating_sub(most) {
        0 => {}
        1 => notes.push("and so for 1 more block; `-o json` names it".to_owned()),
        more => notes.push(format!("and so for {more} more blocks; `-o json` names them")),
    }
    notes
}

/// What the list owes to pods that have finished.
pub(super) fn about_finished(cluster: &Cluster, wanted: Switch) -> Vec<String> {
    let mut notes = Vec::new();
    let done = finished(cluster);
    if !done.over.is_empty() {
        let names: Vec<String> = done.over.iter().map(ToString::to_string).collect();
        let (have, they, them) =
            if names.len() == 1 { ("has", "it", "it") } else { ("have", "they", "them") };
        let are = if names.len() == 1 { "is" } else { "are" };
        let done = format!("{} {have} finished, and nothing follows {them}", few(&names));
        notes.push(match wanted {
            Switch::On => format!("{done}: listed as if {they} ran; `--finished off` leaves {them} out"),
            Switch::Off => format!("{done}: {they} {are} left out"),
        });
    }
    if !done.between.is_empty() {
        let (its, runs) = if done.between.len() == 1 { ("its", "pod ran") } else { ("their", "pods ran") };
        notes.push(format!("{}: every pod has finished; listed as if {its} next {runs}", few(&done.between)));
    }
    notes
}

fn notes(args: &Connections, cluster: &Cluster) -> Vec<String> {
    let mut notes = about_finished(cluster, args.finished);
    let pods = on_host_network(cluster).len();
    if pods > 0 {
        let (pods, them) =
            if pods == 1 { ("1 pod uses".to_owned(), "it") } else { (format!("{pods} pods use"), "them") };
        let are = if them == "it" { "is" } else { "are" };
        let nodes = if them == "it" { "its node" } else { "their nodes" };
        notes.push(match args.host_network {
            HostNetworkArg::Pods => format!(
                "{pods} the host's network and {are} listed as if policies saw {them}; most network plugins take such \
                 pods for their node: `--host-network nodes`"
            ),
            HostNetworkArg::Nodes => {
                format!("{pods} the host's network and {are} listed as {nodes}, which no policy selects")
            }
        });
    }
    notes
}

/// What to say of a node's address with a port at which the node serves a Service.
fn about_node_port(to: &EndpointRef, port: &PortRef, cluster: &Cluster) -> Option<String> {
    let (EndpointRef::Address(address), PortName::Number(number)) = (to, &port.port) else { return None };
    let End::Node(node) = owner(cluster, *address) else { return None };
    let key = node_port(cluster, *number, port.protocol)?;
    Some(format!(
        "port {number} of node {node} is a node port of svc/{key}: what it leads on to is not listed here; `--to svc/{key}` lists \
         the endpoints, `policy eval` asks for one client"
    ))
}

/// The first names of a list.
fn few(names: &[String]) -> String {
    match names.len().saturating_sub(MOST_NAMES) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..MOST_NAMES].join(", ")),
    }
}
