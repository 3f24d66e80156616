//! `policy describe`: the story as people read it.

use crate::run::{netlab, netlab_reading};

#[test]
fn the_story_says_what_each_policy_admits() {
    let run = netlab(["policy", "describe", "-f", "examples/shop", "-n", "shop", "db"]);
    assert_eq!(
        run.stdout,
        "\
shop/db  isolated for ingress by 2 policies, not for egress

  labels     app=db, tier=data
  namespace  kubernetes.io/metadata.name=shop, team=shop

ingress
  1. AdminNetworkPolicy data, Admin tier, priority 10
     selects pods with tier=data AND in a namespace with team=shop
     examples/shop/policies/admin.yaml:3
     spec.ingress[0] \"other-teams\" denies everything, ICMP too from
          every pod in a namespace with team!=shop: kube-system/coredns,
            monitoring/scraper
  2. ClusterNetworkPolicy monitoring, Admin tier, priority 20
     selects every pod of every namespace
     examples/shop/policies/monitoring.yaml:2
     spec.ingress[0] \"scrape\" admits `metrics` (no container has it, so
       nothing) from
          pods with app=scraper AND in a namespace with team=platform:
            monitoring/scraper
  3. NetworkPolicy shop/db
     selects pods of shop with app=db
     examples/shop/policies/db.yaml:3
     spec.ingress[0] admits TCP 5432 from
          pods of shop with app=api: shop/api
  4. NetworkPolicy shop/default-deny
     selects every pod of shop
     examples/shop/policies/deny.yaml:1
     no rules: it isolates and admits nothing
  deny       isolated by NetworkPolicy, so what no rule above admits is denied

egress
  1. AdminNetworkPolicy data, Admin tier, priority 10
     selects pods with tier=data AND in a namespace with team=shop
     examples/shop/policies/admin.yaml:3
     spec.egress[0] \"nodes-and-metadata\" denies everything, ICMP too to
          every node: node/node-1, node/node-2
       OR addresses in 169.254.169.254/32: nobody here now
  allow      no NetworkPolicy isolates, so what no rule above decides passes

  always     what its own node sends to it, kubelet's probes for instance
             what it sends to itself
             replies, and ICMP errors about connections that are allowed
             ARP, IPv6 neighbour discovery and multicast listener reports
"
    );
    assert_eq!(run.code, Some(0));
}

#[test]
fn peers_are_ored_in_so_many_words() {
    let text = netlab(["policy", "describe", "-f", "examples/shop", "shop/cache"]).stdout;
    let or = "          every pod in a namespace with team=shop: shop/api, shop/db, shop/web\n       OR pods of shop with app=api: shop/api\n";
    assert!(text.contains(or), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn only_pods_have_a_story() {
    let run = netlab(["policy", "describe", "-f", "examples/shop", "192.0.2.7"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("is no pod"), "{}", run.stderr);
    let json = netlab(["policy", "describe", "-f", "examples/shop", "shop/db", "-o", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["kind"], "Description");
    let tiers = json["ingress"]["policies"].as_array().expect("policies");
    let tiers: Vec<&str> = tiers.iter().filter_map(|policy| policy["tier"].as_str()).collect();
    assert_eq!(tiers, ["admin", "admin", "networkPolicy", "networkPolicy"]);
    assert_eq!(json["ingress"]["policies"][2]["rules"][0]["peers"][0]["reads"], "pods of shop with app=api");
}

/// A pod that is done has no story, and must not read as one that is open.
#[test]
fn a_finished_pod_is_said_to_be_no_subject() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: done, namespace: x, labels: {app: a}}\nspec: {containers: [{name: c}]}\nstatus: {phase: Succeeded, podIPs: [{ip: 10.0.0.1}]}\n";
    let run = netlab_reading(pod, &["policy", "describe", "-f", "-", "x/done"]);
    assert!(run.stdout.starts_with("x/done  has finished: no policy is about it\n"), "{}", run.stdout);
}
