//! A Service followed through a node's rules, as users ask it.

use std::fs;

use crate::run::{netlab, root};

const QUESTION: [&str; 6] =
    ["service", "trace", "-f", "examples/broken/mynet.yaml", "mynet/web", "--iptables-save"];

fn trace(file: &str, more: &[&str]) -> crate::run::Run {
    netlab(QUESTION.iter().chain(&[file]).chain(more))
}

#[test]
fn a_half_broken_service_is_told_by_port() {
    let run = trace("examples/broken/node.save", &[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let mut lines = run.stdout.lines();
    let first = lines.next().expect("a line");
    assert!(first.starts_with("BROKEN  mynet/web:http TCP 10.96.0.50:80"), "{first}");
    assert!(first.ends_with("about 50% of new connections time out"), "{first}");
    assert_eq!(lines.next(), Some("ok      mynet/web:metrics TCP 10.96.0.50:9100"));
    assert!(run.stdout.contains("KUBE-SVC-GT4NHM5PDAGWYSIU -> KUBE-SEP-442MEYXHNLSPQS4C"), "{}", run.stdout);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    assert_eq!(trace("examples/broken/ok.save", &[]).code, Some(0));
}

#[test]
fn json_names_the_missing_rule() {
    let run = trace("examples/broken/node.save", &["-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(
        (run.code, &value["kind"], &value["proxyMode"]),
        (Some(1), &"ServiceTrace".into(), &"iptables".into())
    );
    let [http, metrics] = value["ports"].as_array().expect("a list").as_slice() else { panic!("two ports") };
    assert_eq!([&http["status"], &metrics["status"]], ["broken", "ok"]);
    assert_eq!(http["missing"][0]["object"], "KUBE-SEP-442MEYXHNLSPQS4C");
    assert_eq!(http["missing"][0]["endpoint"], "10.244.1.21:8080");
    assert_eq!(http["wrong"], serde_json::json!([]), "one line was taken out, one fault is told");
    assert_eq!(http["symptom"], serde_json::json!({"timeoutShare": 0.5, "refusedShare": 0.0}));
}

#[test]
fn what_is_no_dump_is_told_by_its_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("node.save");
    let good = fs::read_to_string(root().join("examples/broken/ok.save")).expect("it is shipped");
    let half = good.lines().take(40).collect::<Vec<_>>().join("\n");
    for (text, said) in [
        ("hello\n", "line 1: `hello`"),
        (half.as_str(), "ends inside table nat"),
        ("*nat\n-A X -d 10.0.0.0/99\nCOMMIT\n", "line 2"),
    ] {
        fs::write(&file, text).expect("written");
        let run = trace(file.to_str().expect("UTF-8"), &[]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    let run = trace("/nonexistent.save", &[]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("cannot read `/nonexistent.save`"), "{}", run.stderr);
}

#[test]
fn one_port_can_be_asked_for() {
    let ask = |service: &str| {
        netlab([
            "service",
            "trace",
            "-f",
            "examples/broken",
            service,
            "--iptables-save",
            "examples/broken/node.save",
        ])
    };
    assert_eq!(ask("mynet/web:metrics").code, Some(0));
    assert_eq!(ask("mynet/web:80").code, Some(1));
    assert_eq!(ask("mynet/web:80/tcp").code, Some(1));
    let run = ask("mynet/web:80/udp");
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(run.stderr.contains("has no port `80/udp`"), "{}", run.stderr);
    let run = ask("mynet/web:https");
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.contains("mynet/web has no port `https`") && run.stderr.contains("mynet/web:metrics"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_table_of_nftables_is_followed_too() {
    let ask = |file: &str, more: &[&str]| {
        let question =
            ["service", "trace", "-f", "examples/broken", "mynet/web", "--node", "worker", "--nft", file];
        netlab(question.iter().chain(more))
    };
    assert_eq!(ask("examples/broken/ok.nft", &[]).code, Some(0));
    let run = ask("examples/broken/node.nft", &[]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stdout.starts_with(
            "BROKEN  mynet/web:http TCP 10.96.0.50:80  about 50% of new connections are refused\n"
        ),
        "{}",
        run.stdout
    );
    let run = ask("examples/broken/node.nft", &["-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(value["proxyMode"], "nftables");
    assert_eq!(value["ports"][0]["missing"][0]["endpoint"], "10.244.1.21:8080");
    assert!(value["layout"].as_str().is_some_and(|layout| layout.contains("1.36")), "{}", value["layout"]);
    let without_node =
        ["service", "trace", "-f", "examples/broken", "mynet/web", "--nft", "examples/broken/ok.nft"];
    let run = netlab(without_node);
    assert_eq!(run.code, Some(2), "nodes differ in what asks itself: {}", run.stdout);
    assert!(run.stderr.contains("say with `--node` whose rules these are"), "{}", run.stderr);
    let run = ask("examples/broken/ok.save", &[]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("is not what `nft -j list table ip kube-proxy`"), "{}", run.stderr);
}

#[test]
fn rules_of_one_kind_are_asked_for() {
    let run = netlab(["service", "trace", "-f", "examples/broken", "mynet/web"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("no rules of a node were given"), "{}", run.stderr);
    let both = ["--iptables-save", "examples/broken/ok.save", "--nft", "examples/broken/ok.nft"];
    let run = netlab(["service", "trace", "-f", "examples/broken", "mynet/web"].iter().chain(&both));
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("rules of iptables and nftables were given"), "{}", run.stderr);
    assert!(run.stderr.contains("`--compare`"), "{}", run.stderr);
}

#[test]
fn maps_of_cilium_are_followed_too() {
    let ask = |paths: &[&str], more: &[&str]| {
        let question = ["service", "trace", "-f", "examples/broken", "mynet/web"];
        let paths = paths.iter().flat_map(|path| ["--cilium", path]);
        netlab(question.into_iter().chain(paths).chain(more.iter().copied()))
    };
    let directory = "examples/broken/cilium";
    let run = ask(&[directory], &[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    assert!(
        run.stdout
            .starts_with("BROKEN  mynet/web:http TCP 10.96.0.50:80  about 50% of new connections time out\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("has no backend 31"), "{}", run.stdout);
    let run = ask(&[directory], &["-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(value["proxyMode"], "cilium");
    let missing = &value["ports"][0]["missing"][0];
    assert_eq!([&missing["kind"], &missing["endpoint"]], ["empty", "10.244.1.21:8080"]);
    // Maps one by one say the same; without the services there is nothing to say.
    let map = |name: &str| format!("{directory}/cilium_lb4_{name}.map");
    let (services, backends) = (map("services_v2"), map("backends_v3"));
    assert_eq!(ask(&[&services, &backends], &[]).code, Some(1));
    let run = ask(&[&backends], &[]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("bpftool -j map dump pinned"), "{}", run.stderr);
    let run = ask(&["examples/broken/ok.save"], &[]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("is not what `bpftool -j map dump` prints"), "{}", run.stderr);
}

#[test]
fn kinds_of_proxies_stand_side_by_side() {
    let ask = |more: &[&str]| {
        let question =
            ["service", "trace", "-f", "examples/broken", "mynet/web", "--node", "worker", "--compare"];
        netlab(question.iter().chain(more))
    };
    let run = ask(&[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "nothing was read that could be broken");
    let row = |run: &crate::run::Run, label: &str| -> Vec<String> {
        let line = run.stdout.lines().find(|line| line.trim_start().starts_with(label)).expect("the row");
        line.trim_start()[label.len()..]
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(row(&run, "IPTABLES"), ["NFTABLES", "CILIUM"]);
    assert_eq!(row(&run, "read from"), ["predicted"; 3]);
    let run = ask(&["--iptables-save", "examples/broken/node.save", "--cilium", "examples/broken/cilium"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(row(&run, "read from"), ["node.save", "predicted", "cilium"]);
    assert_eq!(row(&run, "found"), ["BROKEN", "-", "BROKEN"]);
    assert_eq!(row(&run, "first packet"), ["6 rules", "4 rules", "0 rules"]);
    assert_eq!(row(&run, "grows with"), ["services, endpoints", "neither", "neither"]);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    // Rules that have no column are not passed over in silence.
    let directory = tempfile::tempdir().expect("a directory");
    let other = directory.path().join("node.save6");
    let rules = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]\n\
                 -A PREROUTING -j KUBE-SERVICES\n\
                 -A KUBE-SERVICES -d fd00:96::1/128 -p tcp -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y\nCOMMIT\n";
    fs::write(&other, rules).expect("written");
    let other = other.to_str().expect("UTF-8");
    let run = ask(&["--iptables-save", other, "--nft", "examples/broken/ok.nft"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    assert_eq!(row(&run, "read from"), ["predicted", "ok.nft", "predicted"]);
    let said = "node.save6: rules of IPv6, in which mynet/web has no port";
    assert!(run.stdout.contains("not examined: ") && run.stdout.contains(said), "{}", run.stdout);

    let run = ask(&["--nft", "examples/broken/node.nft", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(value["kind"], "ServiceComparison");
    let columns = value["columns"].as_array().expect("a list");
    let sources: Vec<_> = columns.iter().map(|column| column["source"].clone()).collect();
    assert_eq!(
        sources,
        [serde_json::Value::Null, "examples/broken/node.nft".into(), serde_json::Value::Null]
    );
    assert_eq!([&columns[1]["ports"][0]["status"], &columns[0]["ports"][0]["status"]], ["broken", "ok"]);
    assert_eq!(columns[0]["ports"][0]["cost"]["growsWith"], serde_json::json!(["services", "endpoints"]));
    assert_eq!(columns[2]["ports"][0]["cost"]["lookups"], 3.0);
}

/// Comments of other programs' rules are bytes; they are no reason to refuse the proxy's.
#[test]
fn bytes_of_others_do_not_hide_the_proxy_s_rules() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("node.save");
    let mut dump = fs::read(root().join("examples/broken/node.save")).expect("readable");
    let nat = dump.windows(5).position(|window| window == b"*nat\n").expect("a table") + 5;
    let rule = b"-A OUTPUT -m comment --comment \"gr\xfc\xdfe\" -j ACCEPT\r\n";
    dump.splice(nat..nat, rule.iter().copied());
    fs::write(&path, dump).expect("written");
    let arguments = ["service", "trace", "-f", "examples/broken/mynet.yaml", "mynet/web", "--node", "worker"];
    let run = netlab(arguments.into_iter().chain(["--iptables-save", path.to_str().expect("UTF-8")]));
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("about 50% of new connections time out"), "{}", run.stdout);
}

/// The rules of a node whose proxy is in another mode: kubelet's own, or none. That is no broken Service.
#[test]
fn rules_without_a_proxy_are_no_fault_of_the_service() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("node.save");
    let kubelet = "*mangle\n:PREROUTING ACCEPT [0:0]\n:KUBE-IPTABLES-HINT - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n\
                   *filter\n:INPUT ACCEPT [0:0]\n:KUBE-FIREWALL - [0:0]\n-A INPUT -j KUBE-FIREWALL\nCOMMIT\n";
    let flushed = format!("{kubelet}*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n");
    for (dump, code, said) in [
        (kubelet, 2, "has no chain of kube-proxy"),
        ("", 2, "has no chain of kube-proxy"),
        (flushed.as_str(), 1, "every new connection times out"),
    ] {
        fs::write(&path, dump).expect("written");
        let arguments =
            ["service", "trace", "-f", "examples/broken/mynet.yaml", "mynet/web", "--node", "worker"];
        let run = netlab(arguments.into_iter().chain(["--iptables-save", path.to_str().expect("UTF-8")]));
        assert_eq!(run.code, Some(code), "{dump}: {}{}", run.stdout, run.stderr);
        assert!(format!("{}{}", run.stdout, run.stderr).contains(said), "{dump}: {run:?}");
    }
}

/// A Service with a node port and a policy, on a node with an endpoint or without.
fn outside(policy: &str, node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: worker}}\n---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: t}}\n\
         spec: {{type: NodePort, clusterIP: 10.96.0.1, {policy}, ports: [{{port: 80, nodePort: 30080}}]}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: web-1, namespace: t, labels: {{kubernetes.io/service-name: web}}}}\n\
         addressType: IPv4\nports: [{{name: '', port: 8080, protocol: TCP}}]\nendpoints: [{{addresses: [10.244.1.1], nodeName: {node}}}]\n"
    )
}

fn of_world(world: &str, rules: &str, more: &[&str]) -> crate::run::Run {
    let directory = tempfile::tempdir().expect("a directory");
    let (yaml, save) = (directory.path().join("w.yaml"), directory.path().join("node.save"));
    fs::write(&yaml, world).expect("written");
    fs::write(&save, rules).expect("written");
    let texts = [yaml, save].map(|path| path.display().to_string());
    let question =
        ["service", "trace", "-f", &texts[0], "t/web", "--iptables-save", &texts[1], "--node", "worker"];
    netlab(question.iter().chain(more))
}

fn rules(world: &str) -> String {
    use netlab_core::input::{Budget, Document, load};
    use netlab_core::model::service::AddressType;
    use netlab_core::service::{expected::expected, iptables};
    let cluster = load([Document { name: "w.yaml".into(), text: world.into() }], &Budget::default()).cluster;
    let ports = expected(&cluster, "worker", AddressType::Ipv4);
    iptables::emit(&ports, &iptables::ProxyOptions::default())
}

#[test]
fn the_address_that_fails_is_blamed_and_the_others_are_said_to_be_well() {
    let world = outside("externalTrafficPolicy: Cluster", "worker");
    let good = rules(&world);
    let line = good.lines().find(|line| line.contains("--dport 30080")).expect("a rule of the node port");
    let broken = good.replace(&format!("{line}\n"), "");
    let run = of_world(&world, &broken, &[]);
    let mut lines = run.stdout.lines();
    assert_eq!(
        lines.next(),
        Some("BROKEN  t/web TCP node port 30080  every new connection is refused"),
        "{}",
        run.stdout
    );
    assert_eq!(lines.next(), Some("        10.96.0.1:80 is well"), "{}", run.stdout);
    let run = of_world(&world, &broken, &["-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(value["ports"][0]["failing"], "node port 30080");
    let policy = good
        .replace(":FORWARD ACCEPT", ":FORWARD DROP")
        .replace("*filter\n", "*filter\n:FORWARD DROP [0:0]\n");
    let run = of_world(&world, &policy, &[]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(
        run.stdout.starts_with("BROKEN  t/web TCP 10.96.0.1:80 from pods  every new connection times out\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("        10.96.0.1:80 from the node itself"), "{}", run.stdout);
    assert!(run.stdout.contains("filter FORWARD policy DROP"), "{}", run.stdout);
    let unknown = good.replace("*filter\n", "*filter\n-A FORWARD -i docker0 -j DROP\n");
    let run = of_world(&world, &unknown, &[]);
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("not examined: whether packets from outside to 10.244.1.1:8080, from pods to 10.244.1.1:8080 pass: "),
        "{}",
        run.stdout
    );
}

#[test]
fn what_is_dropped_by_design_is_said() {
    let world = outside("externalTrafficPolicy: Local", "other");
    let run = of_world(&world, &rules(&world), &[]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let said: String = run.stdout.lines().skip(1).take(2).map(str::trim).collect::<Vec<_>>().join(" ");
    assert!(run.stdout.starts_with("ok      t/web TCP 10.96.0.1:80\n"), "{}", run.stdout);
    assert_eq!(
        said,
        "node port 30080: dropped by design: externalTrafficPolicy Local, and no endpoint on worker answers; others do elsewhere"
    );
    let run = of_world(&world, &rules(&world), &["-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let addresses = value["ports"][0]["addresses"].as_array().expect("a list");
    let port = addresses.iter().find(|address| address["to"] == "nodePort").expect("it is there");
    assert_eq!(port["sees"], serde_json::json!({"timeoutShare": 1.0, "refusedShare": 0.0}));
    assert_eq!(port["symptom"], serde_json::json!({"timeoutShare": 0.0, "refusedShare": 0.0}));
    assert!(port["byDesign"].as_str().is_some_and(|why| why.starts_with("dropped by design")), "{port}");
    let inside = outside("internalTrafficPolicy: Local", "other");
    let run = of_world(&inside, &rules(&inside), &[]);
    assert!(
        run.stdout.contains("10.96.0.1:80: dropped by design: internalTrafficPolicy Local"),
        "{}",
        run.stdout
    );
}
