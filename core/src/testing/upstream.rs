//! Reads a transcription of the upstream `NetworkPolicy` end-to-end suite: cases of steps, each step a change and
//! tables of who may reach whom.
//!
//! Invariant: a table holds every ordered pair of different pods, and its objects are those after the step's
//! change. Labels that a step sets are added to those that are there.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;

use super::UnreadableCase;
use crate::input::WireObjects;
use crate::input::wire::core_v1::{Container, ContainerPort, Namespace, Pod, PodIp, PodSpec, PodStatus};
use crate::input::wire::meta::ObjectMeta;
use crate::input::wire::network_policy::NetworkPolicy;
use crate::policy::oracle::{End, IpProtocol, Question};

/// One table: who may open a connection to whom on one port.
#[derive(Clone, Debug)]
pub struct Table {
    /// `egress-ipblock, step 1, 80/TCP`.
    pub name: String,
    /// The cluster and the policies when it must hold.
    pub objects: Arc<WireObjects>,
    /// Destination port.
    pub port: u16,
    /// Protocol.
    pub protocol: IpProtocol,
    /// Every ordered pair of different pods.
    pub pairs: Vec<Pair>,
}

/// One entry of a table.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Who connects.
    pub source: End,
    /// To whom.
    pub destination: End,
    /// Whether the connection must work.
    pub allowed: bool,
}

impl Table {
    /// The question that a pair asks.
    pub fn question(&self, pair: &Pair) -> Question {
        Question {
            source: pair.source.clone(),
            destination: pair.destination.clone(),
            protocol: self.protocol,
            port: self.port,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteText {
    cluster: ClusterText,
    cases: Vec<CaseText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterText {
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pods: Vec<PodText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PodText {
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
    ip: IpAddr,
    ports: Vec<ContainerPort>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseText {
    name: String,
    steps: Vec<StepText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StepText {
    #[serde(default)]
    apply: Vec<NetworkPolicy>,
    #[serde(default)]
    delete: Vec<String>,
    #[serde(default)]
    set_pod_labels: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    set_namespace_labels: BTreeMap<String, BTreeMap<String, String>>,
    checks: Vec<CheckText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckText {
    port: u16,
    protocol: String,
    expect: Vec<(String, String, bool)>,
}

/// The tables of a suite, in its order.
///
/// # Errors
/// When the text is not such a suite, or a step names something that is not there.
pub fn tables(text: &str) -> Result<Vec<Table>, UnreadableCase> {
    let suite: SuiteText =
        serde_saphyr::from_str(text).map_err(|error| UnreadableCase::new("suite", error))?;
    let mut tables = Vec::new();
    for case in suite.cases {
        let mut objects = cluster(&suite.cluster);
        for (step_index, step) in case.steps.into_iter().enumerate() {
            let place = format!("{}, step {}", case.name, step_index + 1);
            change(&mut objects, &step).map_err(|message| UnreadableCase::new(&place, message))?;
            let now = Arc::new(objects.clone());
            for check in step.checks {
                let protocol = protocol(&check.protocol)
                    .ok_or_else(|| UnreadableCase::new(&place, format!("protocol {}", check.protocol)))?;
                tables.push(Table {
                    name: format!("{place}, {}/{}", check.port, check.protocol),
                    objects: Arc::clone(&now),
                    port: check.port,
                    protocol,
                    pairs: pairs(&suite.cluster.pods, &check.expect),
                });
            }
        }
    }
    Ok(tables)
}

fn protocol(name: &str) -> Option<IpProtocol> {
    match name {
        "TCP" => Some(IpProtocol::Tcp),
        "UDP" => Some(IpProtocol::Udp),
        "SCTP" => Some(IpProtocol::Sctp),
        _ => None,
    }
}

fn cluster(text: &ClusterText) -> WireObjects {
    let namespaces = text.namespaces.iter().map(|(name, labels)| Namespace {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    });
    let pods = text.pods.iter().map(|pod| Pod {
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            labels: Some(pod.labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: Some(vec![Container {
                name: "server".to_owned(),
                ports: Some(pod.ports.clone()),
                ..Container::default()
            }]),
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            phase: Some("Running".to_owned()),
            pod_ip: Some(pod.ip.to_string()),
            pod_ips: Some(vec![PodIp { ip: pod.ip.to_string() }]),
            ..PodStatus::default()
        }),
        ..Pod::default()
    });
    WireObjects { namespaces: namespaces.collect(), pods: pods.collect(), ..WireObjects::default() }
}

/// `namespace/name` of an object.
fn qualified(metadata: &ObjectMeta) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

fn change(objects: &mut WireObjects, step: &StepText) -> Result<(), String> {
    for policy in &step.apply {
        let name = qualified(&policy.metadata);
        objects.network_policies.retain(|old| qualified(&old.metadata) != name);
        objects.network_policies.push(policy.clone());
    }
    for name in &step.delete {
        let before = objects.network_policies.len();
        objects.network_policies.retain(|policy| qualified(&policy.metadata) != *name);
        if objects.network_policies.len() == before {
            return Err(format!("deletes {name}, which is not there"));
        }
    }
    for (name, labels) in &step.set_pod_labels {
        let pod = objects.pods.iter_mut().find(|pod| qualified(&pod.metadata) == *name);
        let pod = pod.ok_or_else(|| format!("labels the pod {name}, which is not there"))?;
        pod.metadata.labels.get_or_insert_default().extend(labels.clone());
    }
    for (name, labels) in &step.set_namespace_labels {
        let mut all = objects.namespaces.iter_mut();
        let namespace = all.find(|namespace| namespace.metadata.name.as_ref() == Some(name));
        let namespace =
            namespace.ok_or_else(|| format!("labels the namespace {name}, which is not there"))?;
        namespace.metadata.labels.get_or_insert_default().extend(labels.clone());
    }
    Ok(())
}

/// Every ordered pair: allowed, unless the last expectation that covers it says otherwise.
fn pairs(pods: &[PodText], expect: &[(String, String, bool)]) -> Vec<Pair> {
    let covers = |pattern: &str, pod: &PodText| match pattern.split_once('/') {
        None => pattern == "*",
        Some((namespace, name)) => namespace == pod.namespace && (name == "*" || name == pod.name),
    };
    let end = |pod: &PodText| End::Pod {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        address: pod.ip,
    };
    let mut pairs = Vec::new();
    for source in pods {
        for destination in pods {
            if std::ptr::eq(source, destination) {
                continue;
            }
            let last =
                expect.iter().rev().find(|(from, to, _)| covers(from, source) && covers(to, destination));
            let allowed = last.is_none_or(|(_, _, allowed)| *allowed);
            pairs.push(Pair { source: end(source), destination: end(destination), allowed });
        }
    }
    pairs
}
