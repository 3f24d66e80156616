//! The examples: free of complaints, and what the README says about them.

use netlab_core::model::cluster::ObjectKey;

use crate::input_files::{example, line};

#[test]
fn examples_load_without_a_word() {
    for name in ["shop", "clean", "tiers"] {
        let loaded = example(name);
        let all: Vec<String> = loaded.diagnostics.iter().map(line).collect();
        assert!(all.is_empty(), "{name}: {}", all.join("\n"));
        assert!(loaded.skipped.is_empty(), "{name}: {:?}", loaded.skipped);
    }
}

#[test]
fn the_shop_is_what_the_readme_shows() {
    let shop = example("shop");
    let place = |name: &str, path: &str| {
        let policy =
            shop.policies.list.iter().find(|policy| policy.id.qualified_name() == name).expect("a policy");
        let at = policy.source.locate(path).expect("a place");
        format!("{}:{}:{}", policy.source.file.as_deref().unwrap_or("-"), at.line, at.column)
    };
    assert_eq!(shop.policies.list.len(), 12);
    assert_eq!(place("shop/db", ""), "policies/db.yaml:3:1");
    assert_eq!(place("shop/db", "spec.ingress[0].from[0]"), "policies/db.yaml:14:7");
    assert_eq!(place("shop/default-deny", ""), "policies/deny.yaml:1:1");
    assert_eq!(place("shop/cache", "spec.ingress[0].from[1]"), "policies/cache.yaml:13:7");

    let pod = |namespace: &str, name: &str| &shop.cluster.pods[&ObjectKey::new(namespace, name)];
    assert_ne!(pod("shop", "web").node, pod("shop", "db").node, "the main command crosses nodes");
    for (namespace, name) in [("shop", "web"), ("shop", "api"), ("shop", "db"), ("shop", "cache")] {
        assert_eq!(pod(namespace, name).addresses.len(), 2, "{name} has an address of each family");
    }
    let cross = shop.cluster.pods.values().all(|pod| {
        let node = pod.node.as_ref().and_then(|node| shop.cluster.nodes.get(node)).expect("a declared node");
        pod.addresses.iter().all(|address| node.pod_cidrs.iter().any(|cidr| cidr.contains(address)))
    });
    assert!(cross, "every pod's addresses are of its node's ranges");
}
