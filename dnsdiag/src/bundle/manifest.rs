//! `bundle.json`: the version of the layout, and whom the bundle is about.

use netlab_plugin::check::Target;
use serde::{Deserialize, Serialize};

use super::error::Problem;
use super::layout;

/// `kind` of the manifest.
pub const KIND: &str = "DnsBundle";

/// `bundle.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// `netlab.dev/v1`.
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Whose DNS it is about.
    pub subject: Subject,
    /// The container's resolver: `glibc:2.36`, `musl:1.2.5`, `go`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<String>,
    /// The names that the application asks for, as it writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Files that were looked for and are not there on the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Another bundle beside this one, `../NAME`, whose files count where this one has none: to write variants by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Files of the base that do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// What whoever recorded it could not look at, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_examined: Vec<String>,
    /// When it was recorded, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
}

/// A pod, and the container whose files were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub pod: String,
    /// The container's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

impl Manifest {
    /// The manifest of a bundle about `target`.
    #[must_use]
    pub fn new(target: &Target, absent: Vec<String>) -> Self {
        Self {
            api_version: netlab_core::envelope::API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            subject: Subject {
                namespace: target.namespace.clone(),
                pod: target.pod.clone(),
                container: target.container.clone(),
            },
            libc: target.libc.clone(),
            names: target.names.clone(),
            absent,
            ..Self::default()
        }
    }

    /// Whom it is about.
    #[must_use]
    pub fn target(&self) -> Target {
        Target {
            namespace: self.subject.namespace.clone(),
            pod: self.subject.pod.clone(),
            container: self.subject.container.clone(),
            libc: self.libc.clone(),
            names: self.names.clone(),
        }
    }
}

pub(super) fn read(text: &str) -> Result<Manifest, Problem> {
    let manifest: Manifest = super::json(layout::MANIFEST, text)?;
    let expected = netlab_core::envelope::API_VERSION;
    if manifest.api_version != expected || manifest.kind != KIND {
        let (version, kind) = (&manifest.api_version, &manifest.kind);
        return Err(Problem::new(
            layout::MANIFEST,
            format!("it is {version} {kind}, not {expected} {KIND}"),
            "this netlab reads bundles of that version only",
        ));
    }
    for (field, value) in [("namespace", &manifest.subject.namespace), ("pod", &manifest.subject.pod)] {
        if value.is_empty() {
            return Err(Problem::new(
                layout::MANIFEST,
                format!("subject.{field} is empty"),
                "name the pod that it is about",
            ));
        }
    }
    if let Some(base) = &manifest.base {
        let name = base.strip_prefix("../").unwrap_or_default();
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(Problem::new(
                layout::MANIFEST,
                format!("`base` is `{base}`"),
                "a base lies beside the bundle: `../NAME`",
            ));
        }
    }
    for file in &manifest.without {
        if layout::file(file).is_none() || manifest.base.is_none() {
            return Err(Problem::new(
                layout::MANIFEST,
                format!("`without` names `{file}`, which no base of it has"),
                "docs/dns-diagnose.md lists the files",
            ));
        }
    }
    Ok(manifest)
}
