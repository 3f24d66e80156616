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
    assert!(run.stderr.contains("<--iptables-save <FILE>|--nft <FILE>>"), "{}", run.stderr);
    let both = ["--iptables-save", "examples/broken/ok.save", "--nft", "examples/broken/ok.nft"];
    let run = netlab(["service", "trace", "-f", "examples/broken", "mynet/web"].iter().chain(&both));
    assert_eq!(run.code, Some(2));
}
