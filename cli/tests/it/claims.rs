//! `policy test`: claims that hold, claims that do not, drafts, and files of netassert.

use std::path::PathBuf;

use crate::run::{Run, is_root, netlab, netlab_reading, required, root};

const SHOP: [&str; 4] = ["policy", "test", "-f", "examples/shop"];

/// Claims about the shop from a text.
fn claims(text: &str, more: &[&str]) -> Run {
    netlab_reading(text, &[&SHOP[..], &["-"], more].concat())
}

#[test]
fn one_claim_that_fails_names_the_rule_and_itself() {
    let file = "examples/claims/shop.yaml";
    let holds = netlab(SHOP.iter().chain(&[file]));
    assert_eq!(holds.code, Some(0), "{}{}", holds.stdout, holds.stderr);
    assert!(holds.stdout.starts_with("PASSED  all 7 claims hold\n"), "{}", holds.stdout);
    assert!(holds.stdout.lines().all(|line| line.chars().count() <= 80), "{}", holds.stdout);
    let fails = claims("claims:\n- {from: shop/web, to: shop/api, port: 8080, expect: deny}\n", &[]);
    assert_eq!(fails.code, Some(1));
    assert_eq!(
        fails.stdout,
        "\
FAILED  the claim does not hold

  CLAIM                          CLAIMED  IS     AT
× shop/web -> shop/api 8080/tcp  deny     allow  -:2

shop/web -> shop/api 8080/tcp  is allow, claimed deny
  claim    -:2
  egress   allow: not isolated
  ingress  allow: NetworkPolicy shop/api spec.ingress[0].from[0]
           examples/shop/policies/api.yaml:12
"
    );
    assert_eq!(
        claims("claims: [{from: shop/web, to: shop/api, port: 8080, expect: deny}]", &["-q"])
            .stdout
            .lines()
            .count(),
        1
    );
}

#[test]
fn who_decides_can_be_claimed_too() {
    let by = |by: &str| {
        claims(&format!("- {{from: shop/api, to: shop/db, port: 5432, expect: allow, by: {by}}}"), &[]).code
    };
    assert_eq!(by("NetworkPolicy shop/db"), Some(0));
    assert_eq!(by("NetworkPolicy/shop/db"), Some(0));
    assert_eq!(by("'NetworkPolicy shop/db spec.ingress[0]'"), Some(0));
    assert_eq!(by("'NetworkPolicy shop/db spec.ingress[0].from[0]'"), Some(0));
    assert_eq!(by("'NetworkPolicy shop/db spec.ingress[1]'"), Some(1));
    assert_eq!(by("NetworkPolicy shop/default-deny"), Some(1));
    assert_eq!(by("somebody"), Some(2));
}

#[test]
fn what_is_true_of_some_pods_alone_is_not_true_and_what_nobody_knows_is_undecided() {
    let pods = "apiVersion: v1
kind: Pod
metadata: {name: a-0, namespace: x, labels: {may: 'yes'}, ownerReferences: [{kind: StatefulSet, name: a, controller: true, apiVersion: apps/v1, uid: u}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a-1, namespace: x, ownerReferences: [{kind: StatefulSet, name: a, controller: true, apiVersion: apps/v1, uid: u}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: x, labels: {app: b}}
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: x}
spec: {selector: {app: nobody}, ports: [{port: 1}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: b, namespace: x}
spec: {podSelector: {matchLabels: {app: b}}, ingress: [{from: [{podSelector: {matchLabels: {may: 'yes'}}}]}]}
";
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods.yaml");
    std::fs::write(&path, pods).expect("written");
    let on = |to: &str, expect: &str| {
        let text = format!("- {{from: x/a, to: {to}, port: 1, expect: {expect}}}");
        netlab_reading(&text, &["policy", "test", "-f", path.to_str().expect("UTF-8"), "-"])
    };
    assert_eq!([on("x/b", "allow").code, on("x/b", "deny").code], [Some(1), Some(1)]);
    assert!(on("x/b", "allow").stdout.contains("is mixed, claimed allow"));
    let open = on("svc/x/nobody", "allow");
    assert_eq!(open.code, Some(3));
    assert!(open.stdout.starts_with("UNDECIDED  the claim cannot be told"), "{}", open.stdout);
    // The draft speaks of each pod where they differ.
    let draft =
        netlab(["policy", "test", "--record", "--external", "off", "-f", path.to_str().expect("UTF-8")])
            .stdout;
    assert!(draft.contains("{from: pod/x/a-0, to: pod/x/b, port: 80/tcp, expect: allow}"), "{draft}");
    assert!(draft.contains("{from: pod/x/a-1, to: pod/x/b, port: 80/tcp, expect: deny}"), "{draft}");
}

#[test]
fn a_draft_holds_at_once_and_is_the_same_each_time() {
    for directory in ["examples/shop", "examples/tiers", "examples/clean", "examples/edit/new"] {
        let pods = if directory == "examples/edit/new" { "examples/edit/pods.yaml" } else { directory };
        let record = || netlab(["policy", "test", "--record", "-f", directory, "-f", pods]);
        let draft = record();
        assert_eq!(draft.code, Some(0), "{directory}: {}", draft.stderr);
        assert_eq!(draft.stdout, record().stdout);
        let run = netlab_reading(&draft.stdout, &["policy", "test", "-f", directory, "-f", pods, "-", "-q"]);
        assert_eq!(run.code, Some(0), "{directory}: {}{}", run.stdout, run.stderr);
        let lines = draft.stdout.lines().filter(|line| line.starts_with("- {")).count();
        assert_eq!(run.stdout, format!("PASSED  all {lines} claims hold\n"));
        assert!(lines >= 12, "{directory}: {}", draft.stdout);
    }
}

#[test]
fn drafts_of_the_peers_cases_hold_too() {
    let Some(cases) = std::env::var_os("NETLAB_CASES").map(PathBuf::from) else { return };
    for case in
        ["anp_np_banp_core_test", "minikube_resources", "test_with_named_ports", "netpol_named_port_test"]
    {
        let input = cases.join("policy/netpol-analyzer").join(case).join("input");
        let input = input.to_str().expect("UTF-8");
        let draft = netlab(["policy", "test", "--record", "-f", input]).stdout;
        let run = netlab_reading(&draft, &["policy", "test", "-f", input, "-"]);
        assert_eq!(run.code, Some(0), "{case}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_claim_that_cannot_be_tried_is_an_error_with_its_line() {
    let text = "claims:
- {from: shop/web, to: shop/api, port: 8080, expect: allow}
- {from: shop/wep, to: shop/api, port: 8080, expect: allow}
- {from: shop/web, to: shop/api, port: 99999, expect: allow}
- {from: shop/web, to: shop/api, port: 80, expect: maybe}
- {from: shop/web, to: shop/api, port: 80, expect: deny, because: of}
- {from: shop/web, to: shop/api, expect: deny}
";
    let run = claims(text, &[]);
    assert_eq!(run.code, Some(2));
    for (line, what) in [
        (3, "no pod or workload `wep`"),
        (4, "`99999` is no port"),
        (5, "`expect` is the string `maybe`"),
        (6, "no field `because`"),
        (7, "a claim without `port`"),
    ] {
        let said = run.stderr.replace("\n  ", " ");
        assert!(
            said.contains(&format!("--> -:{line}:")) && said.contains(what),
            "{line} {what}: {}",
            run.stderr
        );
    }
    let rest = claims(text, &["--skip-invalid", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&rest.stdout).expect("JSON");
    assert_eq!((rest.code, &json["complete"], &json["holds"]), (Some(3), &false.into(), &1.into()));
    assert_eq!(claims("", &[]).code, Some(2), "no claim is no success");
}

#[test]
fn netassert_files_of_both_forms_are_claims() {
    let second = netlab(SHOP.iter().chain(&["examples/claims/netassert.yaml", "-o", "tap"]));
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(
        second.stdout,
        "TAP version 14\n1..2\nok 1 - api-to-db is allow, as claimed\nok 2 - web-not-to-db is deny, as claimed\n"
    );
    let first = "k8s:
  deployment:
    shop:web:
      api: 80
      api.shop: 80
      api.shop.svc.cluster.local: [80]
      shop:db: -5432
      192.0.2.7: 443, -UDP:53
    shop:api:
      shop:web: -TCP:443
";
    let run = claims(first, &["-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let found: Vec<String> = json["claims"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|claim| {
            let query = &claim["query"];
            let text = format!(
                "{} {} {} {} {}",
                query["to"], query["protocol"], query["port"], claim["status"], claim["line"]
            );
            text.replace('"', "")
        })
        .collect();
    assert_eq!(
        found,
        [
            "svc/shop/api TCP 80 holds 4",
            "svc/shop/api TCP 80 holds 5",
            "svc/shop/api TCP 80 holds 6",
            "svc/shop/db TCP 5432 holds 7",
            "192.0.2.7 TCP 443 holds 8",
            "192.0.2.7 UDP 53 fails 8",
            "svc/shop/web TCP 443 holds 10",
        ],
        "{}",
        run.stdout
    );
}

#[test]
fn what_netlab_cannot_do_of_netassert_is_said_with_its_line() {
    let first = "host:\n  localhost:\n    8.8.8.8: UDP:53\nk8s:\n  deployment:\n    shop:web:\n      google.co.uk: 443\n      shop:api: ICMP:1\n";
    let run = claims(first, &[]);
    assert_eq!(run.code, Some(2));
    for (line, what) in [(2, "from the host `localhost`"), (7, "`google.co.uk`"), (8, "the port `ICMP:1`")] {
        assert!(
            run.stderr.contains(&format!("--> -:{line}:")) && run.stderr.contains(what),
            "{}",
            run.stderr
        );
    }
    assert_eq!(run.stderr.matches("NL0502").count(), 3, "{}", run.stderr);
    let second = "- {name: x, type: k8s, protocol: icmp, targetPort: 1, exitCode: 0, src: {k8sResource: {kind: newkind, name: a, namespace: b}}, dst: {host: {name: 1.1.1.1}}}\n";
    assert!(claims(second, &[]).stderr.contains("netassert has `tcp` and `udp`"));
}

#[test]
fn reports_are_well_formed() {
    let text =
        "claims:\n- {name: \"a <b> & 'c' # d\", from: shop/web, to: shop/db, port: 5432, expect: allow}\n";
    let junit = claims(text, &["-o", "junit"]);
    assert_eq!(junit.code, Some(1));
    assert!(junit.stdout.contains("name=\"a &lt;b&gt; &amp; &apos;c&apos; # d\""), "{}", junit.stdout);
    assert!(junit.stdout.contains("failures=\"1\"") && junit.stdout.ends_with("</testsuites>\n"));
    let tap = claims(text, &["-o", "tap"]);
    assert!(
        tap.stdout.contains("not ok 1 - a <b> & 'c' \\# d is deny, claimed allow\n  ---\n"),
        "{}",
        tap.stdout
    );
    assert!(tap.stdout.contains("  at: \"-:2\"\n"), "{}", tap.stdout);
}

#[test]
fn the_kernel_tries_all_claims() {
    let run = netlab(SHOP.iter().chain(&["examples/claims/shop.yaml", "--kernel", "-o", "json"]));
    if run.code == Some(4) && !(is_root() && required("netns")) {
        return;
    }
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let claims = json["claims"].as_array().expect("a list");
    assert!(claims.iter().all(|claim| claim["kernel"]["outcome"] == "proved"), "{}", run.stdout);
    let none = claims_with_backend_none();
    assert_eq!(none.code, Some(3), "nothing was sent, so nothing is certain: {}", none.stdout);
}

fn claims_with_backend_none() -> Run {
    netlab(SHOP.iter().chain(&["examples/claims/shop.yaml", "--kernel", "--backend", "none"]))
}

#[test]
fn what_is_recorded_of_lists_that_were_worked_out_by_hand_holds_claim_by_claim() {
    let directory = tempfile::tempdir().expect("a directory");
    let claims = directory.path().join("claims.yaml");
    let claims = claims.to_str().expect("UTF-8");
    let cases = std::fs::read_dir(root().join("core/tests/reading")).expect("the cases");
    for case in cases.map(|entry| entry.expect("a case").path().join("input")) {
        let input = case.to_str().expect("UTF-8");
        // Ends that no table tells apart were asked once; here every claim is asked for itself.
        let draft = netlab(["policy", "test", "--record", "-f", input]);
        let written = draft.stdout.matches("\n- {from").count();
        assert!(draft.code == Some(0) && written >= 10, "{input}: {}", draft.stderr);
        std::fs::write(claims, draft.stdout).expect("written");
        let run = netlab(["policy", "test", "-f", input, claims, "-q"]);
        assert_eq!(
            (run.code, run.stdout),
            (Some(0), format!("PASSED  all {written} claims hold\n")),
            "{input}"
        );
    }
}
