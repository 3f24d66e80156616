//! Connections to a Service, as users ask about them.

use crate::run::{netlab, netlab_reading};

const QUESTION: [&str; 5] = ["service", "trace", "-f", "examples/stale", "kube-system/kube-dns"];

#[test]
fn a_flow_that_leads_to_what_is_gone_is_named_with_its_reason() {
    let ask = |more: &[&str]| {
        netlab(QUESTION.iter().chain(&["--conntrack", "examples/stale/flows.txt"]).chain(more))
    };
    let run = ask(&[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let first = run.stdout.lines().next().expect("a line");
    assert_eq!(first, "STALE   kube-system/kube-dns:dns UDP 10.96.0.10:53  1 of 3 lead to no endpoint");
    for said in ["10.244.1.21:51999", "10.244.1.5:53", "flows.txt:2", "UDP has no end", "conntrack -D -p udp"]
    {
        assert!(run.stdout.contains(said), "{said}: {}", run.stdout);
    }
    let run = ask(&["-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(value["kind"], "ServiceConntrack");
    let [dns, tcp] = value["ports"].as_array().expect("a list").as_slice() else { panic!("two ports") };
    assert_eq!((&dns["entries"], &tcp["entries"]), (&3.into(), &1.into()));
    assert_eq!(tcp["stale"], serde_json::json!([]), "connections of TCP end by themselves");
    let stale = &dns["stale"][0];
    assert_eq!(
        (&stale["line"], &stale["unreplied"], &stale["expiresIn"]),
        (&2.into(), &true.into(), &29.into())
    );
    assert_eq!(ask(&["--compare"]).code, Some(1), "it goes with every view");
}

#[test]
fn an_endpoint_that_still_answers_is_none_that_is_gone() {
    let line = |to: &str| {
        format!(
            "udp 17 29 src=10.244.1.20 dst=10.96.0.10 sport=4 dport=53 src={to} dst=10.244.1.20 sport=53 dport=4 mark=0 use=1\n"
        )
    };
    for (to, code) in [("10.244.1.8", 0), ("10.244.1.9", 0), ("10.244.1.5", 1), ("10.96.0.10", 1)] {
        let run = netlab_reading(&line(to), &[&QUESTION[..], &["--conntrack", "-"]].concat());
        assert_eq!(run.code, Some(code), "{to}: {}{}", run.stdout, run.stderr);
    }
    let run = netlab_reading(&line("10.96.0.10"), &[&QUESTION[..], &["--conntrack", "-"]].concat());
    assert!(run.stdout.contains("made while the Service had no rule"), "{}", run.stdout);
    let run = netlab_reading("hello\n", &[&QUESTION[..], &["--conntrack", "-"]].concat());
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("line 1: `hello`"), "{}", run.stderr);
}
