//! Rules and connections read from a node's own network namespace.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;

use netlab_core::input::{Budget, Document, load};
use netlab_core::model::cluster::Cluster;
use netlab_core::model::service::AddressType;
use netlab_core::service::nftables::Layout;
use netlab_lab::proxy::{self, ProxyMode};
use netlab_node::Netns;

use crate::run::{Run, netlab, required, root, root_or_skip};

const MODES: [ProxyMode; 3] =
    [ProxyMode::Iptables, ProxyMode::Nftables(Layout::Maps), ProxyMode::Nftables(Layout::Chains)];

/// A namespace of the test's own; `None` where there can be none.
fn stand(test: &str) -> Option<Netns> {
    if !root_or_skip(test) {
        return None;
    }
    for command in ["nft", "iptables-restore"] {
        if Command::new(command).arg("--version").output().is_err() {
            assert!(!required("nft"), "{command} is not there, and NETLAB_TEST_REQUIRE names nft");
            return None;
        }
    }
    let netns = Netns::create().expect("root can make a namespace");
    run_in(&netns, "ip", &["link", "set", "lo", "up"]);
    Some(netns)
}

fn run_in(netns: &Netns, command: &str, arguments: &[&str]) {
    let run = || Command::new(command).args(arguments).output().expect("it runs");
    let output = netns.run(run).expect("the namespace");
    assert!(output.status.success(), "{command} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn path(netns: &Netns) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), netns.as_raw_fd())
}

fn example(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).expect("it is shipped")
}

fn cluster(text: &str) -> Cluster {
    load([Document { name: "w.yaml".into(), text: text.into() }], &Budget::default()).cluster
}

fn program(netns: &Netns, cluster: &Cluster, mode: ProxyMode) {
    for family in [AddressType::Ipv4, AddressType::Ipv6] {
        let rules = proxy::rules(cluster, "worker", mode, family);
        proxy::write(netns, "worker", mode, family, &rules).expect("the kernel takes it");
    }
}

fn ask(netns: &Netns, more: &[&str]) -> Run {
    let path = path(netns);
    let question =
        ["service", "trace", "-f", "examples/broken", "mynet/web", "--node", "worker", "--node-netns", &path];
    netlab(question.iter().chain(more))
}

#[test]
fn the_mode_is_found_out_and_faults_are_found() {
    let world = cluster(&example("examples/broken/mynet.yaml"));
    for mode in MODES {
        let Some(netns) = stand("the_mode_is_found_out_and_faults_are_found") else { return };
        let run = ask(&netns, &[]);
        assert_eq!(run.code, Some(2), "nothing is there yet: {}", run.stdout);
        assert!(run.stderr.contains("has no rules of kube-proxy"), "{}", run.stderr);
        program(&netns, &world, mode);
        let run = ask(&netns, &["-o", "json"]);
        assert_eq!(run.code, Some(0), "{mode:?} {}{}", run.stdout, run.stderr);
        let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        let expected = if mode == ProxyMode::Iptables { "iptables" } else { "nftables" };
        assert_eq!(value["proxyMode"], expected);
        assert_eq!(value["ports"].as_array().map(Vec::len), Some(2), "{value}");
        match mode {
            ProxyMode::Iptables => {
                run_in(&netns, "iptables", &["-t", "nat", "-F", "KUBE-SVC-GT4NHM5PDAGWYSIU"]);
            }
            ProxyMode::Nftables(_) => {
                let chain = "service-QH55M7ML-mynet/web/tcp/http";
                run_in(&netns, "nft", &["flush", "chain", "ip", "kube-proxy", chain]);
            }
        }
        let run = ask(&netns, &[]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "{mode:?} {}", run.stdout);
        assert!(run.stdout.starts_with("BROKEN  mynet/web:http TCP 10.96.0.50:80"), "{}", run.stdout);
        assert!(run.stdout.contains("ok      mynet/web:metrics"), "{}", run.stdout);
    }
}

#[test]
fn what_another_mode_left_behind_is_told() {
    let world = cluster(&example("examples/broken/mynet.yaml"));
    let Some(netns) = stand("what_another_mode_left_behind_is_told") else { return };
    program(&netns, &world, ProxyMode::Nftables(Layout::Maps));
    program(&netns, &world, ProxyMode::Iptables);
    // What was left behind is what fits less.
    run_in(&netns, "iptables", &["-t", "nat", "-F", "KUBE-SVC-GT4NHM5PDAGWYSIU"]);
    let run = ask(&netns, &["-o", "json"]);
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((&value["proxyMode"], &value["shared"][0]["kind"]), (&"nftables".into(), &"leftover".into()));
    assert_eq!([&value["shared"][0]["object"], &value["shared"][0]["family"]], ["iptables", "IPv4"]);
}

#[test]
fn a_flow_of_udp_that_leads_nowhere_is_found() {
    let now = example("examples/stale/dns.yaml");
    let before = now.replace("10.244.1.8", "10.244.1.5");
    for mode in MODES {
        let Some(netns) = stand("a_flow_of_udp_that_leads_nowhere_is_found") else { return };
        run_in(&netns, "ip", &["addr", "add", "10.99.0.1/32", "dev", "lo"]);
        run_in(&netns, "ip", &["route", "add", "10.0.0.0/8", "dev", "lo"]);
        program(&netns, &cluster(&before), mode);
        let send = || UdpSocket::bind("10.99.0.1:0").and_then(|socket| socket.send_to(b"?", "10.96.0.10:53"));
        netns.run(send).expect("the namespace").expect("it is sent");
        let path = path(&netns);
        let ask = |more: &[&str]| {
            let question = [
                "service",
                "trace",
                "-f",
                "examples/stale",
                "kube-system/kube-dns:dns",
                "--node-netns",
                &path,
            ];
            netlab(question.iter().chain(&["--node", "worker"]).chain(more))
        };
        program(&netns, &cluster(&now), mode);
        let run = ask(&[]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "{mode:?} {}", run.stdout);
        assert!(
            run.stdout.starts_with("ok      kube-system/kube-dns:dns UDP"),
            "the rules are right: {}",
            run.stdout
        );
        assert!(run.stdout.contains("STALE   kube-system/kube-dns:dns UDP"), "{}", run.stdout);
        let run = ask(&["-o", "json"]);
        let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        let stale = &value["conntrack"]["ports"][0]["stale"][0];
        assert_eq!(
            [&stale["to"], &stale["leadsTo"], &stale["why"]],
            ["10.96.0.10:53", "10.244.1.5:53", "no-endpoint"]
        );
    }
}

#[test]
fn a_namespace_that_cannot_be_entered_is_said() {
    let ask = |place: &str| {
        netlab(["service", "trace", "-f", "examples/broken", "mynet/web", "--node-netns", place])
    };
    for place in ["/nonexistent", "4194305"] {
        let run = ask(place);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        assert!(run.stderr.contains(place) && run.stderr.contains("No such file"), "{}", run.stderr);
    }
    if !root_or_skip("a_namespace_that_cannot_be_entered_is_said") {
        return;
    }
    // Nobody's process may not look into another's namespace.
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("netlab");
    std::fs::copy(env!("CARGO_BIN_EXE_netlab"), &program).expect("copied");
    let world = directory.path().join("w.yaml");
    std::fs::write(&world, example("examples/broken/mynet.yaml")).expect("written");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("opened");
    for place in [&["--node-netns", "1"][..], &["--node-netns"]] {
        let output = std::os::unix::process::CommandExt::uid(&mut Command::new(&program), 65_534)
            .arg("service")
            .args(["trace", "mynet/web", "-f"])
            .arg(&world)
            .args(place)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What a firewall on the node does to packets on their way is told, whichever command wrote it.
#[test]
fn a_firewall_on_the_node_is_followed() {
    let world = cluster(&example("examples/broken/mynet.yaml"));
    for mode in MODES {
        let Some(netns) = stand("a_firewall_on_the_node_is_followed") else { return };
        program(&netns, &world, mode);
        let place = if mode == ProxyMode::Iptables {
            run_in(&netns, "iptables", &["-P", "FORWARD", "DROP"]);
            "filter FORWARD policy DROP"
        } else {
            let rules = "add table inet fw; add chain inet fw way { type filter hook forward priority 0; policy drop; }; \
                         add rule inet fw way ct state vmap { established : accept, invalid : drop }; \
                         add rule inet fw way tcp dport { 9100 } accept";
            run_in(&netns, "nft", &[rules]);
            "inet fw way policy drop"
        };
        let run = ask(&netns, &[]);
        assert_eq!(run.code, Some(1), "{mode:?}: {}{}", run.stdout, run.stderr);
        let first = run.stdout.lines().next().unwrap_or_default();
        assert_eq!(
            first, "BROKEN  mynet/web:http TCP 10.96.0.50:80 from pods  every new connection times out",
            "{mode:?}: {}",
            run.stdout
        );
        assert!(run.stdout.contains(place), "{mode:?}: {}", run.stdout);
        let metrics = run.stdout.contains("ok      mynet/web:metrics TCP 10.96.0.50:9100");
        assert_eq!(metrics, mode != ProxyMode::Iptables, "one port is let through: {}", run.stdout);
    }
}

/// What decides about packets beside the rules of the proxy's own command is named, where it is not followed.
#[test]
fn tables_beside_the_proxy_s_are_named() {
    const NFTABLES: &str = "its rules are not followed beside those of iptables mode";
    const LEGACY: &str =
        "table filter in iptables-legacy-save: its rules are not followed beside the proxy's";
    let world = cluster(&example("examples/broken/mynet.yaml"));
    let firewalld = "add table inet firewalld; \
                     add chain inet firewalld way { type filter hook forward priority 10; policy accept; }; \
                     add rule inet firewalld way ct state established,related accept; \
                     add rule inet firewalld way reject with icmpx type admin-prohibited";
    let dropping = "add table ip6 wall; \
                    add chain ip6 wall way { type filter hook forward priority 0; policy drop; }";
    let translating = "add table ip mine; \
                       add chain ip mine pre { type nat hook prerouting priority -110; }; \
                       add rule ip mine pre ip daddr 10.96.0.50 tcp dport 80 dnat to 10.9.9.9:80";
    let in_its_own = "add chain ip filter late { type filter hook forward priority 20; }; \
                      add rule ip filter late tcp dport 8080 drop";
    let harmless = "add table inet empty; add chain inet empty way { type filter hook forward priority 0; }; \
                    add chain inet empty unasked; add rule inet empty unasked drop";
    let iptables = || {
        let netns = stand("tables_beside_the_proxy_s_are_named")?;
        program(&netns, &world, ProxyMode::Iptables);
        Some(netns)
    };
    for (table, rules) in [
        (Some("inet firewalld"), firewalld),
        (None, dropping),
        (Some("ip mine"), translating),
        (Some("ip filter"), in_its_own),
        (None, harmless),
    ] {
        let Some(netns) = iptables() else { return };
        run_in(&netns, "nft", &[rules]);
        let run = ask(&netns, &[]);
        let named = table.map(|table| format!("not examined: table {table} of nftables: {NFTABLES}\n"));
        assert_eq!(run.stdout.matches("not examined").count(), named.iter().count(), "{}", run.stdout);
        assert!(run.stdout.contains(&named.unwrap_or_default()), "{}", run.stdout);
        assert_eq!(run.code, Some(if table.is_some() { 3 } else { 0 }), "{}{}", run.stdout, run.stderr);
    }
    for mode in MODES {
        let Some(netns) = stand("tables_beside_the_proxy_s_are_named") else { return };
        program(&netns, &world, mode);
        run_in(&netns, "iptables-legacy", &["-N", "KUBE-FIREWALL"]);
        run_in(&netns, "iptables-legacy", &["-A", "INPUT", "-j", "KUBE-FIREWALL"]);
        let run = ask(&netns, &[]);
        assert_eq!(run.code, Some(0), "{mode:?}: kubelet's own: {}{}", run.stdout, run.stderr);
        run_in(&netns, "iptables-legacy", &["-P", "FORWARD", "DROP"]);
        let run = ask(&netns, &["-o", "json"]);
        assert_eq!(run.code, Some(3), "{mode:?}: {}{}", run.stdout, run.stderr);
        let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(
            (&value["complete"], &value["notExamined"]),
            (&false.into(), &[LEGACY].into()),
            "{mode:?}"
        );
        let run = ask(&netns, &["--compare"]);
        assert!(run.stdout.contains(LEGACY), "{mode:?}: {}", run.stdout);
    }
}

/// Where the command for a kind of rules is missing, that is said, and the other kind still read.
#[test]
fn rules_that_no_command_lists_are_named() {
    let world = cluster(&example("examples/broken/mynet.yaml"));
    for (mode, command, named) in [
        (
            ProxyMode::Iptables,
            "nft",
            "rules of nftables beside those of iptables mode: `nft` is not on this machine",
        ),
        (
            ProxyMode::Nftables(Layout::Maps),
            "iptables-legacy-save",
            "table filter of iptables-legacy: `iptables-legacy-save` is not on this machine",
        ),
    ] {
        let Some(netns) = stand("rules_that_no_command_lists_are_named") else { return };
        program(&netns, &world, mode);
        if command != "nft" {
            run_in(&netns, "iptables-legacy", &["-P", "FORWARD", "DROP"]);
        }
        let none = tempfile::NamedTempFile::new().expect("a file that nobody may run");
        let hide =
            "mount --bind \"$1\" \"$(readlink -f \"$(command -v \"$2\")\")\" && shift 2 && exec \"$@\"";
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", hide, "sh"])
            .arg(none.path())
            .args([command, env!("CARGO_BIN_EXE_netlab")])
            .args(["service", "trace", "-f", "examples/broken", "mynet/web", "--node", "worker"])
            .args(["--node-netns", &path(&netns)])
            .current_dir(root())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.ends_with(&format!("not examined: {named}\n")), "{said}{output:?}");
        assert_eq!((said.matches("not examined").count(), output.status.code()), (1, Some(3)), "{said}");
    }
}
