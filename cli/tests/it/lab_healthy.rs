//! Fifty healthy diagnoses: IPv4 alone, both families and IPv6 alone, both proxies, pods on both nodes, the views of glibc and
//! musl, names inside and outside. Not one of them may be anything but healthy.

use std::sync::Mutex;

use serde_json::Value;

use crate::lab::Labs;
use crate::run::root_or_skip;

/// The addresses of what a cluster consists of, by the families that it has.
pub(crate) struct Family {
    name: &'static str,
    nodes: [&'static str; 2],
    pods: [&'static str; 2],
    service: &'static str,
}

pub(crate) const FAMILIES: [Family; 3] = [
    Family {
        name: "IPv4",
        nodes: ["192.0.2.11", "192.0.2.12"],
        pods: ["10.244.1.2", "10.244.2.2"],
        service: "ipFamilies: [IPv4]",
    },
    Family {
        name: "both",
        nodes: ["192.0.2.11 2001:db8:1::11", "192.0.2.12 2001:db8:1::12"],
        pods: ["10.244.1.2 fd00:10:244:1::2", "10.244.2.2 fd00:10:244:2::2"],
        service: "ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack",
    },
    Family {
        name: "IPv6",
        nodes: ["2001:db8:1::11", "2001:db8:1::12"],
        pods: ["fd00:10:244:1::2", "fd00:10:244:2::2"],
        service: "ipFamilies: [IPv6]",
    },
];

/// Pods on either node, a Service, and DNS that the lab adds.
pub(crate) fn world(family: &Family) -> String {
    let mut text = "{apiVersion: v1, kind: Namespace, metadata: {name: t}}\n".to_owned();
    for (index, name) in ["n1", "n2"].iter().enumerate() {
        let addresses: Vec<String> = family.nodes[index]
            .split(' ')
            .map(|address| format!("{{type: InternalIP, address: \"{address}\"}}"))
            .collect();
        text += &format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{addresses: [{}]}}}}\n",
            addresses.join(", ")
        );
        let ips: Vec<String> =
            family.pods[index].split(' ').map(|address| format!("{{ip: \"{address}\"}}")).collect();
        text += &format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: app-{name}, namespace: t, labels: {{app: api}}}}, spec: {{nodeName: {name}, \
             containers: [{{name: c}}]}}, status: {{phase: Running, podIPs: [{}], conditions: [{{type: Ready, status: \"True\"}}]}}}}\n",
            ips.join(", ")
        );
    }
    text += &format!(
        "---\n{{apiVersion: v1, kind: Service, metadata: {{name: api, namespace: t}}, spec: {{selector: {{app: api}}, ports: [{{port: 80}}], {}}}}}\n",
        family.service
    );
    text
}

/// What is wrong with a diagnosis that should be healthy; nothing if it is.
fn unwell(labs: &Labs, question: &str) -> Option<String> {
    let (code, said) = labs.json(&format!("netlab dns diagnose {question} --lab lab"));
    let verdict = &said["verdict"];
    let healthy =
        code == Some(0) && verdict["class"] == "healthy" && said["contributing"] == Value::Array(Vec::new());
    (!healthy).then(|| format!("{question}: {verdict:#}\n{:#}\n{:#}", said["because"], said["steps"]))
}

#[test]
fn fifty_healthy_pods_are_healthy() {
    if !root_or_skip("fifty_healthy_pods_are_healthy") {
        return;
    }
    let mut beds: Vec<(String, Option<&Family>, &str, Vec<String>)> = Vec::new();
    for family in &FAMILIES {
        for proxy in ["nftables", "iptables"] {
            let mut questions = Vec::new();
            for pod in ["t/app-n1", "t/app-n2"] {
                for libc in ["glibc:2.36", "musl:1.2.5"] {
                    questions
                        .extend(["api", "example.com"].map(|name| format!("{pod} {name} --libc {libc}")));
                }
            }
            beds.push((format!("{} by {proxy}", family.name), Some(family), proxy, questions));
        }
    }
    // One with policies in force.
    let shop = ["shop/api cache", "shop/web api example.org"].map(str::to_owned);
    beds.push(("examples/shop".to_owned(), None, "nftables", shop.to_vec()));
    let asked: usize = beds.iter().map(|(_, _, _, questions)| questions.len()).sum();
    assert_eq!(asked, 50);
    let waiting = Mutex::new(beds);
    let unwell_ones = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let bed = waiting.lock().expect("nobody failed").pop();
                    let Some((name, family, proxy, questions)) = bed else { return };
                    let labs = Labs::new();
                    let manifests = labs.directory.path().join("world.yaml");
                    let from = match family {
                        Some(family) => {
                            std::fs::write(&manifests, world(family)).expect("written");
                            manifests.display().to_string()
                        }
                        None => "examples/shop".to_owned(),
                    };
                    labs.good(&format!("netlab lab up -f {from} --dns --proxy {proxy}"));
                    for question in questions {
                        if let Some(why) = unwell(&labs, &question) {
                            unwell_ones.lock().expect("nobody failed").push(format!("{name}: {why}"));
                        }
                    }
                }
            });
        }
    });
    let unwell_ones = unwell_ones.into_inner().expect("nobody failed");
    assert!(unwell_ones.is_empty(), "{} of 50:\n{}", unwell_ones.len(), unwell_ones.join("\n"));
}
