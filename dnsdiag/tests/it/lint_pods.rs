//! The lint on pods' fields and on servers that know nothing of the cluster: what is said, and what is not.

use crate::lint::{Files, report};

/// `CODE path: message` of each finding.
fn said(files: &Files) -> Vec<String> {
    let findings = report(files).findings;
    findings
        .iter()
        .map(|finding| {
            let diagnostic = &finding.diagnostic;
            format!("{} {}: {}", diagnostic.code, diagnostic.path, diagnostic.message)
        })
        .collect()
}

fn of_pod(spec: &str) -> Vec<String> {
    let manifests = format!(
        "apiVersion: v1
kind: Service
metadata: {{name: api, namespace: shop}}
spec: {{selector: {{app: api}}, ports: [{{port: 80}}], clusterIP: 10.96.3.3}}
---
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: shop}}
spec: {spec}
"
    );
    said(&Files { manifests: Some(manifests), ..Files::default() })
}

/// `validatePodDNSConfig` of `pkg/apis/core/validation`, with and without `RelaxedDNSSearchValidation`.
#[test]
fn search_domains_are_names() {
    let searches = |list: &str| of_pod(&format!("{{dnsConfig: {{searches: [{list}]}}, containers: []}}"));
    assert_eq!(searches("corp.example, a-1.b., 4.example"), Vec::<String>::new());
    for bad in ["my domain.local", "Corp.example", "a..b", "-a.example", "a-.example", ""] {
        let wanted =
            format!("NL0732 spec.dnsConfig.searches[0]: `{bad}` is no domain name: the API refuses the pod");
        assert!(searches(&format!("\"{bad}\"")).contains(&wanted), "{:?}", searches(bad));
    }
    assert_eq!(
        searches("_tcp.corp_x.example"),
        [
            "NL0732 spec.dnsConfig.searches[0]: the search domain `_tcp.corp_x.example`: the API before 1.33 refuses the pod"
        ]
    );
}

/// musl reads a line into 256 bytes with its end: of 255 it is skipped, of 254 not.
#[test]
fn a_search_line_is_too_long_for_musl_from_255_bytes_on() {
    let of_length = |bytes: usize| {
        let ours = "search shop.svc.cluster.local svc.cluster.local cluster.local ".len();
        let labels = ["x".repeat(60), "x".repeat(60), "x".repeat(bytes - ours - 122)].join(".");
        of_pod(&format!("{{dnsConfig: {{searches: [{labels}]}}, containers: []}}"))
    };
    assert_eq!(of_length(254), Vec::<String>::new());
    assert_eq!(
        of_length(255),
        ["NL0735 spec.dnsConfig.searches: the search line has 255 bytes, and musl skips it"]
    );
}

#[test]
fn a_service_counts_where_a_url_names_it_and_not_where_its_name_only_begins_like_it() {
    let told = |value: &str| {
        let env = format!("[{{name: AT, value: \"{value}\"}}]");
        of_pod(&format!("{{dnsPolicy: Default, containers: [{{name: c, image: x, env: {env}}}]}}"))
    };
    let url = |rest: &str| told(&format!("amqp:{rest}"));
    for other in ["//apigw.example/api", "//api-v2/x", "//x.example/?to=api", "/api"] {
        assert_eq!(url(other), Vec::<String>::new(), "{other}");
    }
    for ours in ["//api/x", "//me:word@API:80", "//a.example,amqp://api."] {
        let [one] = &*url(ours) else { panic!("{ours}: {:?}", url(ours)) };
        assert!(one.starts_with("NL0731 spec.dnsPolicy: it is told to use `api`"), "{one}");
    }
    assert_eq!(told("api:80").len(), 1);
    assert_eq!(told("see the api"), Vec::<String>::new());
}

#[test]
fn containers_that_run_first_are_told_names_too() {
    let told = |list: &str| {
        of_pod(&format!(
            "{{hostNetwork: true, {list}: [{{name: c, image: x, args: [db.shop.svc.cluster.local]}}]}}"
        ))
    };
    let wanted = told("containers");
    assert!(wanted[0].contains("it is told to use `db.shop.svc.cluster.local`"), "{wanted:?}");
    assert_eq!(told("initContainers"), wanted);
}

/// The values are those that the three readers give.
#[test]
fn an_ndots_that_is_no_number_is_read_differently() {
    let ndots = |value: &str| {
        of_pod(&format!("{{dnsConfig: {{options: [{{name: ndots, value: \"{value}\"}}]}}, containers: []}}"))
    };
    for (value, read) in [
        ("-1", "glibc reads 15, musl reads 1, go reads 0"),
        ("five", "glibc reads 0, musl reads 1, go reads 0"),
        ("5x", "glibc reads 5, musl reads 5, go reads 5"),
    ] {
        let wanted = format!("NL0733 spec.dnsConfig.options[0]: `ndots` with the value `{value}`: {read}");
        assert_eq!(ndots(value), [wanted]);
    }
}

#[test]
fn a_server_without_the_plugin_of_the_cluster_is_found() {
    let server = |corefile: &str| {
        said(&Files {
            corefile: Some(corefile.to_owned()),
            kubelet: Some("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDomain: cluster.local\nclusterDNS: [10.96.0.10]\n".to_owned()),
            ..Files::default()
        })
    };
    assert_eq!(
        server(".:53 {\n    errors\n    cache 30\n}\n"),
        ["NL0707 : no block has the plugin `kubernetes`: nothing knows the names below `cluster.local`"]
    );
    assert_eq!(
        server(".:53 {\n    errors\n    forward . 192.0.2.53\n    cache 30\n}\n"),
        [
            "NL0707 : no block has the plugin `kubernetes`: names below `cluster.local` are what another source says"
        ]
    );
    // It serves others, and the cluster's names come to no block of it.
    assert_eq!(
        server("corp.example:53 {\n    errors\n    forward . 192.0.2.53\n}\n"),
        ["NL0707 : no block has the plugin `kubernetes`: nothing knows the names below `cluster.local`"]
    );
}
