//! The four ways by which containers talk, whole and broken one by one.

use serde_json::Value;

use crate::lab::Labs;
use crate::run::root_or_skip;

/// The status of each way, and the evidence of those that broke.
fn walk(labs: &Labs) -> (Option<i32>, Vec<String>, Vec<Value>) {
    let (code, answer) = labs.json("netlab lab paths");
    let paths = answer["paths"].as_array().expect("paths").clone();
    let status = paths.iter().map(|path| format!("{} {}", path["path"], path["status"]).replace('"', ""));
    let evidence = paths
        .iter()
        .flat_map(|path| path["checks"].as_array().expect("checks"))
        .flat_map(|check| check["evidence"].as_array().expect("evidence").clone());
    (code, status.collect(), evidence.collect())
}

const WHOLE: [&str; 4] =
    ["containerToContainer ok", "podToPodSameNode ok", "podToPodAcrossNodes ok", "podToService ok"];

#[test]
fn the_way_that_broke_is_told_with_what_broke_it() {
    if !root_or_skip("the_way_that_broke_is_told_with_what_broke_it") {
        return;
    }
    let labs = Labs::new();
    labs.good("netlab lab up -f examples/shop --dns");
    assert_eq!(walk(&labs), (Some(0), WHOLE.map(str::to_owned).to_vec(), Vec::new()));
    for (fault, broken, kind, place, words) in [
        ("partition", &["podToPodAcrossNodes"][..], "dropped", "fabric", "drop"),
        ("no-proxy", &["podToService"], "proxy", "node/node-1", ""),
        ("no-endpoints", &["podToService"], "endpoints", "svc/kube-system/kube-dns", "no endpoint"),
        ("after-dns", &["podToService"], "dropped", "node/node-1", "53"),
    ] {
        labs.good(&format!("netlab lab break {fault}"));
        let (code, status, evidence) = walk(&labs);
        labs.good("netlab lab mend --all");
        assert_eq!(code, Some(1), "{fault}: {status:?}");
        let mut bad: Vec<&str> = status.iter().filter_map(|line| line.strip_suffix(" broken")).collect();
        // A Service may lead across nodes, too.
        bad.retain(|path| broken.contains(path) || *path != "podToService");
        assert_eq!(bad, broken, "{fault}: {status:?}");
        let is_it = |seen: &Value| {
            seen["kind"] == kind
                && seen["place"] == place
                && seen["said"].as_str().is_some_and(|said| said.contains(words))
        };
        assert!(evidence.iter().any(is_it), "{fault}: {evidence:?}");
    }
    assert_eq!(walk(&labs).0, Some(0));
}
