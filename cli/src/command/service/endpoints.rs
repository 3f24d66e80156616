//! `netlab service endpoints`: which endpoints the nodes' proxies use.

use netlab_core::envelope::Envelope;
use netlab_core::model::cluster::Cluster;
use netlab_core::service::slices::{Packing, packing};
use netlab_core::service::{Asked, PortEndpoints, ServiceEndpoints, endpoints};
use serde::Serialize;

use super::named;
use crate::args::globals::{Format, Globals};
use crate::args::service::Endpoints;
use crate::ends;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::service::{render, render_packing};
use crate::output::terminal::Terminal;

/// The answer with what was asked: of one node its ports stand at the top, too.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    node: Option<&'a str>,
    ports: &'a [PortEndpoints],
    #[serde(flatten)]
    all: &'a ServiceEndpoints,
    #[serde(skip_serializing_if = "Option::is_none")]
    packing: Option<Packing>,
}

/// Answers.
pub(crate) fn run(args: &Endpoints, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let cluster = &input.loaded.cluster;
    let key = named::service(&args.service, globals, cluster)?;
    let Some(object) = cluster.services.get(&key) else {
        return Err(Failure::unreadable(format!("no Service `{key}` in the input")));
    };
    let per_slice = usize::from(args.per_slice);
    let asked = Asked { key: &key, service: object, per_slice };
    let nodes = nodes(args.node.as_deref(), cluster)?;
    let answer = endpoints(cluster, asked, &nodes);
    let one = args.node.as_ref().and(answer.nodes.first());
    let packing = args.slices.then(|| packing(cluster, &key, object, per_slice));
    let shown = Answer {
        node: args.node.as_deref(),
        ports: one.map_or(&[], |node| &node.ports),
        all: &answer,
        packing,
    };
    let not_examined = [input.not_examined, answer.not_examined.clone()].concat();
    let incomplete = !not_examined.is_empty();
    terminal.answer(&Envelope::new("ServiceEndpoints", &shown, not_examined), |terminal| {
        let mut text = render(&answer, args.node.is_some(), terminal.format == Format::Wide);
        if let Some(packing) = &shown.packing {
            text += &render_packing(packing);
        }
        text
    })?;
    let answers = |port: &PortEndpoints| port.routes.iter().all(|route| route.outcome == "spread");
    let all_answer = answer.nodes.iter().flat_map(|node| &node.ports).all(answers);
    Ok(match (incomplete, all_answer) {
        (true, _) => Exit::CannotTell,
        (false, true) => Exit::Yes,
        (false, false) => Exit::No,
    })
}

fn nodes(asked: Option<&str>, cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let Some(node) = asked else { return Ok(cluster.nodes.keys().cloned().collect()) };
    if cluster.nodes.contains_key(node) {
        return Ok(vec![node.to_owned()]);
    }
    let failure = Failure::unreadable(format!("`--node {node}`: no such Node in the input"));
    Err(match ends::nearest(node, cluster.nodes.keys().map(String::as_str)) {
        Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
        None => failure.hint("leave `--node` out to ask every node"),
    })
}
