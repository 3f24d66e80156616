//! `policy connections` about one end: a pod of several, a Service by its address, pods that have finished.

use crate::run::{Run, netlab_reading};

const SHOP: &str = "apiVersion: v1
kind: Pod
metadata: {name: api-1, namespace: shop, labels: {app: api},
  ownerReferences: [{kind: ReplicaSet, name: api, apiVersion: apps/v1, controller: true}]}
status: {podIP: 10.0.0.1, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: api-2, namespace: shop, labels: {app: api, canary: 'yes'},
  ownerReferences: [{kind: ReplicaSet, name: api, apiVersion: apps/v1, controller: true}]}
status: {podIP: 10.0.0.2, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
status: {podIP: 10.0.0.3, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: shop}
status: {podIP: 10.0.0.4, phase: Running}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: canary, namespace: shop}
spec:
  podSelector: {matchLabels: {canary: 'yes'}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {clusterIP: 10.96.0.10, externalIPs: [192.0.2.10], selector: {app: api}, ports: [{port: 8080, targetPort: 80}]}
";

fn list(text: &str, more: &[&str]) -> Run {
    let arguments = ["policy", "connections", "-f", "-", "--external", "off", "-n", "shop"];
    netlab_reading(text, &arguments.iter().chain(more).copied().collect::<Vec<_>>())
}

#[test]
fn a_pod_of_several_is_listed_by_itself() {
    // The workload's answer is that of all of its pods together, and open: they differ.
    let workload = list(SHOP, &["--to", "rs/api"]);
    assert_eq!(workload.code, Some(3));
    assert!(
        workload.stdout.starts_with("FROM  TO        ALLOWED\n*     shop/api  all\n"),
        "{}",
        workload.stdout
    );
    for to in ["api-2", "pod/api-2", "10.0.0.2"] {
        let pod = list(SHOP, &["--to", to]);
        assert_eq!(pod.code, Some(0), "{to}: {}", pod.stderr);
        let rows = "FROM      TO          ALLOWED\nshop/web  shop/api-2  TCP 80\n1 of 3 pairs; ";
        assert!(pod.stdout.starts_with(rows), "{to}: {}", pod.stdout);
        let said = "note: pod shop/api-2, one of 2 of shop/api[ReplicaSet], is listed by itself\n";
        assert!(pod.stderr.contains(said), "{to}: {}", pod.stderr);
    }
    // Its siblings may be its peers.
    let from = list(SHOP, &["--from", "api-2", "--to", "api-1"]);
    assert!(from.stdout.contains("shop/api-2  shop/api-1  all\n1 of 1 pair;"), "{}", from.stdout);
}

#[test]
fn an_address_of_a_service_stands_for_the_service() {
    for to in ["10.96.0.10", "192.0.2.10"] {
        let run = list(SHOP, &["--from", "web", "--to", to]);
        assert!(run.stdout.contains("shop/web  shop/api  TCP 80\n"), "{}", run.stdout);
        let said = format!("note: {to} is an address of svc/shop/api: asked is what it leads to\n");
        assert!(run.stderr.contains(&said), "{}", run.stderr);
    }
    let ask = |command: &str, more: &[&str]| {
        let head = ["policy", command, "-f", "-", "-n", "shop", "--from", "web", "--to", "10.96.0.10"];
        netlab_reading(SHOP, &head.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let run = ask("eval", &["--port", "8080", "-o", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((run.code, answer["verdict"].as_str()), (Some(0), Some("allow")), "{}", run.stderr);
    assert_eq!(answer["notes"][0], "10.96.0.10 is an address of svc/shop/api: asked is what it leads to");
    assert_eq!(answer["endpoints"].as_array().map(Vec::len), Some(2));
    let proof = ask("prove", &["--port", "8080", "--backend", "none", "--allow-simulated"]);
    assert_eq!(proof.code, Some(0), "{}", proof.stderr);
    assert!(proof.stdout.contains("shop/api-2"), "{}", proof.stdout);
    // No port of the Service, and no way to send from there.
    let run = ask("eval", &["--port", "80", "-o", "json"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stdout.contains("Service shop/api has no port 80; it has 8080/tcp"), "{}", run.stdout);
    let run = list(SHOP, &["--from", "10.96.0.10"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("that is an address of svc/shop/api"), "{}", run.stderr);
}

/// A balancer admits its ranges alone, so a block of addresses outside is listed as far as it is within them.
#[test]
fn sources_outside_are_those_that_a_balancer_admits() {
    const BALANCED: &str = "---
apiVersion: v1
kind: Service
metadata: {name: balanced, namespace: shop}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.11
  externalTrafficPolicy: POLICY
  loadBalancerSourceRanges: [203.0.113.0/24, 198.18.0.0/15]
  selector: {app: web}
  ports: [{port: 8080, targetPort: 80}]
status: {loadBalancer: {ingress: [{ip: 192.0.2.11}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: outside, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{ipBlock: {cidr: 198.0.0.0/8}}, {ipBlock: {cidr: 203.0.113.64/26}}]}]
";
    let rows = |policy: &str, to: &str, more: &[&str]| {
        let text = SHOP.to_owned() + &BALANCED.replace("POLICY", policy);
        let arguments = ["policy", "connections", "-f", "-", "-n", "shop", "-o", "json", "--to", to];
        let run = netlab_reading(&text, &[&arguments[..], more].concat());
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        let rows: Vec<String> = json["connections"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|row| row["from"].as_str().unwrap_or_default().to_owned())
            .filter(|from| !from.starts_with("shop/"))
            .collect();
        (rows, json["notes"].to_string())
    };
    let (all, _) = rows("Local", "web", &[]);
    assert_eq!(all, ["198.0.0.0/8 + 203.0.113.64/26"], "to the pod itself");
    let (found, notes) = rows("Local", "192.0.2.11", &[]);
    assert_eq!(found, ["198.18.0.0/15 + 203.0.113.64/26"], "{notes}");
    assert!(notes.contains("svc/shop/balanced admits only 203.0.113.0/24, 198.18.0.0/15 there"), "{notes}");
    assert!(!notes.contains("undefined"), "{notes}");
    let (found, notes) = rows("Local", "192.0.2.11", &["--from", "198.51.100.1"]);
    assert_eq!(found, <[&str; 0]>::default(), "a policy admits it, the balancer does not: {notes}");
    let (_, notes) = rows("Cluster", "192.0.2.11", &[]);
    assert!(
        notes.contains("(externalTrafficPolicy Cluster), so whether those listed get in is undefined"),
        "{notes}"
    );
    // Of its own family alone, and seen with an address of a node.
    let (found, notes) = rows("Local", "10.96.0.11", &[]);
    assert_eq!(found, ["198.0.0.0/8 + 203.0.113.64/26"], "{notes}");
    assert!(notes.contains("(a cluster IP), so whether those listed get in is undefined"), "{notes}");
}

/// A finished pod of a controller, or of nobody.
fn finished(name: &str, phase: &str, owner: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop{owner}}}\n\
         status: {{podIP: 10.0.1.1, phase: {phase}}}\n"
    )
}

fn owner(kind: &str, name: &str) -> String {
    format!(", ownerReferences: [{{kind: {kind}, name: {name}, apiVersion: v1, controller: true}}]")
}

fn with_finished_pods() -> String {
    let job = |name: &str, above: &str| {
        format!(
            "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: shop{above}}}\n\
             spec: {{template: {{spec: {{containers: [{{name: c}}]}}}}}}\n"
        )
    };
    SHOP.to_owned()
        + &finished("bare", "Succeeded", "")
        + &finished("import-x", "Failed", &owner("Job", "import"))
        + &job("import", "")
        + &finished("nightly-1-x", "Succeeded", &owner("Job", "nightly-1"))
        + &job("nightly-1", &owner("CronJob", "nightly"))
        + &finished("evicted-x", "Failed", &owner("ReplicaSet", "evicted"))
        + &finished("api-0", "Failed", &owner("ReplicaSet", "api"))
}

fn json(run: &Run) -> serde_json::Value {
    serde_json::from_str(&run.stdout).expect("JSON")
}

#[test]
fn pods_that_have_finished_for_good_are_named_and_can_be_left_out() {
    let text = with_finished_pods();
    let ids = |answer: &serde_json::Value| -> Vec<String> {
        let peers = answer["peers"].as_array().expect("peers");
        peers.iter().filter_map(|peer| peer["id"].as_str()).map(str::to_owned).collect()
    };
    let between = "shop/evicted[ReplicaSet], shop/nightly-1[Job]: every pod has finished; listed as if their next pods ran";
    let over = "shop/bare, shop/import-x have finished, and nothing follows them";
    let all = json(&list(&text, &["-o", "json"]));
    let left = json(&list(&text, &["-o", "json", "--finished", "off"]));
    let listed = [
        "shop/api[ReplicaSet]",
        "shop/evicted[ReplicaSet]",
        "shop/nightly-1[Job]",
        "shop/other[Pod]",
        "shop/web[Pod]",
    ];
    assert_eq!(ids(&left), listed);
    let mut with_them: Vec<&str> = listed.into_iter().chain(["shop/bare[Pod]", "shop/import[Job]"]).collect();
    with_them.sort_unstable();
    assert_eq!(ids(&all), with_them);
    let ran = format!("{over}: listed as if they ran; `--finished off` leaves them out");
    assert_eq!(all["notes"], serde_json::json!([ran, between]));
    assert_eq!(left["notes"], serde_json::json!([format!("{over}: they are left out"), between]));

    let named = list(&text, &["--to", "bare", "--finished", "off"]);
    assert!(
        named.stderr.contains("note: pod shop/bare has finished: policies are not about it\n"),
        "{}",
        named.stderr
    );
    assert!(named.stdout.starts_with("0 of 0 pairs"), "{}", named.stdout);
    // A comparison says the same of both sides.
    let without = ["policy", "diff", "-f", "-", "--without", "NetworkPolicy/shop/canary", "-o", "json"];
    let notes = json(&netlab_reading(&text, &without))["notes"].clone();
    let is_said = |note: &serde_json::Value| notes.as_array().is_some_and(|notes| notes.contains(note));
    assert!(all["notes"].as_array().expect("notes").iter().all(is_said), "{notes}");
    let off: Vec<&str> = without.iter().chain(&["--finished", "off"]).copied().collect();
    assert_eq!(ids(&json(&netlab_reading(&text, &off))).iter().filter(|id| id.contains("bare")).count(), 0);
}

#[test]
fn claims_are_drafted_of_running_pods_and_of_addresses_that_hosts_can_have() {
    let text = with_finished_pods();
    let draft = netlab_reading(&text, &["policy", "test", "--record", "-f", "-"]).stdout;
    for gone in ["bare", "import", "nightly", "evicted", "api-0", " 0.", ": 0."] {
        assert!(!draft.contains(gone), "{gone}: {draft}");
    }
    assert!(draft.contains("{from: 203.0.113.2, to: shop/web, port: 80/tcp, expect: allow}"), "{draft}");
    assert!(
        draft.contains("{from: pod/shop/other, to: pod/shop/api-2, port: 80/tcp, expect: deny}"),
        "{draft}"
    );
    // One question does not ask the finished pod of a workload either.
    let ask = [
        "policy", "eval", "-f", "-", "-n", "shop", "--from", "other", "--to", "rs/api", "--port", "80", "-o",
        "json",
    ];
    let answer = json(&netlab_reading(&text, &ask));
    let asked: Vec<&str> =
        answer["pairs"].as_array().expect("pairs").iter().filter_map(|pair| pair["to"].as_str()).collect();
    assert_eq!(asked, ["shop/api-1", "shop/api-2"]);
}

/// Two nodes, a client and a server on each.
fn two_nodes(service: &str, status: &str) -> String {
    let pod = |name: &str, node: &str, address: &str, app: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, labels: {{app: {app}}}}}\nspec: {{nodeName: {node}}}\nstatus: {{podIP: {address}, conditions: [{{type: Ready, status: 'True'}}]}}\n---\n"
        )
    };
    let node = |name: &str| format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n---\n");
    node("n1")
        + &node("n2")
        + &pod("client-1", "n1", "10.0.1.1", "client")
        + &pod("client-2", "n2", "10.0.2.1", "client")
        + &pod("server-1", "n1", "10.0.1.2", "server")
        + &pod("server-2", "n2", "10.0.2.2", "server")
        + &format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: api, namespace: shop}}\nspec: {{clusterIP: 10.96.0.10, selector: {{app: server}}, ports: [{{port: 80}}], {service}}}\nstatus: {{{status}}}\n"
        )
}

#[test]
fn a_source_is_listed_with_the_endpoints_of_its_own_node_s_proxy() {
    let pairs = |text: &str, to: &str, from: &str| {
        let run = list(text, &["--to", to, "--from", from, "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        let connections = json["connections"].as_array().expect("a list");
        let to: Vec<String> = connections.iter().map(|one| one["to"].to_string().replace('"', "")).collect();
        (to, json["notes"].to_string().contains("own node's proxy"))
    };
    let servers = |numbers: &[u8]| -> Vec<String> {
        numbers.iter().map(|one| format!("shop/server-{one}[Pod]")).collect()
    };
    let local = two_nodes("internalTrafficPolicy: Local, type: NodePort, externalIPs: [192.0.2.10]", "");
    for (to, from, numbers, said) in [
        ("10.96.0.10", "client-1", &[1][..], true),
        ("10.96.0.10", "client-2", &[2], true),
        ("svc/api", "client-2", &[2], true),
        ("192.0.2.10", "client-2", &[1, 2], false),
    ] {
        assert_eq!(pairs(&local, to, from), (servers(numbers), said), "{to} {from}");
    }
    let plain = two_nodes("type: ClusterIP", "");
    assert_eq!(pairs(&plain, "10.96.0.10", "client-1"), (servers(&[1, 2]), false));
    let ranges = two_nodes(
        "type: LoadBalancer, loadBalancerSourceRanges: [10.0.1.0/24]",
        "loadBalancer: {ingress: [{ip: 198.51.100.7}]}",
    );
    assert_eq!(pairs(&ranges, "198.51.100.7", "client-1"), (servers(&[1, 2]), true));
    assert_eq!(pairs(&ranges, "198.51.100.7", "client-2"), (servers(&[]), true), "outside of the ranges");
    let nearest = two_nodes("trafficDistribution: PreferSameNode", "");
    assert_eq!(pairs(&nearest, "svc/api", "client-2"), (servers(&[2]), true));
}
