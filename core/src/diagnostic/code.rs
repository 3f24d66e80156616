//! The codes, by name. A code never changes its meaning; one that is no longer used is not given away again.
//!
//! `NL01xx`: text. `NL02xx`: objects and their fields. `NL03xx`: findings about policies that are valid. `NL05xx`: claims.
//! `NL07xx`: the configuration of the cluster's DNS.

/// Not YAML, or not JSON.
pub const SYNTAX: &str = "NL0101";
/// A document that is no Kubernetes object.
pub const NOT_AN_OBJECT: &str = "NL0102";
/// A text larger than the budget.
pub const TEXT_TOO_LARGE: &str = "NL0103";
/// Values nested deeper than the budget.
pub const TOO_DEEP: &str = "NL0104";
/// More values than the budget.
pub const TOO_MANY_VALUES: &str = "NL0105";
/// Aliases that copy more than the budget.
pub const TOO_MANY_ALIASES: &str = "NL0106";
/// An anchor that contains its own alias.
pub const ANCHOR_CYCLE: &str = "NL0107";
/// A key that stands twice in one mapping.
pub const DOUBLED_KEY: &str = "NL0108";
/// A key that is not a string, or is not read as the one written.
pub const KEY_NOT_STRING: &str = "NL0109";
/// A NUL or another control character.
pub const CONTROL_CHARACTER: &str = "NL0110";
/// Bytes that are not UTF-8.
pub const NOT_UTF8: &str = "NL0111";

/// A field of another type than the API's.
pub const WRONG_TYPE: &str = "NL0201";
/// A field that the API does not have.
pub const UNKNOWN_FIELD: &str = "NL0202";
/// A kind under an apiVersion that does not have it.
pub const WRONG_API_VERSION: &str = "NL0203";
/// A kind that looks like one of ours, misspelt.
pub const UNKNOWN_KIND: &str = "NL0204";
/// Two objects of one kind, namespace and name.
pub const DUPLICATE_OBJECT: &str = "NL0205";
/// A missing or invalid name or namespace.
pub const INVALID_NAME: &str = "NL0206";
/// A policy kind that would change the answer and is not understood.
pub const POLICY_KIND_NOT_UNDERSTOOD: &str = "NL0207";
/// Another vendor's policy kind.
pub const VENDOR_POLICY: &str = "NL0208";
/// An object that changes which network a pod is on.
pub const NETWORK_NOT_MODELLED: &str = "NL0209";
/// Such an object that contradicts itself or its namespace.
pub const NETWORK_INVALID: &str = "NL0210";
/// A peer that names nobody.
pub const PEER_EMPTY: &str = "NL0211";
/// An `ipBlock` beside selectors.
pub const PEER_MIXED: &str = "NL0212";
/// Not a CIDR.
pub const INVALID_CIDR: &str = "NL0213";
/// A CIDR with host bits.
pub const CIDR_HOST_BITS: &str = "NL0214";
/// An exception that is not inside its block.
pub const EXCEPT_OUTSIDE: &str = "NL0215";
/// Not TCP, UDP or SCTP.
pub const INVALID_PROTOCOL: &str = "NL0216";
/// Not a port number or a port name.
pub const INVALID_PORT: &str = "NL0217";
/// An `endPort` that makes no range.
pub const INVALID_END_PORT: &str = "NL0218";
/// Not a policy type, or too many.
pub const INVALID_POLICY_TYPE: &str = "NL0219";
/// A policy type written twice.
pub const DOUBLED_POLICY_TYPE: &str = "NL0220";
/// A label selector that the API refuses.
pub const INVALID_SELECTOR: &str = "NL0221";
/// A port name towards addresses that have no names.
pub const PORT_NAME_FOR_BLOCK: &str = "NL0222";
/// A list element that is null.
pub const NULL_ELEMENT: &str = "NL0223";
/// A policy without `spec`.
pub const NO_SPEC: &str = "NL0224";
/// An address, port or CIDR of a cluster object that cannot be read.
pub const INVALID_ADDRESS: &str = "NL0225";
/// A selector that depends on labels of a namespace that was not given.
pub const NAMESPACE_LABELS_UNKNOWN: &str = "NL0226";
/// Two pods with one address.
pub const SHARED_ADDRESS: &str = "NL0227";
/// A block that contains addresses which netlab chose.
pub const BLOCK_MEETS_CHOSEN_ADDRESS: &str = "NL0228";
/// A workload without a pod template.
pub const NO_POD_TEMPLATE: &str = "NL0229";
/// A `priority` that is missing or not 0 to 1000.
pub const INVALID_PRIORITY: &str = "NL0230";
/// A `tier` that is missing or not one of the two.
pub const INVALID_TIER: &str = "NL0231";
/// An `action` that is missing or not one of the kind's.
pub const INVALID_ACTION: &str = "NL0232";
/// A subject that has not exactly one field.
pub const SUBJECT_NOT_ONE: &str = "NL0233";
/// A port or protocol that has not exactly one field.
pub const PORT_NOT_ONE: &str = "NL0234";
/// A list or name that is shorter or longer than the API allows.
pub const WRONG_LENGTH: &str = "NL0235";
/// A kind of which there is one, under another name.
pub const SINGLETON_NAME: &str = "NL0236";
/// A peer of a kind that only a newer API can know.
pub const PEER_NOT_KNOWN: &str = "NL0237";
/// Domain names, which netlab cannot resolve.
pub const DOMAIN_NAMES_NOT_MODELLED: &str = "NL0238";
/// Not a domain name.
pub const INVALID_DOMAIN_NAME: &str = "NL0239";
/// A protocol without its port.
pub const PROTOCOL_WITHOUT_PORT: &str = "NL0240";
/// A port name that no pod has.
pub const PORT_NAME_UNMATCHED: &str = "NL0241";
/// A selector that no node matches.
pub const NODES_UNMATCHED: &str = "NL0242";
/// Policies of one tier that the API does not order.
pub const TIED_POLICIES: &str = "NL0243";
/// A selector that takes some pods of an owner and leaves others.
pub const OWNER_SPLIT: &str = "NL0244";
/// `pods` without one of its selectors.
pub const PODS_SELECTOR_ABSENT: &str = "NL0245";
/// A Service or endpoint slice that the API refuses.
pub const INVALID_SERVICE: &str = "NL0246";

/// A claim that cannot be read.
pub const CLAIM_INVALID: &str = "NL0501";
/// A part of another tool's tests that cannot be tried here.
pub const CLAIM_NOT_SUPPORTED: &str = "NL0502";

/// Two peers where one seems meant.
pub const PEERS_ORED: &str = "NL0301";
/// A peer that no pod matches.
pub const PEER_IS_NOBODY: &str = "NL0302";
/// A namespace selected by a label `name` that it does not have.
pub const NAMESPACE_NAME_LABEL: &str = "NL0303";
/// A policy that selects no pod.
pub const SUBJECT_IS_NOBODY: &str = "NL0304";
/// A selector that can never match.
pub const SELECTOR_CONTRADICTS: &str = "NL0305";
/// A block that holds pods of the cluster too.
pub const BLOCK_HOLDS_PODS: &str = "NL0306";
/// A block of Service addresses.
pub const BLOCK_OF_SERVICES: &str = "NL0307";
/// A selector that means pods on the host's network only.
pub const HOST_NETWORK_ONLY: &str = "NL0308";
/// A list of peers or ports that is written and empty.
pub const LIST_EMPTY: &str = "NL0309";
/// Rules of a direction that `policyTypes` does not name.
pub const RULES_INERT: &str = "NL0310";
/// An empty `egress` that isolates nothing.
pub const EGRESS_NOT_ISOLATED: &str = "NL0311";
/// A policy about egress that isolates for ingress too.
pub const INGRESS_ISOLATED_TOO: &str = "NL0312";
/// A Service's port where the pod's is meant.
pub const SERVICE_PORT: &str = "NL0313";
/// A port name that none of the destination pods has.
pub const PORT_NAME_UNKNOWN: &str = "NL0314";
/// A port name that the destination pods have for another protocol.
pub const PORT_NAME_PROTOCOL: &str = "NL0315";
/// An `endPort` that is its `port`.
pub const END_PORT_EQUAL: &str = "NL0316";
/// A rule that adds nothing to others.
pub const RULE_REDUNDANT: &str = "NL0317";
/// A rule that never takes effect, as others decide before it.
pub const RULE_SHADOWED: &str = "NL0318";
/// A policy that adds nothing to others.
pub const POLICY_REDUNDANT: &str = "NL0319";
/// A peer or port that adds nothing to others of its rule.
pub const ELEMENT_REDUNDANT: &str = "NL0320";
/// A policy that leaves everything as it would be without it.
pub const POLICY_VACUOUS: &str = "NL0321";
/// Egress isolation without a way to DNS.
pub const DNS_BLOCKED: &str = "NL0322";
/// A way to DNS over one of its two protocols.
pub const DNS_ONE_PROTOCOL: &str = "NL0323";
/// A way to DNS that misses the node's cache.
pub const DNS_NODE_CACHE: &str = "NL0324";
/// DNS servers that do not admit pods.
pub const DNS_SERVER_CLOSED: &str = "NL0325";
/// A block whose exceptions leave nothing.
pub const BLOCK_IS_EMPTY: &str = "NL0326";
/// Policies whose open order decides verdicts.
pub const TIE_CONFLICTS: &str = "NL0327";
/// A v1alpha1 policy with longer lists than v1alpha2 takes.
pub const TOO_LONG_FOR_V1ALPHA2: &str = "NL0328";
/// A block that stands for pods.
pub const BLOCK_FOR_PODS: &str = "NL0331";
/// A selector that means pods on the host's network too.
pub const HOST_NETWORK_TOO: &str = "NL0332";
/// A range of ports.
pub const END_PORT_SUPPORT: &str = "NL0333";
/// A port name with several numbers.
pub const PORT_NAME_NUMBERS: &str = "NL0334";

/// A Corefile that the server cannot read.
pub const COREFILE_SYNTAX: &str = "NL0701";
/// A plugin that the server does not have.
pub const PLUGIN_UNKNOWN: &str = "NL0702";
/// A plugin's words or properties that it refuses.
pub const PLUGIN_ARGUMENTS: &str = "NL0703";
/// A zone that two blocks want.
pub const ZONE_TAKEN: &str = "NL0704";
/// A server that asks itself.
pub const DNS_LOOP: &str = "NL0705";
/// A plugin that keeps the names that it does not know.
pub const NO_FALLTHROUGH: &str = "NL0706";
/// The cluster's zone is not what the server serves.
pub const ZONE_NOT_SERVED: &str = "NL0707";
/// Upstreams that know different names.
pub const UPSTREAMS_MIXED: &str = "NL0708";
/// Names of the cluster that another block takes.
pub const ZONE_SHADOWED: &str = "NL0709";
/// A plugin that is asked before one that stands above it.
pub const PLUGIN_ORDER: &str = "NL0710";
/// A limit that refuses queries early.
pub const CONCURRENCY_LOW: &str = "NL0711";
/// Answers that outlive what they say.
pub const CACHE_LONG: &str = "NL0712";
/// `autopath` without the pods it needs to know.
pub const AUTOPATH_UNVERIFIED: &str = "NL0713";
/// A plugin that is missed when something goes wrong.
pub const PLUGIN_MISSING: &str = "NL0714";
/// Records that live too long or not at all.
pub const RECORD_TTL: &str = "NL0715";
/// AAAA answered as if the name did not exist.
pub const AAAA_NXDOMAIN: &str = "NL0716";
/// A kubelet that knows no DNS server.
pub const CLUSTER_DNS_MISSING: &str = "NL0721";
/// A kubelet that tells pods to ask somebody else.
pub const CLUSTER_DNS_WRONG: &str = "NL0722";
/// Nameservers that know different names.
pub const NAMESERVERS_MIXED: &str = "NL0723";
/// A field that kubelet does not read as it is meant.
pub const KUBELET_FIELD: &str = "NL0724";
/// A cluster domain that is missing or malformed.
pub const CLUSTER_DOMAIN: &str = "NL0725";
/// A nameserver of the node that pods cannot ask.
pub const NODE_STUB: &str = "NL0726";
/// A node's file beyond kubelet's limits.
pub const NODE_FILE_LIMITS: &str = "NL0727";
/// A line that kubelet reads otherwise than it looks.
pub const NODE_FILE_LINE: &str = "NL0728";
/// A pod that uses names of the cluster and does not ask its servers.
pub const POD_WITHOUT_CLUSTER_DNS: &str = "NL0731";
/// A pod's DNS fields that the API refuses.
pub const POD_DNS_INVALID: &str = "NL0732";
/// An `ndots` with which names are not found.
pub const POD_NDOTS: &str = "NL0733";
/// The search domain `.`.
pub const SEARCH_ROOT: &str = "NL0734";
/// A search line that musl skips.
pub const SEARCH_LINE_LONG: &str = "NL0735";
/// A DNS Service without one of its two protocols.
pub const DNS_SERVICE_PORTS: &str = "NL0741";
/// A DNS Service that leads to a port where nobody listens.
pub const DNS_SERVICE_TARGET: &str = "NL0742";
/// A DNS Service that selects nobody, or has no address.
pub const DNS_SERVICE_SELECTOR: &str = "NL0743";
/// A DNS Service that some clients cannot use.
pub const DNS_SERVICE_TRAFFIC: &str = "NL0744";
