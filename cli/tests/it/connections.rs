//! `policy connections`: every form of the same list.

use crate::run::{netlab, netlab_reading};

const SHOP: [&str; 6] = ["policy", "connections", "-f", "examples/shop", "--external", "off"];

fn shop(more: &[&str]) -> crate::run::Run {
    netlab(SHOP.iter().chain(more))
}

const TWO: &str = "apiVersion: v1
kind: Pod
metadata: {name: a, namespace: x, labels: {app: a}}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: x}
spec: {hostNetwork: true, nodeName: node-1, containers: []}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a, namespace: x}
spec:
  podSelector: {matchLabels: {app: a}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.1/32]}}]
    ports: [{port: 80}, {port: 90, endPort: 99}]
";

#[test]
fn the_table_folds_what_all_members_share() {
    let run = shop(&[]);
    assert_eq!(
        run.stdout,
        "\
FROM                TO                   ALLOWED
monitoring/scraper  kube-system/coredns  TCP 53,9153, UDP 53
monitoring/scraper  shop/api             TCP 9090
shop/*              kube-system/coredns  TCP 53, UDP 53
shop/*              shop/cache           TCP 6379
shop/api            shop/db              TCP 5432
shop/web            shop/api             TCP 8080
11 of 30 pairs; every workload is isolated for ingress, none for egress
"
    );
    assert_eq!(run.code, Some(0));
    let quiet = shop(&["-q"]).stdout;
    assert_eq!(quiet, "11 of 30 pairs; every workload is isolated for ingress, none for egress\n");
}

#[test]
fn every_other_form_lists_each_pair() {
    let json: serde_json::Value = serde_json::from_str(&shop(&["-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["kind"], "Connections");
    let pairs = json["connections"].as_array().expect("a list");
    assert_eq!(pairs.len(), 11);
    assert_eq!(
        pairs[1],
        serde_json::json!({"from": "monitoring/scraper[Pod]", "to": "shop/api[Deployment]",
            "allowed": [{"protocol": "TCP", "ports": "9090"}]})
    );
    assert_eq!(json["peers"][2]["workloadKind"], "Deployment");
    let csv = shop(&["-o", "csv"]).stdout;
    assert_eq!(csv.lines().count(), 12);
    assert!(
        csv.contains(
            "\nshop/db[StatefulSet],kube-system/coredns-7c65d6cfc9[ReplicaSet],\"TCP 53, UDP 53\"\n"
        )
    );
    let markdown = shop(&["-o", "md"]).stdout;
    assert!(
        markdown.contains("\n| `shop/api[Deployment]` | `shop/db[StatefulSet]` | TCP 5432 |\n"),
        "{markdown}"
    );
    let dot = shop(&["-o", "dot"]).stdout;
    assert_eq!(dot.matches(" -> ").count(), 11);
    assert_eq!(shop(&["-o", "wide"]).stdout.lines().count(), 13);
}

#[test]
fn a_focus_leaves_the_other_pairs_out() {
    let to = shop(&["--to", "shop/db", "-o", "csv"]).stdout;
    assert_eq!(to, "from,to,allowed\nshop/api[Deployment],shop/db[StatefulSet],TCP 5432\n");
    let from = shop(&["--from", "sts/shop/db", "-o", "csv"]).stdout;
    assert_eq!(from.lines().skip(1).filter(|line| line.starts_with("shop/db[StatefulSet],")).count(), 2);
    assert_eq!(from.lines().count(), 3);
    let listed = shop(&["-n", "monitoring", "-o", "csv"]).stdout;
    assert!(listed.lines().skip(1).all(|line| line.contains("monitoring/scraper")), "{listed}");
    let missing = shop(&["--to", "shop/dv"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("shop/db"), "{}", missing.stderr);
}

#[test]
fn addresses_outside_are_named_as_the_policies_write_them() {
    let run = netlab_reading(TWO, &["policy", "connections", "-f", "-"]);
    assert!(
        run.stdout.contains(
            "192.0.2.0/24 except 192.0.2.1/32    x/a                                 TCP 80,90-99\n"
        ),
        "{}",
        run.stdout
    );
    let inside = netlab_reading(
        TWO,
        &["policy", "connections", "-f", "-", "--from", "192.0.2.7", "--to", "x/a", "-q"],
    );
    assert!(inside.stdout.contains("1 with addresses outside"), "{}", inside.stdout);
    let except = netlab_reading(
        TWO,
        &["policy", "connections", "-f", "-", "--from", "192.0.2.1", "--to", "x/a", "-q"],
    );
    assert!(!except.stdout.contains("addresses outside"), "{}", except.stdout);
}

#[test]
fn the_host_network_is_read_as_asked_and_said() {
    let as_pods = netlab_reading(TWO, &["policy", "connections", "-f", "-", "--external", "off"]);
    assert!(as_pods.stderr.contains("1 pod uses the host's network"), "{}", as_pods.stderr);
    assert!(as_pods.stdout.starts_with("0 of 2 pairs"), "{}", as_pods.stdout);
    let away =
        TWO.replace("labels: {app: a}}", "labels: {app: a}}\nspec: {nodeName: node-1, containers: []}");
    let as_nodes = netlab_reading(
        &away,
        &["policy", "connections", "-f", "-", "--external", "off", "--host-network", "nodes"],
    );
    // What runs on the pod's own node always reaches it.
    assert!(as_nodes.stdout.contains("x/b   x/a  all\n"), "{}", as_nodes.stdout);
}

#[test]
fn other_commands_have_no_csv() {
    let run = netlab(["version", "-o", "csv"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("policy connections"), "{}", run.stderr);
}

#[test]
fn the_truth_table_says_the_same() {
    let matrix = shop(&["-o", "matrix"]).stdout;
    assert_eq!(
        matrix,
        "\
FROM \\ TO             1 2 3 4 5 6
1 kube-system/coredns   . . . . .
2 monitoring/scraper  +   + . . .
3 shop/api            + .   + + .
4 shop/cache          + . .   . .
5 shop/db             + . . +   .
6 shop/web            + . + + .
# everything  + some ports  . nothing
11 of 30 pairs; every workload is isolated for ingress, none for egress
"
    );
    // Of what was not asked nothing is said.
    let focused = shop(&["-o", "matrix", "-n", "monitoring"]).stdout;
    assert!(focused.contains("\n3 shop/api              .\n"), "{focused}");
}

#[test]
fn a_truth_table_too_wide_for_a_terminal_stands_for_namespaces() {
    let mut text = String::new();
    for index in 0..40 {
        let namespace = ["blue", "red"][index % 2];
        text += &format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a{index}, namespace: {namespace}}}}}\n---\n"
        );
    }
    text += "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: only-red, namespace: red}, \
             spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}}\n";
    let run =
        netlab_reading(&text, &["policy", "connections", "-f", "-", "-o", "matrix", "--external", "off"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        lines[..3],
        ["FROM \\ TO 1 2", "1 blue/*  # .", "2 red/*   # #"],
        "{}{}",
        run.stdout,
        run.stderr
    );
}

#[test]
fn a_port_leaves_the_others_out() {
    let run = shop(&["--port", "53/udp"]);
    assert!(run.stdout.contains("\n*     kube-system/coredns  UDP 53\n"), "{}", run.stdout);
    assert_eq!(shop(&["--port", "5432", "-o", "csv"]).stdout.lines().count(), 2);
    assert_eq!(shop(&["--port", "http"]).code, Some(2));
}

#[test]
fn the_picture_needs_nothing_else_and_escapes_every_name() {
    let run = shop(&["-o", "svg"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.stdout, shop(&["-o", "svg"]).stdout);
    let svg = &run.stdout;
    assert!(
        svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    for foreign in ["href", "<script", "url(http", "@import"] {
        assert!(!svg.contains(foreign), "{foreign}");
    }
    // A row of the table is a label between two ends, each on a line of its own.
    for text in ["monitoring/scraper", "shop/api", "TCP 9090", "shop/*", "TCP 53, UDP 53"] {
        assert!(svg.contains(&format!(">{text}</text>")), "{text}: {svg}");
    }
    let labels = svg.matches("<rect class=\"a\"").count();
    assert_eq!(labels, shop(&[]).stdout.lines().count() - 2);
    let odd = "apiVersion: v1\nkind: Pod\nmetadata: {name: '<b>&\"', namespace: x}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: c, namespace: x}\n";
    let svg =
        netlab_reading(odd, &["policy", "connections", "-f", "-", "-o", "svg", "--skip-invalid"]).stdout;
    assert!(svg.contains("x/&lt;b&gt;&amp;&quot;") && !svg.contains("<b>"), "{svg}");
    let none = netlab_reading(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
        &["policy", "connections", "-f", "-", "-o", "svg"],
    );
    assert!(none.stdout.ends_with("</svg>\n"), "{}{}", none.stdout, none.stderr);
}

/// What is open to all the world but the cluster's own networks is not open to pods, whose addresses manifests do not
/// tell: the list and the single question say the same.
#[test]
fn a_block_that_excepts_the_cluster_does_not_admit_its_pods() {
    let pair = ["--from", "shop/api", "--to", "shop/web"];
    let listed = netlab(["policy", "connections", "-f", "examples/shop", "-o", "json"].iter().chain(&pair));
    let value: serde_json::Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(value["connections"], serde_json::json!([]));
    let asked = netlab(["policy", "eval", "-q", "-f", "examples/shop", "--port", "8443"].iter().chain(&pair));
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(1), "deny  shop/api -> shop/web 8443/tcp\n"));
    let outside = netlab(["policy", "connections", "-f", "examples/shop", "--to", "shop/web", "-o", "csv"]);
    assert!(outside.stdout.contains("8443"), "and the world is still let in: {}", outside.stdout);
}

const UNKNOWN_ADDRESSES: &str = "apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]
";

#[test]
fn every_command_says_which_block_may_hold_a_pod_of_unknown_address() {
    let said = "no input gives the address of shop/web[Pod]: listed outside of 10.0.0.0/8, which NetworkPolicy shop/db \
                spec.ingress[0].from[0] names";
    for format in ["table", "wide", "matrix", "csv", "md", "dot", "svg"] {
        let run = netlab_reading(UNKNOWN_ADDRESSES, &["policy", "connections", "-f", "-", "-o", format]);
        assert!(run.stderr.contains(said), "{format}: {}", run.stderr);
    }
    for command in
        [&["connections", "-f", "-"][..], &["diff", "-f", "-", "--without", "NetworkPolicy/shop/none"]]
    {
        let arguments: Vec<&str> = ["policy"].iter().chain(command).chain(&["-o", "json"]).copied().collect();
        let more = UNKNOWN_ADDRESSES.to_owned()
            + "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
               metadata: {name: none, namespace: shop}\nspec: {podSelector: {matchLabels: {app: none}}}\n";
        let run = netlab_reading(&more, &arguments);
        let answer: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(answer["notes"], serde_json::json!([said]), "{}", run.stderr);
    }
    let ask =
        ["policy", "eval", "-f", "-", "--from", "shop/web", "--to", "shop/db", "--port", "80", "-o", "json"];
    let run = netlab_reading(UNKNOWN_ADDRESSES, &ask);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let note = answer["notes"][0].as_str().unwrap_or_default();
    assert!(
        note.contains("netlab chose 172.20.0.3, outside of 10.0.0.0/8, which NetworkPolicy shop/db"),
        "{note}"
    );
}
