//! What is broken in a lab by hand, and not from its list of faults: half of it, twice at once, below DNS.
//!
//! Invariant: what is said is true. Where no mode of the catalogue fits, it is said what fails and what does not.

use serde_json::Value;

use crate::lab::Labs;
use crate::lab_healthy::{FAMILIES, world};
use crate::run::root_or_skip;

/// A lab that is broken again and again.
struct Bed {
    labs: Labs,
    subject: &'static str,
}

impl Bed {
    fn shop() -> Self {
        let bed = Self { labs: Labs::new(), subject: "shop/api cache" };
        bed.labs.good("netlab lab up -f examples/shop --dns");
        bed
    }

    fn both_families() -> Self {
        let bed = Self { labs: Labs::new(), subject: "t/app-n1 api" };
        let manifests = bed.labs.directory.path().join("world.yaml");
        std::fs::write(&manifests, world(&FAMILIES[1])).expect("written");
        bed.labs.good(&format!("netlab lab up -f {} --dns", manifests.display()));
        bed
    }

    fn at(&self, place: &str, line: &str) {
        self.labs.good(&format!("netlab lab exec {place} -- sh -c \"{line}\""));
    }

    /// Drops or rejects at a node what a rule matches, while `then` looks.
    fn with_rules(&self, node: &str, priority: i32, rules: &[&str], then: impl FnOnce(&Value)) {
        let mut line = format!(
            "nft add table inet x; nft add chain inet x c '{{ type filter hook prerouting priority {priority}; }}'"
        );
        for rule in rules {
            line += &format!("; nft add rule inet x c {rule}");
        }
        self.at(node, &line);
        then(&self.diagnosed());
        self.at(node, "nft delete table inet x");
    }

    fn diagnosed(&self) -> Value {
        self.labs.json(&format!("netlab dns diagnose {} --lab lab", self.subject)).1
    }
}

fn summary(said: &Value) -> &str {
    said["verdict"]["summary"].as_str().unwrap_or_default()
}

fn step<'v>(said: &'v Value, name: &str) -> &'v Value {
    let steps = said["steps"].as_array().expect("steps");
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no step {name}: {said:#}"))
}

fn modes(said: &Value) -> Vec<String> {
    let others = said["contributing"].as_array().into_iter().flatten().map(|one| &one["mode"]);
    let all = std::iter::once(&said["verdict"]["mode"]).chain(others);
    all.filter_map(|mode| mode.as_str().map(str::to_owned)).collect()
}

#[test]
fn a_family_that_fails_is_named_beside_the_one_that_works() {
    if !root_or_skip("a_family_that_fails_is_named_beside_the_one_that_works") {
        return;
    }
    let bed = Bed::both_families();
    let whole = bed.diagnosed();
    let service = &step(&whole, "service")["line"];
    assert!(service.as_str().is_some_and(|line| line.ends_with("2 endpoints, both ready")), "{service}");
    for (vip, family, other) in
        [("ip6 daddr fd00:10:96::a", "IPv6", "IPv4"), ("ip daddr 10.96.0.10", "IPv4", "IPv6")]
    {
        // Before the proxy's rules, which are as they should be.
        for verb in ["drop", "reject"] {
            bed.with_rules("node/n1", -110, &[&format!("{vip} {verb}")], |said| {
                let expected = format!("over {family} the DNS Service fails, its pods answer");
                assert_eq!(
                    (summary(said), &said["verdict"]["class"]),
                    (&*expected, &"undetermined".into()),
                    "{said:#}"
                );
                assert!(
                    said["because"].to_string().contains(&format!("over {other} all is well")),
                    "{said:#}"
                );
                let proxy = step(said, "proxy");
                assert_eq!(proxy["status"], "warning", "rules that are right, and no answer: {proxy:#}");
                assert!(proxy["line"].to_string().contains("not by these rules"), "{proxy:#}");
            });
        }
    }
    for (family, other, protocols) in [("IPv6", "IPv4", "ip6 nexthdr"), ("IPv4", "IPv6", "ip protocol")] {
        let rules = ["udp", "tcp"].map(|protocol| format!("{protocols} {protocol} drop"));
        bed.with_rules("node/n1", -200, &rules.each_ref().map(|rule| &**rule), |said| {
            let expected = format!("over {family} no DNS server answers, over {other} all do");
            assert_eq!(summary(said), expected, "{said:#}");
        });
    }
    // A mode of the catalogue, in one family: it is that mode, there.
    bed.at("node/n1", "nft flush table ip6 kube-proxy");
    let said = bed.diagnosed();
    assert_eq!(
        (&said["verdict"]["mode"], summary(&said)),
        (&"F10".into(), "IPv6: the proxy of the node has rules for no Service")
    );
    assert!(said["because"].to_string().contains("it is IPv6 alone"), "{said:#}");
}

#[test]
fn rules_that_are_all_gone_are_all_gone() {
    if !root_or_skip("rules_that_are_all_gone_are_all_gone") {
        return;
    }
    let bed = Bed::shop();
    bed.at("node/node-1", "nft flush table ip kube-proxy");
    let said = bed.diagnosed();
    assert_eq!(said["verdict"]["mode"], "F10", "a Service without endpoints is served by nobody: {said:#}");
}

#[test]
fn of_two_faults_both_are_named() {
    if !root_or_skip("of_two_faults_both_are_named") {
        return;
    }
    let bed = Bed::shop();
    for (first, second, asked, expected) in [
        ("bad-replica", "upstream-down", "cache example.com", ["F20", "F22"]),
        ("bad-replica", "no-tcp-rule", "cache", ["F09", "F20"]),
        ("dns-policy", "bad-replica", "cache", ["F01", "F20"]),
        ("dns-policy", "upstream-down", "cache example.com", ["F01", "F22"]),
        ("no-proxy", "upstream-down", "cache example.com", ["F10", "F22"]),
        ("lost-twin", "upstream-down", "cache example.com", ["F27", "F22"]),
        ("slow-server", "no-tcp-rule", "cache", ["F09", "F21"]),
        ("aaaa-dropped", "no-tcp-rule", "cache", ["F09", "F45"]),
        ("bad-replica", "mixed-nameservers", "cache", ["F26", "F20"]),
        ("dns-policy-udp-only", "upstream-down", "cache example.com", ["F02", "F22"]),
    ] {
        for fault in [first, second] {
            bed.labs.good(&format!("netlab lab break {fault} --pod shop/api"));
        }
        let (_, said) = bed.labs.json(&format!("netlab dns diagnose shop/api {asked} --lab lab"));
        assert_eq!(modes(&said), expected, "{first} and {second}: {said:#}");
        for fault in [first, second] {
            bed.labs.good(&format!("netlab lab mend {fault}"));
        }
    }
}

#[test]
fn a_pod_without_a_network_is_said_to_have_none() {
    if !root_or_skip("a_pod_without_a_network_is_said_to_have_none") {
        return;
    }
    for (place, line, words) in [
        ("shop/api", "ip link set eth0 down", "the pod is cut off: eth0 is down"),
        (
            "shop/api",
            "ip route del default; ip -6 route del default || true",
            "the pod has no route to its DNS servers",
        ),
    ] {
        let bed = Bed::shop();
        bed.at(place, line);
        let said = bed.diagnosed();
        assert_eq!((summary(&said), &said["verdict"]["class"]), (words, &"undetermined".into()), "{said:#}");
    }
}

#[test]
fn who_refuses_is_in_the_table() {
    if !root_or_skip("who_refuses_is_in_the_table") {
        return;
    }
    let bed = Bed::shop();
    bed.labs.good("netlab lab break prohibit --pod shop/api");
    let run = bed.labs.shell("netlab dns diagnose shop/api cache --lab lab");
    assert!(
        run.stdout.contains("rejected on the way") && run.stdout.contains("(ICMP 3/13 from"),
        "{}",
        run.stdout
    );
}
