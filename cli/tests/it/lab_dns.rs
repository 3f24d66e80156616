//! Labs with DNS: names resolve with this machine's libc, by files of the lab alone.

use std::path::Path;

use serde_json::Value;

use crate::lab::Labs;
use crate::run::root_or_skip;

/// One raw question from a place.
fn ask(labs: &Labs, place: &str, question: &str) -> Value {
    let (_, answer) =
        labs.json(&format!("netlab lab exec {place} -- netlab dns query {question} --timeout 2s"));
    answer["answer"].clone()
}

fn data(answer: &Value) -> Vec<&str> {
    let records = answer["answers"].as_array().map(Vec::as_slice).unwrap_or_default();
    records.iter().filter_map(|record| record["data"].as_str()).collect()
}

#[test]
fn names_resolve_with_this_machine_s_libc() {
    if !root_or_skip("names_resolve_with_this_machine_s_libc") {
        return;
    }
    let own: Vec<_> = ["resolv.conf", "hosts", "nsswitch.conf"]
        .map(|name| std::fs::read(Path::new("/etc").join(name)).ok())
        .into();
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop --dns");
    let resolved = |line: &str| labs.good(&format!("netlab lab exec {line}"));
    for (line, expected) in [
        ("shop/web -- getent ahostsv4 api", "10.96.12.7"),
        ("shop/web -- getent ahostsv4 api.shop", "10.96.12.7"),
        ("monitoring/scraper -- getent ahostsv4 api.shop.svc.cluster.local", "10.96.12.7"),
        ("shop/web -- getent hosts 10.96.12.7", "api.shop.svc.cluster.local"),
        ("shop/web -- getent ahostsv4 example.com", "198.51.100.80"),
        ("shop/web -- getent ahostsv6 example.com", "2001:db8:64::80"),
        ("shop/web -- getent ahostsv4 large.example.com", "198.51.100.160"),
        ("node/node-1 -- getent ahostsv4 example.com", "198.51.100.80"),
        ("shop/web -- getent hosts web", "web"),
        ("shop/web -- cat /etc/resolv.conf", "search shop.svc.cluster.local svc.cluster.local cluster.local"),
        ("monitoring/scraper -- cat /etc/resolv.conf", "search monitoring.svc.cluster.local"),
        ("node/node-2 -- cat /etc/resolv.conf", "nameserver 192.0.2.53"),
    ] {
        assert!(resolved(line).contains(expected), "`{line}`: {}", resolved(line));
    }
    // Not in another namespace by its short name, not as a node, and not what is nowhere.
    for line in [
        "monitoring/scraper -- getent hosts api",
        "node/node-1 -- getent hosts api.shop",
        "shop/web -- getent hosts none",
    ] {
        assert_eq!(labs.shell(&format!("netlab lab exec {line}")).code, Some(2), "`{line}`");
    }
    let now: Vec<_> = ["resolv.conf", "hosts", "nsswitch.conf"]
        .map(|name| std::fs::read(Path::new("/etc").join(name)).ok())
        .into();
    assert_eq!(own, now, "the machine's files are its own");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("our mounts");
    let directory = labs.directory.path().to_string_lossy().into_owned();
    assert!(!mounts.contains(&directory), "{mounts}");
}

#[test]
fn servers_answer_as_servers_do() {
    if !root_or_skip("servers_answer_as_servers_do") {
        return;
    }
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop --dns");
    let ask = |question: &str| ask(&labs, "shop/web", question);

    let service = ask("api.shop.svc.cluster.local --server 10.96.0.10");
    assert_eq!((service["rcode"].as_str(), data(&service)), (Some("NOERROR"), vec!["10.96.12.7"]));
    assert_eq!(service["authoritative"], true);
    // Case is not told apart, and the question comes back as it was.
    assert_eq!(data(&ask("API.Shop.svc.Cluster.LOCAL --server 10.96.0.10")), ["10.96.12.7"]);
    let no_data = ask("api.shop.svc.cluster.local --type AAAA --server 10.96.0.10");
    assert_eq!((no_data["rcode"].as_str(), data(&no_data).len()), (Some("NOERROR"), 0));
    assert_eq!(no_data["authorities"][0]["type"], "SOA");
    let absent = ask("none.shop.svc.cluster.local --server 10.96.0.10");
    assert_eq!(absent["rcode"], "NXDOMAIN");
    assert_eq!(absent["authorities"][0]["name"], "cluster.local.");
    assert_eq!(data(&ask("dns-version.cluster.local --type TXT --server 10.96.0.10")), ["1.1.0"]);
    let srv = ask("_http._tcp.api.shop.svc.cluster.local --type SRV --server 10.96.0.10");
    assert_eq!(data(&srv), ["0 100 80 api.shop.svc.cluster.local."]);
    // A name outside comes from outside.
    let outside = ask("example.com --server 10.96.0.10");
    assert_eq!((data(&outside), outside["authoritative"].as_bool()), (vec!["198.51.100.80"], Some(false)));

    // What does not fit is cut and says so; what is offered, or TCP, holds more.
    for (how, most, truncated) in
        [("", 512, true), ("--edns 1232", 1232, false), ("--edns 600", 600, true), ("--tcp", 65535, false)]
    {
        let large = ask(&format!("large.example.com --server 10.96.0.10 {how}"));
        let bytes = large["bytes"].as_u64().expect("a size");
        assert_eq!(large["truncated"], truncated, "{how}: {large}");
        assert!(bytes <= most, "{how}: {bytes}");
        assert_eq!(data(&large).len() == 60, !truncated, "{how}: {large}");
    }
}

#[test]
fn what_manifests_lack_for_names_is_added() {
    if !root_or_skip("what_manifests_lack_for_names_is_added") {
        return;
    }
    let labs = Labs::new();
    let manifests = labs.directory.path().join("manifests.yaml");
    let node = |name: &str, number: u8| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nspec: {{podCIDR: 10.1.{number}.0/24, podCIDRs: [10.1.{number}.0/24]}}\n\
             status: {{addresses: [{{type: InternalIP, address: 172.20.0.{number}}}]}}\n---\n"
        )
    };
    let text = format!(
        "{}{}apiVersion: v1\nkind: Service\nmetadata: {{name: db, namespace: app}}\nspec: {{selector: {{app: db}}, ports: [{{port: 5432}}]}}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: db, namespace: app}}\nspec: {{selector: {{matchLabels: {{app: db}}}}, \
         template: {{metadata: {{labels: {{app: db}}}}, spec: {{containers: [{{name: db}}]}}}}}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: client, namespace: app}}\nspec: {{nodeName: b, containers: [{{name: c}}]}}\n",
        node("a", 1),
        node("b", 2)
    );
    std::fs::write(&manifests, text).expect("a file");
    let (code, lab) = labs.json(&format!("netlab lab up -f {} --dns", manifests.display()));
    assert_eq!(code, Some(0), "{lab}");
    assert_eq!(lab["dns"]["service"], "kube-system/kube-dns");
    assert_eq!(lab["dns"]["servers"], serde_json::json!(["kube-system/coredns-1", "kube-system/coredns-2"]));
    assert_eq!(lab["proxy"], "nftables");
    let found = labs.good("netlab lab exec app/client -- getent hosts db");
    assert!(found.contains("db.app.svc.cluster.local"), "{found}");
}
