//! `--with` and `--without`: the input as it would be, on every `policy` command.

use std::path::PathBuf;

use crate::help::pages;
use crate::hostile::COMMANDS;
use crate::run::{Run, netlab};

/// Instead of the API, the web front may ask the database.
const WEB_ASKS: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 5432}]
";

struct Manifest(PathBuf);

impl Manifest {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("netlab-{name}-{}.yaml", std::process::id()));
        std::fs::write(&path, text).expect("the file is written");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Manifest {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn ask(from: &str, more: &[&str]) -> Run {
    let question =
        ["policy", "eval", "-f", "examples/shop", "--from", from, "--to", "shop/db", "--port", "5432"];
    netlab(question.iter().chain(more))
}

#[test]
fn an_object_of_the_same_name_stands_for_the_one_that_is_there() {
    let new = Manifest::new("stands-for", WEB_ASKS);
    assert_eq!([ask("shop/api", &[]).code, ask("shop/web", &[]).code], [Some(0), Some(1)]);
    let with = ["--with", new.path()];
    assert_eq!([ask("shop/api", &with).code, ask("shop/web", &with).code], [Some(1), Some(0)]);
    let text = ask("shop/web", &with).stdout;
    let last = format!("what if  NetworkPolicy shop/db replaced ({}:1)", new.path());
    assert!(text.replace("\n         ", " ").trim_end().ends_with(&last), "{text}");
    assert_eq!(ask("shop/web", &[&with[..], &["-q"]].concat()).stdout.lines().count(), 1);
}

#[test]
fn what_is_left_out_is_left_out_of_the_proof_and_of_its_oracle_too() {
    let run = netlab([
        "policy",
        "prove",
        "-f",
        "examples/shop",
        "--from",
        "shop/web",
        "--to",
        "shop/db",
        "--port",
        "5432",
        "--backend",
        "none",
        "--allow-simulated",
        "--without",
        "netpol/shop/db",
        "--without",
        "NetworkPolicy/shop/default-deny",
        "-o",
        "json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((run.code, &json["predicted"]), (Some(0), &"allow".into()), "{}", run.stderr);
    let spec = json["witnesses"].as_array().expect("a list").iter().find(|witness| witness["name"] == "spec");
    assert_eq!(spec.expect("the oracle was asked")["verdict"], "allow");
    let names: Vec<_> =
        json["whatIf"]["removed"].as_array().expect("a list").iter().map(|o| &o["name"]).collect();
    assert_eq!(names, ["db", "default-deny"]);
    assert_eq!(json["whatIf"]["removed"][0]["file"], "examples/shop/policies/db.yaml");
}

#[test]
fn leaving_out_what_is_not_there_is_answered_with_the_nearest() {
    let run = ask("shop/web", &["--without", "NetworkPolicy/shop/dbb"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("no NetworkPolicy `dbb` to leave out in namespace shop"), "{}", run.stderr);
    assert!(run.stderr.contains("did you mean `NetworkPolicy/shop/db`"), "{}", run.stderr);
    let kind = ask("shop/web", &["--without", "NetworkPolcy/shop/db"]);
    assert_eq!(kind.code, Some(2));
    assert!(kind.stderr.contains("no kind `NetworkPolcy`"), "{}", kind.stderr);
    assert_eq!(ask("shop/web", &["--without", "AdminNetworkPolicy/shop/db"]).code, Some(2));
}

#[test]
fn an_object_that_cannot_be_used_can_be_left_out_or_replaced() {
    let bad =
        Manifest::new("bad", &WEB_ASKS.replace("name: db", "name: bad").replace("port: 5432", "port: []"));
    let on_bad = |more: &[&str]| ask("shop/api", &[&["-f", bad.path()], more].concat());
    assert_eq!(on_bad(&[]).code, Some(2));
    let without = on_bad(&["--without", "NetworkPolicy/shop/bad"]);
    assert_eq!(without.code, Some(0), "{}", without.stderr);
    let good = Manifest::new("good", &WEB_ASKS.replace("name: db", "name: bad"));
    assert_eq!(on_bad(&["--with", good.path()]).code, Some(0));
}

#[test]
fn a_difference_needs_no_second_directory_then() {
    let new = Manifest::new("diff", WEB_ASKS);
    let run = netlab(["policy", "diff", "-f", "examples/shop", "--with", new.path(), "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(json["added"][0]["from"], "shop/web[Deployment]");
    assert_eq!(json["removed"][0]["from"], "shop/api[Deployment]");
    assert_eq!(json["whatIf"]["replaced"][0]["name"], "db");
    assert_eq!(netlab(["policy", "diff", "-f", "examples/shop"]).code, Some(2));
}

#[test]
fn every_policy_command_says_what_it_supposed() {
    let new = Manifest::new("supposed", &WEB_ASKS.replace("name: db", "name: more"));
    let changes = ["--with", new.path(), "--without", "NetworkPolicy/shop/default-deny"];
    for command in COMMANDS.iter().filter(|command| !command.contains(&"--record")) {
        let arguments = [&["policy"], *command, &["-f", "examples/shop"], &changes].concat();
        let run = netlab(arguments.iter().chain(&["-o", "json"]));
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        let supposed = &json["whatIf"];
        assert_eq!(
            (&supposed["added"][0]["name"], &supposed["removed"][0]["name"]),
            (&"more".into(), &"default-deny".into()),
            "{command:?}: {}{}",
            run.stdout,
            run.stderr
        );
        let text = netlab(&arguments).stdout;
        let said = ["NetworkPolicy shop/more added", "NetworkPolicy shop/default-deny left out"];
        let text = text.replace("\n         ", " ");
        assert!(
            text.contains("what if  ") && said.iter().all(|said| text.contains(said)),
            "{command:?}: {text}"
        );
    }
}

#[test]
fn every_policy_command_takes_it_and_no_other_does() {
    for page in pages() {
        let policy = page.words.first().is_some_and(|word| word == "policy");
        assert_eq!(page.help.contains("--without"), policy, "{:?}", page.words);
    }
    assert_eq!(netlab(["lab", "up", "-f", "examples/shop", "--without", "netpol/shop/db"]).code, Some(2));
}
