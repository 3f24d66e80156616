//! The printed commands build the very lab that `Lab::build` builds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use netlab_lab::{Lab, Place, Plan, print};
use serde_json::Value;

use crate::cluster::{Families, node, plan, pod};
use crate::require;

/// What `ip` is asked, and the facts of each answer that count. Indices and states that pass are left out.
const QUESTIONS: [(&[&str], &[&str]); 5] = [
    (&["link", "show"], &["ifname", "address", "mtu", "link_type", "operstate"]),
    (&["addr", "show"], &["ifname", "addr_info"]),
    (&["route", "show", "table", "all"], ROUTE),
    (&["-6", "route", "show", "table", "all"], ROUTE),
    (&["neigh", "show"], &["dst", "dev", "lladdr", "state"]),
];
const ROUTE: &[&str] = &["type", "dst", "gateway", "dev", "table", "protocol", "scope", "prefsrc", "metric"];

type Facts = BTreeMap<String, Vec<String>>;

fn facts(question: &[&str], keep: &[&str], answer: &Value) -> Vec<String> {
    let mut facts: Vec<String> = answer
        .as_array()
        .expect("ip answers with a list")
        .iter()
        .map(|entry| {
            let kept: BTreeMap<&str, &Value> =
                keep.iter().filter_map(|key| entry.get(key).map(|value| (*key, value))).collect();
            format!("{} {}", question.join(" "), serde_json::to_string(&kept).expect("json"))
        })
        .collect();
    facts.sort();
    facts
}

fn sysctls(plan: &Plan, place: &Place) -> Vec<String> {
    let namespace = plan.namespaces.iter().find(|namespace| namespace.place == *place).expect("planned");
    namespace.sysctls.iter().map(|sysctl| sysctl.name.clone()).collect()
}

/// Asks in every namespace of the built lab.
fn built(lab: &Lab) -> Facts {
    let mut all = Facts::new();
    for (place, netns) in lab.namespaces() {
        let mut found = Vec::new();
        netns
            .run(|| {
                for (question, keep) in QUESTIONS {
                    let output = Command::new("ip").arg("-j").args(question).output().expect("ip");
                    found.extend(facts(question, keep, &parse(&output.stdout)));
                }
                for name in sysctls(lab.plan(), place) {
                    found.push(format!("{name} = {}", netlab_node::sysctl::read(&name).expect("sysctl")));
                }
            })
            .expect("run");
        all.insert(place.to_string(), found);
    }
    all
}

fn parse(bytes: &[u8]) -> Value {
    // With nothing to show, `ip -j` prints nothing or an empty list.
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Value::Array(Vec::new());
    }
    serde_json::from_slice(bytes).expect("json")
}

/// Runs the printed commands in mount and network namespaces of their own, then asks the same.
fn typed(plan: &Plan) -> Facts {
    let prefix = "demo-";
    let mut script = String::from("mount -t tmpfs tmpfs /run\nmkdir /run/netns\n");
    script.push_str(&print::script(plan, prefix));
    for namespace in &plan.namespaces {
        let name = print::namespace_name(plan, prefix, &namespace.place).expect("named");
        for (question, _) in QUESTIONS {
            let words = question.join(" ");
            writeln!(script, "ip -n {name} -j {words} | tr -d '\\n'; echo").expect("text");
        }
        for sysctl in sysctls(plan, &namespace.place) {
            writeln!(script, "ip netns exec {name} cat /proc/sys/net/{sysctl}").expect("text");
        }
    }
    script.push_str(&print::undo(plan, prefix));
    script.push_str("test -z \"$(ls /run/netns)\"\n");

    let mut child = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-e"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare");
    child.stdin.take().expect("stdin").write_all(script.as_bytes()).expect("write");
    let output = child.wait_with_output().expect("wait");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}\n{script}");

    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut lines = text.lines();
    let mut all = Facts::new();
    for namespace in &plan.namespaces {
        let mut found = Vec::new();
        for (question, keep) in QUESTIONS {
            found.extend(facts(question, keep, &parse(lines.next().expect("answer").as_bytes())));
        }
        for name in sysctls(plan, &namespace.place) {
            found.push(format!("{name} = {}", lines.next().expect("value")));
        }
        all.insert(namespace.place.to_string(), found);
    }
    all
}

#[test]
fn the_printed_commands_build_the_same_lab() {
    if !require::netns() || !require::met("ip", tools()) {
        return;
    }
    for families in [Families::Both, Families::V4, Families::V6] {
        let plan = plan(families);
        let lab = Lab::build(&plan).expect("build");
        // The kernel enters the local route of a new IPv6 address a moment after the address (`addrconf_dad_work`).
        let read = || (built(&lab), typed(&plan));
        let (built, typed) =
            (0..10).map(|_| read()).find(|(built, typed)| built == typed).unwrap_or_else(read);
        assert_eq!(built.keys().collect::<Vec<_>>(), typed.keys().collect::<Vec<_>>());
        for (place, found) in &built {
            assert!(found.len() > 10, "{place} shows too little: {found:?}");
            assert_eq!(found, &typed[place], "{families:?} {place}");
        }
    }
}

fn tools() -> Result<(), String> {
    for tool in ["ip", "unshare", "sysctl"] {
        if netlab_node::capability::find_tool(tool, &["-V"]).is_none() {
            return Err(format!("{tool} is not installed"));
        }
    }
    Ok(())
}

#[test]
fn every_line_is_a_command_a_comment_or_empty() {
    let plan = plan(Families::Both);
    let script = print::script(&plan, "");
    for line in script.lines() {
        assert!(line.is_empty() || line.starts_with("# ") || line.starts_with("ip "), "{line}");
        assert!(line.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{line}");
    }
    assert!(script.contains("ip netns add node_node-1\n"));
    assert!(
        script
            .contains("ip -n shop.web route add 0.0.0.0/0 via 169.254.1.1 dev eth0 onlink src 10.244.1.5\n")
    );
    assert_eq!(print::namespace_name(&plan, "a-", &pod("agent")).as_deref(), Some("a-node_node-2"));
    assert_eq!(print::namespace_name(&plan, "a-", &node("nowhere")), None);
}

#[test]
fn odd_names_do_not_reach_the_shell() {
    use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
    let mut cluster = Cluster::default();
    for name in ["x; reboot", "../../etc", "x\nreboot"] {
        let addresses =
            vec![std::net::IpAddr::from([10, 0, 0, 1 + u8::try_from(cluster.pods.len()).expect("few")])];
        cluster.pods.insert(ObjectKey::new("ns", name), Pod { addresses, ..Pod::default() });
    }
    let plan = Plan::new(&cluster, &netlab_lab::Selection::everything()).expect("plan");
    let script = print::script(&plan, "");
    let names: std::collections::BTreeSet<&str> =
        script.lines().filter_map(|line| line.strip_prefix("ip netns add ")).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(!script.contains("\nreboot"), "{script}");
    for name in names {
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{name}");
    }
}
