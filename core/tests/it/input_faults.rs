//! What is wrong is named with its code, its line and its column, and costs nothing else.
//!
//! Each case is a text with the fault's place marked by `⟨` in front of the character.

use netlab_core::diagnostic::Severity;

use crate::input_files::{line, load_text};

/// Loads the text without its mark and compares the errors and warnings with the mark and `expected`, which is
/// `CODE words of the message`.
fn check(marked: &str, expected: &str) -> Result<(), String> {
    let before = marked.split('⟨').next().unwrap_or_default();
    let (line_number, column) = (
        before.matches('\n').count() + 1,
        before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
    );
    let loaded = load_text(&marked.replace('⟨', ""));
    let found: Vec<String> = loaded
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity != Severity::Note)
        .map(line)
        .collect();
    let (code, words) = expected.split_once(' ').expect("a code and words");
    let start = format!("a.yaml:{line_number}:{column} {code} ");
    let hit = found.iter().any(|line| line.starts_with(&start) && line.contains(words));
    if hit && found.len() == 1 {
        Ok(())
    } else {
        Err(format!("{marked}\nwants {start}… {words}\nfound {found:#?}"))
    }
}

pub(crate) fn check_all(cases: &[(&str, &str)]) {
    let wrong: Vec<String> =
        cases.iter().filter_map(|(text, expected)| check(text, expected).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A policy `a` with this below `spec`, two spaces in.
fn policy(spec: &str) -> String {
    let spec = spec.replace('\n', "\n  ");
    format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: a}}\nspec:\n  {spec}\n")
}

#[test]
fn faults_of_the_text() {
    check_all(&[
        ("kind: Pod\nmetadata:\n⟨\tname: a\n", "NL0101 tab"),
        ("kind: Pod\nmetadata: ⟨{name: a\n", "NL0101 unclosed bracket"),
        ("kind: Pod\nspec: a⟨: b\n", "NL0101 not allowed"),
        ("kind: ⟨\"Pod\n", "NL0101 unclosed quote"),
        ("kind: Pod\nname: ⟨*nobody\n", "NL0101 "),
        ("⟨just words\n", "NL0102 the string `just words`"),
        ("⟨- a\n- b\n", "NL0102 a list"),
        ("⟨spec: {}\n", "NL0102 no `kind`"),
        ("⟨kind: Pod\nmetadata: {name: a}\n", "NL0102 a Pod without `apiVersion`"),
        ("apiVersion: v1\n⟨kind: 7\nmetadata: {name: a}\n", "NL0102 no `kind`"),
        ("apiVersion: v1\nkind: Pod\nmetadata: &m {name: a, annotations: ⟨*m}\n", "NL0107 contains itself"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  ⟨name: b\n", "NL0108 first at 4:3"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: b, ⟨a: c}}\n", "NL0108 first at 3:30"),
        ("{\"apiVersion\": \"v1\", \"kind\": \"Pod\", ⟨\"kind\": \"Node\"}\n", "NL0108 `kind`"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {⟨y: b}}\n", "NL0109 read as `true`"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {⟨0o10: b}}\n", "NL0109 read as `8`"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {⟨[a]: b}}\n", "NL0109 not a string"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n#⟨\u{7}\n", "NL0110 0x07"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: ü⟨\u{0}}\n", "NL0110 0x00"),
    ]);
}

#[test]
fn faults_of_objects() {
    check_all(&[
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    ⟨canary: yes\n",
            "NL0201 boolean `yes`",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {⟨v: 1.10}\n", "NL0201 number `1.10`"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  ⟨labels: [a]\n",
            "NL0201 expected an object, found a list",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - ports:\n    - ⟨containerPort: http\n",
            "NL0201 expected a number, found the string `http`",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {⟨hostNetwork: maybe}\n",
            "NL0201 true or false",
        ),
        (
            "⟨apiVersion: extensions/v1beta1\nkind: NetworkPolicy\nmetadata: {name: a}\n",
            "NL0203 has no NetworkPolicy",
        ),
        ("⟨apiVersion: apps/v1\nkind: Pod\nmetadata: {name: a}\n", "NL0203 has no Pod"),
        ("apiVersion: networking.k8s.io/v1\n⟨kind: Networkpolicy\nmetadata: {name: a}\n", "NL0204 no kind"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n⟨apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: x}\n",
            "NL0205 Pod default/a is written twice: first at a.yaml:1:1",
        ),
        ("apiVersion: v1\nkind: Pod\n⟨metadata: {labels: {a: b}}\n", "NL0206 no `metadata.name`"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {⟨name: A}\n", "NL0206 `A` is no name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, ⟨namespace: a.b}\n", "NL0206 `a.b` is no namespace"),
        (
            "apiVersion: policy.networking.k8s.io/v1beta1\n⟨kind: ClusterNetworkPolicy\nmetadata: {name: a}\n",
            "NL0207 not understood by this version",
        ),
        ("apiVersion: projectcalico.org/v3\n⟨kind: NetworkPolicy\nmetadata: {name: a}\n", "NL0208 left out"),
        (
            "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {⟨name: default, namespace: b}\n",
            "NL0210 `default`",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus:\n  podIPs:\n  - ip: 10.0.0.1\n  - ⟨ip: fd00::x\n",
            "NL0225 `fd00::x` is no IP address",
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {⟨podCIDR: 10.0.0.0/33}\n",
            "NL0225 `10.0.0.0/33` cannot be read",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - {⟨port: 70000}\n",
            "NL0225 `70000` is no port number",
        ),
        (
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\n⟨spec: {schedule: \"* * * * *\"}\n",
            "NL0229 CronJob",
        ),
    ]);
}

/// Fields that are nearly one that is read; the objects stay, without them, as the API server keeps them.
#[test]
fn misspelt_fields_of_cluster_objects() {
    check_all(&[
        (
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, ⟨lables: {b: c}}\n",
            "NL0202 unknown field `lables`",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n⟨labels: {b: c}\n",
            "NL0202 unknown field `labels`",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {⟨hostNetwrok: true}\n",
            "NL0202 unknown field `hostNetwrok`",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {⟨podIp: 10.0.0.1}\n",
            "NL0202 unknown field `podIp`",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {⟨slector: {b: c}, ports: [{port: 80}]}\n",
            "NL0202 unknown field `slector`",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, ⟨tragetPort: 81}]}\n",
            "NL0202 unknown field `tragetPort`",
        ),
        (
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\nendpoints:\n- {addresses: [10.0.0.1], ⟨nodename: b}\n",
            "NL0202 unknown field `nodename`",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    metadata: {⟨label: {b: c}}\n    spec: {}\n",
            "NL0202 unknown field `label`",
        ),
    ]);
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {volumes: [], affinity: {}, newerField: 1}\nstatus: {hostIP: 10.0.0.1, podIP: 10.0.0.2, podIp: 10.0.0.3}\n";
    let loaded = load_text(pod);
    assert_eq!(
        loaded.diagnostics,
        [],
        "what is like nothing that is read, and what is there beside the right one"
    );
}

#[test]
fn services_and_slices_that_the_api_server_refuses() {
    let service = |spec: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: a}}\nspec:\n  {}\n",
            spec.replace('\n', "\n  ")
        )
    };
    let slice = |rest: &str| {
        format!("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: a}}\n{rest}\n")
    };
    let left_out = [
        (service("ports:\n- {name: a, port: 80}\n- {⟨name: a, port: 81}"), "NL0246 two ports are named `a`"),
        (service("ports:\n- {name: a, port: 80}\n- {name: b, ⟨port: 80}"), "NL0246 two ports are TCP 80"),
        (
            service("type: NodePort\n⟨clusterIP: None\nports: [{port: 80}]"),
            "NL0246 a headless Service of type NodePort",
        ),
        (service("⟨clusterIPs: [10.96.0.1, 10.96.0.2]\nports: [{port: 80}]"), "NL0246 are of one family"),
        (
            service("⟨clusterIP: 10.96.0.2\nclusterIPs: [10.96.0.1]\nports: [{port: 80}]"),
            "NL0246 is not the first of `clusterIPs`",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n⟨spec: {type: ExternalName}\n".to_owned(),
            "NL0246 without `externalName`",
        ),
        (
            slice("addressType: IPv4\nendpoints: [{addresses: [⟨\"fd00::1\"]}]"),
            "NL0246 fd00::1 is no IPv4 address",
        ),
        (slice("addressType: IPv4\nports: [{port: 80}, ⟨{port: 81}]"), "NL0246 two ports without a name"),
    ];
    for (text, expected) in &left_out {
        check(text, expected).expect("as the API server");
        let loaded = load_text(&text.replace('⟨', ""));
        assert!(loaded.cluster.services.is_empty() && loaded.cluster.endpoint_slices.is_empty(), "{text}");
        assert!(!loaded.is_complete(), "{text}");
    }
    let unnamed = service("ports:\n- {name: a, port: 80}\n- ⟨{port: 81}");
    check(&unnamed, "NL0246 without a name beside others").expect("as the API server");
    let loaded = load_text(&unnamed.replace('⟨', ""));
    assert_eq!((loaded.cluster.services.len(), loaded.is_complete()), (1, true), "what it would do is plain");
    for good in [
        service("type: ExternalName\nexternalName: a.example"),
        service("clusterIP: None\nclusterIPs: [None]"),
        service(
            "clusterIP: 10.96.0.1\nclusterIPs: [10.96.0.1, \"fd00::1\"]\nports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53}]",
        ),
        slice(
            "addressType: IPv6\nendpoints: [{addresses: [\"fd00::1\"]}]\nports: [{name: a, port: 80}, {name: b, port: 80}]",
        ),
    ] {
        assert_eq!(load_text(&good).diagnostics, [], "{good}");
    }
}

#[test]
fn faults_of_policies() {
    let cases: Vec<(String, &str)> = [
        ("⟨ingres: [{}]", "NL0202 unknown field `ingres`"),
        ("podSelector: {⟨app: db}", "NL0202 unknown field `app`"),
        ("ingress:\n- from:\n  - podSelector: {}\n    ⟨ports: []", "NL0202 unknown field `ports`"),
        ("ingress:\n- ⟨to: []", "NL0202 unknown field `to`"),
        ("ingress:\n- from:\n  - ⟨{}", "NL0211 names nobody"),
        ("egress:\n- to:\n  - ⟨ipBlock: {cidr: 10.0.0.0/8}\n    podSelector: {}", "NL0212 beside a selector"),
        ("ingress:\n- from:\n  - ipBlock:\n      ⟨cidr: 10.0.0.0", "NL0213 is no CIDR"),
        ("ingress:\n- from:\n  - ipBlock: {⟨cidr: 010.0.0.0/8}", "NL0213 is no CIDR"),
        ("ingress:\n- from:\n  - ipBlock: {⟨cidr: 10.0.0.0/08}", "NL0213 is no CIDR"),
        ("ingress:\n- from:\n  - ipBlock: {⟨cidr: \"::ffff:10.0.0.0/104\"}", "NL0213 IPv6 clothes"),
        ("ingress:\n- from:\n  - ipBlock: {⟨cidr: 10.0.0.5/8}", "NL0214 it means `10.0.0.0/8`"),
        (
            "ingress:\n- from:\n  - ipBlock:\n      cidr: 10.0.0.0/8\n      except:\n      - ⟨10.0.0.0/8",
            "NL0215 inside",
        ),
        ("ingress:\n- from:\n  - ipBlock: {cidr: 10.0.0.0/8, except: [⟨\"fd00::/8\"]}", "NL0215 inside"),
        ("ingress:\n- ports:\n  - ⟨protocol: tcp\n    port: 80", "NL0216 `tcp` is no protocol"),
        ("ingress:\n- ports:\n  - {⟨protocol: ICMP}", "NL0216 `ICMP` is no protocol"),
        ("ingress:\n- ports:\n  - port: 80\n  - ⟨port: 0", "NL0217 `0` is no port number"),
        ("ingress:\n- ports:\n  - ⟨port: \"80\"", "NL0217 it has no letter"),
        ("ingress:\n- ports:\n  - ⟨port: a_b", "NL0217 is no port name"),
        ("ingress:\n- ports:\n  - ⟨port: 80.5", "NL0201 expected a number or a name"),
        ("ingress:\n- ports:\n  - {port: 80, ⟨endPort: 79}", "NL0218 less than"),
        ("ingress:\n- ports:\n  - {port: http, ⟨endPort: 90}", "NL0218 beside the port name"),
        ("ingress:\n- ports:\n  - {⟨endPort: 90}", "NL0218 without `port`"),
        ("ingress:\n- ports:\n  - {port: 80, ⟨endPort: 65536}", "NL0218 no port number"),
        ("policyTypes: [Ingress, ⟨Both]", "NL0219 `Both`"),
        ("⟨policyTypes: [Ingress, Egress, Ingress]", "NL0219 more than two"),
        ("policyTypes: [Ingress, ⟨Ingress]", "NL0220 twice"),
        ("podSelector:\n  matchLabels:\n    ⟨app@b: c", "NL0221 is no label key"),
        ("ingress:\n- from:\n  - namespaceSelector: {matchLabels: {⟨a: $b}}", "NL0221 is no label value"),
        ("podSelector:\n  matchExpressions:\n  - ⟨key: a\n    operator: In", "NL0221 `In` without `values`"),
        (
            "podSelector:\n  matchExpressions:\n  - {key: a, operator: Exists, ⟨values: [b]}",
            "NL0221 takes no `values`",
        ),
        (
            "podSelector:\n  matchExpressions:\n  - {key: a, ⟨operator: in, values: [b]}",
            "NL0221 `in` is no operator",
        ),
        ("podSelector:\n  matchExpressions:\n  - ⟨{operator: Exists}", "NL0221 is no label key"),
        ("egress:\n- to:\n  - ipBlock: {cidr: 10.0.0.0/8}\n  ports:\n  - ⟨port: abc", "NL0222 `abc`"),
        ("ingress:\n- ⟨", "NL0223 nothing in it"),
        ("⟨ingress: {from: []}", "NL0201 expected a list, found an object"),
    ]
    .map(|(spec, expected)| (policy(spec), expected))
    .into();
    let cases: Vec<(&str, &str)> = cases.iter().map(|(text, expected)| (text.as_str(), *expected)).collect();
    check_all(&cases);
}

#[test]
fn a_policy_with_a_fault_is_in_neither_world_and_all_its_faults_are_told() {
    let text = policy("ingress:\n- ports: [{port: 0}, {protocol: X}]\n- from: [{}]");
    let loaded = load_text(&text);
    assert!(loaded.policies.list.is_empty() && loaded.wire.network_policies.is_empty());
    let codes: Vec<&str> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, ["NL0217", "NL0216", "NL0211"]);
    for diagnostic in &loaded.diagnostics {
        let hint = diagnostic.hint.as_deref().unwrap_or_default();
        assert!(hint.ends_with("the policy is left out"), "{hint}");
        assert_eq!(
            diagnostic.object.as_ref().map(ToString::to_string).as_deref(),
            Some("NetworkPolicy default/a")
        );
    }
}

#[test]
fn one_bad_document_or_list_item_hides_no_other() {
    let good = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n");
    let documents =
        [good("a"), "kind: [\n".to_owned(), good("b"), "kind: Pod\n\tx: y\n".to_owned(), good("c")];
    let loaded = load_text(&documents.join("---\n"));
    let names: Vec<&str> = loaded.cluster.pods.keys().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(loaded.diagnostics.len(), 2, "{:?}", loaded.diagnostics);

    let item = |name: &str, more: &str| {
        format!("- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: {name}\n{more}")
    };
    let items = [
        item("a", ""),
        item("b", "    name: b\n"),
        item("c", "  spec: []\n"),
        item("d", ""),
        "- 7\n".to_owned(),
    ];
    let loaded = load_text(&format!("apiVersion: v1\nkind: List\nitems:\n{}", items.concat()));
    let names: Vec<&str> = loaded.cluster.pods.keys().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["a", "d"]);
    let lines: Vec<String> = loaded.diagnostics.iter().map(line).collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].starts_with("a.yaml:12:5 NL0108 "), "{lines:#?}");
    assert!(lines[1].starts_with("a.yaml:17:3 NL0201 "), "{lines:#?}");
    assert!(lines[2].starts_with("a.yaml:22:3 NL0102 "), "{lines:#?}");
}

#[test]
fn hints_say_what_to_write() {
    let hint = |text: &str| {
        let loaded = load_text(text);
        loaded.diagnostics.first().and_then(|diagnostic| diagnostic.hint.clone()).unwrap_or_default()
    };
    for (spec, expected) in [
        ("ingres: []", "did you mean `ingress`?"),
        ("PodSelector: {}", "did you mean `podSelector`?"),
        ("policyType: [Ingress]", "did you mean `policyTypes`?"),
        ("podSelector: {matchlabels: {}}", "did you mean `matchLabels`?"),
        ("from: []", "`from` belongs into an element of `ingress`"),
        ("namespaceSelector: {}", "`namespaceSelector` belongs into an element of `from` or `to`"),
        ("podSelector: {app: db}", "labels go below `matchLabels`: {app: …}"),
        ("ingress: [{ports: [{port: \"80\"}]}]", "take the quotes away"),
        ("ingress: [{ports: [{protocol: udp}]}]", "write `UDP`"),
        ("ingress: [{from: [{ipBlock: {cidr: 10.0.0.1}}]}]", "write `10.0.0.1/32`"),
        ("policyTypes: [ingress]", "write `Ingress`"),
    ] {
        let found = hint(&policy(spec));
        assert!(found.contains(expected), "{spec}: {found}");
    }
    assert_eq!(
        hint("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: off}}\n"),
        "quote it: \"off\""
    );
    assert!(hint("kind: Pod\nmetadata:\n\tname: a\n").contains("spaces"));
    assert!(hint("kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n").contains("template"));
}
