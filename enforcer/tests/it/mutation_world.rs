//! What the fault tables of both datapaths share: a small cluster, questions about it, and how a fault must show.
//!
//! Invariant: every question is proved before a fault is put in, so what is seen afterwards is the fault's doing.

use std::collections::BTreeSet;
use std::thread;

use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::backends::{backends, service_port};
use netlab_core::policy::change::Verdict;
use netlab_core::policy::query::{End, Query, Service};
use netlab_enforcer::prove::proof::{Proof, ProofOutcome};
use netlab_enforcer::prove::{Datapath, Interference, Written, prove_with};
use netlab_plugin::contract::Backend;

const WORLD: &str = r"
apiVersion: v1
kind: Node
metadata: {name: one}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}, {type: InternalIP, address: 'fd00:2::1'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: one, containers: [{name: c}]}
status: {podIPs: [{ip: 10.1.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {nodeName: one, containers: [{name: c, ports: [{name: sql, containerPort: 5432}]}]}
status: {podIPs: [{ip: 10.1.0.3}, {ip: 'fd00:1::3'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: api, namespace: shop, labels: {app: api}}
spec: {nodeName: one, containers: [{name: c}]}
status: {podIPs: [{ip: 10.1.0.4}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cache, namespace: shop, labels: {app: cache}}
spec: {nodeName: one, containers: [{name: c}]}
status: {podIPs: [{ip: 10.1.0.5}]}
---
apiVersion: v1
kind: Pod
metadata: {name: asker, namespace: shop, labels: {app: asker}}
spec: {nodeName: one, containers: [{name: c}]}
status: {podIPs: [{ip: 10.1.0.6}]}
---
apiVersion: v1
kind: Service
metadata: {name: to-api, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: api}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: to-web, namespace: shop}
spec: {clusterIP: 10.96.0.2, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: to-both, namespace: shop}
spec: {clusterIP: 10.96.0.3, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: to-both-1, namespace: shop, labels: {kubernetes.io/service-name: to-both}}
addressType: IPv4
ports: [{name: '', port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.1.0.2], nodeName: one}, {addresses: [10.1.0.4], nodeName: one}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: asker, namespace: shop}
spec:
  podSelector: {matchLabels: {app: asker}}
  policyTypes: [Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: api}}}]
    ports: [{port: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: cache, namespace: shop}
spec:
  podSelector: {matchLabels: {app: cache}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 5432}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: api}}}]
    ports: [{port: sql}, {protocol: UDP, port: 53}]
  - from:
    - ipBlock: {cidr: 198.51.100.0/24, except: [198.51.100.128/25]}
    - ipBlock: {cidr: '2001:db8:a::/48'}
    ports: [{port: 5432, endPort: 5440}]
  egress:
  - to: [{ipBlock: {cidr: 203.0.113.0/24}}]
    ports: [{port: 443}]
";

/// A question and the verdict that the policies mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ask {
    from: &'static str,
    /// An address, a pod, or a pod that a Service is to lead to: `SERVICE > POD`.
    to: &'static str,
    protocol: u8,
    port: u16,
    verdict: Verdict,
}

const fn ask(from: &'static str, to: &'static str, protocol: u8, port: u16, verdict: Verdict) -> Ask {
    Ask { from, to, protocol, port, verdict }
}

/// A rule allows it at the destination.
pub(crate) const ALLOWED: Ask = ask("api", "db", 6, 5432, Verdict::Allow);
/// The same rule's other port.
pub(crate) const ALLOWED_UDP: Ask = ask("api", "db", 17, 53, Verdict::Allow);
/// Nothing allows it at the destination.
pub(crate) const DENIED: Ask = ask("web", "db", 6, 5432, Verdict::Deny);
/// Allowed by a block.
pub(crate) const IN_BLOCK: Ask = ask("198.51.100.7", "db", 6, 5435, Verdict::Allow);
/// The first port of the range, with a block's address.
pub(crate) const IN_BLOCK_FIRST: Ask = ask("198.51.100.7", "db", 6, 5432, Verdict::Allow);
/// The last address of the block.
pub(crate) const LAST_OF_BLOCK: Ask = ask("198.51.100.127", "db", 6, 5435, Verdict::Allow);
/// The last port of the range.
pub(crate) const LAST_OF_RANGE: Ask = ask("198.51.100.7", "db", 6, 5440, Verdict::Allow);
/// One port after the range.
pub(crate) const AFTER_RANGE: Ask = ask("198.51.100.7", "db", 6, 5441, Verdict::Deny);
/// Inside the exception.
pub(crate) const IN_EXCEPTION: Ask = ask("198.51.100.200", "db", 6, 5435, Verdict::Deny);
/// Allowed by a block of the other family.
pub(crate) const IN_BLOCK6: Ask = ask("2001:db8:a::7", "db", 6, 5435, Verdict::Allow);
/// In no block of the other family.
pub(crate) const OUTSIDE6: Ask = ask("2001:db8:b::7", "db", 6, 5435, Verdict::Deny);
/// A rule allows it at the source.
pub(crate) const LEAVING: Ask = ask("db", "203.0.113.9", 6, 443, Verdict::Allow);
/// Nothing allows it at the source.
pub(crate) const KEPT: Ask = ask("db", "203.0.113.9", 6, 80, Verdict::Deny);
/// By the node on which the pod runs.
pub(crate) const BY_NODE: Ask = ask("192.0.2.1", "db", 6, 9, Verdict::Allow);
/// Two pods under no policy.
pub(crate) const OPEN: Ask = ask("web", "api", 6, 80, Verdict::Allow);
/// To the pod of another policy.
pub(crate) const OTHER_POD: Ask = ask("web", "cache", 6, 5432, Verdict::Allow);

/// Through a Service, whose one endpoint a rule admits.
pub(crate) const TO_API: Ask = ask("asker", "to-api > api", 6, 80, Verdict::Allow);
/// Through a Service to what no rule admits.
pub(crate) const TO_WEB: Ask = ask("asker", "to-web > web", 6, 80, Verdict::Deny);
/// To the admitted one of two endpoints of a Service.
pub(crate) const TO_BOTH_API: Ask = ask("asker", "to-both > api", 6, 80, Verdict::Allow);
/// To the other one.
pub(crate) const TO_BOTH_WEB: Ask = ask("asker", "to-both > web", 6, 80, Verdict::Deny);
/// To a pod itself that no rule admits.
pub(crate) const TO_WEB_ITSELF: Ask = ask("asker", "web", 6, 8080, Verdict::Deny);

/// Addresses of the pods.
pub(crate) const DB: [u8; 4] = [10, 1, 0, 3];
pub(crate) const API: [u8; 4] = [10, 1, 0, 4];
pub(crate) const WEB: [u8; 4] = [10, 1, 0, 2];
pub(crate) const CACHE: [u8; 4] = [10, 1, 0, 5];

/// How a fault shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// The proof is contradicted, and these words are among what differs.
    ByProof(&'static str),
    /// No packet of a new connection can meet it: the proof holds, the audit tells these words.
    ByAudit(&'static str),
}

fn world() -> Loaded {
    let loaded = load([Document { name: "world.yaml".into(), text: WORLD.into() }], &Budget::default());
    assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    loaded
}

impl Ask {
    fn query(self, loaded: &Loaded) -> Query {
        let end = |text: &str| match text.parse() {
            Ok(address) => End::Address(address),
            Err(_) => End::Pod(ObjectKey::new("shop", text)),
        };
        let from = vec![end(self.from)];
        let Some((name, _)) = self.to.split_once(" > ") else {
            let service = Service::Port { protocol: self.protocol, port: self.port };
            return Query { from, to: vec![end(self.to)], service };
        };
        let key = ObjectKey::new("shop", name);
        let port = service_port(&loaded.cluster, &key, None).expect("it has one");
        assert_eq!(port.port, self.port, "{self:?}");
        let all = backends(&loaded.cluster, &key, port);
        let addresses = loaded.cluster.services[&key].cluster_ips.clone();
        let to = all.iter().map(|backend| backend.end.clone()).collect();
        Query { from, to, service: Service::Backends { all, addresses, port: port.port, unaddressed: None } }
    }

    pub(crate) fn prove_with(
        self,
        loaded: &Loaded,
        datapath: Datapath,
        interfere: Interference<'_>,
    ) -> Proof {
        let proven = prove_with(loaded, &self.query(loaded), datapath, interfere)
            .unwrap_or_else(|error| panic!("{self:?}: {error:?}"));
        let wanted = self.to.split_once(" > ").map(|(_, pod)| format!("shop/{pod}"));
        let mut proofs = proven.proofs;
        proofs.retain(|proof| wanted.as_ref().is_none_or(|pod| proof.query.to == *pod));
        let [proof] = proofs.try_into().unwrap_or_else(|_| panic!("{self:?}: one pair is asked about"));
        proof
    }
}

/// The proof of a question without any fault: it holds and says what the policies mean, and the audit has nothing to
/// tell.
fn honest(loaded: &Loaded, asked: Ask, datapath: Datapath) -> Proof {
    let proof = asked.prove_with(loaded, datapath, &mut |node| {
        let observed = match node {
            Written::Tc(backend) => backend.observe(),
            Written::Nft(backend, _) => backend.observe(),
        };
        assert_eq!(observed.expect("readable").drift, Vec::<String>::new(), "{asked:?} without a fault");
    });
    assert_eq!(proof.outcome, ProofOutcome::Proved, "{asked:?} without a fault: {proof:#?}");
    assert_eq!((proof.predicted, proof.observed), (asked.verdict.into(), Some(asked.verdict)), "{asked:?}");
    proof
}

/// Whether a fault of this name is wanted: all are, unless `NETLAB_FAULT` has words that must be in it.
pub(crate) fn is_wanted(name: &str) -> bool {
    std::env::var("NETLAB_FAULT").map_or(true, |words| name.contains(&words))
}

/// Faults that are tried at one time: each proof waits for the kernel more than it works.
const AT_ONCE: usize = 3;

/// Tries every fault, each question first without one. Gives what was not seen, in order of the table.
pub(crate) fn side_by_side<F: Sync>(
    datapath: Datapath,
    faults: &[F],
    asked: impl Fn(&F) -> Ask + Sync,
    try_one: impl Fn(&Loaded, &Proof, &F) -> Option<String> + Sync,
) -> Vec<String> {
    let loaded = world();
    let questions: BTreeSet<Ask> = faults.iter().map(&asked).collect();
    let questions: Vec<Ask> = questions.into_iter().collect();
    let work = |worker: usize| {
        let mut unseen = Vec::new();
        for question in questions.iter().skip(worker).step_by(AT_ONCE) {
            let honest = honest(&loaded, *question, datapath);
            for (index, fault) in faults.iter().enumerate().filter(|(_, fault)| asked(fault) == *question) {
                unseen.extend(try_one(&loaded, &honest, fault).map(|why| (index, why)));
            }
        }
        unseen
    };
    let mut unseen: Vec<(usize, String)> = thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..AT_ONCE).map(|worker| scope.spawn(move || work(worker))).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("the worker's own panic is above"))
            .collect()
    });
    unseen.sort();
    unseen.into_iter().map(|(_, why)| why).collect()
}

/// Why a fault was not seen as it should be, if so.
pub(crate) fn unseen(seen: Seen, proof: &Proof, drift: &[String]) -> Option<String> {
    if drift.is_empty() {
        return Some("the audit finds nothing".to_owned());
    }
    match seen {
        Seen::ByProof(words) if proof.outcome != ProofOutcome::Contradicted => {
            Some(format!("the proof is {:?}, not contradicted with {words:?}", proof.outcome))
        }
        Seen::ByProof(words) => (!proof.differences.iter().any(|line| line.contains(words)))
            .then(|| format!("no difference says {words:?}: {:#?}", proof.differences)),
        Seen::ByAudit(_) if proof.outcome != ProofOutcome::Proved => {
            Some(format!("the proof sees it now: {:#?}", proof.differences))
        }
        Seen::ByAudit(words) => (!drift.iter().any(|line| line.contains(words)))
            .then(|| format!("the audit does not say {words:?}: {drift:#?}")),
    }
}
