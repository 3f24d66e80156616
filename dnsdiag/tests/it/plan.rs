//! Plans against what the real libraries did.

use std::collections::BTreeMap;

use netlab_dnsdiag::resolver::{Libc, Outcome, Then};
use netlab_dnsdiag::script::Script;

use crate::scenario::Scenarios;
use crate::vector::{Vector, agrees, measured, vectors};

#[test]
fn every_measured_lookup_is_planned() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for vector in vectors().into_iter().chain(measured()) {
        for (libc, observed) in &vector.observed {
            let libc: Libc = libc.parse().expect("a libc");
            compared += 1;
            if let Err(why) = agrees(&vector.plan(libc), observed) {
                wrong.push(format!("{} {libc}\n  {why}", vector.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(compared, 93 + 305);
}

/// What every plan keeps, whatever the file, the servers and the library.
fn holds(vector: &Vector, libc: Libc) {
    let plan = vector.plan(libc);
    let again = vector.plan(libc);
    let told = || format!("{} {libc} {:?} {}", vector.name, vector.resolv_conf, vector.server);
    assert_eq!(plan, again, "{}: the same input gives the same plan", told());
    assert!(!plan.runs.is_empty() && !plan.predicted.outcomes.is_empty(), "{}", told());
    let script = vector.script();
    for run in &plan.runs {
        let mut before = 0;
        for (index, query) in run.queries.iter().enumerate() {
            assert_eq!(query.n, index + 1, "{}: numbered in order", told());
            assert!(query.at >= before, "{}: time does not go back", told());
            assert!(
                run.outcome.millis.is_none_or(|end| query.at <= end),
                "{}: nothing after the end",
                told()
            );
            assert!(script.listens(query.nameserver, query.transport), "{}: somebody listens", told());
            before = query.at;
        }
        let same = |outcome: &&Outcome| (outcome.rc, outcome.millis) == (run.outcome.rc, run.outcome.millis);
        assert_eq!(plan.predicted.outcomes.iter().filter(same).count(), 1, "{}: each outcome once", told());
        let asked = !plan.candidates.is_empty();
        assert_eq!(run.outcome.rc == Some(0) && asked, run.resolved.is_some(), "{}", told());
        let found = run.steps.last().map(|step| step.then == Then::Found);
        assert!(run.resolved.is_none() || found == Some(true), "{}: the last step found it", told());
    }
    assert!(
        plan.predicted.outcomes.len() == 1 || plan.predicted.outcomes.iter().all(|one| one.when.is_some())
    );
}

#[test]
fn plans_of_random_lookups_hold_together() {
    let seeds: Vec<u64> = match std::env::var("NETLAB_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => vec![seed],
        None => vec![1, 2, 3],
    };
    let count = std::env::var("NETLAB_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let libcs =
        ["glibc:2.25", "glibc:2.36", "glibc:2.41", "musl:1.1.24", "musl:1.2.3", "musl:1.2.4", "go:1.26"];
    for seed in seeds {
        for vector in Scenarios::new(seed).take(count) {
            for libc in libcs {
                holds(&vector, libc.parse().expect("a libc"));
            }
        }
    }
}

/// Any bytes as `resolv.conf` and any text as the name.
#[test]
fn plans_of_anything_hold_together() {
    let seed = std::env::var("NETLAB_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(9);
    let mut random = fastrand::Rng::with_seed(seed);
    let pieces = [
        "search ",
        "nameserver 127.0.0.1\n",
        "options ",
        "ndots:",
        "timeout:",
        "attempts:",
        ".",
        "\n",
        " ",
        "9",
        "-1",
        "rotate",
        "a",
        "é",
        "\0",
        "x.l",
    ];
    let text = |random: &mut fastrand::Rng, length: usize| -> String {
        (0..random.usize(0..length)).map(|_| pieces[random.usize(0..pieces.len())]).collect()
    };
    for (round, mut vector) in Scenarios::new(seed).take(1500).enumerate() {
        vector.resolv_conf = text(&mut random, 24);
        if round % 2 == 0 {
            vector.query = text(&mut random, 8);
        }
        for libc in Libc::all() {
            holds(&vector, libc);
        }
    }
}

/// What only other releases do, told from their sources.
#[test]
fn releases_differ() {
    let vector = |conf: &str, server: serde_json::Value, query: &str, family: &str| Vector {
        name: "release".to_owned(),
        resolv_conf: conf.to_owned(),
        server,
        query: query.to_owned(),
        family: family.to_owned(),
        observed: BTreeMap::new(),
    };
    let rc = |vector: &Vector, libc: &str| {
        let outcomes = vector.plan(libc.parse().expect("a libc")).predicted.outcomes;
        assert_eq!(outcomes.len(), 1, "{libc}");
        (outcomes[0].rc, outcomes[0].millis)
    };
    let one = "search s.l\nnameserver 10.0.0.1\noptions ndots:5";
    let aaaa_servfail =
        serde_json::json!({"10.0.0.1": [["foo.s.l.", "AAAA", "servfail"], ["foo.s.l.", "A", "ok"]]});
    // strict-error, 2.41: half an answer is none; the name as it is then does not exist.
    let strict = vector(&format!("{one} strict-error\n"), aaaa_servfail.clone(), "foo", "unspec");
    assert_eq!(rc(&strict, "glibc:2.40"), (Some(0), Some(0)));
    assert_eq!(rc(&strict, "glibc:2.41"), (Some(-2), Some(0)));
    // single-request waited for an answer to a query that was not sent.
    let servfail = serde_json::json!({"10.0.0.1": [["foo.s.l.", "*", "servfail"]]});
    let single = vector(&format!("{one} single-request attempts:1\n"), servfail, "foo", "unspec");
    assert_eq!(rc(&single, "glibc:2.33"), (Some(-3), Some(5000)));
    assert_eq!(rc(&single, "glibc:2.36"), (Some(-3), Some(0)));
    // Before musl 1.2.1 one half was enough.
    let halves = vector(&format!("{one}\n"), aaaa_servfail, "foo", "unspec");
    assert_eq!(rc(&halves, "musl:1.1.24"), (Some(0), Some(5000)));
    assert_eq!(rc(&halves, "musl:1.2.2"), (Some(-3), Some(5000)));
    // Names that are no host names were asked for before glibc 2.29.
    let star =
        vector(&format!("{one}\n"), serde_json::json!({"10.0.0.1": [["*", "*", "ok"]]}), "*.foo", "unspec");
    let asked = |libc: &str| star.plan(libc.parse().expect("a libc")).queries.len();
    assert_eq!((asked("glibc:2.28"), asked("glibc:2.29")), (2, 0));
    // The answer is not taken, either.
    assert_eq!(rc(&star, "glibc:2.28"), (Some(-2), Some(0)));
    assert_eq!(rc(&star, "glibc:2.29"), (Some(-2), Some(0)));
}

#[test]
fn what_no_timeout_ends_is_said() {
    let text = r#"[{"name": "hang", "resolvConf": "nameserver 10.0.0.1\noptions use-vc\n", "query": "foo.", "family": "unspec",
        "server": {"10.0.0.1": [["*", "*", "drop"]]}},
        {"name": "crash", "resolvConf": "nameserver 10.0.0.1\noptions attempts:0\n", "query": "foo.", "family": "unspec",
        "server": {"10.0.0.1": [["*", "*", "ok"]]}}]"#;
    let vectors: Vec<Vector> = serde_json::from_str(text).expect("vectors");
    let [hang, crash] = vectors.as_slice() else { panic!("two") };
    let outcome = |vector: &Vector, libc: &str| {
        let outcome = vector.plan(libc.parse().expect("a libc")).predicted.outcomes.remove(0);
        (outcome.rc, outcome.millis)
    };
    assert_eq!(outcome(hang, "glibc"), (None, None));
    assert_eq!(outcome(hang, "go"), (Some(-3), Some(10_000)));
    assert_eq!(outcome(crash, "musl").0, None, "it divides by 0");
    assert_eq!(outcome(crash, "glibc"), (Some(-3), Some(0)), "no try at all");
}

#[test]
fn scripts_that_cannot_be_meant_are_told() {
    for (text, line, field, word) in [
        ("[]", 1, "", "an object"),
        ("{", 1, "", "EOF"),
        ("{\n\"10.0.0.1\": 3}", 2, r#"["10.0.0.1"]"#, "a list"),
        ("{\"10.0.0.1\": [[\"a\", \"*\"]]}", 1, r#"["10.0.0.1"][0][2]"#, "three words"),
        ("{\"10.0.0.1\": [[\"a\", \"*\", \"ok\", 1]]}", 1, r#"["10.0.0.1"][0]"#, "three words"),
        ("{\"10.0.0.1\": [\n[\"a\", \"MX\", \"ok\"]]}", 2, r#"["10.0.0.1"][0][1]"#, "`MX`"),
        ("{\"10.0.0.1\": [[\"a\", \"*\", \"okay\"]]}", 1, r#"["10.0.0.1"][0][2]"#, "`okay`"),
        ("{\"_noudp\": [\"x\"]}", 1, r#"["_noudp"][0]"#, "`x`"),
        ("{\"dns\": []}", 1, "", "`dns`"),
        ("{\"10.0.0.1\": [], \"10.0.0.1\": []}", 1, r#"["10.0.0.1"]"#, "twice"),
    ] {
        let error = text.parse::<Script>().expect_err(text);
        assert_eq!((error.line, error.field.as_str()), (line, field), "{text}: {error}");
        assert!(error.what.contains(word), "{text}: {error}");
    }
    let around = r#"{"name": "x", "server": {"10.0.0.1": [["A", "a", "ok"]]}}"#;
    let script: Script = around.parse().expect("a script within an object");
    assert_eq!(script.servers.len(), 1);
}

/// Ends that only runs of the real library have shown.
#[test]
fn odd_ends_of_glibc() {
    let text = r#"[
        {"name": "IPv4 alone forgets to try again", "family": "inet", "query": "foo.other",
         "resolvConf": "search s.l\nnameserver 10.0.0.1\noptions ndots:1 attempts:1\n",
         "server": {"10.0.0.1": [["foo.other.", "*", "refused"]]}},
        {"name": "both families do not", "family": "unspec", "query": "foo.other",
         "resolvConf": "search s.l\nnameserver 10.0.0.1\noptions ndots:1 attempts:1\n",
         "server": {"10.0.0.1": [["foo.other.", "*", "refused"]]}},
        {"name": "a comment's name answers and is not taken", "family": "unspec", "query": "foo",
         "resolvConf": "search s.l # tail\nnameserver 10.0.0.1\noptions ndots:5\n",
         "server": {"10.0.0.1": [["foo.#.", "*", "ok"], ["foo.tail.", "*", "ok"]]}},
        {"name": "no-aaaa asks for A in the place of AAAA", "family": "inet6", "query": "foo.",
         "resolvConf": "nameserver 10.0.0.1\noptions no-aaaa\n",
         "server": {"10.0.0.1": [["foo.", "A", "ok"]]}}
    ]"#;
    let vectors: Vec<Vector> = serde_json::from_str(text).expect("vectors");
    let ends: Vec<(Option<i32>, usize)> = vectors
        .iter()
        .map(|vector| {
            let plan = vector.plan("glibc:2.36".parse().expect("a libc"));
            (plan.predicted.outcomes[0].rc, plan.queries.len())
        })
        .collect();
    assert_eq!(ends, [(Some(-2), 2), (Some(-3), 4), (Some(-2), 4), (Some(-5), 1)]);
}

/// `gaih_inet` and `__inet6_scopeid_pton` of glibc (measured with 2.36), `__lookup_ipliteral` of musl, `netip.ParseAddr`.
#[test]
fn addresses_are_asked_of_nobody() {
    let outcomes = |query: &str, family: &str, libc: &str| -> Vec<(Option<i32>, Option<String>)> {
        let vector = Vector {
            name: "address".to_owned(),
            resolv_conf: "nameserver 10.0.0.1\n".to_owned(),
            server: serde_json::json!({"10.0.0.1": [["*", "*", "ok"]]}),
            query: query.to_owned(),
            family: family.to_owned(),
            observed: BTreeMap::new(),
        };
        let plan = vector.plan(libc.parse().expect("a libc"));
        assert_eq!(plan.queries, [], "{query} {family} {libc}");
        plan.predicted.outcomes.into_iter().map(|outcome| (outcome.rc, outcome.when)).collect()
    };
    for (query, family, glibc, musl, go) in [
        ("10.0.0.1", "unspec", 0, 0, 0),
        ("10.0.0.1", "inet6", -9, -5, -3),
        ("::ffff:10.0.0.1", "inet", 0, -5, -3),
        ("::1%lo", "unspec", -2, -2, 0),
        ("::1%1", "unspec", 0, 0, 0),
        ("fe80::1%1", "inet6", 0, 0, 0),
    ] {
        for (libc, rc) in [("glibc", glibc), ("musl", musl), ("go", go)] {
            assert_eq!(outcomes(query, family, libc), [(Some(rc), None)], "{query} {family} {libc}");
        }
    }
    // Whether the pod has the interface is not in the file.
    for libc in ["glibc", "musl"] {
        assert_eq!(
            outcomes("fe80::1%eth0", "unspec", libc),
            [
                (Some(0), Some("there is an interface `eth0`".to_owned())),
                (Some(-2), Some("there is no interface `eth0`".to_owned()))
            ],
            "{libc}"
        );
    }
    assert_eq!(outcomes("fe80::1%eth0", "unspec", "go"), [(Some(0), None)]);
}
