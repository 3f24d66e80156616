//! Fields of cluster objects that are nearly ones that netlab reads: `lables`, `nodename`, `tragetPort`.
//!
//! The API server drops what it does not know (`kubectl` refuses it), so the object means something else than was meant.
//! It is read as the server would, and the field is named. Unlike in policies, fields that are like none of those that
//! are read are nobody's fault: the API has many more, and newer versions have others.
//!
//! Invariant: no field of the API is taken for a misspelt one (a test has them all). Does not know the types of fields.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::Known;
use super::node::{Node, Value, push_index, push_key};
use crate::diagnostic::{Diagnostic, code};

/// A struct of the API, as far as it is read.
struct Holder {
    /// As messages say it.
    place: &'static str,
    fields: &'static [(&'static str, Below)],
}

/// What is below a field: in it, or in each of its elements.
type Below = Option<&'static Holder>;

macro_rules! holders {
    ($($name:ident: $place:literal, $($field:literal $(=> $below:ident)?),+;)*) => {
        $(static $name: Holder = Holder { place: $place, fields: &[$(($field, below!($($below)?))),+] };)*

        #[cfg(test)]
        static ALL: &[&Holder] = &[$(&$name),*];
    };
}

macro_rules! below {
    () => {
        None
    };
    ($below:ident) => {
        Some(&$below)
    };
}

holders! {
    METADATA: "`metadata`", "name", "generateName", "namespace", "labels", "annotations", "uid", "resourceVersion",
        "ownerReferences" => OWNER;
    OWNER: "an element of `ownerReferences`", "apiVersion", "kind", "name", "uid", "controller";

    NAMESPACE: "the top of a Namespace", "apiVersion", "kind", "metadata" => METADATA, "spec", "status";

    POD: "the top of a Pod", "apiVersion", "kind", "metadata" => METADATA, "spec" => POD_SPEC, "status" => POD_STATUS;
    POD_SPEC: "the `spec` of a pod", "nodeName", "hostNetwork", "hostname", "subdomain", "dnsPolicy",
        "dnsConfig" => DNS_CONFIG, "hostAliases" => HOST_ALIAS, "containers" => CONTAINER,
        "initContainers" => CONTAINER;
    DNS_CONFIG: "`dnsConfig`", "nameservers", "searches", "options" => OPTION;
    OPTION: "an element of `options`", "name", "value";
    HOST_ALIAS: "an element of `hostAliases`", "ip", "hostnames";
    CONTAINER: "a container", "name", "ports" => CONTAINER_PORT, "restartPolicy";
    CONTAINER_PORT: "an element of `ports`", "name", "containerPort", "protocol";
    POD_STATUS: "the `status` of a pod", "phase", "podIP", "podIPs", "conditions" => CONDITION;
    CONDITION: "an element of `conditions`", "type", "status";

    NODE: "the top of a Node", "apiVersion", "kind", "metadata" => METADATA, "spec" => NODE_SPEC,
        "status" => NODE_STATUS;
    NODE_SPEC: "the `spec` of a node", "podCIDR", "podCIDRs";
    NODE_STATUS: "the `status` of a node", "addresses" => NODE_ADDRESS;
    NODE_ADDRESS: "an element of `addresses`", "type", "address";

    SERVICE: "the top of a Service", "apiVersion", "kind", "metadata" => METADATA, "spec" => SERVICE_SPEC,
        "status" => SERVICE_STATUS;
    SERVICE_SPEC: "the `spec` of a Service", "type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy",
        "selector", "ports" => SERVICE_PORT, "externalName", "externalIPs", "internalTrafficPolicy",
        "externalTrafficPolicy", "allocateLoadBalancerNodePorts", "loadBalancerSourceRanges", "healthCheckNodePort",
        "publishNotReadyAddresses", "sessionAffinity", "sessionAffinityConfig" => AFFINITY, "trafficDistribution";
    SERVICE_PORT: "an element of `ports`", "name", "protocol", "port", "targetPort", "nodePort";
    AFFINITY: "`sessionAffinityConfig`", "clientIP" => AFFINITY_TIME;
    AFFINITY_TIME: "`clientIP`", "timeoutSeconds";
    SERVICE_STATUS: "the `status` of a Service", "loadBalancer" => BALANCER;
    BALANCER: "`loadBalancer`", "ingress" => INGRESS;
    INGRESS: "an element of `ingress`", "ip", "ipMode";

    SLICE: "the top of an EndpointSlice", "apiVersion", "kind", "metadata" => METADATA, "addressType",
        "endpoints" => ENDPOINT, "ports" => ENDPOINT_PORT;
    ENDPOINT: "an element of `endpoints`", "addresses", "conditions" => CONDITIONS, "hostname", "nodeName", "zone",
        "hints" => HINTS, "targetRef" => TARGET;
    CONDITIONS: "`conditions`", "ready", "serving", "terminating";
    HINTS: "`hints`", "forZones" => HINT, "forNodes" => HINT;
    HINT: "a hint", "name";
    TARGET: "`targetRef`", "kind", "name";
    ENDPOINT_PORT: "an element of `ports`", "name", "protocol", "port";

    ENDPOINTS: "the top of an Endpoints", "apiVersion", "kind", "metadata" => METADATA, "subsets" => SUBSET;
    SUBSET: "an element of `subsets`", "addresses" => SUBSET_ADDRESS, "notReadyAddresses" => SUBSET_ADDRESS,
        "ports" => ENDPOINT_PORT;
    SUBSET_ADDRESS: "an address of `subsets`", "ip", "hostname", "nodeName", "targetRef" => TARGET;

    WORKLOAD: "the top of a workload", "apiVersion", "kind", "metadata" => METADATA, "spec" => WORKLOAD_SPEC, "status";
    WORKLOAD_SPEC: "the `spec` of a workload", "replicas", "template" => TEMPLATE;
    TEMPLATE: "`template`", "metadata" => METADATA, "spec" => POD_SPEC;
    CRON_JOB: "the top of a CronJob", "apiVersion", "kind", "metadata" => METADATA, "spec" => CRON_JOB_SPEC, "status";
    CRON_JOB_SPEC: "the `spec` of a CronJob", "jobTemplate" => JOB_TEMPLATE;
    JOB_TEMPLATE: "`jobTemplate`", "metadata" => METADATA, "spec" => WORKLOAD_SPEC;
}

fn holder(known: Known) -> Option<&'static Holder> {
    Some(match known {
        Known::Namespace => &NAMESPACE,
        Known::Pod => &POD,
        Known::Node => &NODE,
        Known::Service => &SERVICE,
        Known::EndpointSlice => &SLICE,
        Known::Endpoints => &ENDPOINTS,
        Known::Workload => &WORKLOAD,
        Known::CronJob => &CRON_JOB,
        // Of policies every field is known, and asked for when they are read.
        Known::AdminNetworkPolicy
        | Known::BaselineAdminNetworkPolicy
        | Known::ClusterNetworkPolicy
        | Known::NetworkPolicy => return None,
    })
}

/// Finds misspelt fields; remembers those that are none, since a dump has the same ones thousands of times.
#[derive(Debug, Default)]
pub(super) struct Reader {
    others: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Reader {
    /// Every misspelt field of an object of a kind.
    pub(super) fn of(&mut self, known: Known, node: &Node<'_>) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        if let Some(holder) = holder(known) {
            self.within(node, (holder, true), &mut String::new(), &mut found);
        }
        found
    }

    fn within(
        &mut self,
        node: &Node<'_>,
        (holder, is_top): (&'static Holder, bool),
        path: &mut String,
        found: &mut Vec<Diagnostic>,
    ) {
        let length = path.len();
        match &node.value {
            Value::Mapping(entries) => {
                for entry in entries {
                    push_key(path, &entry.key);
                    match holder.fields.iter().find(|(field, _)| *field == entry.key) {
                        Some((_, Some(below))) => {
                            self.within(&entry.value, (below, false), path, found);
                        }
                        Some((_, None)) => {}
                        None => {
                            let meant = self.meant(holder, is_top, &entry.key);
                            if let Some(hint) = meant.filter(|(meant, _)| node.get(meant).is_none()) {
                                let message =
                                    format!("unknown field `{}`: the API server drops it", entry.key);
                                let mut diagnostic = Diagnostic::warning(code::UNKNOWN_FIELD, message)
                                    .at(entry.position)
                                    .with_hint(hint.1);
                                path.clone_into(&mut diagnostic.path);
                                found.push(diagnostic);
                            }
                        }
                    }
                    path.truncate(length);
                }
            }
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    push_index(path, index);
                    self.within(item, (holder, false), path, found);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// The field that was probably meant, and that in words.
    fn meant(&mut self, holder: &'static Holder, is_top: bool, key: &str) -> Option<(&'static str, String)> {
        if self.others.get(holder.place).is_some_and(|others| others.contains(key)) {
            return None;
        }
        let near = nearest(holder, key).map(|field| (field, format!("did you mean `{field}`?")));
        // The API has none but these at the top.
        let below = || {
            let fields = holder.fields.iter().filter(|_| is_top);
            let below = |(name, below): &(&'static str, Below)| below.map(|below| (*name, below));
            let found = fields
                .filter_map(below)
                .find(|(_, below)| below.fields.iter().any(|(field, _)| *field == key));
            found.map(|(name, _)| ("", format!("`{key}` belongs into `{name}`")))
        };
        let meant = near.or_else(below);
        if meant.is_none() {
            self.others.entry(holder.place).or_default().insert(key.to_owned());
        }
        meant
    }
}

/// Case does not count; of letters one in four may be another, two at most.
fn nearest(holder: &'static Holder, key: &str) -> Option<&'static str> {
    let lower = key.to_lowercase();
    let distance = |(field, _): &(&'static str, Below)| {
        let most = (field.len() / 4).min(2);
        let distance = strsim::osa_distance(&lower, &field.to_lowercase());
        (distance <= most).then_some((distance, *field))
    };
    holder.fields.iter().filter_map(distance).min().map(|(_, field)| field)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All other fields of the structs, of `k8s.io/api` v0.36 and those of older versions that went away.
    const OTHERS: [(&Holder, &str); 32] = [
        (
            &METADATA,
            "selfLink generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers managedFields clusterName initializers",
        ),
        (&OWNER, "blockOwnerDeletion"),
        (&NAMESPACE, ""),
        (&POD, ""),
        (
            &POD_SPEC,
            "volumes ephemeralContainers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds nodeSelector serviceAccountName serviceAccount automountServiceAccountToken hostPID hostIPC hostUsers shareProcessNamespace securityContext imagePullSecrets affinity schedulerName tolerations priorityClassName priority readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os schedulingGates resourceClaims resources hostnameOverride workloadRef",
        ),
        (&DNS_CONFIG, ""),
        (&OPTION, ""),
        (&HOST_ALIAS, ""),
        (
            &CONTAINER,
            "image command args workingDir envFrom env resources resizePolicy restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
        ),
        (&CONTAINER_PORT, "hostPort hostIP"),
        (
            &POD_STATUS,
            "observedGeneration message reason nominatedNodeName hostIP hostIPs startTime initContainerStatuses containerStatuses qosClass ephemeralContainerStatuses resize resourceClaimStatuses extendedResourceClaimStatus allocatedResources resources",
        ),
        (&CONDITION, "observedGeneration lastProbeTime lastTransitionTime reason message"),
        (&NODE, ""),
        (&NODE_SPEC, "providerID unschedulable taints configSource externalID"),
        (
            &NODE_STATUS,
            "capacity allocatable phase conditions daemonEndpoints nodeInfo images volumesInUse volumesAttached config runtimeHandlers features declaredFeatures",
        ),
        (&NODE_ADDRESS, ""),
        (&SERVICE, ""),
        (&SERVICE_SPEC, "loadBalancerIP loadBalancerClass topologyKeys ipFamily"),
        (&SERVICE_PORT, "appProtocol"),
        (&AFFINITY, ""),
        (&SERVICE_STATUS, "conditions"),
        (&INGRESS, "hostname ports"),
        (&SLICE, ""),
        (&ENDPOINT, "topology deprecatedTopology"),
        (&TARGET, "namespace uid apiVersion resourceVersion fieldPath"),
        (&ENDPOINT_PORT, "appProtocol"),
        (&ENDPOINTS, ""),
        (&WORKLOAD, ""),
        (
            &WORKLOAD_SPEC,
            "selector strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds updateStrategy volumeClaimTemplates serviceName podManagementPolicy persistentVolumeClaimRetentionPolicy ordinals parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit backoffLimitPerIndex maxFailedIndexes manualSelector ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy rollbackTo templateGeneration",
        ),
        (&TEMPLATE, ""),
        (
            &CRON_JOB_SPEC,
            "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend successfulJobsHistoryLimit failedJobsHistoryLimit",
        ),
        (&JOB_TEMPLATE, ""),
    ];

    #[test]
    fn no_field_of_the_api_is_taken_for_another() {
        for (holder, others) in OTHERS {
            for field in others.split(' ').filter(|field| !field.is_empty()) {
                let is_read = holder.fields.iter().any(|(read, _)| *read == field);
                let meant = Reader::default().meant(holder, false, field);
                assert!(is_read || meant.is_none(), "{field} of {} is taken for {meant:?}", holder.place);
            }
        }
    }

    #[test]
    fn two_letters_in_the_wrong_order_are_seen_in_every_field_that_is_read() {
        for holder in ALL {
            for (field, _) in holder.fields.iter().filter(|(field, _)| field.len() >= 4) {
                let mut letters: Vec<char> = field.chars().collect();
                let at = (1..letters.len()).find(|at| letters[*at] != letters[*at - 1]).expect("two letters");
                letters.swap(at - 1, at);
                let written: String = letters.into_iter().collect();
                assert_eq!(nearest(holder, &written), Some(*field), "{written} in {}", holder.place);
            }
        }
    }
}
