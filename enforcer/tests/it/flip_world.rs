//! The world of the flip drill: pods, policies that change at random, and what each generation says of every probe.
//!
//! Invariant: everything follows from the seed; what a generation says is the engine's answer over the compiled
//! tables, and for pods that nobody claims that they are open.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use fastrand::Rng;
use netlab_core::input::{Budget, Document, load};
use netlab_core::model::cluster::{Cluster, Namespace, Node, ObjectKey, Pod};
use netlab_core::policy::change::{Change, Verdict};
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::image::Image;
use netlab_core::policy::query::{End, Pair};
use netlab_core::policy::trial::Trial;
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};
use netlab_enforcer::LoadOptions;
use netlab_enforcer::maps::MapSizes;
use netlab_enforcer::update::tables::{Room, Tables};
use netlab_lab::{Lab, Plan, Selection};

pub(crate) const PODS: [&str; 5] = ["web", "db", "api", "job", "ops"];
/// The ports that rules name, and one that none does.
pub(crate) const PORTS: [u16; 3] = [5000, 5001, 5002];
/// Web may always reach this one of db, by a policy that never changes.
pub(crate) const KEPT: u16 = 6000;

/// Small enough that numbers of the kernel are reused all the time.
pub(crate) const OPTIONS: LoadOptions = LoadOptions {
    sizes: MapSizes { rulesets: 40, counters: 2_048, event_bytes: 1 << 20, ..MapSizes::LAB },
    ..LoadOptions::LAB
};

pub(crate) fn key(pod: &str) -> ObjectKey {
    ObjectKey::new("shop", pod)
}

pub(crate) fn address(pod: usize) -> IpAddr {
    Ipv4Addr::new(10, 1, 0, u8::try_from(pod + 2).expect("few pods")).into()
}

/// Who sends to whom on which port: indices of [`PODS`] and a port.
pub(crate) type Probe = (usize, usize, u16);

pub(crate) fn probes() -> Vec<Probe> {
    let mut probes = Vec::new();
    for from in 0..PODS.len() {
        for to in (0..PODS.len()).filter(|to| *to != from) {
            probes.extend(PORTS.map(|port| (from, to, port)));
        }
    }
    probes
}

/// What a hook says: nothing, when nobody claims the pod.
pub(crate) type Hop = Option<(Verdict, u32)>;

/// A generation and what it says.
pub(crate) struct Generation {
    pub(crate) change: Change,
    /// Where the writer puts it, as anybody can work out.
    pub(crate) tables: Tables,
    /// Egress of the source, ingress of the destination.
    pub(crate) says: BTreeMap<Probe, [Hop; 2]>,
    /// The logical ruleset of each pod.
    pub(crate) rulesets: BTreeMap<usize, u32>,
}

impl Generation {
    pub(crate) fn allows(&self, probe: Probe, hook: usize) -> bool {
        self.says[&probe][hook].is_none_or(|(verdict, _)| verdict == Verdict::Allow)
    }
}

/// The objects, as they are now.
pub(crate) struct World {
    rng: Rng,
    cluster: Cluster,
    policies: BTreeMap<u32, String>,
    claimed: BTreeSet<ObjectKey>,
    numbers: Numbers,
    next_policy: u32,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut cluster = Cluster::default();
        let node = "172.18.0.2".parse().expect("address");
        cluster.nodes.insert("n1".to_owned(), Node { addresses: vec![node], ..Node::default() });
        cluster.namespaces.insert("shop".to_owned(), Namespace::default());
        for (number, name) in PODS.iter().enumerate() {
            let pod = Pod { addresses: vec![address(number)], node: Some("n1".to_owned()), ..Pod::default() };
            cluster.pods.insert(key(name), pod);
        }
        let mut world = Self {
            rng: Rng::with_seed(seed),
            cluster,
            policies: BTreeMap::new(),
            claimed: PODS.map(key).into_iter().collect(),
            numbers: Numbers::default(),
            next_policy: 1,
        };
        for pod in PODS {
            world.relabel(pod);
        }
        for _ in 0..4 {
            world.new_policy();
        }
        world
    }

    pub(crate) fn lab(&self) -> Lab {
        Lab::build(&Plan::new(&self.cluster, &Selection::everything()).expect("a plan")).expect("a lab")
    }

    /// Something changes.
    pub(crate) fn step(&mut self) {
        match self.rng.u8(0..10) {
            0..=2 => {
                let pod = PODS[self.rng.usize(0..PODS.len())];
                self.relabel(pod);
            }
            3..=4 => {
                let pod = key(PODS[self.rng.usize(0..PODS.len())]);
                if !self.claimed.remove(&pod) {
                    self.claimed.insert(pod);
                }
            }
            5..=6 if self.policies.len() > 2 => {
                let number = self.rng.usize(0..self.policies.len());
                let policy = *self.policies.keys().nth(number).expect("there");
                self.policies.remove(&policy);
                self.new_policy();
            }
            7 if self.policies.len() > 2 => drop(self.policies.pop_first()),
            _ => self.new_policy(),
        }
    }

    fn relabel(&mut self, pod: &str) {
        let (app, tier) = (self.rng.u8(0..3), self.rng.u8(0..2));
        let labels = [("app", format!("a{app}")), ("tier", format!("t{tier}")), ("pod", pod.to_owned())];
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.cluster.pods.get_mut(&key(pod)).expect("a pod").labels = labels;
    }

    fn selector(&mut self) -> String {
        match self.rng.u8(0..4) {
            0 => "{}".to_owned(),
            1 => format!("{{matchLabels: {{tier: t{}}}}}", self.rng.u8(0..2)),
            _ => format!("{{matchLabels: {{app: a{}}}}}", self.rng.u8(0..3)),
        }
    }

    fn peers(&mut self) -> String {
        match self.rng.u8(0..5) {
            0 => String::new(),
            // Prefixes that part the pods, so that classes are split and joined.
            1 => {
                let length = self.rng.u8(28..=32);
                let last = (self.rng.u8(0..8) >> (32 - length)) << (32 - length);
                format!("[{{ipBlock: {{cidr: 10.1.0.{last}/{length}}}}}]")
            }
            2 => "[{ipBlock: {cidr: 10.1.0.0/16, except: [10.1.0.4/31]}}]".to_owned(),
            _ => format!("[{{podSelector: {}}}]", self.selector()),
        }
    }

    fn new_policy(&mut self) {
        let subject = self.selector();
        let mut spec = format!("podSelector: {subject}\n  policyTypes: ");
        let directions: &[(&str, &str, &str)] = match self.rng.u8(0..3) {
            0 => &[("Ingress", "ingress", "from")],
            1 => &[("Egress", "egress", "to")],
            _ => &[("Ingress", "ingress", "from"), ("Egress", "egress", "to")],
        };
        let types: Vec<&str> = directions.iter().map(|(kind, ..)| *kind).collect();
        spec += &format!("[{}]\n", types.join(", "));
        for (_, rules, peers) in directions {
            let who = self.peers();
            let mut rule = Vec::new();
            if !who.is_empty() {
                rule.push(format!("{peers}: {who}"));
            }
            if self.rng.bool() {
                let port = PORTS[self.rng.usize(0..2)];
                rule.push(format!("ports: [{{protocol: UDP, port: {port}}}]"));
            }
            spec += &format!("  {rules}: [{{{}}}]\n", rule.join(", "));
        }
        self.policies.insert(self.next_policy, spec);
        self.next_policy += 1;
    }

    /// Compiles what is now, beside what is in force.
    pub(crate) fn generation(&mut self, number: u32, lab: &Lab, former: Option<&Generation>) -> Generation {
        let mut text = String::new();
        for (policy, spec) in &self.policies {
            text += &manifest(&format!("p{policy}"), spec);
        }
        let port = format!("ports: [{{protocol: TCP, port: {KEPT}}}]");
        let pod = |name| format!("{{podSelector: {{matchLabels: {{pod: {name}}}}}}}");
        text += &manifest(
            "kept-db",
            &format!(
                "podSelector: {{matchLabels: {{pod: db}}}}\n  policyTypes: [Ingress]\n  ingress: [{{from: [{}], {port}}}]\n",
                pod("web")
            ),
        );
        text += &manifest(
            "kept-web",
            &format!(
                "podSelector: {{matchLabels: {{pod: web}}}}\n  policyTypes: [Egress]\n  egress: [{{to: [{}], {port}}}]\n",
                pod("db")
            ),
        );
        let loaded = load([Document { name: "policies.yaml".into(), text: text.into() }], &Budget::default());
        assert!(loaded.is_complete(), "{:#?}", loaded.diagnostics);
        let scope = Scope::Pods(self.cluster.pods.keys().cloned().collect());
        let compiled =
            compile_with(&self.cluster, &loaded.policies, &scope, &self.numbers, &Limits::default());
        assert!(compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
        let rulesets = compiled.rulesets;
        self.numbers = rulesets.numbers.clone();
        let claimed = &self.claimed;
        let change = rulesets.change(number, |key| {
            claimed.contains(key).then(|| lab.host_interface(key).expect("link").name.clone())
        });
        let image = Image::from_change(&change).expect("an image");
        let room = Room { rulesets: OPTIONS.sizes.rulesets, entries: OPTIONS.sizes.counters };
        let tables = Tables::place(&image, former.map(|former| &former.tables), room).expect("placed");

        let trial = Trial::new(&rulesets).expect("an image");
        let mut says = BTreeMap::new();
        for probe in probes() {
            let (from, to, port) = probe;
            let tuple = Tuple {
                source: address(from),
                destination: address(to),
                protocol: 17,
                source_port: 40_000,
                destination_port: port,
            };
            let [source, destination] = [key(PODS[from]), key(PODS[to])];
            let pair = Pair::direct(End::Pod(source.clone()), End::Pod(destination.clone()), tuple);
            let [egress, ingress] = trial.hops(&self.cluster, &pair);
            let said = |hop: Option<_>, pod| {
                let hop: netlab_core::policy::trial::HopVerdict = hop.expect("a hook");
                claimed.contains(pod).then_some((hop.verdict, hop.entry))
            };
            says.insert(probe, [said(egress, &source), said(ingress, &destination)]);
        }
        let rulesets = change
            .pods
            .iter()
            .filter_map(|pod| Some((PODS.iter().position(|name| *name == pod.name)?, pod.ruleset)))
            .collect();
        Generation { change, tables, says, rulesets }
    }
}

fn manifest(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  {spec}"
    )
}
