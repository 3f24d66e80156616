//! Makes a failing input small: takes away whatever the failure does not need.
//!
//! Invariant: the result still fails; nothing more of it can be taken away alone.

use serde_json::{Value, json};

use crate::input::WireObjects;

/// The smallest objects that this finds on which `fails` still says true. `fails` must refuse (say false to)
/// objects that are no longer valid.
pub fn minimise(objects: &WireObjects, mut fails: impl FnMut(&WireObjects) -> bool) -> WireObjects {
    let mut best = to_value(objects);
    loop {
        let mut smaller = None;
        for path in removable(&best, "") {
            let mut candidate = best.clone();
            remove(&mut candidate, &path);
            if from_value(&candidate).is_some_and(|objects| fails(&objects)) {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(candidate) => best = candidate,
            None => return from_value(&best).unwrap_or_default(),
        }
    }
}

fn to_value(objects: &WireObjects) -> Value {
    json!({
        "policies": objects.network_policies,
        "admin": objects.admin_network_policies,
        "baseline": objects.baseline_admin_network_policies,
        "cluster": objects.cluster_network_policies,
        "pods": objects.pods,
        "nodes": objects.nodes,
        "namespaces": objects.namespaces,
    })
}

fn from_value(value: &Value) -> Option<WireObjects> {
    Some(WireObjects {
        network_policies: serde_json::from_value(value["policies"].clone()).ok()?,
        admin_network_policies: serde_json::from_value(value["admin"].clone()).ok()?,
        baseline_admin_network_policies: serde_json::from_value(value["baseline"].clone()).ok()?,
        cluster_network_policies: serde_json::from_value(value["cluster"].clone()).ok()?,
        pods: serde_json::from_value(value["pods"].clone()).ok()?,
        nodes: serde_json::from_value(value["nodes"].clone()).ok()?,
        namespaces: serde_json::from_value(value["namespaces"].clone()).ok()?,
    })
}

/// Fields that may go as a whole.
const OPTIONAL: [&str; 12] = [
    "policyTypes",
    "ingress",
    "egress",
    "ports",
    "protocols",
    "labels",
    "except",
    "endPort",
    "protocol",
    "matchLabels",
    "matchExpressions",
    "containers",
];

/// JSON pointers of everything that may be taken away: list elements, labels and [`OPTIONAL`] fields; outer ones
/// first, so that big parts go early.
fn removable(value: &Value, path: &str) -> Vec<String> {
    let mut own = Vec::new();
    let mut inner = Vec::new();
    match value {
        // Who has an address is what the question is about.
        Value::Array(_) if ["podIPs", "addresses"].iter().any(|field| path.ends_with(field)) => {}
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                let path = format!("{path}/{index}");
                inner.extend(removable(element, &path));
                own.push(path);
            }
        }
        Value::Object(fields) => {
            let is_labels = path.ends_with("/labels") || path.ends_with("/matchLabels");
            for (key, field) in fields {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                if !field.is_null() {
                    inner.extend(removable(field, &path));
                    if is_labels || OPTIONAL.contains(&key.as_str()) {
                        own.push(path);
                    }
                }
            }
        }
        _ => {}
    }
    own.extend(inner);
    own
}

fn remove(value: &mut Value, path: &str) {
    let Some((parent, last)) = path.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Array(elements)) => {
            if let Ok(index) = last.parse::<usize>()
                && index < elements.len()
            {
                elements.remove(index);
            }
        }
        Some(Value::Object(fields)) => {
            fields.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::oracle::{IpProtocol, Oracle, Question, Verdict};
    use crate::testing::generate::world;

    #[test]
    fn what_is_left_still_fails_and_needs_every_part() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut tried = 0;
        while tried < 3 {
            let objects = world(&mut rng);
            let denied = |objects: &WireObjects| {
                let oracle = Oracle::new(objects);
                let [source, destination] =
                    [[10, 244, 1, 4], [203, 0, 113, 9]].map(|octets| oracle.end_of_address(octets.into()));
                let question = Question { source, destination, protocol: IpProtocol::Tcp, port: 9 };
                oracle.judge(&question).verdict == Verdict::Deny
            };
            if !denied(&objects) {
                continue;
            }
            tried += 1;
            let small = minimise(&objects, denied);
            assert!(denied(&small));
            let policies = small.network_policies.len()
                + small.admin_network_policies.len()
                + small.baseline_admin_network_policies.len()
                + small.cluster_network_policies.len();
            assert_eq!((small.pods.len(), policies), (1, 1), "{small:#?}");
            assert_eq!((small.nodes.len(), small.namespaces.len()), (0, 0), "{small:#?}");
        }
    }
}
