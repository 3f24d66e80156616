//! What pods say about DNS: policies that leave them without the cluster's servers, fields that the API refuses, lists
//! and options with which names are not found.

use std::net::IpAddr;

use netlab_core::diagnostic::{Diagnostic, ObjectRef, code};
use netlab_core::model::cluster::{ObjectKey, Pod};
use netlab_core::model::pod_dns::{DnsConfig, PodDns};

use super::ground::{Ground, is_inside};
use super::names::{Used, used};
use super::node_file::MUSL_LINE;
use crate::kubelet::{Limits, Policy};
use crate::resolv_conf;
use crate::resolver::Libc;

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    let Some(loaded) = ground.inputs.manifests else { return };
    let domain = ground.domain();
    let mut told: Vec<(ObjectRef, &'static str, String)> = Vec::new();
    let mut all: Vec<Diagnostic> = Vec::new();
    for ((key, pod), wire) in loaded.cluster.pods.iter().zip(&loaded.wire.pods) {
        let subject = Subject::new(key, pod);
        let is_dns = ground.dns_pods.iter().any(|(dns, _)| *dns == key);
        let names = || used(&loaded.cluster, &domain, &key.namespace, wire);
        let Some(dns) = pod.dns.as_deref() else {
            if pod.host_network && !is_dns {
                without(&subject, pod, None, &names(), &mut all);
            }
            continue;
        };
        invalid(&subject, dns, &mut all);
        if !is_dns {
            without(&subject, pod, Some(dns), &names(), &mut all);
        }
        if let Some(config) = &dns.config {
            lists(&subject, &domain, dns, config, &mut all);
            ndots(&subject, &domain, config, &names(), &mut all);
        }
    }
    // Pods of one workload say the same.
    for diagnostic in all {
        let Some(object) = diagnostic.object.clone() else { continue };
        let entry = (object, diagnostic.code, diagnostic.message.clone());
        if !told.contains(&entry) {
            told.push(entry);
            found.push(diagnostic);
        }
    }
}

/// A pod, or the workload that stamps it.
struct Subject<'a> {
    object: ObjectRef,
    pod: &'a Pod,
    prefix: &'static str,
}

impl<'a> Subject<'a> {
    fn new(key: &ObjectKey, pod: &'a Pod) -> Self {
        let spans = &pod.source.spans;
        let prefix = ["spec.template.", "spec.jobTemplate.spec.template."]
            .into_iter()
            .find(|prefix| spans.contains_key(prefix.trim_end_matches('.')))
            .unwrap_or_default();
        let owner = pod.owner.as_ref();
        let (kind, name) = match owner {
            Some(owner) => (owner.kind.clone(), owner.name.clone()),
            None => ("Pod".to_owned(), key.name.clone()),
        };
        Self { object: ObjectRef { kind, namespace: Some(key.namespace.clone()), name }, pod, prefix }
    }

    fn say(&self, diagnostic: Diagnostic, path: &str, hint: &str, found: &mut Vec<Diagnostic>) {
        let path = format!("{}{path}", self.prefix);
        found.push(diagnostic.with_hint(hint).about(&self.object).at_path(&self.pod.source, path));
    }
}

/// Policies under which a pod asks the node's servers, though it is given names of the cluster.
fn without(
    subject: &Subject<'_>,
    pod: &Pod,
    dns: Option<&PodDns>,
    names: &[Used],
    found: &mut Vec<Diagnostic>,
) {
    let own_servers =
        dns.and_then(|dns| dns.config.as_ref()).is_some_and(|config| !config.nameservers.is_empty());
    let policy = Policy::of(dns);
    let host = pod.host_network && policy == Policy::ClusterFirst;
    let (message, path, hint) = match names.first() {
        Some(used) if policy == Policy::Default && !own_servers => (
            format!(
                "it is told to use `{}`, and with `dnsPolicy: Default` it asks the node's servers",
                used.name
            ),
            "spec.dnsPolicy",
            "write `ClusterFirst`, or take the line away",
        ),
        Some(used) if host && !own_servers => (
            format!(
                "it is told to use `{}`, and on the host's network it asks the node's servers",
                used.name
            ),
            if dns.is_some_and(|dns| dns.policy.is_some()) { "spec.dnsPolicy" } else { "spec.hostNetwork" },
            "write `dnsPolicy: ClusterFirstWithHostNet`",
        ),
        None if host && dns.is_some_and(|dns| dns.policy.is_some()) => (
            "on the host's network `ClusterFirst` is `Default`: it asks the node's servers".to_owned(),
            "spec.dnsPolicy",
            "write `ClusterFirstWithHostNet` if names of the cluster are wanted, else `Default`",
        ),
        _ => return,
    };
    let diagnostic = if names.is_empty() {
        Diagnostic::note(code::POD_WITHOUT_CLUSTER_DNS, message)
    } else {
        Diagnostic::warning(code::POD_WITHOUT_CLUSTER_DNS, message)
    };
    subject.say(diagnostic, path, hint, found);
}

/// `validatePodDNSConfig` and `validateDNSPolicy` of `pkg/apis/core/validation`.
fn invalid(subject: &Subject<'_>, dns: &PodDns, found: &mut Vec<Diagnostic>) {
    let mut refuse = |message: String, path: &str, hint: &str| {
        subject.say(Diagnostic::error(code::POD_DNS_INVALID, message), path, hint, found);
    };
    if Policy::of(Some(dns)) == Policy::Unknown {
        let written = dns.policy.as_deref().unwrap_or_default();
        let hint = "write ClusterFirst, ClusterFirstWithHostNet, Default or None";
        refuse(format!("`{written}` is no DNS policy: the API refuses the pod"), "spec.dnsPolicy", hint);
    }
    let config = dns.config.as_ref();
    if Policy::of(Some(dns)) == Policy::None && config.is_none_or(|config| config.nameservers.is_empty()) {
        let message = "`dnsPolicy: None` without a nameserver: the API refuses the pod";
        refuse(message.to_owned(), "spec.dnsPolicy", "write at least one below `dnsConfig.nameservers`");
    }
    let Some(config) = config else { return };
    if config.nameservers.len() > Limits::NAMESERVERS {
        let message = format!("{} nameservers: the API takes three", config.nameservers.len());
        refuse(message, "spec.dnsConfig.nameservers", "take some away");
    }
    for (index, address) in config.nameservers.iter().enumerate() {
        if address.parse::<IpAddr>().is_err() {
            let path = format!("spec.dnsConfig.nameservers[{index}]");
            refuse(
                format!("`{address}` is no address: the API refuses the pod"),
                &path,
                "write an address, not a name",
            );
        }
    }
    let limits = Limits::EXPANDED;
    if config.searches.len() > limits.searches || config.searches.join(" ").len() > limits.bytes {
        let message =
            format!("{} search domains: the API takes 32, of 2048 bytes in all", config.searches.len());
        refuse(message, "spec.dnsConfig.searches", "take some away");
    }
    for (index, (name, _)) in config.options.iter().enumerate() {
        if name.is_empty() {
            let path = format!("spec.dnsConfig.options[{index}]");
            refuse("an option without a name: the API refuses the pod".to_owned(), &path, "write `name`");
        }
    }
    for (index, search) in config.searches.iter().enumerate() {
        let Some((diagnostic, hint)) = refused_search(search) else { continue };
        subject.say(diagnostic, &format!("spec.dnsConfig.searches[{index}]"), hint, found);
    }
}

/// Why the API refuses a search domain. `RelaxedDNSSearchValidation` (on by default from 1.33) lets the root and
/// underscores pass.
fn refused_search(search: &str) -> Option<(Diagnostic, &'static str)> {
    if search == "." {
        return None;
    }
    let name = search.strip_suffix('.').unwrap_or(search);
    let is_label = |label: &str, underscore: bool| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let all = |byte: u8| inner(byte) || byte == b'-' || (underscore && byte == b'_');
        let ends = |byte: Option<&u8>| byte.is_some_and(|byte| inner(*byte) || (underscore && *byte == b'_'));
        let bytes = label.as_bytes();
        label.bytes().all(all) && ends(bytes.first()) && bytes.last().is_some_and(|byte| inner(*byte))
    };
    let fits = |underscore: bool| {
        name.len() <= Limits::DOMAIN && name.split('.').all(|label| is_label(label, underscore))
    };
    if fits(false) {
        None
    } else if fits(true) {
        let message = format!("the search domain `{search}`: the API before 1.33 refuses the pod");
        let hint = "underscores are taken from 1.33 on (`RelaxedDNSSearchValidation`)";
        Some((Diagnostic::warning(code::POD_DNS_INVALID, message), hint))
    } else {
        let message = format!("`{search}` is no domain name: the API refuses the pod");
        let hint =
            "small letters, digits, dashes and dots, each part beginning and ending with a letter or digit";
        Some((Diagnostic::error(code::POD_DNS_INVALID, message), hint))
    }
}

fn lists(subject: &Subject<'_>, domain: &str, dns: &PodDns, config: &DnsConfig, found: &mut Vec<Diagnostic>) {
    let cluster = matches!(Policy::of(Some(dns)), Policy::ClusterFirst | Policy::ClusterFirstWithHostNet)
        && !(subject.pod.host_network && Policy::of(Some(dns)) == Policy::ClusterFirst);
    for (index, address) in config.nameservers.iter().enumerate().filter(|_| cluster) {
        if address.parse().is_ok_and(|address| !is_inside(address)) {
            let message = format!(
                "{address} beside the cluster's server: it does not know the cluster, and its answers are final too"
            );
            let hint = "musl asks both at once: short names fail now and then. Let the cluster's server forward instead";
            let path = format!("spec.dnsConfig.nameservers[{index}]");
            subject.say(Diagnostic::warning(code::NAMESERVERS_MIXED, message), &path, hint, found);
        }
    }
    if let Some(index) = config.searches.iter().position(|search| search == ".") {
        let message = "the search domain `.` breaks every search in Alpine 3.17 and older";
        let hint = "musl before 1.2.4 sends a malformed name for it: take it away, or lower ndots";
        let path = format!("spec.dnsConfig.searches[{index}]");
        subject.say(Diagnostic::warning(code::SEARCH_ROOT, message), &path, hint, found);
    }
    if config.searches.is_empty() {
        return;
    }
    let namespace = subject.object.namespace.as_deref().unwrap_or_default();
    let mut all: Vec<String> = if cluster {
        vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()]
    } else {
        Vec::new()
    };
    all.extend(config.searches.iter().cloned());
    let length = "search ".len() + all.join(" ").len();
    if length > MUSL_LINE {
        let message = format!("the search line has {length} bytes, and musl skips it");
        let hint = "musl reads 254 bytes a line: in Alpine images no short name resolves";
        subject.say(
            Diagnostic::warning(code::SEARCH_LINE_LONG, message),
            "spec.dnsConfig.searches",
            hint,
            found,
        );
    }
}

fn ndots(
    subject: &Subject<'_>,
    domain: &str,
    config: &DnsConfig,
    names: &[Used],
    found: &mut Vec<Diagnostic>,
) {
    let Some((index, (_, value))) = config.options.iter().enumerate().rfind(|(_, (name, _))| name == "ndots")
    else {
        return;
    };
    let path = format!("spec.dnsConfig.options[{index}]");
    let written = value.as_deref().unwrap_or_default();
    let Some(ndots) = written.parse::<usize>().ok() else {
        let message = format!("`ndots` with the value `{written}`: {}", ndots_as_read(written));
        let hint = "write a number in quotes";
        subject.say(Diagnostic::warning(code::POD_NDOTS, message), &path, hint, found);
        return;
    };
    if ndots > 15 {
        let message = format!("`ndots:{ndots}` is read as 15");
        subject.say(Diagnostic::note(code::POD_NDOTS, message), &path, "15 is the most", found);
    }
    // A full name needs no search; one with as many dots as ndots is never searched by musl.
    let short = names.iter().find(|used| {
        let dots = used.name.matches('.').count();
        dots > 0 && dots >= ndots && !used.name.ends_with(domain)
    });
    if let Some(used) = short {
        let message =
            format!("with `ndots:{ndots}` musl asks for `{}` as it stands, and never finds it", used.name);
        let hint = format!("write the name in full, `{}.{domain}`", full(&used.name));
        subject.say(Diagnostic::warning(code::POD_NDOTS, message), &path, &hint, found);
    }
}

/// What each resolver makes of a value of `ndots` that is no number.
fn ndots_as_read(value: &str) -> String {
    // kubelet writes no colon where the value is empty.
    let word = if value.is_empty() { "ndots".to_owned() } else { format!("ndots:{value}") };
    let line = format!("options {word}\n");
    let read = |libc: &str| {
        let dialect = libc.parse::<Libc>().ok()?.dialect();
        Some(format!("{libc} reads {}", resolv_conf::read(line.as_bytes(), dialect).options.ndots))
    };
    let all: Vec<String> = ["glibc", "musl", "go"].into_iter().filter_map(read).collect();
    all.join(", ")
}

/// `api.shop` → `api.shop.svc`.
fn full(name: &str) -> String {
    if name.rsplit('.').next() == Some("svc") { name.to_owned() } else { format!("{name}.svc") }
}
