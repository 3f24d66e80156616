//! `kubelet.config.k8s.io/v1beta1` `KubeletConfiguration`, as far as DNS goes.
//!
//! Source: `staging/src/k8s.io/kubelet/config/v1beta1/types.go`. Also read as `GET /api/v1/nodes/NAME/proxy/configz`
//! answers, where it stands under `kubeletconfig`. Invariant: each value knows where it was written; a text that is no
//! configuration is an error with its place. Does not know flags and drop-ins, which come before the file.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlab_core::diagnostic::{Diagnostic, ObjectRef, code};
use netlab_core::input::{Budget, Document, typed};
use netlab_core::model::source::{Position, Source};
use serde::Deserialize;
use serde_json::Value;

/// The file that kubelet reads when `resolvConf` is absent.
pub(super) const DEFAULT_RESOLV_CONF: &str = "/etc/resolv.conf";

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub position: Option<Position>,
}

/// A feature gate that the file sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    /// Not in the file: whatever the version's default is.
    Default,
    /// `true`.
    On,
    /// `false`.
    Off,
}

/// A kubelet's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletConfig {
    /// `clusterDNS`: those that are addresses.
    pub cluster_dns: Vec<Written<IpAddr>>,
    /// Elements of `clusterDNS` that are no addresses: kubelet logs and skips them.
    pub not_addresses: Vec<Written<String>>,
    /// `clusterDomain`; empty when absent.
    pub cluster_domain: String,
    /// `resolvConf`: `None` when absent, which is `/etc/resolv.conf`; empty is "no file".
    pub resolv_conf: Option<String>,
    /// `featureGates`.
    pub gates: BTreeMap<String, bool>,
    /// Names of fields that kubelet does not read, and that are nearly one of these here.
    pub misspelt: Vec<(String, &'static str)>,
    /// Where it was written.
    pub source: Source,
    /// What comes before field paths: `kubeletconfig.` in answers of `configz`.
    prefix: &'static str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    kind: Option<String>,
    #[serde(rename = "clusterDNS")]
    cluster_dns: Option<Vec<String>>,
    cluster_domain: Option<String>,
    resolv_conf: Option<String>,
    feature_gates: Option<BTreeMap<String, bool>>,
    kubeletconfig: Option<Box<Wire>>,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

impl KubeletConfig {
    /// Reads a file. With several documents, the one of kind `KubeletConfiguration`.
    ///
    /// # Errors
    /// A diagnostic with the place of what cannot be read.
    pub fn read(document: &Document) -> Result<Self, Box<Diagnostic>> {
        let object = ObjectRef { kind: "KubeletConfiguration".to_owned(), ..ObjectRef::default() };
        let mut seen = None;
        let mut other = None;
        for found in typed::read::<Wire>(document, None, &Budget::default()) {
            let found = found.map_err(|problem| Box::new(problem.about(&object)))?;
            match found.object.kind.as_deref() {
                Some("KubeletConfiguration") => return Ok(Self::of(found.object, found.source, "")),
                // The answer of `configz` and files cut from a dump have no kind.
                None => {
                    seen.get_or_insert(found);
                }
                Some(kind) => {
                    other.get_or_insert_with(|| kind.to_owned());
                }
            }
        }
        let Some(found) = seen else {
            let message = match other {
                Some(kind) => format!("a {kind}, where a KubeletConfiguration should be"),
                None => "an empty file, where a KubeletConfiguration should be".to_owned(),
            };
            let hint = "it is /var/lib/kubelet/config.yaml on nodes that kubeadm made";
            return Err(Box::new(
                Diagnostic::error(code::NOT_AN_OBJECT, message).in_file(&document.name).with_hint(hint),
            ));
        };
        match found.object.kubeletconfig {
            Some(inner) => Ok(Self::of(*inner, found.source, "kubeletconfig.")),
            None => Ok(Self::of(found.object, found.source, "")),
        }
    }

    fn of(wire: Wire, source: Source, prefix: &'static str) -> Self {
        let mut config = Self {
            cluster_domain: wire.cluster_domain.unwrap_or_default(),
            resolv_conf: wire.resolv_conf,
            gates: wire.feature_gates.unwrap_or_default(),
            misspelt: wire.unknown.keys().filter_map(|key| Some((key.clone(), near(key)?))).collect(),
            source,
            prefix,
            ..Self::default()
        };
        for (index, text) in wire.cluster_dns.unwrap_or_default().into_iter().enumerate() {
            let position = config.place(&format!("clusterDNS[{index}]"));
            match text.parse() {
                Ok(value) => config.cluster_dns.push(Written { value, position }),
                Err(_) => config.not_addresses.push(Written { value: text, position }),
            }
        }
        config
    }

    /// The place of a field.
    #[must_use]
    pub fn place(&self, field: &str) -> Option<Position> {
        self.source.locate(&self.path(field))
    }

    /// The path of a field in the file.
    #[must_use]
    pub fn path(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    /// The file that kubelet reads for what the node itself uses; empty for none.
    #[must_use]
    pub fn host_file(&self) -> &str {
        self.resolv_conf.as_deref().unwrap_or(DEFAULT_RESOLV_CONF)
    }

    /// What the file says about a feature gate.
    #[must_use]
    pub fn gate(&self, name: &str) -> GateState {
        match self.gates.get(name) {
            None => GateState::Default,
            Some(true) => GateState::On,
            Some(false) => GateState::Off,
        }
    }
}

/// The field that a key was probably meant to be. Kubelet's decoder takes case for a difference.
fn near(key: &str) -> Option<&'static str> {
    const FIELDS: [&str; 3] = ["clusterDNS", "clusterDomain", "resolvConf"];
    const ALIASES: [(&str, &str); 4] = [
        ("clusterdnses", "clusterDNS"),
        ("resolverConfig", "resolvConf"),
        ("resolverConf", "resolvConf"),
        ("dnsDomain", "clusterDomain"),
    ];
    let squeezed = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let alias = ALIASES.iter().find(|(alias, _)| squeezed(alias) == squeezed(key)).map(|(_, field)| *field);
    FIELDS.into_iter().find(|field| squeezed(field) == squeezed(key)).or(alias)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<KubeletConfig, Box<Diagnostic>> {
        KubeletConfig::read(&Document { name: "config.yaml".into(), text: text.into() })
    }

    #[test]
    fn fields_keep_their_places() {
        let config = read(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS:\n- 10.96.0.10\n\
             - fd00::a\n- kube-dns\nclusterDomain: cluster.local\nfeatureGates: {ExpandedDNSConfig: false}\n",
        )
        .expect("a configuration");
        let addresses: Vec<String> = config.cluster_dns.iter().map(|dns| dns.value.to_string()).collect();
        assert_eq!(addresses, ["10.96.0.10", "fd00::a"]);
        assert_eq!(config.cluster_dns[1].position.map(|place| place.line), Some(5));
        assert_eq!(config.not_addresses[0].value, "kube-dns");
        assert_eq!(config.host_file(), "/etc/resolv.conf");
        assert_eq!(config.gate("ExpandedDNSConfig"), GateState::Off);
    }

    #[test]
    fn an_answer_of_configz_is_read() {
        let config = read(
            "{\"kubeletconfig\": {\"clusterDNS\": [\"10.96.0.10\"], \"resolvConf\": \"\", \"clusterDomain\": \"c.l\"}}",
        )
        .expect("a configuration");
        assert_eq!((config.host_file(), config.cluster_domain.as_str()), ("", "c.l"));
        assert_eq!(config.path("clusterDNS"), "kubeletconfig.clusterDNS");
        assert_eq!(config.cluster_dns.len(), 1);
    }

    #[test]
    fn what_kubelet_would_not_read_is_said() {
        let config =
            read("kind: KubeletConfiguration\nclusterDns: [10.96.0.10]\nresolverConfig: /x\nport: 1\n");
        let misspelt = config.expect("a configuration").misspelt;
        let misspelt: Vec<_> = misspelt.iter().map(|(key, field)| (key.as_str(), *field)).collect();
        assert_eq!(misspelt, [("clusterDns", "clusterDNS"), ("resolverConfig", "resolvConf")]);
    }

    #[test]
    fn errors_have_a_place() {
        for (text, line, message) in [
            (
                "kind: KubeletConfiguration\nclusterDNS: 10.96.0.10\n",
                Some(2),
                "expected a list, found the string `10.96.0.10`",
            ),
            ("kind: KubeletConfiguration\nclusterDNS: [[]]\n", Some(2), "expected a string, found a list"),
            ("kind: Pod\n", None, "a Pod, where a KubeletConfiguration should be"),
            ("", None, "an empty file, where a KubeletConfiguration should be"),
            ("[a]\n", Some(1), "expected an object, found a list"),
            ("kind: KubeletConfiguration\nclusterDomain: [\n", Some(2), "not YAML"),
        ] {
            let error = read(text).expect_err("a fault");
            assert!(error.message.starts_with(message), "{text}: {}", error.message);
            assert_eq!(error.position.map(|place| place.line), line, "{text}");
        }
    }
}
