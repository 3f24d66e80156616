//! Addresses of Services where nothing is translated: to policies of the client they are addresses as any other.

use serde_json::Value;

use crate::run::{netlab_reading, root_or_skip};

/// A client that may send to pods alone, one that may send to an address of a Service, and one that nothing holds.
const PLACE: &str = "apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: x, labels: {app: web}}
spec: {nodeName: n2, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}]}
---
apiVersion: v1
kind: Pod
metadata: {name: held, namespace: x, labels: {app: held}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: admitted, namespace: x, labels: {app: admitted}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.3}]}
---
apiVersion: v1
kind: Pod
metadata: {name: free, namespace: x}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.4}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: x}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: none, namespace: x}
spec: {clusterIP: 10.96.0.2, selector: {app: nobody}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: near, namespace: x}
spec: {clusterIP: 10.96.0.3, internalTrafficPolicy: Local, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: held, namespace: x}
spec:
  podSelector: {matchLabels: {app: held}}
  policyTypes: [Egress]
  egress: [{to: [{namespaceSelector: {}}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: admitted, namespace: x}
spec:
  podSelector: {matchLabels: {app: admitted}}
  policyTypes: [Egress]
  egress: [{to: [{ipBlock: {cidr: 10.96.0.0/24}}]}]
";

fn ask(command: &str, from: &str, to: &[&str]) -> (Option<i32>, Value) {
    let question = ["policy", command, "-f", "-", "-o", "json", "--from", from, "--to"];
    let run = netlab_reading(PLACE, &[&question, to].concat());
    let json = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    (run.code, json)
}

/// What is asked for, and why nobody answers there.
const NOWHERE: [(&[&str], &str); 6] = [
    (&["svc/x/none:80"], "svc/x/none has no endpoint for port 80: a connection is refused"),
    (&["10.96.0.2:80"], "svc/x/none has no endpoint for port 80: a connection is refused"),
    (&["10.96.0.1:81"], "no Service has port 81/tcp there: it is not translated"),
    (&["10.96.0.1:80/udp"], "no Service has port 80/udp there: it is not translated"),
    (&["10.96.0.1", "--proto", "icmp"], "proxies translate TCP, UDP and SCTP there alone"),
    (&["svc/x/near:80"], "the proxy of node n1 leads 10.96.0.3:80 to no endpoint"),
];

#[test]
fn policies_of_the_client_hold_where_nothing_is_translated() {
    for (to, why) in NOWHERE {
        let (code, json) = ask("eval", "x/held", to);
        assert_eq!((code, &json["verdict"]), (Some(1), &"deny".into()), "{to:?}: {json:#}");
        assert_eq!(json["egress"]["isolatedBy"][0]["name"], "held", "{to:?}: {json:#}");
        assert!(!json.to_string().contains("not denied"), "{to:?}: {json:#}");
        assert_eq!(json["endpoints"].as_array().map(Vec::len), Some(0), "{to:?}: {json:#}");
        for from in ["x/admitted", "x/free"] {
            let (code, json) = ask("eval", from, to);
            assert_eq!((code, &json["verdict"]), (Some(3), &"undefined".into()), "{from} {to:?}: {json:#}");
            assert!(json["notes"].to_string().contains(why), "{from} {to:?}: {json:#}");
        }
    }
}

#[test]
fn what_is_translated_is_no_ordinary_address() {
    for (from, code) in [("x/held", 0), ("x/free", 0), ("x/admitted", 1)] {
        let (found, json) = ask("eval", from, &["10.96.0.1:80"]);
        assert_eq!(found, Some(code), "{from}: {json:#}");
    }
}

#[test]
fn a_kernel_drops_what_is_denied_there() {
    if !root_or_skip("a_kernel_drops_what_is_denied_there") {
        return;
    }
    for (to, why) in NOWHERE {
        let (code, json) = ask("prove", "x/held", to);
        let found = (&json["outcome"], &json["observed"], &json["predicted"]);
        assert_eq!(found, (&"proved".into(), &"deny".into(), &"deny".into()), "{to:?}: {json:#}");
        assert_eq!(code, Some(0), "{to:?}: {json:#}");
        let (code, json) = ask("prove", "x/free", to);
        assert_eq!((code, &json["outcome"]), (Some(3), &"inconclusive".into()), "{to:?}: {json:#}");
        assert!(json["undefined"].to_string().contains(why), "{to:?}: {json:#}");
    }
}
