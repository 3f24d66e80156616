//! Labs: every example of the help in the order of a lab's life, and the twins that the commands print.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::help::{examples, pages};
use crate::run::{Run, command, finish, netlab_reading, root_or_skip, shell};

/// Labs of this test alone; whatever is still up goes down with the value.
pub(crate) struct Labs {
    pub(crate) directory: tempfile::TempDir,
}

impl Labs {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    pub(crate) fn shell(&self, line: &str) -> Run {
        let binary = Path::new(env!("CARGO_BIN_EXE_netlab")).parent().expect("a directory");
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
        finish(
            command("sh")
                .args(["-c", line])
                .env("PATH", path)
                .env("NETLAB_RUN_DIR", self.directory.path().join("run")),
        )
    }

    /// Runs a line that has to exit 0, and gives what it prints.
    pub(crate) fn good(&self, line: &str) -> String {
        let run = self.shell(line);
        assert_eq!(run.code, Some(0), "`{line}`: {}{}", run.stdout, run.stderr);
        run.stdout
    }

    pub(crate) fn json(&self, line: &str) -> (Option<i32>, Value) {
        let run = self.shell(&format!("{line} -o json"));
        let value = serde_json::from_str(&run.stdout);
        (run.code, value.unwrap_or_else(|error| panic!("`{line}`: {error}: {}{}", run.stdout, run.stderr)))
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        for name in ["lab", "second", "proxied", "names"] {
            self.shell(&format!("netlab lab down --name {name}"));
        }
    }
}

/// The commands that an answer prints for doubters.
fn twins(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("  $ ")).map(str::to_owned).collect()
}

#[test]
fn a_lab_lives_as_its_help_says() {
    if !root_or_skip("a_lab_lives_as_its_help_says") {
        return;
    }
    let labs = Labs::new();
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for page in pages() {
        let found: Vec<String> = examples(&page.help)
            .into_iter()
            .filter(|example| {
                example.contains("--lab") || example.starts_with("netlab lab ") || example.contains("--name")
            })
            .collect();
        if !found.is_empty() {
            of.insert(page.words.join(" "), found);
        }
    }
    let life = [
        "lab up",
        "enforce attach",
        "enforce status",
        "enforce map",
        "enforce trace",
        "lab exec",
        "lab paths",
        "lab break",
        "lab mend",
        "lab status",
        "enforce detach",
        "lab down",
    ];
    for step in life {
        let examples = of.remove(step).unwrap_or_else(|| panic!("`netlab {step}` has no examples on a lab"));
        if step == "enforce trace" {
            // Something to have been dropped.
            labs.shell(
                "netlab lab exec --lab lab shop/web -- timeout 0.2 bash -c 'echo >/dev/tcp/10.244.1.2/5432'",
            );
        }
        for example in examples {
            let printed = labs.good(&example);
            // A lab may be silent, but whoever traces it is told that it listens.
            let silent_ok = step == "enforce trace";
            assert!(silent_ok || !printed.trim().is_empty(), "`{example}` prints nothing");
        }
    }
    assert!(of.is_empty(), "examples on a lab that were not run: {of:?}");
    assert_eq!(labs.good("netlab lab status"), "no lab is up\n");
}

#[test]
fn what_is_in_force_can_be_seen_changed_and_taken_off() {
    if !root_or_skip("what_is_in_force_can_be_seen_changed_and_taken_off") {
        return;
    }
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop");
    let (code, status) = labs.json("netlab enforce status");
    assert_eq!(code, Some(0));
    assert_eq!(status["generation"], 1);

    // The way in: a denied and an allowed connection, seen by the trace.
    let trace = "netlab enforce trace -n shop --timeout 3s -o json";
    let connect = "sleep 0.7; for to in 10.244.1.2/5432 10.244.0.2/8080; do \
                   netlab lab exec shop/web -- timeout 0.2 bash -c \"echo >/dev/tcp/$to\"; done";
    let seen = labs.shell(&format!("({connect}) >/dev/null 2>&1 & {trace}; wait")).stdout;
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    let said = |pod: &str, port: u16, verdict: &str| {
        seen.iter().any(|d| {
            d["pod"] == pod
                && d["direction"] == "ingress"
                && d["destinationPort"] == port
                && d["verdict"] == verdict
        })
    };
    assert!(said("shop/db", 5432, "deny"), "{seen:#?}");
    assert!(said("shop/api", 8080, "allow"), "{seen:#?}");

    // Its counter moved, and the map's row says why.
    let denied = seen.iter().find(|d| d["pod"] == "shop/db" && d["verdict"] == "deny").expect("seen above");
    let counters = labs.good("netlab enforce map counters");
    let entry = denied["entry"].to_string();
    let row = counters.lines().find(|line| line.starts_with(&format!("{entry} "))).unwrap_or_default();
    assert!(row.contains("default deny: shop/db, shop/default-deny"), "{counters}");

    // Everything that the commands print for doubters works and prints something.
    let mut tried = 0;
    for line in [
        "netlab enforce attach -f examples/shop",
        "netlab enforce status",
        "netlab enforce map devices",
        "netlab enforce map conntrack",
    ] {
        for twin in twins(&labs.good(line)) {
            let run = shell(&twin);
            assert_eq!(run.code, Some(0), "`{twin}` of `{line}`: {}", run.stderr);
            assert!(!run.stdout.trim().is_empty(), "`{twin}` of `{line}` prints nothing");
            tried += 1;
        }
    }
    assert!(tried > 10, "only {tried} twins were printed");
    let (_, status) = labs.json("netlab enforce status");
    assert_eq!(status["generation"], 2);

    labs.good("netlab enforce detach");
    let run = labs.shell("netlab enforce status");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.starts_with("OPEN  "), "{}", run.stdout);
    let pid = status["pid"].to_string();
    let hooks = shell(&format!("cat /proc/{pid}/fdinfo/* 2>/dev/null | grep -c tcx"));
    assert_eq!(hooks.stdout, "0\n", "a hook is still held");

    labs.good("netlab lab down");
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ended = state.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
    assert!(ended, "the supervisor still runs: {state}");
}

/// Who asks after the fact is told what a proof would say: entry, rule or isolating policies, places, near misses.
#[test]
fn the_last_drop_is_told_after_the_fact() {
    if !root_or_skip("the_last_drop_is_told_after_the_fact") {
        return;
    }
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop");
    let run = labs.shell("netlab enforce trace --last web -n shop");
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("NO DROP  shop/web"), "{}", run.stdout);
    labs.shell("netlab lab exec shop/web -- timeout 0.2 bash -c 'echo >/dev/tcp/10.244.1.2/5432'");
    // The sender asks, and so does who did not get it.
    for pod in ["pod/shop/web", "shop/db"] {
        let text = labs.good(&format!("netlab enforce trace --last {pod}"));
        let head = text.lines().next().unwrap_or_default();
        assert!(
            head.starts_with("DROPPED ") && head.ends_with(" ago  shop/web -> shop/db 5432/tcp"),
            "{text}"
        );
        for part in
            ["ingress of shop/db on node-2", "default deny", "policies/", "near miss", "wants app=api"]
        {
            assert!(text.contains(part), "no {part:?} in: {text}");
        }
        for twin in twins(&text) {
            let run = shell(&twin);
            assert!(run.code == Some(0) && !run.stdout.trim().is_empty(), "`{twin}`: {}", run.stderr);
        }
    }
    let (code, last) = labs.json("netlab enforce trace --last shop/db");
    assert_eq!(code, Some(0));
    let drop = &last["drops"][0];
    assert_eq!((&last["kind"], &drop["verdict"]), (&"LastDrops".into(), &"deny".into()));
    assert_eq!((&drop["from"], &drop["to"]), (&"shop/web".into(), &"shop/db".into()));
    assert!(drop["secondsAgo"].as_f64().is_some_and(|seconds| (0.0..60.0).contains(&seconds)), "{drop}");
    assert!(drop["isolatedBy"][0]["file"].as_str().is_some_and(|file| file.contains("policies/")), "{drop}");
    assert!(drop["nearMisses"][0]["line"].is_u64(), "{drop}");
    // The proof of the same packet cites the same.
    let proof = labs.shell(
        "netlab policy prove -f examples/shop --from shop/web --to shop/db --port 5432 --allow-simulated -o json",
    );
    let proof: Value = serde_json::from_str(&proof.stdout).expect("a proof");
    assert_eq!(proof["isolatedBy"], drop["isolatedBy"]);
    assert_eq!(proof["nearMisses"], drop["nearMisses"]);
    // A change of policy does not change why it was dropped then.
    labs.good("netlab enforce attach -f examples/shop");
    let text = labs.good("netlab enforce trace --last shop/db");
    assert!(text.contains("generation 1 decided, 2 is in force now"), "{text}");
    assert!(text.contains("near miss"), "{text}");

    let run = labs.shell("netlab enforce trace --last shop/dv");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("did you mean `shop/db`?"), "{}", run.stderr);
    assert_eq!(labs.shell("netlab enforce trace --last svc/shop/db").code, Some(2));
    labs.good("netlab enforce detach");
    assert_eq!(labs.shell("netlab enforce trace --last shop/db").code, Some(3));
}

/// A rule of another tier is told with its name and place; of a flood it is said how much was not told.
#[test]
fn a_trace_tells_tiers_and_what_it_does_not_show() {
    const GUARD: &str = "
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: no-echo}
spec:
  priority: 1
  subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: shop}}}
  ingress:
    - name: not-9999
      action: Deny
      from: [{namespaces: {}}]
      ports: [{portNumber: {protocol: UDP, port: 9999}}]
";
    if !root_or_skip("a_trace_tells_tiers_and_what_it_does_not_show") {
        return;
    }
    let labs = Labs::new();
    let file = labs.directory.path().join("guard.yaml");
    std::fs::write(&file, GUARD).expect("written");
    labs.good("netlab lab up -f examples/shop");
    labs.good(&format!("netlab enforce attach -f examples/shop -f {}", file.display()));
    // More datagrams than the ring takes before it is read again.
    let flood = "sleep 1; netlab lab exec shop/web -- bash -c \
                 'exec 3>/dev/udp/10.244.1.2/9999; for i in $(seq 8000); do echo -n x >&3; done'";
    let seen =
        labs.shell(&format!("({flood}) >/dev/null 2>&1 & netlab enforce trace --timeout 10s -o json; wait"));
    let seen: Vec<Value> =
        seen.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    let denied: Vec<&Value> =
        seen.iter().filter(|d| d["destinationPort"] == 9999 && d["direction"] == "ingress").collect();
    let first = denied.first().expect("told");
    assert_eq!((&first["tier"], &first["rule"]["ruleName"]), (&"admin".into(), &"not-9999".into()));
    assert_eq!((&first["rule"]["kind"], &first["rule"]["line"]), (&"AdminNetworkPolicy".into(), &11.into()));
    let told = denied.len() as u64;
    let more = |kind: &str| seen.iter().filter_map(|line| line[kind].as_u64()).sum::<u64>();
    assert_eq!(more("sampled"), 0, "in a lab nothing is sampled");
    let (_, status) = labs.json("netlab enforce status");
    let entry = first["entry"].to_string();
    let node = status["nodes"].as_array().expect("nodes").iter().find(|node| node["node"] == "node-2");
    let counted = node.expect("node-2")["counters"][&entry].as_u64().expect("counted");
    assert!(counted > 1_000, "{counted}");
    // What is lost may be other decisions as well, such as the same datagrams at their source.
    assert!(told + more("lost") >= counted, "told {told}, lost {}, counted {counted}", more("lost"));
    let text = labs.good("netlab enforce trace --last shop/db");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("AdminNetworkPolicy no-echo spec.ingress[0].from[0] Deny \"not-9999\""), "{text}");
    assert!(words.contains("guard.yaml:11"), "{text}");
}

#[test]
fn an_audit_names_the_row_that_somebody_changed_and_its_rule() {
    if !root_or_skip("an_audit_names_the_row_that_somebody_changed_and_its_rule") {
        return;
    }
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop");
    let (code, status) = labs.json("netlab enforce status --audit");
    assert_eq!(code, Some(0), "{status}");
    for node in status["nodes"].as_array().expect("nodes") {
        let compared = node["audit"]["compared"].as_array().expect("compared");
        let rows = |object: &str| {
            compared
                .iter()
                .find(|row| row["object"] == object)
                .map_or(0, |row| row["rows"].as_u64().unwrap_or(0))
        };
        for object in ["POLICY", "DEVICES", "CIDRS", "RULESETS", "from_pod", "to_pod", "constants", "hooks"] {
            assert!(rows(object) > 0, "{object}: {compared:#?}");
        }
        assert_eq!(node["audit"]["differences"], serde_json::json!([]));
    }

    // Somebody turns a verdict over, by hand: allow (1) and deny (2) are the first byte.
    let (_, map) = labs.json("netlab enforce map policy -n shop");
    let node = &map["nodes"][0];
    let row = node["rows"]
        .as_array()
        .and_then(|rows| {
            rows.iter().find(|row| {
                row["words"][6].as_str().is_some_and(|why| why.contains("shop/") && why.contains("spec."))
            })
        })
        .expect("a row with a rule");
    let (key, value) = (row["keyHex"].as_str().expect("key"), row["valueHex"].as_str().expect("value"));
    let other = format!("{}{}", if value.starts_with("01") { "02" } else { "01" }, &value[2..]);
    let write = |value: &str| {
        let run = shell(&format!("bpftool map update id {} key hex {key} value hex {value}", node["mapId"]));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    };
    write(&other);
    let run = labs.shell("netlab enforce status --audit");
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    let said = run.stdout.lines().find(|line| line.starts_with("fault:")).unwrap_or_default();
    for words in ["POLICY", "holds other bytes", key, value, &other, "shop/", "spec."] {
        assert!(said.contains(words), "{words} is not in: {}", run.stdout);
    }
    let (code, status) = labs.json("netlab enforce status --audit");
    assert_eq!(code, Some(1));
    let differences = &status["nodes"].as_array().expect("nodes").iter().find(|n| n["node"] == node["node"]);
    let difference = &differences.expect("the node")["audit"]["differences"][0];
    assert_eq!(
        (&difference["keyHex"], &difference["foundHex"]),
        (&serde_json::json!(key), &serde_json::json!(other))
    );
    write(value);
    assert_eq!(labs.json("netlab enforce status --audit").0, Some(0));
}

/// Policies without the pods would let go of every pod of the lab.
#[test]
fn manifests_that_lack_the_lab_s_pods_leave_it_as_it_is() {
    if !root_or_skip("manifests_that_lack_the_lab_s_pods_leave_it_as_it_is") {
        return;
    }
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop --lab lab");
    let run = labs.shell("netlab enforce attach -f examples/shop/policies --lab lab");
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    assert!(run.stderr.contains("not in these manifests"), "{}", run.stderr);
    labs.good("netlab enforce status --lab lab");
}

/// Pods without an address in the manifests keep what the lab gave them, though the new manifests would give them others.
#[test]
fn other_manifests_give_no_pod_of_the_lab_another_address() {
    if !root_or_skip("other_manifests_give_no_pod_of_the_lab_another_address") {
        return;
    }
    let labs = Labs::new();
    let file = |name: &str, text: &str| {
        let path = labs.directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    // Before all others of its node, so that it would get the first address.
    let more = file(
        "more.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: aaa, namespace: shop}, spec: {nodeName: node-1}}",
    );
    let moved = file(
        "moved.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: aaa, namespace: shop}, spec: {nodeName: node-1}, \
         status: {phase: Running, podIP: 10.244.0.77}}",
    );
    for names in ["", " --dns"] {
        labs.good(&format!("netlab lab up -f examples/shop --lab lab{names}"));
        let admitted = || {
            let line =
                "netlab lab exec --lab lab shop/api -- timeout 2 bash -c 'echo >/dev/tcp/10.244.1.2/5432'";
            labs.shell(line).stderr.contains("refused")
        };
        assert!(admitted(), "nobody listens, and nothing is dropped");
        let run = labs.shell(&format!("netlab enforce attach --lab lab -f examples/shop -f {more}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stderr.contains("shop/aaa is not in the lab"), "{}", run.stderr);
        assert!(admitted(), "one pod more changes nothing for the others{names}");
        // Other labels count at once: the pod is no longer the one that is admitted.
        let api = std::fs::read_to_string("../examples/shop/api.yaml").expect("an example");
        let other = file("other.yaml", &api.replace("app: api", "app: other"));
        let copy = labs.directory.path().join("shop");
        labs.good(&format!(
            "rm -rf {0} && cp -r examples/shop {0} && cp {other} {0}/api.yaml",
            copy.display()
        ));
        labs.good(&format!("netlab enforce attach --lab lab -f {}", copy.display()));
        assert!(!admitted(), "the labels of the new manifests count{names}");
        labs.good("netlab lab down --name lab");
    }
    labs.good(&format!("netlab lab up -f examples/shop -f {more} --lab lab"));
    let run = labs.shell(&format!("netlab enforce attach --lab lab -f examples/shop -f {moved}"));
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    assert!(run.stderr.contains("shop/aaa") && run.stderr.contains("10.244.0.77"), "{}", run.stderr);
}

/// Without an address there is nothing to serve, and that is said.
#[test]
fn services_without_an_address_are_not_served_in_silence() {
    if !root_or_skip("services_without_an_address_are_not_served_in_silence") {
        return;
    }
    let labs = Labs::new();
    let file = labs.directory.path().join("service.yaml");
    let service = "{apiVersion: v1, kind: Service, metadata: {name: new, namespace: shop}, \
                   spec: {selector: {app: web}, ports: [{port: 80}]}}";
    std::fs::write(&file, service).expect("written");
    let up = format!("netlab lab up --lab lab --proxy nftables -f examples/shop -f {}", file.display());
    let run = labs.shell(&format!("{up} -o json"));
    let answer: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(answer["unserved"], serde_json::json!(["shop/new"]), "{}", run.stderr);
    assert!(run.stderr.contains("no proxy serves shop/new"), "{}", run.stderr);
}

#[test]
fn a_lab_that_is_not_there_is_named() {
    let labs = Labs::new();
    for line in [
        "netlab enforce status --lab nosuch",
        "netlab lab exec --lab nosuch shop/web -- true",
        "netlab lab down --lab nosuch",
    ] {
        let run = labs.shell(line);
        assert_eq!(run.code, Some(2), "`{line}`: {}", run.stderr);
        assert!(run.stderr.contains("nosuch") && run.stderr.contains("hint: "), "{}", run.stderr);
    }
}

#[test]
fn a_place_that_is_not_there_is_answered_with_the_nearest() {
    if !root_or_skip("a_place_that_is_not_there_is_answered_with_the_nearest") {
        return;
    }
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop --node node-2");
    let run = labs.shell("netlab lab exec shop/bd -- true");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("did you mean `shop/db`?"), "{}", run.stderr);
    assert_eq!(labs.shell("netlab lab exec -n shop db -- sh -c 'exit 7'").code, Some(7));
    // A pod has none of its caller's settings for names, and all others.
    let settings = "LOCALDOMAIN=evil.example RES_OPTIONS=ndots:9 HOSTALIASES=/nowhere OTHER=kept";
    let seen = labs.good(&format!(
        "{settings} netlab lab exec -n shop db -- \
         sh -c 'echo \"$LOCALDOMAIN$RES_OPTIONS$HOSTALIASES.$OTHER\"'"
    ));
    assert_eq!(seen.trim(), ".kept");
}

/// The endpoint that the proxy's rules lead to answers for a Service's address; nothing does without them.
#[test]
fn a_lab_with_a_proxy_leads_from_services_to_their_endpoints() {
    if !root_or_skip("a_lab_with_a_proxy_leads_from_services_to_their_endpoints") {
        return;
    }
    for (mode, list) in [("nftables", "nft list table ip kube-proxy"), ("iptables", "iptables-save -t nat")] {
        let labs = Labs::new();
        let (_, up) = labs.json(&format!("netlab lab up -f examples/service-prediction --proxy {mode}"));
        assert_eq!(up["proxy"], mode);
        let rules = labs.good(&format!("netlab lab exec node/worker -- {list}"));
        assert!(rules.contains("written by netlab"), "{rules}");
        let connect = "netlab lab exec mynet/web-5 -- timeout 2 bash -c 'echo >/dev/tcp/10.96.0.50/80'";
        let refused = labs.shell(connect);
        assert!(
            refused.stderr.contains("refused"),
            "{mode}: an endpoint has the port closed: {}",
            refused.stderr
        );
        labs.good("netlab lab down");
        labs.good("netlab lab up -f examples/service-prediction");
        let lost = labs.shell(connect);
        assert!(lost.code != Some(0) && !lost.stderr.contains("refused"), "{mode}: {}", lost.stderr);
    }
}

/// While `--hold` keeps the place, the printed `bpftool` line reads the printed value from the kernel.
#[test]
fn a_held_proof_can_be_doubted() {
    if !root_or_skip("a_held_proof_can_be_doubted") {
        return;
    }
    let mut child = command(env!("CARGO_BIN_EXE_netlab"))
        .args(["policy", "prove", "-f", "examples/shop", "-n", "shop"])
        .args(["--from", "web", "--to", "db", "--port", "5432", "--backend", "tc", "--hold=30s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("netlab starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let value = lines
        .by_ref()
        .find_map(|line| line.trim().strip_prefix("value ").map(|value| value.trim().to_owned()))
        .expect("a value is printed");
    let twin =
        lines.find_map(|line| line.trim().strip_prefix("$ ").map(str::to_owned)).expect("a twin is printed");
    let read = shell(&twin);
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(read.code, Some(0), "`{twin}`: {}", read.stderr);
    let shown: Vec<&str> = read.stdout.split_whitespace().collect();
    assert!(shown.join(" ").contains(&value), "`{twin}` prints {shown:?}, not {value}");
}

/// `--print` prints a script that builds and removes the same namespaces; run in a mount namespace of its own.
#[test]
fn the_printed_commands_build_a_lab_by_hand() {
    if !root_or_skip("the_printed_commands_build_a_lab_by_hand") {
        return;
    }
    let run = shell("netlab lab up -f examples/shop --name hand --print");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let by_hand = "mount -t tmpfs tmpfs /run && sh -e && ip netns list | sort && ip -all netns delete";
    let mut child = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", by_hand])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), run.stdout.as_bytes())
        .expect("written");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let made = String::from_utf8_lossy(&output.stdout);
    for place in ["hand-fabric", "hand-node_node-1", "hand-shop.db"] {
        assert!(made.lines().any(|line| line.split(' ').next() == Some(place)), "{place} is missing: {made}");
    }
}

/// A pod with two addresses, of which a policy admits one, has two verdicts: the answer says so and shows the denial.
#[test]
fn a_question_with_two_verdicts_is_mixed() {
    const SET: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
status: {phase: Running, podIPs: [{ip: 10.0.0.1}, {ip: \"fd00::1\"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
status: {phase: Running, podIPs: [{ip: 10.0.0.2}, {ip: \"fd00::2\"}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
    - from: [{ipBlock: {cidr: 10.0.0.0/24}}]
";
    let ask = |verb: &str, extra: &[&str]| {
        let question =
            ["policy", verb, "-f", "-", "-n", "shop", "--from", "web", "--to", "db", "--port", "80"];
        netlab_reading(SET, &[&question[..], extra].concat())
    };
    let run = ask("eval", &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stdout.starts_with("mixed  shop/web -> shop/db 80/tcp\n"), "{}", run.stdout);
    if !root_or_skip("a_question_with_two_verdicts_is_mixed") {
        return;
    }
    let run = ask("prove", &["--backend", "tc"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("PROVED mixed  shop/web -> shop/db 80/tcp\n"), "{}", run.stdout);
    assert!(run.stdout.contains("fd00::1 is outside 10.0.0.0/24"), "{}", run.stdout);
    for verdict in ["allow", "deny"] {
        assert_eq!(ask("prove", &["--backend", "tc", "--expect", verdict]).code, Some(1), "{verdict}");
    }
}
