//! Workloads, and which of them a pod belongs to.
//!
//! A pod names its ReplicaSet or Job; who made that is in that object, or, where only pods were dumped, in its
//! name: a Deployment's ReplicaSet is called after it and the `pod-template-hash` label.

use std::collections::BTreeMap;

use super::unique::namespaced;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::objects::Sourced;
use crate::input::wire::meta::{ObjectMeta, OwnerReference};
use crate::input::wire::workload::{CronJob, PodTemplate, Workload};
use crate::model::cluster::{ObjectKey, WorkloadRef};
use crate::model::source::Source;

/// A workload and the pods that it stamps.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) template: PodTemplate,
    pub(super) source: Source,
    controller: Option<WorkloadRef>,
    /// A ReplicaSet of an earlier rollout.
    retired: bool,
}

/// All workloads, by key and kind.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    known: BTreeMap<(ObjectKey, String), Known>,
}

impl Workloads {
    pub(super) fn new(
        workloads: Vec<Sourced<Workload>>,
        cron_jobs: Vec<Sourced<CronJob>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut by_kind: BTreeMap<String, Vec<Sourced<Workload>>> = BTreeMap::new();
        for workload in workloads {
            by_kind.entry(workload.object.kind.clone()).or_default().push(workload);
        }
        let mut all = Self::default();
        for (kind, workloads) in by_kind {
            for (key, Sourced { object, source }) in namespaced(&kind, workloads, diagnostics) {
                let spec = object.spec.unwrap_or_default();
                let retired = kind == "ReplicaSet" && spec.replicas == Some(0);
                all.add(key, &kind, &object.metadata, spec.template, source, retired, diagnostics);
            }
        }
        for (key, Sourced { object, source }) in namespaced("CronJob", cron_jobs, diagnostics) {
            let job = object.spec.and_then(|spec| spec.job_template).and_then(|template| template.spec);
            let template = job.and_then(|job| job.template);
            all.add(key, "CronJob", &object.metadata, template, source, false, diagnostics);
        }
        all
    }

    #[expect(clippy::too_many_arguments, reason = "one call per shape of workload, with all that differs")]
    fn add(
        &mut self,
        key: ObjectKey,
        kind: &str,
        metadata: &ObjectMeta,
        template: Option<PodTemplate>,
        source: Source,
        retired: bool,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Some(template) = template else {
            let path = if kind == "CronJob" { "spec.jobTemplate.spec.template" } else { "spec.template" };
            let object = ObjectRef { kind: kind.to_owned(), namespace: Some(key.namespace), name: key.name };
            let diagnostic =
                Diagnostic::error(code::NO_POD_TEMPLATE, format!("a {kind} without a pod template"))
                    .with_hint(format!("write `{path}`; the object is left out"));
            diagnostics.push(diagnostic.about(&object).at_path(&source, path));
            return;
        };
        let known = Known { template, source, controller: controller(metadata), retired };
        self.known.insert((key, kind.to_owned()), known);
    }

    /// The namespaces that workloads are in.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(|(key, _)| key.namespace.as_str())
    }

    /// The workloads that are nobody else's, in order.
    pub(super) fn roots(&self) -> impl Iterator<Item = (&ObjectKey, &str, &Known)> {
        self.known
            .iter()
            .filter(|((key, _), known)| {
                !known.retired
                    && known.controller.as_ref().is_none_or(|above| self.get(&key.namespace, above).is_none())
            })
            .map(|((key, kind), known)| (key, kind.as_str(), known))
    }

    fn get(&self, namespace: &str, workload: &WorkloadRef) -> Option<&Known> {
        self.known.get(&(ObjectKey::new(namespace, &workload.name), workload.kind.clone()))
    }

    /// The controllers of a pod, from the one it names to the top-most.
    pub(super) fn chain(&self, pod: &ObjectMeta) -> Vec<WorkloadRef> {
        // Deployment over ReplicaSet is two; a cycle of references must end too.
        const LONGEST: usize = 4;
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        let mut chain = Vec::new();
        let mut next = controller(pod);
        while let Some(workload) = next.filter(|_| chain.len() < LONGEST) {
            next = match self.get(namespace, &workload) {
                Some(known) => known.controller.clone(),
                None => self.guess_above(namespace, &workload, pod),
            };
            chain.push(workload);
        }
        chain
    }

    /// Who made a ReplicaSet or Job that was not given.
    fn guess_above(&self, namespace: &str, workload: &WorkloadRef, pod: &ObjectMeta) -> Option<WorkloadRef> {
        match workload.kind.as_str() {
            "ReplicaSet" => {
                let hash = pod.labels.as_ref()?.get("pod-template-hash")?;
                let name = workload.name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
                Some(WorkloadRef { kind: "Deployment".to_owned(), name: name.to_owned() })
            }
            "Job" => {
                let (name, minute) = workload.name.rsplit_once('-')?;
                let above = WorkloadRef { kind: "CronJob".to_owned(), name: name.to_owned() };
                let scheduled = !minute.is_empty() && minute.bytes().all(|b| b.is_ascii_digit());
                (scheduled && self.get(namespace, &above).is_some()).then_some(above)
            }
            _ => None,
        }
    }
}

/// The owner that controls an object: the one that says so, or the only candidate.
fn controller(metadata: &ObjectMeta) -> Option<WorkloadRef> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    // The mirror pod of a static pod is owned by its node.
    let candidates = || owners.iter().filter(|owner| owner.kind != "Node");
    let owner: &OwnerReference =
        candidates().find(|owner| owner.controller == Some(true)).or_else(|| candidates().next())?;
    // The API demands a kind; hand-written manifests leave it out and mean a group of pods.
    let kind = if owner.kind.is_empty() { "Pod" } else { owner.kind.as_str() };
    Some(WorkloadRef { kind: kind.to_owned(), name: owner.name.clone() })
}
