//! `policy diff`: every form of the same differences, and the exit code.

use crate::run::{Run, netlab};

const CHANGE: [&str; 6] =
    ["policy", "diff", "examples/edit/old", "examples/edit/new", "-f", "examples/edit/pods.yaml"];

fn change(more: &[&str]) -> Run {
    netlab(CHANGE.iter().chain(more))
}

#[test]
fn the_table_names_the_rule_behind_each_change() {
    let run = change(&[]);
    assert_eq!(
        run.stdout,
        "\
4 pairs differ: 2 added, 1 removed, 1 changed

+ monitoring/scraper -> shop/api  TCP 9090
    ingress  NetworkPolicy shop/api-metrics spec.ingress[0].from[0] admits it;
             the policy is new
             examples/edit/new/policies.yaml:42
~ shop/web -> shop/api  TCP 8080,9090 => TCP 8080
    ingress  NetworkPolicy shop/api spec.ingress[0].from[0] admitted it; the
             policy was changed
             examples/edit/old/policies.yaml:28
+ shop/web -> shop/db  TCP 5432
    ingress  NetworkPolicy shop/db spec.ingress[0].from[0] admits it; the policy
             was changed
             examples/edit/new/policies.yaml:56
- 203.0.113.0/24 -> shop/web  TCP 8443
    ingress  NetworkPolicy shop/web spec.ingress[0].from[0] admitted it; the
             policy was changed
             examples/edit/old/policies.yaml:16
"
    );
    assert_eq!(run.code, Some(1));
}

#[test]
fn the_exit_code_is_what_a_gate_asks_for() {
    assert_eq!(change(&["-q"]).stdout, "4 pairs differ: 2 added, 1 removed, 1 changed\n");
    assert_eq!(change(&["--fail-on", "added"]).code, Some(1));
    let only_closes = ["--fail-on", "added", "--external", "off", "-n", "nobody"];
    assert_eq!(change(&only_closes).code, Some(0), "nothing of that namespace changed");
    let same =
        netlab(["policy", "diff", "examples/edit/new", "examples/edit/new", "-f", "examples/edit/pods.yaml"]);
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), "no connection of TCP, UDP or SCTP changed\n"));
    // Without any policy everything opens and nothing closes.
    let opened = |fail_on: &str| {
        let pods = "examples/edit/pods.yaml";
        netlab(["policy", "diff", "examples/edit/old", pods, "-f", pods, "--fail-on", fail_on])
    };
    assert_eq!(
        [opened("removed").code, opened("added").code, opened("any").code],
        [Some(0), Some(1), Some(1)]
    );
}

#[test]
fn every_other_form_says_the_same() {
    let json: serde_json::Value = serde_json::from_str(&change(&["-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["kind"], "ConnectionsDiff");
    let count = |kind: &str| json[kind].as_array().map(Vec::len);
    assert_eq!([count("added"), count("removed"), count("changed")], [Some(2), Some(1), Some(1)]);
    assert_eq!(json["changed"][0]["before"][0]["ports"], "8080,9090");
    assert_eq!(json["changed"][0]["after"][0]["ports"], "8080");
    let because = &json["removed"][0]["because"][0];
    assert_eq!(because["direction"], "ingress");
    assert_eq!(because["rule"]["name"], "web");
    assert_eq!(because["rule"]["line"], 16);
    let markdown = change(&["-o", "md"]).stdout;
    assert!(
        markdown.starts_with("### netlab: 4 pairs differ: 2 added, 1 removed, 1 changed\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains(
            "\n<details open><summary><b>1 pair changed</b></summary>\n\n\
             | from | to | before | after | because |\n|---|---|---|---|---|\n\
             | `shop/web` | `shop/api` | TCP 8080,9090 | TCP 8080 | ingress: "
        ),
        "{markdown}"
    );
    let link = "([examples/edit/old/policies.yaml:28](examples/edit/old/policies.yaml#L28))";
    assert!(markdown.contains(link), "{markdown}");
    assert_eq!(markdown.matches("<details").count(), markdown.matches("\n</details>\n").count());
    let linked = change(&["-o", "md", "--link-base", "https://github.com/o/n/blob/1/"]).stdout;
    assert!(
        linked.contains("](https://github.com/o/n/blob/1/examples/edit/new/policies.yaml#L56)"),
        "{linked}"
    );
    let csv = change(&["-o", "csv"]).stdout;
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.contains("\nadded,shop/web[Deployment],shop/db[StatefulSet],none,TCP 5432,"), "{csv}");
    assert_eq!(change(&["-o", "wide"]).stdout.matches(" -> ").count(), 4);
    assert_eq!(change(&["-o", "dot"]).code, Some(2));
}

/// Who is behind a Service changes no connection between pods: that it was not compared is said.
#[test]
fn services_that_differ_are_said_not_to_be_compared() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, port: u16| {
        let path = directory.path().join(name);
        let text = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: shop}}\nspec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: {port}}}]}}\n"
        );
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (old, same, new) = (write("old.yaml", 8080), write("same.yaml", 8080), write("new.yaml", 9090));
    let pods = "examples/edit/pods.yaml";
    let run = netlab(["policy", "diff", &old, &new, "-f", pods]);
    let note = "Service shop/web is another before and after: connections between pods and blocks are compared, not where Services lead";
    assert!(run.stderr.replace('\n', " ").replace("  ", " ").contains(note), "{}", run.stderr);
    let json: serde_json::Value =
        serde_json::from_str(&netlab(["policy", "diff", &old, &new, "-f", pods, "-o", "json"]).stdout)
            .expect("JSON");
    assert_eq!(json["notes"], serde_json::json!([note]));
    assert!(!netlab(["policy", "diff", &old, &same, "-f", pods]).stderr.contains("Service"));
}
